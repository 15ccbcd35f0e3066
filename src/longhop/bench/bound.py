"""What memory allows: a loop that gathers the rows an op must gather, and does nothing else."""

import time
from typing import NamedTuple

import torch
from torch import Tensor

from longhop.bench.measure import Mode, Seconds
from longhop.ops import native

DISTANCES = range(17)
_LANES = 64  # the loop's widths are multiples of this many floats


class Sweep(NamedTuple):
    """One pass over all pairs: row ``col[e]`` of ``x`` is read for each.

    Attributes:
        rowptr: int64 [N + 1].
        col: int32 [E].
        x: tensor whose first element is the first one read.
        stride: bytes from one row of ``x`` to the next.
        width: bytes read of a row.
    """

    rowptr: Tensor
    col: Tensor
    x: Tensor
    stride: int
    width: int

    @property
    def bytes(self) -> int:
        """Bytes that all pairs together read."""
        return self.col.numel() * self.width

    def seconds(self, distance: int) -> float:
        """Time of one pass that prefetches ``distance`` pairs ahead."""
        sink = torch.empty(1)
        start = time.perf_counter()
        native.call(
            "gather_bound",
            "pippiiiip",
            self.rowptr, self.rowptr.numel() - 1, self.col, self.x, self.stride // 4, self.width // 4, 1,
            distance, sink,
        )  # fmt: skip
        return time.perf_counter() - start

    def best_distance(self) -> int:
        """The prefetch distance whose better time of two is least."""
        return min(DISTANCES, key=lambda d: min(self.seconds(d), self.seconds(d)))


def why_not(width: int, col: Tensor) -> str:
    """Why the loop cannot run here; empty when it can.

    Args:
        width: bytes read of a row.
        col: of the graph.
    """
    if isinstance(native.load(), str):
        return "there is no native library"
    if width % (4 * _LANES) or col.dtype != torch.int32:
        return f"its loop reads multiples of {4 * _LANES} bytes through int32 columns"
    return ""


class GatherBound:
    """The bound as a provider.

    Args:
        forward: passes that the forward op cannot do without.
        backward: those of its backward.
    """

    name = "bound"

    def __init__(self, forward: list[Sweep], backward: list[Sweep]) -> None:
        self._forward = [(sweep, sweep.best_distance()) for sweep in forward]
        self._backward = [(sweep, sweep.best_distance()) for sweep in backward]

    def run(self) -> Seconds:
        """Each pass once."""
        forward = sum(sweep.seconds(distance) for sweep, distance in self._forward)
        backward = sum(sweep.seconds(distance) for sweep, distance in self._backward)
        return {"fwd": forward, "bwd": backward, "both": forward + backward}

    def bytes(self) -> dict[Mode, int]:
        """Bytes read, by mode."""
        forward = sum(sweep.bytes for sweep, _ in self._forward)
        backward = sum(sweep.bytes for sweep, _ in self._backward)
        return {"fwd": forward, "bwd": backward, "both": forward + backward}
