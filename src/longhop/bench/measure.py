"""Time and memory: providers take turns, so that what else the machine does hits all of them alike."""

import contextlib
import gc
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from longhop.train import allocator
from longhop.train.machine import peak_bytes

Mode = Literal["fwd", "bwd", "both", "epoch"]
MODES: tuple[Mode, ...] = ("fwd", "bwd", "both", "epoch")
Seconds = dict[Mode, float]

_CLEAR_REFS = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


class Provider(Protocol):
    """Something whose speed is measured."""

    @property
    def name(self) -> str:
        """As in the results."""

    def run(self) -> Seconds:
        """Work once; seconds of each mode that this provider has."""


class Timing(NamedTuple):
    """Quantiles of repeats [s]."""

    median: float
    p20: float
    p80: float

    @staticmethod
    def of(seconds: Sequence[float]) -> "Timing":
        """The quantiles of at least one measurement."""
        ordered = sorted(seconds)
        last = len(ordered) - 1
        return Timing(statistics.median(ordered), ordered[round(0.2 * last)], ordered[round(0.8 * last)])


@dataclass(frozen=True, eq=False)
class AutogradProvider:
    """A differentiable function of leaf tensors.

    Attributes:
        name: as in the results.
        forward: from nothing to the output.
        inputs: what to differentiate by.
        dout: gradient of the output, in the output's shape.
        context: entered around every call.
    """

    name: str
    forward: Callable[[], Tensor]
    inputs: tuple[Tensor, ...]
    dout: Tensor
    context: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext

    def run(self) -> Seconds:
        """One forward without autograd, then one with it and its backward."""
        with self.context():
            start = time.perf_counter()
            with torch.no_grad():
                out = self.forward()
            forward = time.perf_counter() - start
            del out
            start = time.perf_counter()
            out = self.forward()
            middle = time.perf_counter()
            grads = torch.autograd.grad(out, self.inputs, self.dout)
            end = time.perf_counter()
            del out, grads
        return {"fwd": forward, "bwd": end - middle, "both": end - start}

    def values(self) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The output and the gradient of every input."""
        with self.context():
            out = self.forward()
            grads = torch.autograd.grad(out, self.inputs, self.dout)
        return out.detach(), grads


WARM_UP = 2
"""Rounds until the allocator has found places for everybody's tensors: the first ones fault pages in."""


def alternate(providers: Sequence[Provider], repeat: int) -> dict[tuple[str, Mode], Timing]:
    """Run every provider ``repeat`` times, one after the other in each round, after rounds that are not counted.

    Args:
        providers: names distinct.
        repeat: rounds.

    Returns:
        Quantiles by provider and mode.
    """
    seconds: dict[tuple[str, Mode], list[float]] = {}
    for _ in range(WARM_UP):
        for provider in providers:
            provider.run()
    for _ in range(repeat):
        for provider in providers:
            for mode, value in provider.run().items():
                seconds.setdefault((provider.name, mode), []).append(value)
    return {key: Timing.of(values) for key, values in seconds.items()}


def can_measure_peak() -> bool:
    """Whether the peak of this process's memory can be set back to what it holds now."""
    try:
        _CLEAR_REFS.write_text(_RESET_PEAK)
    except OSError:
        return False
    return True


def extra_peak(run: Callable[[], object]) -> int:
    """Most memory [bytes] that ``run`` held beyond what the process held before.

    Meaningful where :func:`can_measure_peak`, or in a process that has done little else.
    """
    gc.collect()
    allocator.release()
    can_measure_peak()
    before = resident_bytes()
    run()
    return max(peak_bytes() - before, 0)


def resident_bytes() -> int:
    """Memory that this process holds now; 0 where the system does not say."""
    return _status("VmRSS")


def available_bytes() -> int:
    """Memory that a new allocation could take, the file cache included."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 1 << 62
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


def _status(name: str) -> int:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), 0)
