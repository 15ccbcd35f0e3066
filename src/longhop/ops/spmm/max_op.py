"""Maximum over a graph as registered ops.

Forward keeps the position of each winner in its row, in the narrowest integer; the gradient of an output goes
to its winner's x (times the pair's weight) and to its winner's weight (times x).
"""

from typing import Any

import torch
from torch import Tensor

from longhop.ops import dispatch
from longhop.ops.checks import WINNER_DTYPES, wide_dtype
from longhop.ops.spmm import native_impl, reference
from longhop.saving import Role, save, saved

_OP = "spmm_max"


def spmm_max(
    rowptr: Tensor, col: Tensor, t_rowptr: Tensor, t_col: Tensor, perm: Tensor, x: Tensor,
    weight: Tensor | None, k_ids: Tensor | None, bits: int,
) -> Tensor:  # fmt: skip
    """Largest ``weight[e] * x[col[e]]`` of each row, [Nq, F]; arguments as spmm's, which checked them.

    Args:
        rowptr: int64 [Nq + 1].
        col: [E].
        t_rowptr: int64 [Nk + 1].
        t_col: [E].
        perm: [E].
        x: [Nk, F].
        weight: [E] in the type that x is computed in, or None.
        k_ids: int64 [Nk] or None.
        bits: 8, 16 or 32, of a winner's position.
    """
    out: Tensor = _forward(rowptr, col, t_rowptr, t_col, perm, x, weight, k_ids, bits)[0]
    return out


@torch.library.custom_op("longhop::spmm_max", mutates_args=())
def _forward(
    rowptr: Tensor, col: Tensor, t_rowptr: Tensor, t_col: Tensor, perm: Tensor, x: Tensor,
    weight: Tensor | None, k_ids: Tensor | None, bits: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    if dispatch.choose(_OP, x, weight) == "native":
        return native_impl.spmm_max(rowptr, col, x, weight, k_ids, bits)
    out, winner = reference.spmm_max(rowptr, col, x.to(wide_dtype(x)), weight, k_ids)
    return out.to(x.dtype), winner.to(WINNER_DTYPES[bits])


@_forward.register_fake
def _(
    rowptr: Tensor, col: Tensor, t_rowptr: Tensor, t_col: Tensor, perm: Tensor, x: Tensor,
    weight: Tensor | None, k_ids: Tensor | None, bits: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    size = (rowptr.shape[0] - 1, x.shape[1])
    return x.new_empty(size), x.new_empty(size, dtype=WINNER_DTYPES[bits])


@torch.library.custom_op("longhop::spmm_max_grad_x", mutates_args=())
def _grad_x(
    rowptr: Tensor, col: Tensor, t_rowptr: Tensor, t_col: Tensor, perm: Tensor, grad: Tensor, winner: Tensor,
    weight: Tensor | None,
) -> Tensor:  # fmt: skip
    if dispatch.choose(_OP, grad, weight) == "native":
        return native_impl.max_grad_x(rowptr, t_rowptr, t_col, perm, grad, winner, weight)
    num_sources, wide = t_rowptr.shape[0] - 1, grad.to(wide_dtype(grad))
    return reference.max_grad_x(rowptr, col, num_sources, wide, winner.long(), weight).to(grad.dtype)


@_grad_x.register_fake
def _(
    rowptr: Tensor, col: Tensor, t_rowptr: Tensor, t_col: Tensor, perm: Tensor, grad: Tensor, winner: Tensor,
    weight: Tensor | None,
) -> Tensor:  # fmt: skip
    return grad.new_empty(t_rowptr.shape[0] - 1, grad.shape[1])


@torch.library.custom_op("longhop::spmm_max_grad_weight", mutates_args=())
def _grad_weight(rowptr: Tensor, col: Tensor, grad: Tensor, x: Tensor, winner: Tensor) -> Tensor:
    if dispatch.choose(_OP, grad, x) == "native":
        return native_impl.max_grad_weight(rowptr, col, grad, x, winner)
    wide = wide_dtype(x)
    return reference.max_grad_weight(rowptr, col, grad.to(wide), x.to(wide), winner.long())


@_grad_weight.register_fake
def _(rowptr: Tensor, col: Tensor, grad: Tensor, x: Tensor, winner: Tensor) -> Tensor:
    return x.new_empty(col.shape[0], dtype=wide_dtype(x))


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *graph, x, weight, _, _ = inputs
    names = ("rowptr", "col", "t_rowptr", "t_col", "perm")
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)
    save(
        ctx, _OP,
        *((name, Role.EXACT, tensor) for name, tensor in zip(names, graph, strict=True)),
        ("x", Role.LINEAR, x if ctx.needs_input_grad[6] else None), ("weight", Role.EXACT, weight),
        ("winner", Role.EXACT, output[1]),
    )  # fmt: skip


def _backward(ctx: Any, grad: Tensor | None, _: None) -> tuple[Any, ...]:
    rowptr, col, t_rowptr, t_col, perm, x, weight, winner = saved(ctx)
    dx = dweight = None
    if grad is not None and ctx.needs_input_grad[5]:
        dx = _grad_x(rowptr, col, t_rowptr, t_col, perm, grad, winner, weight)
    if grad is not None and ctx.needs_input_grad[6]:
        dweight = _grad_weight(rowptr, col, grad, x, winner)
    return None, None, None, None, None, dx, dweight, None, None


_forward.register_autograd(_backward, setup_context=_setup_context)
