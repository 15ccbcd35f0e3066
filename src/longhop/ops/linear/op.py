"""``x @ weight.T + bias`` over many rows on the CPU, through oneDNN.

A graph's Linears have a million rows and a few dozen columns. For them torch's own path (MKL's sgemm after a copy
of the bias to every row) takes a third longer than oneDNN's matrix product, which adds the bias as it writes; and the
weight's gradient, a sum over all rows, is faster as a batch of products over blocks of rows. torch has oneDNN for
fp32 Linears behind its compiler's operator only, hence this op.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from longhop.saving import Role, save, saved

_OP = "linear"
MANY_ROWS = 4096
"""From here on oneDNN's set-up costs nothing beside the product."""
_BLOCK = 1024  # rows that one product of a weight's gradient sums; no function of the number of threads


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x @ weight.T + bias``.

    Args:
        x: floating [..., F].
        weight: [K, F].
        bias: None or [K].

    Returns:
        [..., K].

    Raises:
        RuntimeError: shapes or types that do not fit together, as torch says it.
    """
    tensors = (x, weight) if bias is None else (x, weight, bias)
    ours = x.dim() == 2 and all(t.device.type == "cpu" and t.dtype == torch.float32 for t in tensors)
    if not ours or torch.is_autocast_enabled("cpu"):
        return F.linear(x, weight, bias)
    out: Tensor = _forward(x, weight, bias)
    return out


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``x @ weight.T + bias``, contiguous."""
    onednn = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
    if x.shape[0] < MANY_ROWS or onednn is None or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return F.linear(x, weight, bias)
    out: Tensor = onednn(x.contiguous(), weight, bias, "none", [], "")
    return out


def _weight_gradient(grad: Tensor, x: Tensor) -> Tensor:
    """``grad.T @ x``, summed by blocks of rows in their order."""
    blocks = x.shape[0] // _BLOCK
    rest = slice(blocks * _BLOCK, None)
    total = grad[rest].t() @ x[rest]
    if blocks == 0:
        return total
    grads, rows = (t[: blocks * _BLOCK].reshape(blocks, _BLOCK, t.shape[1]) for t in (grad, x))
    return total + torch.bmm(grads.transpose(1, 2), rows).sum(0)


@torch.library.custom_op("longhop::linear", mutates_args=())
def _forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return _product(x, weight, bias)


@_forward.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return x.new_empty(x.shape[0], weight.shape[0])


@torch.library.custom_op("longhop::linear_backward", mutates_args=())
def _grads(grad: Tensor, x: Tensor | None, weight: Tensor | None, want_bias: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x (where the weight is given), of the weight (where x is), of the bias; else an empty tensor."""
    return (
        grad.new_empty(0) if weight is None else _product(grad, weight.t(), None),
        grad.new_empty(0) if x is None else _weight_gradient(grad, x),
        grad.sum(0) if want_bias else grad.new_empty(0),
    )


@_grads.register_fake
def _(grad: Tensor, x: Tensor | None, weight: Tensor | None, want_bias: bool) -> tuple[Tensor, Tensor, Tensor]:
    none = grad.new_empty(0)
    return (
        none if weight is None else grad.new_empty(grad.shape[0], weight.shape[1]),
        none if x is None else grad.new_empty(grad.shape[1], x.shape[1]),
        grad.new_empty(grad.shape[1]) if want_bias else none,
    )


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, _ = inputs
    want_x, want_weight = ctx.needs_input_grad[:2]
    save(
        ctx, _OP,
        ("x", Role.LINEAR, x if want_weight else None), ("weight", Role.EXACT, weight if want_x else None),
    )  # fmt: skip


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    x, weight = saved(ctx)
    want_x, want_weight, want_bias = ctx.needs_input_grad[:3]
    dx, dweight, dbias = _grads(grad, x, weight, want_bias)
    return dx if want_x else None, dweight if want_weight else None, dbias if want_bias else None


_forward.register_autograd(_backward, setup_context=_setup_context)
