"""Builders of :class:`CSRGraph`: from edge lists, scipy and PyG, and what is done to a graph before use.

Everything is vectorised and counted: a builder returns the graph and a :class:`BuildReport` for which
``edges = edges_given - zeros_dropped - duplicates_merged + reverse_added + self_loops_added -
self_loops_removed`` always holds.
"""

import hashlib
import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from longhop.graph.csr import CSRGraph, index_dtype
from longhop.graph.pairs import ArrayLike, Ids, as_ids, as_weights, check_range, compress, resolve_sizes
from longhop.graph.permutation import Order
from longhop.types import InputError


@dataclass(frozen=True)
class BuildReport:
    """What a builder found and did.

    Attributes:
        num_nodes: rows of the graph, N.
        edges_given: entries before anything was done.
        edges: entries of the graph, E.
        duplicates_merged: entries that repeated an earlier one; weights were summed.
        self_loops: entries of the graph from a node to itself (0 for a rectangular graph).
        reverse_added: entries added so that every edge has its reverse.
        self_loops_added: entries added so that every node has a self-loop.
        self_loops_removed: self-loops taken out.
        zeros_dropped: stored zeros of a sparse matrix, which are no edges.
    """

    num_nodes: int
    edges_given: int
    edges: int
    duplicates_merged: int = 0
    self_loops: int = 0
    reverse_added: int = 0
    self_loops_added: int = 0
    self_loops_removed: int = 0
    zeros_dropped: int = 0


def from_coo(
    src: ArrayLike,
    dst: ArrayLike,
    num_nodes: int | None = None,
    weight: ArrayLike | None = None,
    *,
    num_cols: int | None = None,
) -> tuple[CSRGraph, BuildReport]:
    """Build a graph from edges ``src[e] -> dst[e]``: row ``dst[e]`` lists ``src[e]``.

    Args:
        src: integer [E] ids of sources (keys), 0 .. num_cols - 1.
        dst: integer [E] ids of destinations (queries), 0 .. num_nodes - 1.
        num_nodes: rows; None takes one more than the largest id.
        weight: None or [E] numbers; those of repeated edges are summed.
        num_cols: keys, where they are not the queries (a rectangular graph); None means ``num_nodes``.

    Returns:
        The graph, columns ascending in each row and none twice, and the report.

    Raises:
        InputError: ids that are no integers, differ in number or lie out of range; no node; weights of the
            wrong number or not finite.
    """
    source, target = as_ids(src, "src"), as_ids(dst, "dst")
    if len(source) != len(target):
        raise InputError(f"src holds {len(source)} ids and dst {len(target)}; give one of each per edge")
    rows, cols = resolve_sizes(source, target, num_nodes, num_cols)
    check_range(source, cols, "src")
    check_range(target, rows, "dst")
    graph = compress(target, source, rows, cols, as_weights(weight, len(source)))
    given = len(source)
    return graph, _report(graph, given, duplicates_merged=given - graph.num_edges)


def from_scipy(matrix: Any, *, rows_are: Literal["source", "target"] = "source") -> tuple[CSRGraph, BuildReport]:
    """Build a graph from a square scipy sparse matrix or array of any format.

    Stored zeros are no edges: they are dropped and counted. Entries that are all 1 (or boolean) carry no
    weight; any others become the edges' weights, in fp32.

    Args:
        matrix: scipy sparse [N, N].
        rows_are: "source" when entry (u, v) is the edge u -> v, "target" when it is v -> u.

    Raises:
        InputError: not a sparse matrix, not square, or not finite.
    """
    import scipy.sparse as sp

    is_sparse: bool = sp.issparse(matrix)  # annotated so that the type checker does not narrow Any
    if not is_sparse:
        raise InputError(f"matrix must be a scipy sparse matrix, got {type(matrix).__name__}")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"matrix must be square, got shape {matrix.shape}")
    if rows_are not in ("source", "target"):
        raise InputError(f'rows_are must be "source" or "target", got {rows_are!r}')
    coo = matrix.tocoo()
    present = coo.data != 0
    row, col, data = coo.row[present], coo.col[present], coo.data[present]
    src, dst = (row, col) if rows_are == "source" else (col, row)
    # scipy's fp64 is its default, seldom a choice; models compute in fp32.
    weight = None if bool((data == 1).all()) else data.astype(np.float32)
    graph, report = from_coo(src, dst, matrix.shape[0], weight)
    zeros = coo.nnz - len(data)
    return graph, replace(report, edges_given=coo.nnz, zeros_dropped=zeros)


