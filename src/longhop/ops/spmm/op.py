"""spmm as registered ops: checks, sum and mean. Maximum is in max_op.py.

With A the graph's (weighted) adjacency, out = A x, so dx = A^T dout and dw_e = dout_i . x_j of pair e = (i, j):
x is saved only where the weights want a gradient.
"""

from typing import Any, Literal

import torch
from torch import Tensor

from longhop.ops import dispatch
from longhop.ops.checks import (
    FLOATING_DTYPES,
    INDEX_DTYPES,
    check_devices,
    check_matrix,
    check_offsets,
    check_reduction,
    check_vector,
    wide_dtype,
    winner_bits,
)
from longhop.ops.spmm import max_op, native_impl, reference
from longhop.saving import Role, save, saved
from longhop.types import InputError

_OP = "spmm"


def spmm(
    rowptr: Tensor, col: Tensor, t_rowptr: Tensor, t_col: Tensor, perm: Tensor, x: Tensor,
    weight: Tensor | None = None, reduce: Literal["sum", "mean", "max"] = "sum",
    k_ids: Tensor | None = None, max_degree: int | None = None,
) -> Tensor:  # fmt: skip
    """Reduce ``weight[e] * x[col[e]]`` over the pairs e of each row.

    Args:
        rowptr: int64 [Nq + 1], rows are queries.
        col: int32 or int64 [E], key of each pair.
        t_rowptr: int64 [Nk + 1], the transposed graph, used by backward; so are ``t_col`` and ``perm``.
        t_col: int32 or int64 [E], query of each pair.
        perm: [E] in t_col's type, position of each transposed pair in ``col``.
        x: fp32 or bf16 [Nk, F] (fp64 through the reference), any strides; summed in fp32.
        weight: floating [E] in col's order; None counts every pair once.
        reduce: ``mean`` divides by the number of pairs, ``max`` takes the largest product, a tie going to the
            pair of the smallest identity. An empty row gives 0 and passes no gradient.
        k_ids: int64 [Nk], identities that decide ties of ``max``; None takes the order within the row.
        max_degree: length of the longest row, which fixes how ``max`` keeps its winners; None counts it.

    Returns:
        [Nq, F] in x's type, contiguous; the same bits for any number of threads.

    Raises:
        InputError: shapes or types that do not fit together; the message names them.
        RuntimeError: offsets, columns or ``perm`` that point outside.
    """
    _check(rowptr, col, t_rowptr, t_col, perm, x, weight, k_ids)
    check_reduction(_OP, reduce)
    # Kernels take one type of weights; the conversion carries their gradient.
    weight = None if weight is None else weight.to(wide_dtype(x))
    graph = (rowptr, col, t_rowptr, t_col, perm)
    if reduce == "max":
        return max_op.spmm_max(*graph, x, weight, k_ids, winner_bits(rowptr, max_degree))
    out: Tensor = _forward(*graph, x, weight, reduce == "mean")
    return out


def _check(
    rowptr: Tensor, col: Tensor, t_rowptr: Tensor, t_col: Tensor, perm: Tensor, x: Tensor,
    weight: Tensor | None, k_ids: Tensor | None,
) -> None:  # fmt: skip
    check_devices(_OP, rowptr, col, t_rowptr, t_col, perm, x, weight, k_ids)
    check_offsets(_OP, "rowptr", rowptr)
    check_offsets(_OP, "t_rowptr", t_rowptr)
    check_matrix(_OP, "x", x)
    if t_rowptr.shape[0] != x.shape[0] + 1:
        raise InputError(f"{_OP}: the graph has {t_rowptr.shape[0] - 1} keys, x has {x.shape[0]} rows")
    num_pairs = col.shape[0] if col.dim() else 0
    check_vector(_OP, "col", col, num_pairs, INDEX_DTYPES)
    check_vector(_OP, "t_col", t_col, num_pairs, INDEX_DTYPES)
    check_vector(_OP, "perm", perm, num_pairs, (t_col.dtype,))
    if weight is not None:
        check_vector(_OP, "weight", weight, num_pairs, FLOATING_DTYPES)
    if k_ids is not None:
        check_vector(_OP, "k_ids", k_ids, x.shape[0], (torch.int64,))


