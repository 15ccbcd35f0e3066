"""A renumbering of the nodes."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from longhop.types import InputError


@dataclass(frozen=True, eq=False)
class Order:
    """A renumbering of the nodes; never changes results, only where things lie in memory.

    Attributes:
        perm: int64 [N], ``perm[new] = old``.

    Raises:
        InputError: ``perm`` is not a permutation of 0 .. N - 1.
    """

    perm: Tensor
    _inverse: Tensor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        perm = self.perm
        if perm.dtype != torch.int64 or perm.dim() != 1:
            raise InputError(f"an order must be int64 [N], got {perm.dtype} {list(perm.shape)}")
        size = perm.numel()
        if size and not bool(((perm >= 0) & (perm < size)).all()):
            raise InputError(f"an order of {size} nodes must hold ids 0 .. {size - 1} only")
        inverse = torch.full_like(perm, -1).scatter_(0, perm, torch.arange(size))
        if size and int(inverse.min()) < 0:
            raise InputError(f"an order must name every node once; node {int(inverse.argmin())} is missing")
        object.__setattr__(self, "_inverse", inverse)

    def __len__(self) -> int:
        return self.perm.numel()

    def inverse(self) -> Tensor:
        """int64 [N]: the new number of every old node, ``inverse[old] = new``."""
        return self._inverse

    def apply(self, x: Tensor) -> Tensor:
        """Rows [N, ...] from the old order into the new one."""
        return x[self.perm]

    def undo(self, x: Tensor) -> Tensor:
        """Rows [N, ...] from the new order back into the old one."""
        return x[self._inverse]
