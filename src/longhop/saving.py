"""What ops keep for backward, and how much noise each kept tensor bears.

Ops, layouts and layers save through :func:`save`; with nothing installed that is plain
``ctx.save_for_backward``. The memory package installs a :class:`Packer` for the length of a
with-block. Backward reads what forward left in ``ctx`` (:func:`saved`), never the ContextVar, so it
runs right whether or not the block is still open.
"""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from torch import Tensor


class Role(Enum):
    """How much noise a saved tensor bears (unbiased noise; see docs/design/saving.md)."""

    EXACT = "exact"
    """lse, statistics, indices, masks: lossless storage only."""
    EXPONENTIAL = "exponential"
    """q and k of a softmax: noise is exponentiated."""
    BOUNDED = "bounded"
    """Inputs of smooth activations."""
    LINEAR = "linear"
    """Backward is linear in the tensor: unbiased storage gives unbiased gradients."""


class Packer(Protocol):
    """Turns a saved tensor into something smaller and back."""

    def pack(self, tensor: Tensor, role: Role, name: str) -> Any:
        """Return what is kept in place of ``tensor``; the tensor itself to keep it as it is."""

    def unpack(self, packed: Any) -> Tensor:
        """Return the tensor that :meth:`pack` was given, exactly or in expectation."""


_packer: ContextVar[Packer | None] = ContextVar("longhop_packer", default=None)


@contextlib.contextmanager
def installed(packer: Packer) -> Iterator[Packer]:
    """Save through ``packer`` inside the with-block."""
    token = _packer.set(packer)
    try:
        yield packer
    finally:
        _packer.reset(token)


@dataclass(frozen=True)
class _Packed:
    packer: Packer
    entries: list[Any]


def save(ctx: Any, op: str, *entries: tuple[str, Role, Tensor | None]) -> None:
    """Keep ``entries`` = (name, role, tensor or None) in ``ctx`` for backward.

    Args:
        ctx: the autograd context.
        op: name of the op; saved tensors are known as ``op.name``.
        entries: what to keep, in the order in which :func:`saved` returns it.
    """
    packer = _packer.get()
    if packer is None:
        ctx.longhop_packed = None
        ctx.save_for_backward(*(tensor for _, _, tensor in entries))
        return
    kept = [None if t is None else packer.pack(t, role, f"{op}.{name}") for name, role, t in entries]
    # What was kept as a tensor goes through autograd, so that its version is checked.
    ctx.save_for_backward(*(k if isinstance(k, Tensor) else None for k in kept))
    ctx.longhop_packed = _Packed(packer, [None if isinstance(k, Tensor) else k for k in kept])


def saved(ctx: Any) -> tuple[Tensor | None, ...]:
    """The tensors given to :func:`save`, in order, from ``ctx`` alone."""
    tensors = ctx.saved_tensors
    packed = ctx.longhop_packed
    if packed is None:
        return tuple(tensors)
    return tuple(
        packed.packer.unpack(entry) if entry is not None else tensor
        for tensor, entry in zip(tensors, packed.entries, strict=True)
    )
