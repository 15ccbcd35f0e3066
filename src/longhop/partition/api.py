"""Divide a graph into parts of equal size with few edges between them."""

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from longhop.graph import CSRGraph, skeleton
from longhop.partition.fallback import fill_empty, grow_and_refine
from longhop.partition.metis import MetisError, run_metis
from longhop.partition.quality import PartitionReport, measure
from longhop.types import InputError

Method = Literal["metis", "bfs"]


@dataclass(frozen=True, eq=False)
class Partition:
    """Every node in one part.

    Attributes:
        assignment: int64 [N], part of each node; no part is empty.
        num_parts: k.
        method: how it was made: "metis", "bfs", or "trivial" where there was nothing to decide.
        report: its quality.
    """

    assignment: Tensor
    num_parts: int
    method: Literal["metis", "bfs", "trivial"]
    report: PartitionReport


def partition(
    graph: CSRGraph,
    num_parts: int,
    *,
    method: Method = "metis",
    seed: int = 0,
    timeout: float | None = None,
) -> Partition:
    """Divide the nodes into ``num_parts`` parts.

    Direction, weights, self-loops and repeated edges play no part in it; the graph itself is untouched.
    METIS runs in a child process. If that dies, takes too long or answers wrongly, breadth-first ranges
    refined by label propagation are used instead, and one warning says so and why.

    Args:
        graph: square graph.
        num_parts: 1 .. N.
        method: "metis", or "bfs" for the second way at once.
        seed: same seed, same parts.
        timeout: seconds that METIS may take; None allows for the size of the graph.

    Raises:
        InputError: the graph is rectangular, ``num_parts`` out of range, or an unknown method.
    """
    if not 1 <= num_parts <= graph.num_nodes:
        raise InputError(
            f"num_parts must lie in 1 .. {graph.num_nodes}, the number of nodes, got {num_parts}; no part may be empty"
        )
    if method not in ("metis", "bfs"):
        raise InputError(f'method must be "metis" or "bfs", got {method!r}')
    bare = skeleton(graph)
    notes: list[str] = []
    used: Literal["metis", "bfs", "trivial"] = method
    if num_parts in (1, graph.num_nodes) or bare.num_edges == 0:
        parts, used = np.arange(graph.num_nodes) * num_parts // graph.num_nodes, "trivial"
    elif method == "metis":
        parts, used = _metis_or_fallback(bare, num_parts, seed, timeout, notes)
    else:
        parts = grow_and_refine(bare, num_parts, seed)
    report = measure(graph, parts, num_parts, tuple(notes))
    return Partition(torch.from_numpy(parts), num_parts, used, report)


def _metis_or_fallback(
    bare: CSRGraph, num_parts: int, seed: int, timeout: float | None, notes: list[str]
) -> tuple[npt.NDArray[np.int64], Method]:
    try:
        found = run_metis(bare, num_parts, seed, timeout)
    except MetisError as error:
        note = f"METIS {error}; breadth-first ranges with label propagation were used for {num_parts} parts"
        warnings.warn(note, stacklevel=3)
        notes.append(note)
        return grow_and_refine(bare, num_parts, seed), "bfs"
    empty = num_parts - int(np.count_nonzero(np.bincount(found)))
    if empty:
        notes.append(f"METIS left {empty} of {num_parts} parts empty; each got half of a large part")
    return fill_empty(found, num_parts), "metis"
