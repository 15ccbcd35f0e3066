"""The cluster order: nodes that read each other's rows lie side by side, in pieces that fit the cache."""

from pathlib import Path
from typing import Literal

import numpy as np
import torch

from longhop.graph import CSRGraph, Order, bfs_order, rcm_order
from longhop.partition.api import Partition, partition
from longhop.types import InputError

Inside = Literal["rcm", "bfs"]

_CPU_CACHE = Path("/sys/devices/system/cpu/cpu0/cache")
_DEFAULT_L2 = 1 << 20
# One row of keys and one of values, 64 fp32 each: the width the kernels are built around.
_ROW_BYTES = 512
# METIS's time and the order's worth both level off well before.
_MOST_CLUSTERS = 8192


def l2_bytes(folder: Path = _CPU_CACHE) -> int:
    """Bytes of one core's second-level cache; 1 MiB where the system does not say."""
    for index in sorted(folder.glob("index*")):
        try:
            level, size = ((index / name).read_text().strip() for name in ("level", "size"))
            if level == "2":
                return int(size[:-1]) * {"K": 1 << 10, "M": 1 << 20}[size[-1]]
        except (OSError, ValueError, KeyError, IndexError):
            continue
    return _DEFAULT_L2


def default_num_clusters(num_nodes: int, cache_bytes: int | None = None) -> int:
    """The power of two (N at most) of clusters whose k and v rows fit half of the second-level cache."""
    cache = l2_bytes() if cache_bytes is None else cache_bytes
    nodes_a_cluster = max(cache // 2 // _ROW_BYTES, 1)
    needed = -(-num_nodes // nodes_a_cluster)
    return min(1 << (needed - 1).bit_length(), _MOST_CLUSTERS, num_nodes)


def cluster_order(
    graph: CSRGraph,
    num_clusters: int | None = None,
    inside: Inside = "rcm",
    seed: int = 0,
) -> Order:
    """METIS clusters one after the other, each in the order that a numbering of the whole graph gives.

    Clusters keep METIS's own numbers: bisection puts neighbours next to each other, so larger caches gain
    too (sorting clusters by their place in the numbering was slower on ogbn-arxiv).

    Args:
        graph: square graph.
        num_clusters: None takes what the cache asks for (:func:`default_num_clusters`).
        inside: numbering of the whole graph: "rcm" (reverse Cuthill-McKee) or "bfs".
        seed: METIS's.

    Raises:
        InputError: as :func:`partition`; or an unknown numbering.
    """
    return clustered(graph, num_clusters, inside, seed)[0]


def clustered(graph: CSRGraph, num_clusters: int | None, inside: Inside, seed: int) -> tuple[Order, Partition]:
    """:func:`cluster_order`, with the partition it came from."""
    numberings = {"rcm": rcm_order, "bfs": bfs_order}
    if inside not in numberings:
        raise InputError(f'inside must be "rcm" or "bfs", got {inside!r}')
    count = default_num_clusters(graph.num_nodes) if num_clusters is None else num_clusters
    parts = partition(graph, count, seed=seed)
    place = numberings[inside](graph).inverse().numpy()
    part = parts.assignment.numpy()
    return Order(torch.from_numpy(np.lexsort((place, part)))), parts
