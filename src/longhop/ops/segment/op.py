"""segment as registered ops: checks, autograd. Saved for backward: nothing, or the winners of ``max``."""

from typing import Any, Literal

import torch
from torch import Tensor

from longhop.ops import dispatch
from longhop.ops.checks import (
    WINNER_DTYPES,
    check_devices,
    check_matrix,
    check_offsets,
    check_reduction,
    wide_dtype,
    winner_bits,
)
from longhop.ops.segment import native_impl, reference
from longhop.saving import Role, save, saved

_OP = "segment"


def segment(
    src: Tensor, rowptr: Tensor, reduce: Literal["sum", "mean", "max"] = "sum", max_degree: int | None = None
) -> Tensor:
    """Reduce rows ``rowptr[i]`` to ``rowptr[i + 1] - 1`` of ``src`` into row i.

    Args:
        src: fp32 or bf16 [E, F] (fp64 through the reference), any strides; summed in fp32.
        rowptr: int64 [N + 1].
        reduce: an empty segment gives 0 and passes no gradient; a tie of ``max`` goes to the first row.
        max_degree: longest segment, which fixes how ``max`` keeps its winners; None counts it.

    Returns:
        [N, F] in src's type, contiguous; the same bits for any number of threads.

    Raises:
        InputError: shapes or types that do not fit together.
        RuntimeError: offsets that do not rise from 0 to E.
    """
    check_devices(_OP, src, rowptr)
    check_matrix(_OP, "src", src)
    check_offsets(_OP, "rowptr", rowptr)
    check_reduction(_OP, reduce)
    bits = winner_bits(rowptr, max_degree) if reduce == "max" else 0
    out: Tensor = _forward(src, rowptr, reduce == "mean", bits)[0]
    return out


@torch.library.custom_op("longhop::segment", mutates_args=())
def _forward(src: Tensor, rowptr: Tensor, mean: bool, bits: int) -> tuple[Tensor, Tensor]:
    """Sum or mean where ``bits`` is 0 (the second result is empty), else the maximum and its winners."""
    if dispatch.choose(_OP, src) == "native":
        if bits:
            return native_impl.segment_max(rowptr, src, bits)
        return native_impl.segment(rowptr, src, mean), torch.empty(0, dtype=torch.uint8)
    wide = src.to(wide_dtype(src))
    if bits:
        out, winner = reference.segment_max(rowptr, wide)
        return out.to(src.dtype), winner.to(WINNER_DTYPES[bits])
    out = reference.segment(rowptr, wide, mean)
    return out.to(src.dtype), torch.empty(0, dtype=torch.uint8, device=src.device)


@_forward.register_fake
def _(src: Tensor, rowptr: Tensor, mean: bool, bits: int) -> tuple[Tensor, Tensor]:
    size = (rowptr.shape[0] - 1, src.shape[1])
    winner = src.new_empty(size if bits else 0, dtype=WINNER_DTYPES[bits or 8])
    return src.new_empty(size), winner


@torch.library.custom_op("longhop::segment_backward", mutates_args=())
def _grad_src(rowptr: Tensor, num_pairs: int, grad: Tensor, winner: Tensor | None, mean: bool) -> Tensor:
    if dispatch.choose(_OP, grad) == "native":
        return native_impl.backward(rowptr, num_pairs, grad, winner, mean)
    return reference.backward(rowptr, grad.to(wide_dtype(grad)), winner, mean).to(grad.dtype)


@_grad_src.register_fake
def _(rowptr: Tensor, num_pairs: int, grad: Tensor, winner: Tensor | None, mean: bool) -> Tensor:
    return grad.new_empty(num_pairs, grad.shape[1])


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    src, rowptr, mean, bits = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)
    ctx.mean, ctx.num_pairs = mean, src.shape[0]
    winner = output[1] if bits else None
    save(ctx, _OP, ("rowptr", Role.EXACT, rowptr), ("winner", Role.EXACT, winner))


def _backward(ctx: Any, grad: Tensor | None, _: None) -> tuple[Any, ...]:
    rowptr, winner = saved(ctx)
    dsrc = None if grad is None else _grad_src(rowptr, ctx.num_pairs, grad, winner, ctx.mean)
    return dsrc, None, None, None


_forward.register_autograd(_backward, setup_context=_setup_context)
