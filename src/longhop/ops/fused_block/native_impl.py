"""Launches csrc/kernels/fused_block.cpp. Shapes and types were checked by op.py."""

import torch
from torch import Tensor

from longhop.ops import native
from longhop.ops.checks import packed, unit_columns
from longhop.ops.fused_block.reference import Dropout

_ACTS = {"none": 0, "relu": 1, "gelu": 2}


def forward(
    x: Tensor, bias: Tensor | None, residual: Tensor | None, act: str, dropout: Dropout, keep_bits: bool
) -> tuple[Tensor, Tensor]:
    """Output [N, F] in x's type, and uint8 [N, ceil(F / 8)] with ``keep_bits`` (relu only), else empty."""
    x, (num_rows, width) = unit_columns(x), x.shape
    residual = None if residual is None else unit_columns(residual)
    out = torch.empty(num_rows, width, dtype=x.dtype)
    bits = torch.empty((num_rows, (width + 7) // 8) if keep_bits else 0, dtype=torch.uint8)
    native.call(
        "fused_block", "piiiippiiippipp",
        x, x.dtype == torch.bfloat16, num_rows, width, x.stride(0), packed(bias), residual,
        0 if residual is None else residual.stride(0), _ACTS[act], dropout.threshold, dropout.seed,
        packed(dropout.row_ids), dropout.site, out, bits if keep_bits else None,
    )  # fmt: skip
    return out, bits


def backward(
    grad: Tensor, x: Tensor | None, bias: Tensor | None, bits: Tensor | None, act: str, dropout: Dropout,
    want_x: bool, want_bias: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Gradient of x [N, F] and of bias, fp32 [F]; empty where not wanted."""
    grad, (num_rows, width) = unit_columns(grad), grad.shape
    x = None if x is None else unit_columns(x)
    dx = torch.empty((num_rows, width) if want_x else 0, dtype=grad.dtype)
    dbias = torch.empty(width if want_bias else 0, dtype=torch.float32)
    native.call(
        "fused_block_grad", "piiiipippiippipp",
        grad, grad.dtype == torch.bfloat16, num_rows, width, grad.stride(0), x, 0 if x is None else x.stride(0),
        packed(bias), packed(bits), _ACTS[act], dropout.threshold, dropout.seed, packed(dropout.row_ids),
        dropout.site, dx if want_x else None, dbias if want_bias else None,
    )  # fmt: skip
    return dx, dbias