def from_pyg(data: Any) -> tuple[CSRGraph, BuildReport]:
    """Build a graph from a PyG ``Data`` (or anything with its ``edge_index`` and ``num_nodes``).

    ``edge_weight`` is taken where there is one; ``edge_attr`` holds features, not weights, and is not.

    Raises:
        InputError: no ``edge_index`` of shape [2, E], or what :func:`from_coo` refuses.
    """
    edge_index = getattr(data, "edge_index", None)
    if edge_index is None or edge_index.dim() != 2 or edge_index.shape[0] != 2:
        shape = None if edge_index is None else list(edge_index.shape)
        raise InputError(f"data.edge_index must be [2, E] with sources in row 0 and targets in row 1, got {shape}")
    with warnings.catch_warnings():
        # PyG warns when it has to take the number of nodes from the edges; from_coo does just that.
        warnings.simplefilter("ignore")
        num_nodes = getattr(data, "num_nodes", None)
    weight = getattr(data, "edge_weight", None)
    return from_coo(edge_index[0], edge_index[1], num_nodes, None if weight is None else weight.reshape(-1))


def symmetrize(graph: CSRGraph) -> tuple[CSRGraph, BuildReport]:
    """Add the reverse of every edge that lacks it.

    An added edge takes the weight of the one given; where both directions are given, both get the mean of
    the two, so that the result is symmetric in its weights too.

    Raises:
        InputError: the graph is rectangular.
    """
    _require_square(graph, "symmetrize")
    merged = _merged(graph)
    rows, cols = _pairs(merged)
    weight = None if merged.weight is None else merged.weight.repeat(2)
    both = compress(np.concatenate([rows, cols]), np.concatenate([cols, rows]), *_shape(graph), weight, reduce="mean")
    return both, _report(
        both,
        graph.num_edges,
        duplicates_merged=graph.num_edges - merged.num_edges,
        reverse_added=both.num_edges - merged.num_edges,
    )


def add_self_loops(graph: CSRGraph, weight: float = 1.0) -> tuple[CSRGraph, BuildReport]:
    """Add a self-loop, of the given weight if edges have weights, to every node without one.

    Raises:
        InputError: the graph is rectangular.
    """
    _require_square(graph, "add_self_loops")
    merged = _merged(graph)
    rows, cols = _pairs(merged)
    missing = np.setdiff1d(np.arange(graph.num_nodes), rows[rows == cols], assume_unique=True)
    values = merged.weight
    if values is not None:
        values = torch.cat([values, values.new_full((len(missing),), weight)])
    looped = compress(np.concatenate([rows, missing]), np.concatenate([cols, missing]), *_shape(graph), values)
    return looped, _report(
        looped,
        graph.num_edges,
        duplicates_merged=graph.num_edges - merged.num_edges,
        self_loops_added=len(missing),
    )


def remove_self_loops(graph: CSRGraph) -> tuple[CSRGraph, BuildReport]:
    """Take every self-loop out.

    Raises:
        InputError: the graph is rectangular.
    """
    _require_square(graph, "remove_self_loops")
    merged = _merged(graph)
    keep = merged.rows() != merged.col
    bare = _select(merged, keep)
    return bare, _report(
        bare,
        graph.num_edges,
        duplicates_merged=graph.num_edges - merged.num_edges,
        self_loops_removed=merged.num_edges - bare.num_edges,
    )


def skeleton(graph: CSRGraph) -> CSRGraph:
    """What orders and partitions look at: every edge both ways, no self-loops, no weights.

    Raises:
        InputError: the graph is rectangular.
    """
    return symmetrize(remove_self_loops(replace(graph, weight=None))[0])[0]


def permute(graph: CSRGraph, order: Order | Tensor) -> CSRGraph:
    """Renumber the nodes: new node ``i`` is old node ``order[i]``; columns ascend again in each row.

    Args:
        graph: square graph; weights follow their edges, repeated edges stay repeated.
        order: an :class:`Order`, or int64 [N] with ``order[new] = old``.

    Raises:
        InputError: the graph is rectangular or the order is no permutation of its nodes.
    """
    _require_square(graph, "permute")
    given = order if isinstance(order, Order) else Order(order)
    if len(given) != graph.num_nodes:
        raise InputError(f"the order has {len(given)} nodes and the graph {graph.num_nodes}; build it anew")
    new_id = given.inverse().numpy()
    rows, cols = _pairs(graph)
    return compress(new_id[rows], new_id[cols], *_shape(graph), graph.weight, merge=False)


