"""OGB raw node folders: ``raw/*.csv.gz``, or ``raw/data.npz`` as papers100M has it; ``split/*/*.csv.gz``."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from longhop.data.files import Array, Npz, read_table
from longhop.data.intake import Found
from longhop.types import InputError

_SPLIT_FILES = {"train": "train", "val": "valid", "test": "test"}


class _Content(NamedTuple):
    edges: Array  # [2, E]
    num_nodes: int
    x: Array | None
    y: Array
    where: dict[str, str]
    edge_features: bool


def is_ogb(folder: Path) -> bool:
    """Whether a folder looks like an OGB raw node folder."""
    raw = folder / "raw"
    return (raw / "data.npz").is_file() or _table(raw, "edge").is_file()


def read_ogb(folder: Path, name: str) -> Found:
    """Read one OGB node data set; edges stay directed as published.

    Args:
        folder: holds ``raw/`` and ``split/``.
        name: of the data set.

    Raises:
        InputError: a missing or damaged file, or counts that disagree with the files' own lists.
    """
    raw = folder / "raw"
    content = _read_binary(raw) if (raw / "data.npz").is_file() else _read_csv(raw)
    splits, where = _read_splits(folder / "split")
    return Found(
        name=name,
        src=content.edges[0],
        dst=content.edges[1],
        num_nodes=content.num_nodes,
        x=content.x,
        y=content.y,
        splits=splits,
        where=content.where | where,
        notes=("edge features are not read",) if content.edge_features else (),
    )


def _table(folder: Path, stem: str) -> Path:
    """The gzipped table where it exists, else the plain one where that exists, else the former's name."""
    packed, plain = folder / f"{stem}.csv.gz", folder / f"{stem}.csv"
    return plain if plain.is_file() and not packed.is_file() else packed


def _read_csv(raw: Path) -> _Content:
    paths = {part: _table(raw, stem) for part, stem in (("edges", "edge"), ("x", "node-feat"), ("y", "node-label"))}
    nodes, counts = _table(raw, "num-node-list"), _table(raw, "num-edge-list")
    edges = read_table(paths["edges"], np.int64)
    if len(edges) and edges.shape[1] != 2:
        raise InputError(f"{paths['edges']}, line 1: {edges.shape[1]} columns instead of source,target; mend the file")
    _check_count(len(edges), _single(read_table(counts, np.int64), counts), paths["edges"], counts)
    return _Content(
        edges=edges.T if len(edges) else np.zeros((2, 0), dtype=np.int64),
        num_nodes=_single(read_table(nodes, np.int64), nodes),
        x=read_table(paths["x"], np.float32) if paths["x"].is_file() else None,
        y=read_table(paths["y"], np.float64),
        where={part: str(path) for part, path in paths.items()},
        edge_features=_table(raw, "edge-feat").is_file(),
    )


def _read_binary(raw: Path) -> _Content:
    data, labels = Npz(raw / "data.npz"), Npz(raw / "node-label.npz")
    for npz, key in ((data, "edge_index"), (data, "num_nodes_list"), (labels, "node_label")):
        if key not in npz:
            raise InputError(f"{npz.path}: no array {key} among {sorted(npz)}; fetch the file again")
    edges = data.cached("edge_index")
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise InputError(f"{data.path}[edge_index]: shape {list(edges.shape)} instead of [2, E]; fetch it again")
    if "num_edges_list" in data:
        _check_count(edges.shape[1], _single(data["num_edges_list"], data.path), data.path, data.path)
    return _Content(
        edges=edges,
        num_nodes=_single(data["num_nodes_list"], data.path),
        x=data.cached("node_feat") if "node_feat" in data else None,
        y=labels.cached("node_label"),
        where={
            "edges": f"{data.path}[edge_index]",
            "x": f"{data.path}[node_feat]",
            "y": f"{labels.path}[node_label]",
        },
        edge_features="edge_feat" in data,
    )


def _single(counts: Array, path: Path) -> int:
    if counts.size != 1:
        raise InputError(f"{path}: counts of {counts.size} graphs; a node data set is one graph")
    return int(counts.reshape(-1)[0])


def _check_count(rows: int, said: int, path: Path, counts: Path) -> None:
    if rows != said:
        raise InputError(f"{path}: {rows} edges, but {counts} says {said}; fetch both again")


def _read_splits(folder: Path) -> tuple[dict[str, Array], dict[str, str]]:
    schemes = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    if not schemes:
        return {}, {}
    if len(schemes) > 1:
        raise InputError(f"{folder}: several splits ({', '.join(p.name for p in schemes)}); keep one of the folders")
    paths = {part: _table(schemes[0], stem) for part, stem in _SPLIT_FILES.items()}
    # Only training nodes are indispensable; intake says what the lack of the others means.
    wanted = {part: path for part, path in paths.items() if part == "train" or path.is_file()}
    return (
        {part: read_table(path, np.int64).reshape(-1) for part, path in wanted.items()},
        {part: str(path) for part, path in wanted.items()},
    )
