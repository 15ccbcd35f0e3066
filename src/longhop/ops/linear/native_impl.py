"""Launches csrc/kernels/linear.cpp. Shapes and types were checked by op.py."""

import torch
from torch import Tensor

from longhop.ops import native
from longhop.ops.checks import packed, unit_columns
from longhop.ops.fused_block.reference import Dropout
from longhop.ops.linear.reference import Before, Wants

_ACTS = {"none": 0, "relu": 1, "gelu": 2}


def forward(
    x: Tensor, weight: Tensor, bias: Tensor | None, before: Before, residual: Tensor | None, dropout: Dropout
) -> Tensor:
    """``dropout(before(x) @ weight.T + bias) + residual``, [N, K]."""
    x, weight = unit_columns(x), packed(weight)
    residual = None if residual is None else unit_columns(residual)
    out = torch.empty(x.shape[0], weight.shape[0])
    native.call(
        "linear", "piiippfipippiippip",
        x, x.shape[0], x.shape[1], x.stride(0), packed(before.gamma), packed(before.beta), before.eps,
        _ACTS[before.act], weight, weight.shape[0], packed(bias), residual,
        0 if residual is None else residual.stride(0), dropout.threshold, dropout.seed, packed(dropout.row_ids),
        dropout.site, out,
    )  # fmt: skip
    return out


def backward(
    grad: Tensor, x: Tensor | None, weight: Tensor | None, before: Before, dropout: Dropout, wants: Wants
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of x, weight, bias, gamma and beta; an empty tensor for what is not wanted."""
    grad, (num_rows, outputs) = unit_columns(grad), grad.shape
    x = None if x is None else unit_columns(x)
    width = next((t.shape[1] for t in (x, weight) if t is not None), 0)
    shapes = ((num_rows, width), (outputs, width), (outputs,), (width,), (width,))
    wanted = (*wants, wants.norm)
    out = tuple(torch.empty(shape if wish else 0) for shape, wish in zip(shapes, wanted, strict=True))
    native.call(
        "linear_grad", "piiipiippfipippippppp",
        grad, num_rows, outputs, grad.stride(0), x, width, 0 if x is None else x.stride(0), packed(before.gamma),
        packed(before.beta), before.eps, _ACTS[before.act], packed(weight), dropout.threshold, dropout.seed,
        packed(dropout.row_ids), dropout.site, *(t if wish else None for t, wish in zip(out, wanted, strict=True)),
    )  # fmt: skip
    dx, dweight, dbias, dgamma, dbeta = out
    return dx, dweight, dbias, dgamma, dbeta
