"""Uninitialised memory made visible: what longhop allocates starts as NaN."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch import Tensor

_PLACES = (
    (torch, "empty"),
    (torch, "empty_like"),
    (torch, "empty_strided"),
    (torch.Tensor, "new_empty"),
    (torch.Tensor, "new_empty_strided"),
)


def _poisoned(allocate: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def wrapper(*args: Any, **kwargs: Any) -> Tensor:
        out = allocate(*args, **kwargs)
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if caller.split(".")[0] == "longhop" and not isinstance(out, torch._subclasses.FakeTensor):
            value = torch.nan if out.is_floating_point() else torch.iinfo(out.dtype).max
            out.fill_(value)
        return out

    return wrapper


@contextlib.contextmanager
def poisoned_empty() -> Iterator[None]:
    """Inside the with-block, ``torch.empty`` and its kin called by longhop give NaN (largest integers).

    A kernel that leaves an element unwritten, or reads one before it is written, then shows in any result.
    """
    with contextlib.ExitStack() as stack:
        for place, name in _PLACES:
            stack.enter_context(mock.patch.object(place, name, _poisoned(getattr(place, name))))
        yield
