"""Two published npz formats: gnn-benchmark (CSR matrices, splits beside them) and heterophilous-graphs."""

from pathlib import Path

import numpy as np
import scipy.sparse

from longhop.data.arrays import as_array, find_arrays
from longhop.data.files import Array, Npz
from longhop.data.intake import Found
from longhop.data.names import all_names, plain
from longhop.data.unpickle import checked_csr
from longhop.types import InputError


def read_gnn_benchmark(path: Path, name: str) -> Found:
    """Read one gnn-benchmark npz; entry (i, j) of its matrix is the edge i -> j, as published.

    The split is that of ``splits/NAME_split.npz`` beside the file (``train``, ``valid``, ``test``).

    Raises:
        InputError: a missing, damaged or refused file, or a matrix that is not square.
    """
    data = Npz(path)
    adjacency = _matrix(data, ("adj_matrix", "adj"))
    if not isinstance(adjacency, scipy.sparse.csr_matrix) or adjacency.shape[0] != adjacency.shape[1]:
        got = "none" if adjacency is None else list(adjacency.shape)
        raise InputError(f"{path}: the adjacency must be a square sparse matrix, got {got}; fetch it again")
    features = _matrix(data, ("node_attr", "attr_matrix", "attr"))
    x = None if features is None else as_array(features, f"{path}[features]")
    labels = next((key for key in ("node_label", "labels") if key in data), "")
    if not labels:
        raise InputError(f"{path}: no labels among {', '.join(sorted(data))}; node_label is needed")
    coo = adjacency.tocoo()
    edge = coo.data != 0
    zeros = int((~edge).sum())
    splits, split_file = _splits(path)
    return Found(
        name=name,
        src=coo.row[edge],
        dst=coo.col[edge],
        num_nodes=adjacency.shape[0],
        x=x,
        y=as_array(data[labels], f"{path}[{labels}]"),
        weight=None if (coo.data[edge] == 1).all() else coo.data[edge],
        splits=splits,
        where={"edges": f"{path}[adjacency]", "x": f"{path}[features]", "y": f"{path}[{labels}]"}
        | {part: f"{split_file}[{part}]" for part in splits},
        notes=(f"{zeros} stored zeros of the adjacency are no edges",) if zeros else (),
    )


def read_heterophilous(path: Path, name: str) -> Found:
    """Read one heterophilous-graphs npz: each undirected edge once, ten masks a part.

    Files with ``directed`` in their name hold directed edges, as that collection has it.

    Raises:
        InputError: a missing or damaged file, or arrays that do not fit together.
    """
    data = dict(Npz(path))
    for part in ("train", "val", "test"):
        key = f"{part}_masks"
        if key in data:
            # The file has one row a split, everybody else one column.
            data[key] = np.ascontiguousarray(data[key].T)
    return find_arrays(data, str(path), name, undirected="directed" not in path.stem)


def npz_format(path: Path) -> str:
    """``gnn-benchmark``, ``heterophilous``, ``arrays``, or "" for an npz that is no graph data set.

    Raises:
        InputError: not an npz file.
    """
    keys = set(Npz(path))
    if keys & {"adj_matrix", "adj_data", "adj_indptr"}:
        return "gnn-benchmark"
    if {"edges", "node_features", "train_masks"} <= keys:
        return "heterophilous"
    return "arrays" if keys & {"edge_index", "edges"} else ""


def _matrix(data: Npz, names: tuple[str, ...]) -> Array | scipy.sparse.csr_matrix | None:
    """A matrix that is pickled whole, dense, or laid out as NAME_data, _indices, _indptr, _shape."""
    for name in names:
        if name in data:
            value = data[name]
            return value if isinstance(value, np.ndarray) else checked_csr(value, f"{data.path}[{name}]")
        if f"{name}_data" in data:
            parts = [f"{name}_{part}" for part in ("data", "indices", "indptr", "shape")]
            missing = [part for part in parts if part not in data]
            if missing:
                raise InputError(f"{data.path}: has {parts[0]} but no {missing[0]}; fetch the file again")
            values, indices, indptr, shape = (data[part] for part in parts)
            return checked_csr(_Parts(values, indices, indptr, shape), f"{data.path}[{name}]")
    return None


class _Parts:
    """The arrays of a CSR that was never one object."""

    def __init__(self, data: Array, indices: Array, indptr: Array, shape: Array) -> None:
        self.data, self.indices, self.indptr = data, indices, indptr
        self.shape = tuple(int(size) for size in shape)


def _splits(path: Path) -> tuple[dict[str, Array], Path | None]:
    names = all_names(path.stem)
    for candidate in sorted((path.parent / "splits").glob("*_split.npz")):
        if plain(candidate.stem.removesuffix("_split")) in names:
            given = Npz(candidate)
            keys = {"train": ("train",), "val": ("valid", "val"), "test": ("test",)}
            found = {part: next((key for key in keys[part] if key in given), "") for part in keys}
            return {part: as_array(given[key], str(candidate)) for part, key in found.items() if key}, candidate
    return {}, None
