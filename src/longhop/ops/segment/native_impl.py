"""Launches spmm's kernels without columns, and csrc/kernels/segment.cpp."""

import torch
from torch import Tensor

from longhop.ops import native
from longhop.ops.checks import packed, unit_columns
from longhop.ops.spmm import native_impl as spmm


def segment(rowptr: Tensor, src: Tensor, mean: bool) -> Tensor:
    """Sum or mean of each segment, [N, F]."""
    return spmm.spmm(rowptr, None, src, mean=mean)


def segment_max(rowptr: Tensor, src: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Largest of each segment, [N, F], and its position in it, in ``bits`` bits."""
    return spmm.spmm_max(rowptr, None, src, None, None, bits)


def backward(rowptr: Tensor, num_pairs: int, grad: Tensor, winner: Tensor | None, mean: bool) -> Tensor:
    """Gradient of src, [E, F]."""
    grad = unit_columns(grad)
    out = torch.empty(num_pairs, grad.shape[1], dtype=grad.dtype)
    native.call(
        "segment_grad", "piipiiiipip",
        packed(rowptr), rowptr.numel() - 1, num_pairs, grad, grad.dtype == torch.bfloat16, grad.stride(0),
        grad.shape[1], mean, packed(winner), 8 if winner is None else 8 * winner.element_size(), out,
    )  # fmt: skip
    return out
