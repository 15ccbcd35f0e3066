"""A Linear over very many rows on the CPU, with the layer norm or activation before it and the dropout behind it.

A graph's Linears have a million rows and a few dozen columns, a shape that general matrix products are not made for.
The kernel keeps the packed weight and a block of rows in cache, writes past the cache, and its backward pass reads
the output's gradient once for all gradients. What stands around the product happens to a block while it is in cache:
it costs no pass over memory, and nothing of it is saved.
"""

import math
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from longhop import env
from longhop.ops import dispatch, native
from longhop.ops.checks import FLOATING_DTYPES, check_devices, check_mask, check_vector
from longhop.ops.fused_block import bias_act_dropout_residual
from longhop.ops.fused_block.reference import Dropout
from longhop.ops.linear import native_impl, reference
from longhop.ops.linear.reference import Before, Wants
from longhop.ops.philox import drop_threshold
from longhop.saving import Role, save, saved
from longhop.types import InputError

_OP = "linear"
_ACTS = ("none", "relu", "gelu")

LayerNorm = tuple[Tensor, Tensor, float]
"""Weight [F], bias [F] and eps of a layer norm over the last axis."""


def linear(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, residual: Tensor | None = None, *,
    norm: LayerNorm | None = None, act: Literal["none", "relu", "gelu"] = "none", dropout: float = 0.0,
    seed: Tensor | None = None, site: int = 0, row_ids: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``dropout(f(x) @ weight.T + bias) + residual``, f a layer norm, an activation or nothing.

    In fp32 with two axes on the CPU, one pass over memory each way that saves x alone. All else goes through the
    same formula in several ops.

    Args:
        x: floating [..., F].
        weight: [K, F].
        bias: None or [K].
        residual: None, or as the result in shape; the result takes its type.
        norm: normalise x first: (weight [F], bias [F], eps). Not together with act.
        act: relu or gelu (the exact one) of x first.
        dropout: probability in [0, 1) of dropping an element of the product, rounded to a multiple of 2^-16.
        seed: int64 tensor of one element; needed with dropout.
        site: number of the call within a step, 0 to 2^32 - 1: different sites have independent masks.
        row_ids: int64, one a row: identities behind the mask; row numbers when None.

    Returns:
        [..., K].

    Raises:
        InputError: options that do not fit together.
        RuntimeError: shapes or types that do not fit together, as torch says it.
    """
    threshold = drop_threshold(dropout)
    _check(x, weight, residual, norm, act, threshold, seed, site, row_ids)
    gamma, beta, eps = (None, None, 0.0) if norm is None else norm
    seed, row_ids = (seed, row_ids) if threshold else (None, None)
    given = [t for t in (x, weight, bias, residual, gamma, beta) if t is not None]
    ours = x.dim() == weight.dim() == 2 and all(t.device.type == "cpu" and t.dtype == torch.float32 for t in given)
    if ours and not torch.is_autocast_enabled("cpu"):
        out: Tensor = _forward(x, weight, bias, residual, gamma, beta, eps, act, threshold, seed, site, row_ids)
        return out
    if gamma is not None:
        x = F.layer_norm(x, gamma.shape, gamma, beta, eps)
    x = bias_act_dropout_residual(x, act=act)
    if residual is None and threshold == 0:
        return F.linear(x, weight, bias)
    out = F.linear(x, weight)
    # Under autocast a product comes in bfloat16 while the residual stream is float32.
    out = out if residual is None else out.to(residual.dtype)
    return bias_act_dropout_residual(out, bias, residual, dropout=dropout, seed=seed, site=site, row_ids=row_ids)


def _check(
    x: Tensor, weight: Tensor, residual: Tensor | None, norm: LayerNorm | None, act: str, threshold: int,
    seed: Tensor | None, site: int, row_ids: Tensor | None,
) -> None:  # fmt: skip
    if act not in _ACTS:
        raise InputError(f"{_OP}: act must be one of {', '.join(_ACTS)}, got {act!r}")
    if norm is not None:
        if act != "none":
            raise InputError(f"{_OP}: norm and act = {act!r} cannot be combined: apply one of them before")
        for name, vector in zip(("the norm's weight", "the norm's bias"), norm[:2], strict=True):
            check_vector(_OP, name, vector, x.shape[-1], FLOATING_DTYPES)
        check_devices(_OP, x, *norm[:2])
    if residual is not None and residual.shape != (*x.shape[:-1], weight.shape[0]):
        want = [*x.shape[:-1], weight.shape[0]]
        raise InputError(f"{_OP}: residual must be as the result, {want}, got {list(residual.shape)}")
    check_devices(_OP, x, residual, seed, row_ids)
    check_mask(_OP, math.prod(x.shape[:-1]), threshold, seed, site, row_ids)


def _native(*tensors: Tensor | None) -> bool:
    """Whether our kernels serve the call: those without AVX2 only where that build was asked for by name."""
    if dispatch.choose(_OP, *tensors) != "native":
        return False
    library = native.library()
    return library is not None and (library.isa != "baseline" or env.isa() is not None)


@torch.library.custom_op("longhop::linear", mutates_args=())
def _forward(
    x: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None, gamma: Tensor | None,
    beta: Tensor | None, eps: float, act: str, threshold: int, seed: Tensor | None, site: int,
    row_ids: Tensor | None,
) -> Tensor:  # fmt: skip
    before, drop = Before(act, gamma, beta, eps), Dropout(threshold, seed, site, row_ids)
    fits = x.shape[1:] == weight.shape[1:] and (bias is None or bias.shape == weight.shape[:1])
    if fits and _native(x, weight, bias):
        return native_impl.forward(x, weight, bias, before, residual, drop)
    return reference.forward(x, weight, bias, before, residual, drop)  # says what does not fit


@_forward.register_fake
def _(
    x: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None, gamma: Tensor | None,
    beta: Tensor | None, eps: float, act: str, threshold: int, seed: Tensor | None, site: int,
    row_ids: Tensor | None,
) -> Tensor:  # fmt: skip
    return x.new_empty(x.shape[0], weight.shape[0])


@torch.library.custom_op("longhop::linear_backward", mutates_args=())
def _grads(
    grad: Tensor, x: Tensor | None, weight: Tensor | None, gamma: Tensor | None, beta: Tensor | None, eps: float,
    act: str, threshold: int, seed: Tensor | None, site: int, row_ids: Tensor | None, want_x: bool,
    want_weight: bool, want_bias: bool, want_norm: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of x, weight, bias, gamma and beta; an empty tensor for what is not wanted."""
    before, drop = Before(act, gamma, beta, eps), Dropout(threshold, seed, site, row_ids)
    wants = Wants(want_x, want_weight, want_bias, want_norm)
    fits = (x is None or len(x) == len(grad)) and (weight is None or len(weight) == grad.shape[1])
    if fits and (x is None or weight is None or x.shape[1] == weight.shape[1]) and _native(grad, x, weight):
        return native_impl.backward(grad, x, weight, before, drop, wants)
    return reference.backward(grad, x, weight, before, drop, wants)


@_grads.register_fake
def _(
    grad: Tensor, x: Tensor | None, weight: Tensor | None, gamma: Tensor | None, beta: Tensor | None, eps: float,
    act: str, threshold: int, seed: Tensor | None, site: int, row_ids: Tensor | None, want_x: bool,
    want_weight: bool, want_bias: bool, want_norm: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    none = grad.new_empty(0)
    dx = grad.new_empty(grad.shape[0], weight.shape[1]) if want_x and weight is not None else none
    dweight = grad.new_empty(grad.shape[1], x.shape[1]) if want_weight and x is not None else none
    norm = [grad.new_empty(gamma.shape[0]) if want_norm and gamma is not None else none.clone() for _ in range(2)]
    return dx, dweight, grad.new_empty(grad.shape[1]) if want_bias else none, norm[0], norm[1]


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, _, _, gamma, beta, eps, act, threshold, seed, site, row_ids = inputs
    want_x, want_weight, want_bias, _, want_gamma, want_beta = ctx.needs_input_grad[:6]
    plain = gamma is None and act == "none"
    back = want_x or want_gamma or want_beta
    needs_x = want_weight or (back and not plain)
    needs_mask = back or want_weight or want_bias
    ctx.constants = (eps, act, threshold, site)
    save(
        ctx, _OP,
        ("x", Role.LINEAR if plain else Role.BOUNDED, x if needs_x else None),
        ("weight", Role.EXACT, weight if back else None),
        ("gamma", Role.EXACT, gamma if needs_x else None), ("beta", Role.EXACT, beta if needs_x else None),
        ("seed", Role.EXACT, seed if needs_mask else None), ("row_ids", Role.EXACT, row_ids if needs_mask else None),
    )  # fmt: skip


def _backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    eps, act, threshold, site = ctx.constants
    x, weight, gamma, beta, seed, row_ids = saved(ctx)
    want_x, want_weight, want_bias, want_residual, want_gamma, want_beta = ctx.needs_input_grad[:6]
    grads: list[Tensor | None] = [None] * 5
    if want_x or want_weight or want_bias or want_gamma or want_beta:
        wants = (want_x, want_weight, want_bias, want_gamma or want_beta)
        grads = list(_grads(grad, x, weight, gamma, beta, eps, act, threshold, seed, site, row_ids, *wants))
    given = (want_x, want_weight, want_bias, want_gamma, want_beta)
    dx, dweight, dbias, dgamma, dbeta = (g if wish else None for g, wish in zip(grads, given, strict=True))
    return dx, dweight, dbias, grad if want_residual else None, dgamma, dbeta, None, None, None, None, None, None


_forward.register_autograd(_backward, setup_context=_setup_context)
