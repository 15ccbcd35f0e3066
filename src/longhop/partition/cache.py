"""Orders kept on disk, by the content of the graph and the settings."""

import hashlib
import os
import tempfile
import warnings
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from longhop import env
from longhop.graph import CSRGraph, Order, content_hash, degree_order, index_dtype, natural_order, rcm_order
from longhop.partition.cluster import clustered, default_num_clusters
from longhop.types import InputError

OrderKind = Literal["natural", "degree", "rcm", "cluster"]

# Raise it whenever the same settings would give another order.
_FORMAT = 1
_UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)


def cached_order(
    graph: CSRGraph,
    kind: OrderKind = "cluster",
    num_clusters: int | None = None,
    seed: int = 0,
    cache_dir: Path | None = None,
) -> tuple[Order, bool]:
    """The order of a kind, from disk where the same was made before.

    The natural and the degree order cost less than reading a file and are never kept. A file that cannot
    be read is made anew, and a cache folder that cannot be written does no harm; both warn.

    Args:
        graph: square graph; weights play no part.
        kind: "natural", "degree", "rcm" or "cluster".
        num_clusters: of "cluster"; None takes what the cache of this machine's CPU asks for.
        seed: of "cluster".
        cache_dir: folder; None takes :func:`longhop.env.cache_dir`.

    Returns:
        The order, and whether it came from disk.

    Raises:
        InputError: an unknown kind, or what the order itself refuses.
    """
    if kind == "natural":
        return natural_order(graph), False
    if kind == "degree":
        return degree_order(graph), False
    if kind not in ("rcm", "cluster"):
        raise InputError(f'order must be "natural", "degree", "rcm" or "cluster", got {kind!r}')
    clusters = 0
    if kind == "cluster":
        clusters = default_num_clusters(graph.num_nodes) if num_clusters is None else num_clusters
    settings = f"{content_hash(replace(graph, weight=None))} {kind} {clusters} {seed} {_FORMAT}"
    key = hashlib.blake2b(settings.encode(), digest_size=12).hexdigest()
    file = (cache_dir or env.cache_dir()) / "orders" / f"{kind}-{key}.npz"
    kept = _read(file, graph.num_nodes)
    if kept is not None:
        return kept, True
    order, note = _make(graph, kind, clusters, seed)
    _write(file, order, note)
    return order, False


def _make(graph: CSRGraph, kind: OrderKind, clusters: int, seed: int) -> tuple[Order, str]:
    """The order, and what a later reader should be told about it (empty for nothing)."""
    if kind == "rcm":
        return rcm_order(graph), ""
    order, parts = clustered(graph, clusters, "rcm", seed)
    fallback = parts.method == "bfs"
    return order, parts.report.warnings[0] if fallback else ""


def _read(file: Path, num_nodes: int) -> Order | None:
    if not file.exists():
        return None
    try:
        # The zip's checksums tell damaged bytes from good ones.
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as kept:
            order, note = Order(torch.from_numpy(kept["perm"].astype(np.int64))), str(kept["note"])
        if len(order) != num_nodes:
            raise ValueError(f"{len(order)} nodes, not {num_nodes}")
    except _UNREADABLE as error:
        warnings.warn(f"the kept order {file} is damaged ({error}); it is made anew", stacklevel=3)
        return None
    if note:
        warnings.warn(f"the kept order {file} is second best: {note}; delete it to try again", stacklevel=3)
    return order


def _write(file: Path, order: Order, note: str) -> None:
    perm = order.perm.to(index_dtype(len(order))).numpy()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, suffix=".tmp", delete=False) as partial:
            np.savez(partial, perm=perm, note=np.array(note))
        # Readers see the whole file or none, however many processes write it.
        os.replace(partial.name, file)
    except OSError as error:
        warnings.warn(f"the order could not be kept in {file.parent} ({error})", stacklevel=3)
