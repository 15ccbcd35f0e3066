"""The fused block as registered ops: checks, autograd.

Saved for backward: nothing for act = none, x for gelu, one bit an element for relu. The dropout mask is made
again from (seed, row identity, column, site).
"""

from typing import Any, Literal

import torch
from torch import Tensor

from longhop.ops import dispatch
from longhop.ops.checks import FLOATING_DTYPES, check_devices, check_mask, check_vector, wide_dtype
from longhop.ops.fused_block import native_impl, reference
from longhop.ops.fused_block.reference import Dropout
from longhop.ops.philox import drop_threshold
from longhop.saving import Role, save, saved
from longhop.types import InputError

_OP = "bias_act_dropout_residual"
_ACTS = ("none", "relu", "gelu")


def bias_act_dropout_residual(
    x: Tensor, bias: Tensor | None = None, residual: Tensor | None = None, *,
    act: Literal["none", "relu", "gelu"] = "none", dropout: float = 0.0, seed: Tensor | None = None,
    site: int = 0, row_ids: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``dropout(act(x + bias)) + residual`` in one pass over memory.

    Args:
        x: fp32 or bf16 [..., F] (fp64 through the reference), any strides; computed in fp32.
        bias: floating [F].
        residual: as x, shape and type.
        act: gelu is the exact one (erf).
        dropout: probability in [0, 1) of dropping an element, rounded to a multiple of 2^-16.
        seed: int64 tensor of one element; needed with dropout.
        site: number of the call within a step, 0 to 2^32 - 1: different sites have independent masks.
        row_ids: int64, one a row of x (leading axes flattened): identities behind the mask, so that it does
            not depend on the order of rows; row numbers when None.

    Returns:
        x's shape and type, contiguous.

    Raises:
        InputError: shapes, types or options that do not fit together; the message names them.
    """
    threshold = drop_threshold(dropout)
    _check(x, bias, residual, act, threshold, seed, site, row_ids)
    if act == "none" and threshold == 0 and bias is None:
        return x if residual is None else x + residual
    width = x.shape[-1]
    bias = None if bias is None else bias.to(wide_dtype(x))
    residual = None if residual is None else residual.reshape(-1, width)
    seed, row_ids = (seed, row_ids) if threshold else (None, None)
    wants_grad = x.requires_grad or (bias is not None and bias.requires_grad)
    keep_bits = act == "relu" and torch.is_grad_enabled() and wants_grad
    rows = x.reshape(-1, width)
    out: Tensor = _forward(rows, bias, residual, act, threshold, seed, site, row_ids, keep_bits)[0]
    return out.view(x.shape)


def _check(
    x: Tensor, bias: Tensor | None, residual: Tensor | None, act: str, threshold: int, seed: Tensor | None,
    site: int, row_ids: Tensor | None,
) -> None:  # fmt: skip
    if x.dim() == 0 or x.shape[-1] == 0 or not x.is_floating_point():
        raise InputError(f"{_OP}: x must be floating [..., F] with F > 0, got {x.dtype} {list(x.shape)}")
    check_devices(_OP, x, bias, residual, seed, row_ids)
    if act not in _ACTS:
        raise InputError(f"{_OP}: act must be one of {', '.join(_ACTS)}, got {act!r}")
    if bias is not None:
        check_vector(_OP, "bias", bias, x.shape[-1], FLOATING_DTYPES)
    if residual is not None and (residual.shape != x.shape or residual.dtype != x.dtype):
        raise InputError(
            f"{_OP}: residual must be as x, {x.dtype} {list(x.shape)}, got {residual.dtype} {list(residual.shape)}"
        )
    check_mask(_OP, x.numel() // x.shape[-1], threshold, seed, site, row_ids)


@torch.library.custom_op("longhop::bias_act_dropout_residual", mutates_args=())
def _forward(
    x: Tensor, bias: Tensor | None, residual: Tensor | None, act: str, threshold: int, seed: Tensor | None,
    site: int, row_ids: Tensor | None, keep_bits: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    drop = Dropout(threshold, seed, site, row_ids)
    if dispatch.choose(_OP, x, bias, residual) == "native":
        return native_impl.forward(x, bias, residual, act, drop, keep_bits)
    wide = x.to(wide_dtype(x))
    out = reference.forward(wide, bias, None if residual is None else residual.to(wide.dtype), act, drop)
    bits = reference.relu_bits(wide, bias, drop) if keep_bits else x.new_empty(0, dtype=torch.uint8)
    return out.to(x.dtype).contiguous(), bits


@_forward.register_fake
def _(
    x: Tensor, bias: Tensor | None, residual: Tensor | None, act: str, threshold: int, seed: Tensor | None,
    site: int, row_ids: Tensor | None, keep_bits: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    bits = (x.shape[0], (x.shape[1] + 7) // 8) if keep_bits else 0
    return x.new_empty(x.shape), x.new_empty(bits, dtype=torch.uint8)


@torch.library.custom_op("longhop::bias_act_dropout_residual_backward", mutates_args=())
def _grads(
    grad: Tensor, x: Tensor | None, bias: Tensor | None, bits: Tensor | None, act: str, threshold: int,
    seed: Tensor | None, site: int, row_ids: Tensor | None, want_x: bool, want_bias: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Gradients of x and bias; an empty tensor for what is not wanted."""
    drop = Dropout(threshold, seed, site, row_ids)
    if dispatch.choose(_OP, grad, x, bias) == "native":
        return native_impl.backward(grad, x, bias, bits, act, drop, want_x, want_bias)
    wide = wide_dtype(grad)
    dx = reference.grad_x(grad.to(wide), None if x is None else x.to(wide), bias, bits, act, drop)
    dbias = dx.sum(0) if want_bias else grad.new_empty(0, dtype=wide)
    # A result may not be an input, which it is when nothing happened to it.
    return dx.to(grad.dtype, memory_format=torch.contiguous_format, copy=True) if want_x else grad.new_empty(0), dbias


@_grads.register_fake
def _(
    grad: Tensor, x: Tensor | None, bias: Tensor | None, bits: Tensor | None, act: str, threshold: int,
    seed: Tensor | None, site: int, row_ids: Tensor | None, want_x: bool, want_bias: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    dx = grad.new_empty(grad.shape if want_x else 0)
    return dx, grad.new_empty(grad.shape[1] if want_bias else 0, dtype=wide_dtype(grad))


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, bias, _, act, threshold, seed, site, row_ids, keep_bits = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)
    ctx.constants = (act, threshold, site)
    gelu, relu = act == "gelu", act == "relu"
    save(
        ctx, _OP,
        ("x", Role.BOUNDED, x if gelu else None), ("bias", Role.EXACT, bias if gelu else None),
        ("bits", Role.EXACT, output[1] if keep_bits else None),
        # relu's bits hold the mask already.
        ("seed", Role.EXACT, None if relu else seed), ("row_ids", Role.EXACT, None if relu else row_ids),
    )  # fmt: skip


def _backward(ctx: Any, grad: Tensor | None, _: None) -> tuple[Any, ...]:
    act, threshold, site = ctx.constants
    x, bias, bits, seed, row_ids = saved(ctx)
    want_x, want_bias, want_residual = ctx.needs_input_grad[:3]
    if grad is None:
        return (None,) * 9
    dx = dbias = None
    passes = act == "none" and threshold == 0  # then x's gradient is the output's
    if want_bias or (want_x and not passes):
        given, dbias = _grads(
            grad, x, bias, bits, act, threshold, seed, site, row_ids, want_x and not passes, want_bias
        )
        dx = given if want_x and not passes else None
    if want_x and passes:
        dx = grad
    return dx, dbias if want_bias else None, grad if want_residual else None, None, None, None, None, None, None


_forward.register_autograd(_backward, setup_context=_setup_context)
