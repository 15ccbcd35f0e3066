"""``x @ weight.T + bias`` over very many rows on the CPU.

A graph's Linears have a million rows and a few dozen columns, a shape that general matrix products are not made for.
The kernel keeps the packed weight and a block of rows in cache, writes past the cache, and its backward pass reads
the output's gradient once for all three gradients.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from longhop import env
from longhop.ops import dispatch, native
from longhop.ops.linear import native_impl, reference
from longhop.saving import Role, save, saved

_OP = "linear"


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
    ours = x.dim() == weight.dim() == 2 and all(t.device.type == "cpu" and t.dtype == torch.float32 for t in tensors)
    if not ours or torch.is_autocast_enabled("cpu"):
        return F.linear(x, weight, bias)
    out: Tensor = _forward(x, weight, bias)
    return out


def _native(*tensors: Tensor | None) -> bool:
    """Whether our kernels serve the call: those without AVX2 only where that build was asked for by name."""
    if dispatch.choose(_OP, *tensors) != "native":
        return False
    library = native.library()
    return library is not None and (library.isa != "baseline" or env.isa() is not None)


@torch.library.custom_op("longhop::linear", mutates_args=())
def _forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    fits = x.shape[1:] == weight.shape[1:] and (bias is None or bias.shape == weight.shape[:1])
    if fits and _native(x, weight, bias):
        return native_impl.forward(x, weight, bias)
    return reference.forward(x, weight, bias)  # says what does not fit


@_forward.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return x.new_empty(x.shape[0], weight.shape[0])


@torch.library.custom_op("longhop::linear_backward", mutates_args=())
def _grads(grad: Tensor, x: Tensor | None, weight: Tensor | None, want_bias: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x (where the weight is given), of the weight (where x is), of the bias; else an empty tensor."""
    fits = (x is None or len(x) == len(grad)) and (weight is None or len(weight) == grad.shape[1])
    if fits and (x is None or weight is None or x.shape[1] == weight.shape[1]) and _native(grad, x, weight):
        return native_impl.backward(grad, x, weight, want_bias)
    return reference.backward(grad, x, weight, want_bias)


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
