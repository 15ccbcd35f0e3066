"""Launches csrc/kernels/spmm.cpp and spmm_max.cpp. Shapes and types were checked by op.py."""

import torch
from torch import Tensor

from longhop.ops import native
from longhop.ops.checks import WINNER_DTYPES, packed, unit_columns


def _wide(index: Tensor) -> bool:
    return index.dtype == torch.int64


def _bf16(x: Tensor) -> bool:
    return x.dtype == torch.bfloat16


def spmm(
    rowptr: Tensor, col: Tensor | None, x: Tensor, weight: Tensor | None = None, *, mean: bool = False,
    perm: Tensor | None = None, source_scale: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Sum (or mean) over each row of ``weight * source_scale[col] * x[col]``, [Nq, F] in x's type.

    Args:
        rowptr: int64 [Nq + 1].
        col: int32 or int64 [E]; None: pair e reads row e.
        x: fp32 or bf16 [Nk, F], any row stride.
        weight: fp32 [E], read at ``perm[e]`` where ``perm`` (in col's type) is given.
        mean: divide by the row's length.
        perm: [E].
        source_scale: fp32 [Nk].
    """
    x, num_rows = unit_columns(x), rowptr.numel() - 1
    out = torch.empty(num_rows, x.shape[1], dtype=x.dtype)
    num_pairs = x.shape[0] if col is None else col.numel()
    native.call(
        "spmm_sum", "pippiippp" + "iiiiip",
        packed(rowptr), num_rows, packed(col), packed(perm), col is not None and _wide(col), num_pairs,
        packed(weight), source_scale,
        x, _bf16(x), x.shape[0], x.stride(0), x.shape[1], mean, out,
    )  # fmt: skip
    return out


def grad_x(
    rowptr: Tensor, t_rowptr: Tensor, t_col: Tensor, perm: Tensor, grad: Tensor, weight: Tensor | None, mean: bool
) -> Tensor:
    """Gradient of x, [Nk, F] in grad's type."""
    scale = rowptr.diff().clamp_(min=1).to(torch.float32).reciprocal_() if mean else None
    return spmm(t_rowptr, t_col, grad, weight, perm=perm, source_scale=scale)


def grad_weight(rowptr: Tensor, col: Tensor, grad: Tensor, x: Tensor, mean: bool) -> Tensor:
    """Gradient of the weights, fp32 [E]."""
    grad, x = unit_columns(grad), unit_columns(x)
    out = torch.empty(col.numel(), dtype=torch.float32)
    native.call(
        "spmm_dot", "pipiippiiiiiip",
        packed(rowptr), rowptr.numel() - 1, packed(col), _wide(col), col.numel(), grad, x, _bf16(x),
        x.shape[0], grad.stride(0), x.stride(0), x.shape[1], mean, out,
    )  # fmt: skip
    return out


def spmm_max(
    rowptr: Tensor, col: Tensor | None, x: Tensor, weight: Tensor | None, k_ids: Tensor | None, bits: int
) -> tuple[Tensor, Tensor]:
    """Largest message of each row, [Nq, F] in x's type, and its position in ``bits`` bits."""
    x, num_rows = unit_columns(x), rowptr.numel() - 1
    out = torch.empty(num_rows, x.shape[1], dtype=x.dtype)
    winner = torch.empty(num_rows, x.shape[1], dtype=WINNER_DTYPES[bits])
    num_pairs = x.shape[0] if col is None else col.numel()
    native.call(
        "spmm_max", "pipiippiiiipppi",
        packed(rowptr), num_rows, packed(col), col is not None and _wide(col), num_pairs, packed(weight),
        x, _bf16(x), x.shape[0], x.stride(0), x.shape[1], packed(k_ids), out, winner, bits,
    )  # fmt: skip
    return out, winner


def max_grad_x(
    rowptr: Tensor, t_rowptr: Tensor, t_col: Tensor, perm: Tensor, grad: Tensor, winner: Tensor,
    weight: Tensor | None,
) -> Tensor:  # fmt: skip
    """Gradient of x, [Nk, F] in grad's type."""
    grad, num_rows = unit_columns(grad), t_rowptr.numel() - 1
    out = torch.empty(num_rows, grad.shape[1], dtype=grad.dtype)
    native.call(
        "spmm_max_grad_x", "pipippiippiipiip",
        packed(rowptr), rowptr.numel() - 1, packed(t_rowptr), num_rows, packed(t_col), packed(perm), _wide(t_col),
        t_col.numel(), packed(weight), grad, _bf16(grad), grad.stride(0), packed(winner),
        8 * winner.element_size(), grad.shape[1], out,
    )  # fmt: skip
    return out


def max_grad_weight(rowptr: Tensor, col: Tensor, grad: Tensor, x: Tensor, winner: Tensor) -> Tensor:
    """Gradient of the weights, fp32 [E]."""
    grad, x = unit_columns(grad), unit_columns(x)
    out = torch.empty(col.numel(), dtype=torch.float32)
    native.call(
        "spmm_max_grad_weight", "pipiippiiiipiip",
        packed(rowptr), rowptr.numel() - 1, packed(col), _wide(col), col.numel(), grad, x, _bf16(x), x.shape[0],
        grad.stride(0), x.stride(0), packed(winner), 8 * winner.element_size(), x.shape[1], out,
    )  # fmt: skip
    return out