def induced(graph: CSRGraph, nodes: Tensor) -> CSRGraph:
    """The graph on some nodes: edges with both ends among them, nodes renumbered in the order given.

    Args:
        graph: square graph.
        nodes: int64 [n], no node twice; or bool [N] mask.

    Raises:
        InputError: the graph is rectangular, a node is out of range or given twice.
    """
    _require_square(graph, "induced")
    ids = nodes.nonzero().flatten() if nodes.dtype == torch.bool else nodes
    picked = as_ids(ids, "nodes")
    check_range(picked, graph.num_nodes, "nodes")
    new_id = np.full(graph.num_nodes, -1, dtype=np.int64)
    new_id[picked] = np.arange(len(picked))
    if np.count_nonzero(new_id >= 0) != len(picked):
        raise InputError(f"nodes holds a node twice ({len(picked)} given); remove the repeats")
    degree = graph.degree().numpy()[picked]
    # Position in col of every entry of the picked rows, row after row.
    start = graph.rowptr.numpy()[picked] - (np.cumsum(degree) - degree)
    entry = np.repeat(start, degree) + np.arange(degree.sum())
    cols = new_id[graph.col.numpy()[entry]]
    keep = cols >= 0
    rows = np.repeat(np.arange(len(picked)), degree)[keep]
    weight = None if graph.weight is None else graph.weight[torch.from_numpy(entry[keep])]
    return compress(rows, cols[keep], len(picked), len(picked), weight, merge=False)


def content_hash(graph: CSRGraph) -> str:
    """32 hex digits that depend on the sizes, the edges and the weights, and on nothing else."""
    digest = hashlib.blake2b(digest_size=16)
    weight = graph.weight
    head = f"csr {graph.num_nodes} {graph.num_cols} {graph.num_edges} {weight is not None and weight.dtype}"
    digest.update(head.encode())
    # The same edges hash the same whether they were held in 32 or in 64 bits.
    col = graph.col.to(index_dtype(graph.num_cols))
    for part in (graph.rowptr, col, weight):
        if part is not None and part.numel():
            digest.update(part.contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _merged(graph: CSRGraph) -> CSRGraph:
    """The graph itself when its rows ascend strictly, else with equal pairs merged."""
    inside = torch.ones(max(graph.num_edges - 1, 0), dtype=torch.bool)
    # rowptr's inner entries are where a new row starts: no order is asked for across them.
    border = graph.rowptr[1:-1]
    inside[border[(border > 0) & (border < graph.num_edges)] - 1] = False
    if bool((graph.col[1:] > graph.col[:-1])[inside].all()):
        return graph
    rows, cols = _pairs(graph)
    return compress(rows, cols, *_shape(graph), graph.weight)


def _select(graph: CSRGraph, keep: Tensor) -> CSRGraph:
    """The entries that a mask keeps, in their order."""
    kept = torch.zeros(graph.num_edges + 1, dtype=torch.int64)
    torch.cumsum(keep, 0, out=kept[1:])
    weight = None if graph.weight is None else graph.weight[keep]
    return replace(graph, rowptr=kept[graph.rowptr], col=graph.col[keep], weight=weight, _cache={})


def _pairs(graph: CSRGraph) -> tuple[Ids, Ids]:
    return graph.rows().long().numpy(), graph.col.long().numpy()


def _shape(graph: CSRGraph) -> tuple[int, int]:
    return graph.num_nodes, graph.num_cols


def _require_square(graph: CSRGraph, what: str) -> None:
    if graph.num_nodes != graph.num_cols:
        raise InputError(f"{what} needs a square graph, got {graph.num_nodes} queries x {graph.num_cols} keys")


def _report(graph: CSRGraph, given: int, **counts: int) -> BuildReport:
    square = graph.num_nodes == graph.num_cols
    loops = int((graph.rows() == graph.col).sum()) if square else 0
    return BuildReport(num_nodes=graph.num_nodes, edges_given=given, edges=graph.num_edges, self_loops=loops, **counts)
