"""Orders of the nodes that need the graph alone; cluster orders are in :mod:`longhop.partition`."""

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import breadth_first_order, connected_components, reverse_cuthill_mckee

from longhop.graph.build import permute, skeleton
from longhop.graph.csr import CSRGraph
from longhop.graph.permutation import Order

__all__ = ["Order", "bfs_order", "degree_order", "natural_order", "rcm_order"]


def natural_order(graph: CSRGraph) -> Order:
    """The order given."""
    return Order(torch.arange(graph.num_nodes))


def degree_order(graph: CSRGraph) -> Order:
    """Most neighbours first; nodes of equal degree keep their order."""
    return Order(torch.argsort(graph.degree(), descending=True, stable=True))


def rcm_order(graph: CSRGraph) -> Order:
    """Reverse Cuthill-McKee of the undirected graph: neighbours get numbers close to each other.

    Raises:
        InputError: the graph is rectangular.
    """
    bare = skeleton(graph)
    # scipy sorts each node's neighbours by degree with an insertion sort, quadratic in a hub's degree.
    # Numbered by degree they come sorted, and the same loop is linear.
    by_degree = Order(torch.argsort(bare.degree(), stable=True))
    found = reverse_cuthill_mckee(_scipy(permute(bare, by_degree)), symmetric_mode=True)
    return Order(by_degree.perm[torch.from_numpy(found.astype(np.int64))])


def bfs_order(graph: CSRGraph) -> Order:
    """Breadth-first over the undirected graph, one component after the other.

    Each component starts from its lowest id.

    Raises:
        InputError: the graph is rectangular.
    """
    matrix = _scipy(skeleton(graph))
    nodes = graph.num_nodes
    count, component = connected_components(matrix, directed=False)
    starts = np.unique(component, return_index=True)[1]
    # One more node, N, with an edge to each start reaches every component in a single search.
    indptr = np.append(matrix.indptr, matrix.indptr[-1] + count)
    indices = np.concatenate([matrix.indices, starts.astype(matrix.indices.dtype)])
    joined = sp.csr_array((np.ones(len(indices), np.int8), indices, indptr), shape=(nodes + 1, nodes + 1))
    found = breadth_first_order(joined, nodes, directed=True, return_predecessors=False)[1:]
    by_component = found[np.argsort(component[found], kind="stable")]
    return Order(torch.from_numpy(by_component.astype(np.int64)))


def _scipy(graph: CSRGraph) -> sp.csr_array:
    ones = np.ones(graph.num_edges, np.int8)
    shape = (graph.num_nodes, graph.num_cols)
    return sp.csr_array((ones, graph.col.numpy(), graph.rowptr.numpy()), shape=shape)
