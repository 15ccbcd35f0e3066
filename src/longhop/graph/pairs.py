"""From pairs of ids as users hold them to sorted rows: checks, and the sort every builder shares."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from longhop.graph.csr import CSRGraph, index_dtype
from longhop.types import InputError

Ids: TypeAlias = npt.NDArray[np.int64]
ArrayLike: TypeAlias = Tensor | npt.NDArray[Any] | Sequence[int] | Sequence[float]

# Pairs are sorted by the one number row * num_cols + column.
_MAX_KEY = 2**63 - 1


def as_ids(values: ArrayLike, name: str) -> Ids:
    """The ids as int64 [E]; :class:`InputError` when they are no integers or not one row."""
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if array.ndim != 1:
        raise InputError(f"{name} must be one row of ids [E], got shape {list(array.shape)}")
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if not np.issubdtype(array.dtype, np.integer):
        raise InputError(f"{name} must hold integer ids, got {array.dtype}; relabel the nodes 0 .. N-1 first")
    return array.astype(np.int64, copy=False)


def resolve_sizes(source: Ids, target: Ids, num_nodes: int | None, num_cols: int | None) -> tuple[int, int]:
    """Rows and columns: those given, else one more than the largest id; :class:`InputError` for none."""
    if num_nodes is None:
        if len(target) == 0:
            raise InputError("a graph without edges needs num_nodes")
        largest = int(target.max()) if num_cols is not None else int(max(source.max(), target.max()))
        num_nodes = largest + 1
    cols = num_nodes if num_cols is None else num_cols
    if num_nodes < 1 or cols < 1:
        raise InputError(f"a graph needs at least one node, got num_nodes = {num_nodes}, num_cols = {cols}")
    if num_nodes * cols > _MAX_KEY:
        raise InputError(f"num_nodes x num_cols = {num_nodes} x {cols} exceeds 2^63; relabel the nodes 0 .. N-1")
    return num_nodes, cols


def check_range(ids: Ids, size: int, name: str) -> None:
    """:class:`InputError` naming the first id outside 0 .. size - 1."""
    if len(ids) == 0 or (ids.min() >= 0 and ids.max() < size):
        return
    at = int(np.argmax((ids < 0) | (ids >= size)))
    raise InputError(
        f"{name}[{at}] is node {ids[at]}, outside 0 .. {size - 1} ({size} nodes, {len(ids)} ids given); "
        "correct the id or the number of nodes"
    )


def as_weights(weight: ArrayLike | None, count: int) -> Tensor | None:
    """The weights as fp32 or fp64 [E]; :class:`InputError` when one is missing, too many or not finite."""
    if weight is None:
        return None
    values = torch.as_tensor(weight).detach().cpu()
    if not values.is_floating_point() or values.dtype in (torch.float16, torch.bfloat16):
        values = values.to(torch.float32)
    if values.shape != (count,):
        raise InputError(f"weight must be [E] with E = {count}, got shape {list(values.shape)}")
    finite = torch.isfinite(values)
    if not bool(finite.all()):
        at = int((~finite).nonzero()[0])
        raise InputError(f"weight[{at}] is {float(values[at])}; every weight must be finite")
    return values


def compress(
    rows: Ids,
    cols: Ids,
    num_rows: int,
    num_cols: int,
    weight: Tensor | None,
    *,
    merge: bool = True,
    reduce: Literal["sum", "mean"] = "sum",
) -> CSRGraph:
    """Sort pairs into a CSR; with ``merge`` equal pairs become one and their weights are reduced."""
    key = rows * num_cols + cols
    if weight is None:
        key.sort()
    else:
        # Stable, so that equal pairs keep their order and their weights are summed in it.
        sorted_key, by_key = torch.sort(torch.from_numpy(key), stable=True)
        key, weight = sorted_key.numpy(), weight[by_key]
    if merge and len(key):
        first = np.concatenate([[True], key[1:] != key[:-1]])
        if weight is not None:
            weight = _reduce_runs(weight, np.flatnonzero(first), reduce)
        key = key[first]
    row = key // num_cols
    rowptr = np.zeros(num_rows + 1, dtype=np.int64)
    np.cumsum(np.bincount(row, minlength=num_rows), out=rowptr[1:])
    col = torch.from_numpy(key - row * num_cols).to(index_dtype(num_rows, num_cols))
    return CSRGraph(rowptr=torch.from_numpy(rowptr), col=col, num_cols=num_cols, weight=weight)


def _reduce_runs(weight: Tensor, starts: Ids, reduce: Literal["sum", "mean"]) -> Tensor:
    # In fp64: a hub's many parallel edges must not lose the small ones.
    total = np.add.reduceat(weight.double().numpy(), starts)
    if reduce == "mean":
        total = total / np.diff(np.append(starts, len(weight)))
    return torch.from_numpy(total).to(weight.dtype)
