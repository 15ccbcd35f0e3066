"""Which backend serves a call, and why another one did not."""

import contextlib
import functools
import warnings
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Literal

import torch
from torch import Tensor

from longhop import env
from longhop.ops import native

Backend = Literal["reference", "native"]
NATIVE_DTYPES = (torch.float32, torch.bfloat16)

_forced: ContextVar[Backend | None] = ContextVar("longhop_backend", default=None)


@contextlib.contextmanager
def use_backend(backend: Backend) -> Iterator[None]:
    """Serve every op inside the with-block by ``backend``; an op that cannot raises with the reason."""
    token = _forced.set(backend)
    try:
        yield
    finally:
        _forced.reset(token)


def not_supported_reasons(op: str, tensors: Sequence[Tensor | None]) -> list[str]:
    """Why the native CPU kernels cannot serve these inputs; empty when they can."""
    reasons = []
    for tensor in tensors:
        if tensor is None:
            continue
        if tensor.device.type != "cpu":
            reasons.append(f"{op}: native kernels run on cpu, got {tensor.device}")
        if tensor.dtype not in NATIVE_DTYPES:
            reasons.append(f"{op}: native kernels take float32 and bfloat16, got {tensor.dtype}")
    loaded = native.load()
    if isinstance(loaded, str):
        reasons.append(loaded)
    return sorted(set(reasons))


def choose(op: str, *tensors: Tensor | None) -> Backend:
    """The backend for this call: forced by :func:`use_backend` or ``LONGHOP_BACKEND``, else the fastest.

    Raises:
        RuntimeError: native was asked for and cannot serve the call; every reason is listed.
    """
    forced = _forced.get() or env.backend()
    if forced == "reference":
        return "reference"
    reasons = not_supported_reasons(op, tensors)
    if not reasons:
        return "native"
    if forced == "native":
        raise RuntimeError("; ".join(reasons))
    native.library()  # warns once when the library itself is missing
    if not any(t is not None and t.dtype == torch.float64 for t in tensors):
        _announce("; ".join(reasons))
    return "reference"


@functools.cache
def _announce(reason: str) -> None:
    """Say once that a slow path is taken; fp64 is an oracle's type and is not announced."""
    if isinstance(native.load(), native.NativeLibrary):
        warnings.warn(f"longhop takes its slow reference path: {reason}", RuntimeWarning, stacklevel=5)
