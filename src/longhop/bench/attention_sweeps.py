"""Attention beyond one width and one kind of graph: long rows, and all heads and widths."""

from dataclasses import replace
from typing import Any

from longhop.bench import checks
from longhop.bench.attention import KERNEL, check_small, native
from longhop.bench.attention_case import (
    DTYPES,
    NOISE,
    AttentionOptions,
    AttentionProblem,
    at_rows,
    oracle,
    tolerance,
)
from longhop.bench.cases import LOCAL, BenchGraph, make_graph, ring_graph, star_graph
from longhop.bench.measure import AutogradProvider
from longhop.bench.results import Report, Row
from longhop.bench.timing import Case, FirstRun, first_run, measure, set_up, times_over
from longhop.graph.generate import local_random
from longhop.types import InputError

LEAVES = 1_000_000
HEADS = (1, 3, 4, 6, 8, 32)
WIDTHS = (4, 8, 16, 32, 64, 128)
LINE = 64
_MOST_INPUT_BYTES = 1 << 30
_FAIR_FROM = 16
"""Heads x width from which a pair costs lines of memory rather than exp and loop overhead."""


def star(options: AttentionOptions, leaves: int = LEAVES) -> Report:
    """A hub of ``leaves`` neighbours against a ring with as many pairs.

    Args:
        options: heads, width, dtype, repeat; the graph and the order are not looked at.
        leaves: of the star.

    Returns:
        Rows of both, and how many times the ring's time the star takes.

    Raises:
        CheckFailedError: a value is off; nothing was timed.
    """
    _refuse_terms(options, "--star")
    with set_up(options):
        graphs = {"native": star_graph(leaves), "native-ring": ring_graph(leaves)}
        providers, peaks = [], {}
        for name, given in graphs.items():
            provider, first = _checked(given, options)
            providers.append(replace(provider, name=name))
            peaks[name] = first.peak
        hub = graphs["native"]
        rows = measure(Case(KERNEL, options, hub.graph, hub.name, {}, peaks), providers)
    times = times_over(rows, "native", "native-ring")
    return Report(rows, [f"a star of {leaves:,} leaves takes {times} the time of a ring of equal E"])


def widths(options: AttentionOptions, heads: tuple[int, ...] = HEADS, sizes: tuple[int, ...] = WIDTHS) -> Report:
    """Every number of heads with every width: time for each 64-byte line that the op must move.

    A pair moves the lines of its k|v row, in forward once, in forward and backward three times.

    Args:
        options: graph (one of the local ones), order, dtype, repeat; heads and width are not looked at.
        heads: numbers of heads.
        sizes: widths of a head.

    Returns:
        Two rows a case: milliseconds, and ns a line with the ratio to the best case.

    Raises:
        InputError: another graph.
        CheckFailedError: a value is off.
    """
    _refuse_terms(options, "--widths")
    if options.graph not in LOCAL:
        raise InputError(
            f"--widths contradicts --graph {options.graph}: wide rows need smaller graphs; take a local one"
        )
    rows: list[Row] = []
    with set_up(options):
        original = make_graph(options.graph)
        for h in heads:
            for d in sizes:
                chosen = replace(options, heads=h, width=d)
                given = _fitting(original, chosen).ordered(options.order)
                provider, first = _checked(given, chosen)
                case = Case(KERNEL, chosen, given.graph, f"H={h} D={d}", {}, {"native": first.peak})
                rows += [replace(row, x_name="widths", x_label="heads and width") for row in measure(case, [provider])]
    lines = _a_line(rows, options)
    return Report(rows + lines, _worst(lines))


def _checked(given: BenchGraph, options: AttentionOptions) -> tuple[AutogradProvider, FirstRun]:
    """Our op over a graph, right on a small one and at sampled rows."""
    check_small(given, options, ["native"])
    problem = AttentionProblem.make(given, options)
    sub = checks.sample(problem.layout, options.heads * options.width)
    provider = native(problem)
    first = first_run(provider)
    want = oracle(problem, sub)
    label = f"native on {given.name}, H = {options.heads}, D = {options.width}"
    checks.compare_all(label, at_rows(first.values, sub.rows), want, tolerance(provider), NOISE)
    return provider, first


def _fitting(original: BenchGraph, options: AttentionOptions) -> BenchGraph:
    """The graph, or a smaller one of its family when q, k and v would take more than a GiB."""
    size = DTYPES[options.dtype].itemsize
    nodes, degree = LOCAL[original.name]
    fit = _MOST_INPUT_BYTES // (3 * options.heads * options.width * size)
    return original if fit >= nodes else BenchGraph.natural(original.name, local_random(fit, degree))


def _a_line(rows: list[Row], options: AttentionOptions) -> list[Row]:
    """Nanoseconds a line of every case, forward and both, with the ratio to the best fair case."""
    size = DTYPES[options.dtype].itemsize
    found = []
    for mode, visits in (("fwd", 1), ("both", 3)):
        chosen = [row for row in rows if row.kernel_operation_mode == mode]
        cost: dict[str, float] = {}
        for row in chosen:
            h, d = _shape(row)
            cost[row.x_value] = 1e6 / (row.num_edges * visits * max(1.0, 2 * h * d * size / LINE))
        fair = [row for row in chosen if _is_fair(row)] or chosen
        best = min(row.y_value_50 * cost[row.x_value] for row in fair)
        for row in chosen:
            factor = cost[row.x_value]
            values: dict[str, Any] = {f"y_value_{p}": getattr(row, f"y_value_{p}") * factor for p in (50, 20, 80)}
            ratio = values["y_value_50"] / best
            found.append(replace(row, metric_name="time a line", metric_unit="ns", ratio=ratio, **values))
    return found


def _is_fair(row: Row) -> bool:
    heads, width = _shape(row)
    return heads * width >= _FAIR_FROM


def _worst(lines: list[Row]) -> list[str]:
    notes = []
    for mode in ("fwd", "both"):
        of_mode = [row for row in lines if row.kernel_operation_mode == mode]
        for fair, label in ((True, f"H D >= {_FAIR_FROM}"), (False, f"H D < {_FAIR_FROM}")):
            group = [row for row in of_mode if _is_fair(row) == fair]
            if group:
                worst = max(group, key=lambda row: row.ratio or 0.0)
                notes.append(f"{mode}, {label}: at most {worst.ratio:.2f}x the best time a line ({worst.x_value})")
    return notes


def _shape(row: Row) -> tuple[int, int]:
    heads, width = row.x_value.split()
    return int(heads.removeprefix("H=")), int(width.removeprefix("D="))


def _refuse_terms(options: AttentionOptions, flag: str) -> None:
    if options.with_terms or options.dgl or options.save_graph or options.providers:
        raise InputError(f"{flag} runs ours alone; drop --dropout, --table, --providers, --dgl and --save-graph")
