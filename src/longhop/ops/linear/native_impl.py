"""Launches csrc/kernels/linear.cpp. Shapes and types were checked by op.py."""

import torch
from torch import Tensor

from longhop.ops import native
from longhop.ops.checks import packed, unit_columns


def forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``x @ weight.T + bias``, [N, K]."""
    x, weight = unit_columns(x), packed(weight)
    out = torch.empty(x.shape[0], weight.shape[0])
    native.call(
        "linear", "piiipipp", x, x.shape[0], x.shape[1], x.stride(0), weight, weight.shape[0], packed(bias), out
    )
    return out


def backward(grad: Tensor, x: Tensor | None, weight: Tensor | None, want_bias: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x (where the weight is given), of the weight (where x is), of the bias; else an empty tensor."""
    grad, (num_rows, outputs) = unit_columns(grad), grad.shape
    x = None if x is None else unit_columns(x)
    width = next((t.shape[1] for t in (x, weight) if t is not None), 0)
    dx = torch.empty(0 if weight is None else (num_rows, width))
    dweight = torch.empty(0 if x is None else (outputs, width))
    dbias = torch.empty(outputs if want_bias else 0)
    native.call(
        "linear_grad", "piiipiipppp",
        grad, num_rows, outputs, grad.stride(0), x, width, 0 if x is None else x.stride(0), packed(weight),
        None if weight is None else dx, None if x is None else dweight, dbias if want_bias else None,
    )  # fmt: skip
    return dx, dweight, dbias
