"""The maths of segment in plain torch: spmm's, with pair e reading row e. The oracle."""

import torch
from torch import Tensor

from longhop.ops.spmm import reference as spmm


def _own_rows(src: Tensor) -> Tensor:
    return torch.arange(src.shape[0], device=src.device)


def segment(rowptr: Tensor, src: Tensor, mean: bool) -> Tensor:
    """Sum or mean of each segment, [N, F]."""
    return spmm.spmm(rowptr, _own_rows(src), src, mean=mean)


def segment_max(rowptr: Tensor, src: Tensor) -> tuple[Tensor, Tensor]:
    """Largest of each segment, [N, F], and its position in it, int64 [N, F]."""
    return spmm.spmm_max(rowptr, _own_rows(src), src)


def backward(rowptr: Tensor, grad: Tensor, winner: Tensor | None, mean: bool) -> Tensor:
    """Gradient of src, [E, F]."""
    if mean:
        grad = grad / rowptr.diff().clamp(min=1)[:, None]
    row = spmm.rows_of(rowptr)
    if winner is None:
        return grad[row]
    position = torch.arange(row.numel(), device=row.device) - rowptr[row]
    return grad[row].where(winner.long()[row] == position[:, None], 0.0)
