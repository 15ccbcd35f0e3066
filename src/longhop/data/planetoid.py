"""Planetoid's pickles ``ind.NAME.{x,y,tx,ty,allx,ally,graph,test.index}`` with the public split."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from longhop.data.files import Array, read_table, reading
from longhop.data.intake import Found
from longhop.data.unpickle import checked_csr, load_pickle
from longhop.types import InputError

_NUM_VALIDATION = 500
# x holds the first rows of allx once more and is not read.
_PICKLES = ("y", "tx", "ty", "allx", "ally", "graph")


def planetoid_names(folder: Path) -> list[str]:
    """Names of the Planetoid data sets in a folder."""
    return sorted(path.name.split(".")[1] for path in folder.glob("ind.*.graph"))


def read_planetoid(folder: Path, name: str) -> Found:
    """Read one Planetoid data set.

    ``tx`` row i belongs to node ``test.index[i]``. Ids between the smallest and the largest of those that
    are not listed are isolated nodes without features and label (CiteSeer has 15).

    Args:
        folder: holds the files.
        name: as in the file names.

    Returns:
        The public split: rows of ``y`` train, the next 500 nodes validate, ``test.index`` tests.

    Raises:
        InputError: a missing, damaged or refused file, or parts that do not fit together.
    """
    where = {part: str(folder / f"ind.{name}.{part}") for part in _PICKLES}
    index = folder / f"ind.{name}.test.index"
    src, dst, largest = _edges(_unpickle(where["graph"]), where["graph"])
    x, labels, num_classes, test = _rows(where, index, largest)
    num_train = len(_one_hot(_unpickle(where["y"]), where["y"]))
    known = int(test.min())
    gaps = len(x) - known - len(test)
    return Found(
        name=name,
        src=src,
        dst=dst,
        num_nodes=len(x),
        x=x,
        y=labels,
        num_classes=num_classes,
        splits={
            "train": np.arange(num_train),
            "val": np.arange(num_train, min(num_train + _NUM_VALIDATION, known)),
            "test": np.sort(test),
        },
        where={
            "edges": where["graph"],
            "x": where["allx"],
            "y": where["ally"],
            "train": where["y"],
            "test": str(index),
        },
        notes=(f"{gaps} ids that test.index leaves out are nodes without features and label",) if gaps else (),
    )


def _rows(where: Mapping[str, str], index: Path, largest: int) -> tuple[Array, Array, int, Array]:
    """Features and class of every node, number of classes, test ids in the order of ``tx``."""
    allx, tx = (checked_csr(_unpickle(where[part]), where[part]) for part in ("allx", "tx"))
    ally, ty = (_one_hot(_unpickle(where[part]), where[part]) for part in ("ally", "ty"))
    test = read_table(index, np.int64).reshape(-1)
    known = allx.shape[0]
    for part, what, found, wanted in (
        ("tx", "rows", tx.shape[0], len(test)),
        ("ty", "rows", len(ty), len(test)),
        ("ally", "rows", len(ally), known),
        ("tx", "columns", tx.shape[1], allx.shape[1]),
        ("ty", "columns", ty.shape[1], ally.shape[1]),
    ):
        if found != wanted:
            raise InputError(f"{where[part]}: {found} {what} where {wanted} belong; fetch the data set again")
    if len(test) == 0 or test.min() != known or len(np.unique(test)) != len(test):
        raise InputError(f"{index}: must list each test node once, from {known} (rows of allx) up; fetch it again")
    if test.max() > largest:
        raise InputError(f"{index}: node {test.max()} is not in the graph (0..{largest}); fetch both again")
    num_nodes = int(test.max()) + 1
    x = np.zeros((num_nodes, allx.shape[1]), dtype=np.float32)
    x[:known], x[test] = allx.toarray(), tx.toarray()
    labels = np.full(num_nodes, -1, dtype=np.int64)
    labels[:known], labels[test] = _class_of(ally), _class_of(ty)
    return x, labels, ally.shape[1], test


def _unpickle(path: str) -> Any:
    with reading(Path(path)), open(path, "rb") as stream:
        return load_pickle(stream, path)


def _one_hot(found: Any, where: str) -> Array:
    if not isinstance(found, np.ndarray) or found.ndim != 2 or found.dtype.kind not in "biuf":
        raise InputError(f"{where}: not a matrix of numbers [rows, classes]; fetch the file again")
    return found


def _class_of(one_hot: Array) -> Array:
    """Column of the one in each row; -1 for a row of zeros."""
    return np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), -1)


def _edges(graph: Any, where: str) -> tuple[Array, Array, int]:
    """Edges of ``{node: [neighbours]}``, each neighbour u of v being an edge u -> v; and the largest node."""
    try:
        if not isinstance(graph, Mapping):
            raise TypeError("not a dictionary")
        counts = [len(neighbours) for neighbours in graph.values()]
        src = np.array([u for neighbours in graph.values() for u in neighbours], dtype=np.int64)
        nodes = np.array(list(graph), dtype=np.int64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{where}: not a dictionary of neighbour lists ({error}); fetch the file again") from error
    return src, np.repeat(nodes, counts), int(nodes.max(initial=-1))
