"""edge_softmax as registered ops: checks, autograd. Saved for backward: the weights, which are the output."""

from typing import Any

import torch
from torch import Tensor

from longhop.ops import dispatch
from longhop.ops.checks import check_devices, check_matrix, check_offsets, wide_dtype
from longhop.ops.edge_softmax import native_impl, reference
from longhop.saving import Role, save, saved

_OP = "edge_softmax"


def edge_softmax(rowptr: Tensor, scores: Tensor) -> Tensor:
    """Softmax over the pairs of each row, head by head.

    Args:
        rowptr: int64 [N + 1].
        scores: fp32 or bf16 [E, H] (fp64 through the reference), any strides. -inf counts as absent: weight
            0 and gradient 0, also when a row has nothing else.

    Returns:
        [E, H] in the type of ``scores``, contiguous; computed in fp32 around each row's maximum.

    Raises:
        InputError: shapes or types that do not fit together.
        RuntimeError: offsets that do not rise from 0 to E.
    """
    check_devices(_OP, rowptr, scores)
    check_offsets(_OP, "rowptr", rowptr)
    check_matrix(_OP, "scores", scores)
    out: Tensor = _forward(rowptr, scores)
    return out


@torch.library.custom_op("longhop::edge_softmax", mutates_args=())
def _forward(rowptr: Tensor, scores: Tensor) -> Tensor:
    if dispatch.choose(_OP, scores) == "native":
        return native_impl.edge_softmax(rowptr, scores)
    return reference.edge_softmax(rowptr, scores.to(wide_dtype(scores))).to(scores.dtype).contiguous()


@_forward.register_fake
def _(rowptr: Tensor, scores: Tensor) -> Tensor:
    return scores.new_empty(scores.shape)


@torch.library.custom_op("longhop::edge_softmax_backward", mutates_args=())
def _grad_scores(rowptr: Tensor, grad: Tensor, weights: Tensor) -> Tensor:
    if dispatch.choose(_OP, grad, weights) == "native":
        return native_impl.backward(rowptr, grad, weights)
    wide = wide_dtype(grad)
    return reference.backward(rowptr, grad.to(wide), weights.to(wide)).to(grad.dtype).contiguous()


@_grad_scores.register_fake
def _(rowptr: Tensor, grad: Tensor, weights: Tensor) -> Tensor:
    return grad.new_empty(grad.shape)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    save(ctx, _OP, ("rowptr", Role.EXACT, inputs[0]), ("weights", Role.EXACT, output))


def _backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
    rowptr, weights = saved(ctx)
    return None, _grad_scores(rowptr, grad, weights)


_forward.register_autograd(_backward, setup_context=_setup_context)
