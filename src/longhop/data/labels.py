"""Labels in, in whatever shape they are published; one of two tensors out."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from longhop.data.dataset import Task
from longhop.data.files import Array
from longhop.types import InputError


class Labels(NamedTuple):
    """``y`` as :class:`longhop.data.NodeDataset` holds it, number of classes or columns, and the task."""

    y: Tensor
    num_classes: int
    task: Task


def labelled(y: Tensor) -> Tensor:
    """Bool [N]: nodes with a label (in at least one column), of either form of ``y``."""
    return y >= 0 if y.dim() == 1 else ~y.isnan().all(dim=1)


def read_labels(given: Array, num_nodes: int, where: str) -> Labels:
    """Bring labels into their one form.

    One column of integers, booleans, or floats that are all whole numbers holds class ids (-1 or NaN =
    unlabelled); other floats are regression targets. Several columns hold a yes or no each when all
    values are 0, 1 or NaN, else regression targets.

    Args:
        given: [N], [N, 1] or [N, T].
        num_nodes: N.
        where: how messages name the source.

    Raises:
        InputError: another number of rows, another type, infinite values, class ids below -1.
    """
    if given.ndim not in (1, 2) or given.shape[0] != num_nodes:
        raise InputError(
            f"{where}: labels have shape {list(given.shape)} but the graph has {num_nodes} nodes; "
            "give one row for every node"
        )
    if given.dtype.kind not in "biuf":
        raise InputError(f"{where}: labels are {given.dtype}, not numbers; map each class to 0..C-1")
    if given.dtype.kind == "f" and np.isinf(given).any():
        row = int(np.isinf(given).reshape(num_nodes, -1).any(axis=1).argmax())
        raise InputError(f"{where}, row {row}: the label is infinite; use NaN for unlabelled nodes")
    if given.ndim == 2 and given.shape[1] > 1:
        return _columns(given, where)
    column = given.reshape(num_nodes)
    if column.dtype.kind == "f":
        known = column[~np.isnan(column)]
        if (known != np.round(known)).any():
            return Labels(torch.from_numpy(column.astype(np.float32)).unsqueeze(1), 1, "regression")
        column = np.where(np.isnan(column), -1, column)
    return _classes(column.astype(np.int64), where)


def _classes(ids: Array, where: str) -> Labels:
    if (ids < -1).any():
        row = int((ids < -1).argmax())
        raise InputError(f"{where}, row {row}: class {ids[row]} is below 0; use 0..C-1, and -1 for unlabelled nodes")
    count = int(ids.max()) + 1
    return Labels(torch.from_numpy(ids), count, "binary" if count == 2 else "multiclass")


def _columns(given: Array, where: str) -> Labels:
    yes_no = bool(((given == 0) | (given == 1) | (given != given)).all())
    if not yes_no and given.dtype.kind != "f":
        rows, columns = np.nonzero((given != 0) & (given != 1))
        raise InputError(
            f"{where}, row {rows[0]}, column {columns[0]}: label {given[rows[0], columns[0]]} is neither 0 "
            "nor 1; give one column of class ids, 0/1 columns, or floats for regression"
        )
    y = torch.from_numpy(given.astype(np.float32))
    return Labels(y, given.shape[1], "multilabel" if yes_no else "regression")
