"""Awkward graphs: small ones on which every op is held to its reference."""

import torch

from longhop.graph.build import add_self_loops, from_coo
from longhop.graph.csr import CSRGraph
from longhop.graph.generate import local_random, path, rmat, star


def awkward_graphs() -> dict[str, CSRGraph]:
    """Named graphs, each small enough for a dense fp64 oracle and each odd in its own way.

    ``duplicates`` repeats columns inside a row and does not sort them; ``rectangular`` and ``wide`` have
    Nq != Nk; ``no_edges`` and ``one_node`` have E = 0.
    """
    return {
        "one_node": _coo([], [], 1),
        "one_self_loop": _coo([0], [0], 1),
        "no_edges": _coo([], [], 5),
        "self_loops_only": _coo(list(range(7)), list(range(7)), 7),
        "isolated": _with_isolated(),
        "empty_rows": _coo([0, 1, 2, 3, 4, 5], [9, 9, 9, 4, 4, 4], 10),
        "chain": path(33, directed=True),
        "hub": add_self_loops(star(257))[0],
        "hub_without_self_loops": star(257),
        "odd_63": local_random(63, 6, seed=1),
        "odd_100": local_random(100, 9, seed=2),
        "power_law": rmat(200, 12, seed=3),
        "duplicates": _duplicates(),
        "rectangular": _rectangular(70, 130, 500, seed=4),
        "wide": _rectangular(3, 301, 400, seed=5),
    }


def _coo(src: list[int], dst: list[int], num_nodes: int) -> CSRGraph:
    return from_coo(src, dst, num_nodes)[0]


def _with_isolated() -> CSRGraph:
    """Ten nodes of which 0, 3 and 9 (both ends and one inside) have no edge at all."""
    ring = [1, 2, 4, 5, 6, 7, 8]
    after = [*ring[1:], ring[0]]
    return _coo(ring + after, after + ring, 10)


def _duplicates() -> CSRGraph:
    """A raw CSR: columns repeated within a row, and not in order."""
    rowptr = torch.tensor([0, 4, 4, 9, 10])
    col = torch.tensor([2, 2, 0, 2, 3, 1, 1, 3, 3, 0], dtype=torch.int32)
    return CSRGraph(rowptr=rowptr, col=col, num_cols=4)


def _rectangular(queries: int, keys: int, edges: int, seed: int) -> CSRGraph:
    rng = torch.Generator().manual_seed(seed)
    src = torch.randint(keys, (edges,), generator=rng)
    dst = torch.randint(queries, (edges,), generator=rng)
    dst[dst == queries // 2] = 0  # one query without keys
    return from_coo(src, dst, queries, num_cols=keys)[0]