@torch.library.custom_op("longhop::spmm", mutates_args=())
def _forward(
    rowptr: Tensor, col: Tensor, t_rowptr: Tensor, t_col: Tensor, perm: Tensor, x: Tensor,
    weight: Tensor | None, mean: bool,
) -> Tensor:  # fmt: skip
    if dispatch.choose(_OP, x, weight) == "native":
        return native_impl.spmm(rowptr, col, x, weight, mean=mean)
    return reference.spmm(rowptr, col, x.to(wide_dtype(x)), weight, mean=mean).to(x.dtype)


@_forward.register_fake
def _(
    rowptr: Tensor, col: Tensor, t_rowptr: Tensor, t_col: Tensor, perm: Tensor, x: Tensor,
    weight: Tensor | None, mean: bool,
) -> Tensor:  # fmt: skip
    return x.new_empty(rowptr.shape[0] - 1, x.shape[1])


@torch.library.custom_op("longhop::spmm_grad_x", mutates_args=())
def _grad_x(
    rowptr: Tensor, t_rowptr: Tensor, t_col: Tensor, perm: Tensor, grad: Tensor, weight: Tensor | None, mean: bool
) -> Tensor:
    if dispatch.choose(_OP, grad, weight) == "native":
        return native_impl.grad_x(rowptr, t_rowptr, t_col, perm, grad, weight, mean)
    wide = grad.to(wide_dtype(grad))
    return reference.grad_x(rowptr, t_rowptr, t_col, perm, wide, weight, mean).to(grad.dtype)


@_grad_x.register_fake
def _(
    rowptr: Tensor, t_rowptr: Tensor, t_col: Tensor, perm: Tensor, grad: Tensor, weight: Tensor | None, mean: bool
) -> Tensor:
    return grad.new_empty(t_rowptr.shape[0] - 1, grad.shape[1])


@torch.library.custom_op("longhop::spmm_grad_weight", mutates_args=())
def _grad_weight(rowptr: Tensor, col: Tensor, grad: Tensor, x: Tensor, mean: bool) -> Tensor:
    if dispatch.choose(_OP, grad, x) == "native":
        return native_impl.grad_weight(rowptr, col, grad, x, mean)
    wide = wide_dtype(x)
    return reference.grad_weight(rowptr, col, grad.to(wide), x.to(wide), mean)


@_grad_weight.register_fake
def _(rowptr: Tensor, col: Tensor, grad: Tensor, x: Tensor, mean: bool) -> Tensor:
    return x.new_empty(col.shape[0], dtype=wide_dtype(x))


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    rowptr, col, t_rowptr, t_col, perm, x, weight, ctx.mean = inputs
    graph = zip(("rowptr", "col", "t_rowptr", "t_col", "perm"), (rowptr, col, t_rowptr, t_col, perm), strict=True)
    ctx.set_materialize_grads(False)
    save(
        ctx, _OP,
        *((name, Role.EXACT, tensor) for name, tensor in graph),
        ("x", Role.LINEAR, x if ctx.needs_input_grad[6] else None), ("weight", Role.EXACT, weight),
    )  # fmt: skip


def _backward(ctx: Any, grad: Tensor | None) -> tuple[Any, ...]:
    rowptr, col, t_rowptr, t_col, perm, x, weight = saved(ctx)
    dx = dweight = None
    if grad is not None and ctx.needs_input_grad[5]:
        dx = _grad_x(rowptr, t_rowptr, t_col, perm, grad, weight, ctx.mean)
    if grad is not None and ctx.needs_input_grad[6]:
        dweight = _grad_weight(rowptr, col, grad, x, ctx.mean)
    return None, None, None, None, None, dx, dweight, None


_forward.register_autograd(_backward, setup_context=_setup_context)
