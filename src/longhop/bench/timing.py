"""From providers to rows of results: first run, peak memory, rounds, ratios."""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from longhop.bench import child
from longhop.bench.cases import CommonOptions
from longhop.bench.measure import (
    MODES,
    AutogradProvider,
    Mode,
    Provider,
    Timing,
    alternate,
    available_bytes,
    can_measure_peak,
    extra_peak,
)
from longhop.bench.results import Row, circumstances, graph_statistics
from longhop.graph.csr import CSRGraph
from longhop.train import allocator

Values = tuple[Tensor, tuple[Tensor, ...]]

_TEMPORARIES = 6
"""Tensors of E x (row of a node) that a gather/scatter forward and backward hold at once, about."""


class FirstRun(NamedTuple):
    """The run of a provider that its check looks at."""

    values: Values
    peak: int


def first_run(provider: AutogradProvider) -> FirstRun:
    """Forward and backward once, measuring the memory that they need beyond their inputs."""
    kept: list[Values] = []
    peak = extra_peak(lambda: kept.append(provider.values()))
    return FirstRun(kept[0], peak)


def peak_of(first: FirstRun, benchmark: str, options: CommonOptions, provider: str) -> int:
    """The provider's peak; from a process of its own where this one's peak cannot be set back.

    Args:
        first: its first run here.
        benchmark: module of this package with ``peak_alone``.
        options: of the run.
        provider: its name.
    """
    if can_measure_peak():
        return first.peak
    argument = {"options": dataclasses.asdict(options), "provider": provider}
    return int(child.call(f"longhop.bench.{benchmark}:peak_alone", argument))


@contextlib.contextmanager
def set_up(options: CommonOptions) -> Iterator[None]:
    """Threads and allocator as the options say; the number of threads is put back."""
    before = torch.get_num_threads()
    if options.threads:
        torch.set_num_threads(options.threads)
    if options.malloc == "train":
        allocator.set_up()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def lacks_memory(pairs: int, numbers: int, itemsize: int) -> str:
    """Why a provider that gathers a row for every pair cannot run here; empty when it can."""
    need = _TEMPORARIES * pairs * numbers * itemsize
    free = available_bytes()
    if need <= 0.8 * free:
        return ""
    return f"needs about {need / 2**30:.0f} GiB of memory, {free / 2**30:.0f} are free"


class Case(NamedTuple):
    """What the rows of one alternating measurement have in common.

    Attributes:
        kernel: name of what was measured.
        options: of the run.
        graph: measured on, None where there is none.
        x_value: name of the graph, or of another point of a series.
        bytes_bound: bytes that must be read, by mode.
        peaks: by provider.
    """

    kernel: str
    options: CommonOptions
    graph: CSRGraph | None
    x_value: str
    bytes_bound: dict[Mode, int]
    peaks: dict[str, int]


def measure(case: Case, providers: Sequence[Provider]) -> list[Row]:
    """Time providers in turn and make a row for each of their modes, ours (``native``) first."""
    return rows_of(case, alternate(providers, case.options.repeat))


def rows_of(case: Case, timings: dict[tuple[str, Mode], Timing]) -> list[Row]:
    """A row for every timing, providers in their order for each mode, with ratios to ours."""
    common = circumstances(case.options)
    if case.graph is not None:
        common |= graph_statistics(case.graph)
    names = dict.fromkeys(name for name, _ in timings)
    wanted = [(name, mode) for mode in MODES for name in names if (name, mode) in timings]
    return [_row(case, common, name, mode, timings) for name, mode in wanted]


def _row(case: Case, common: dict[str, Any], provider: str, mode: Mode, timings: dict[tuple[str, Mode], Timing]) -> Row:
    timing, ours = timings[provider, mode], timings.get(("native", mode))
    return Row(
        kernel_name=case.kernel,
        kernel_provider=provider,
        kernel_operation_mode=mode,
        x_value=case.x_value,
        y_value_50=timing.median * 1e3,
        y_value_20=timing.p20 * 1e3,
        y_value_80=timing.p80 * 1e3,
        ratio=timing.median / ours.median if ours is not None else None,
        bytes_bound=case.bytes_bound.get(mode),
        peak_bytes=case.peaks.get(provider),
        **common,
    )


def times_over(rows: list[Row], over: str, under: str) -> str:
    """Median of one provider over that of another in every mode, in words."""
    median = {(row.kernel_provider, row.kernel_operation_mode): row.y_value_50 for row in rows}
    modes = [mode for mode in MODES if (over, mode) in median]
    return ", ".join(f"{median[over, mode] / median[under, mode]:.2f}x ({mode})" for mode in modes)
