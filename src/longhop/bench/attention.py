"""Who computes graph attention, and ``longhop bench attention``."""

import contextlib
import functools
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from longhop.bench import checks, peers
from longhop.bench.attention_case import (
    DTYPES,
    NOISE,
    AttentionOptions,
    AttentionProblem,
    at_rows,
    in_peer_order,
    oracle,
    tolerance,
)
from longhop.bench.bound import GatherBound, Sweep, why_not
from longhop.bench.cases import BenchGraph, choose, leave_out, make_graph, small_like, why_no_reference
from longhop.bench.dgl import DglProvider, save_case
from longhop.bench.measure import AutogradProvider, Mode, Provider, extra_peak
from longhop.bench.results import Report
from longhop.bench.timing import (
    Case,
    first_run,
    lacks_memory,
    measure,
    peak_of,
    set_up,
    times_over,
)
from longhop.layout import graph_attention
from longhop.ops.dispatch import use_backend
from longhop.types import InputError

KERNEL = "graph_attention"

Make = Callable[[AttentionProblem], AutogradProvider]


def native(problem: AttentionProblem, name: str = "native") -> AutogradProvider:
    """Our op, with the table and the dropout of the problem."""
    q, k, v = problem.qkv()
    table = None if problem.table is None else problem.table.detach().requires_grad_()
    bias = None if table is None or problem.pair_type is None else (problem.pair_type, table)

    def forward() -> torch.Tensor:
        out = graph_attention(q, k, v, problem.layout, bias=bias, dropout=problem.dropout, seed=problem.seed)
        assert isinstance(out, torch.Tensor)
        return out

    inputs = (q, k, v) if table is None else (q, k, v, table)
    return AutogradProvider(name, forward, inputs, problem.dout_heads())


def reference(problem: AttentionProblem) -> AutogradProvider:
    """Our op on its reference path."""
    ours = native(problem, "reference")
    return replace(ours, context=lambda: use_backend("reference"))


def gather_scatter(problem: AttentionProblem) -> AutogradProvider:
    """Plain torch."""
    q, k, v = problem.separate()
    edges = problem.given.graph.edge_index()
    forward = functools.partial(peers.gather_scatter_attention, q, k, v, edges)
    return AutogradProvider("torch", forward, (q, k, v), problem.dout_heads().contiguous())


def pyg(problem: AttentionProblem) -> AutogradProvider:
    """PyG's TransformerConv after its projections."""
    q, k, v = problem.separate()
    attend = peers.transformer_conv_attention(q.shape[1], q.shape[2], problem.given.graph.edge_index())
    forward = functools.partial(attend, q, k, v)
    return AutogradProvider("pyg", forward, (q, k, v), problem.dout_heads().contiguous())


def plain(problem: AttentionProblem) -> AutogradProvider:
    """Our op without table and dropout."""
    return native(replace(problem, pair_type=None, table=None, dropout=0.0), "native-plain")


def single(problem: AttentionProblem) -> AutogradProvider:
    """Our op in float32 where the problem is stored in bfloat16."""
    wide = replace(problem, packed=problem.packed.float(), dout=problem.dout.float())
    return native(wide, "native-f32")


_OURS: dict[str, Make] = {
    "native": native,
    "native-plain": plain,
    "native-f32": single,
    "reference": reference,
}
_PEERS: dict[str, Make] = {"torch": gather_scatter, "pyg": pyg}
PROVIDERS = ("native", "bound", *_PEERS, "reference")


def run(options: AttentionOptions) -> Report:
    """Check everybody, then time them in turn.

    Args:
        options: what to measure.

    Returns:
        A row for each provider and mode.

    Raises:
        InputError: options that contradict each other.
        CheckFailedError: somebody computes something else; nothing was timed.
    """
    with set_up(options), contextlib.ExitStack() as stack:
        original = make_graph(options.graph)
        given = original.ordered(options.order)
        names, notes = _participants(options, given)
        check_small(given, options, names)
        problem = AttentionProblem.make(given, options)
        others = problem
        if in_peer_order(given, options, original) is not given:
            others = AttentionProblem.make(in_peer_order(given, options, original), options)
        providers, peaks = _checked(problem, others, options, names, stack)
        bytes_bound: dict[Mode, int] = {}
        if "bound" in names:
            bound = gather_bound(problem)
            bytes_bound = bound.bytes()
            providers.insert(1, bound)
        case = Case(KERNEL, options, given.graph, f"{options.graph} {options.order}", bytes_bound, peaks)
        rows = measure(case, providers)
        return Report(rows, [*notes, *_notes(rows, options)])


def _participants(options: AttentionOptions, given: BenchGraph) -> tuple[list[str], list[str]]:
    """Names of all that take part, and why others do not."""
    if options.with_terms:
        if options.providers:
            raise InputError("--providers contradicts --dropout and --table (ours against ours); drop it")
        return ["native", "native-plain"], []
    pairs, size = given.graph.num_edges, DTYPES[options.dtype].itemsize
    numbers = options.heads * options.width
    reasons = {name: lacks_memory(pairs, numbers, size) for name in (*_PEERS, "reference")}
    reasons["reference"] = reasons["reference"] or why_no_reference(options, pairs)
    reasons["pyg"] = reasons["pyg"] or peers.why_no_pyg()
    reasons["bound"] = why_not(2 * numbers * size, given.graph.col)
    names, notes = leave_out(choose(options.providers, PROVIDERS), reasons)
    if options.dtype == "bf16":
        names.insert(1, "native-f32")
    return names, notes


def check_small(given: BenchGraph, options: AttentionOptions, names: list[str]) -> None:
    """Values and every gradient of every provider on a small graph of the same family.

    Raises:
        CheckFailedError: one is off.
    """
    nodes = max(200, min(given.graph.num_nodes // 2, 20_000, 400_000 // (options.heads * options.width)))
    problem = AttentionProblem.make(small_like(given, nodes), options)
    rows = torch.arange(problem.layout.num_rows)
    want = oracle(problem, checks.whole(problem.layout))
    for name, make in (_OURS | _PEERS).items():
        if name in names:
            provider = make(problem)
            wanted = oracle(_plain(problem), checks.whole(problem.layout)) if name == "native-plain" else want
            got = at_rows(provider.values(), rows)
            checks.compare_all(f"{name} on a small graph", got, wanted, tolerance(provider), NOISE)


def _plain(problem: AttentionProblem) -> AttentionProblem:
    return replace(problem, pair_type=None, table=None, dropout=0.0)


def _checked(
    problem: AttentionProblem,
    others: AttentionProblem,
    options: AttentionOptions,
    names: list[str],
    stack: contextlib.ExitStack,
) -> tuple[list[Provider], dict[str, int]]:
    """Providers that are right at sampled rows of the problem, warmed up, and their peaks."""
    sub = checks.sample(problem.layout, options.heads * options.width)
    want = oracle(problem, sub)
    place = others.given.rows(problem.given.order.perm[sub.rows])
    providers: list[Provider] = []
    peaks = {}
    for name, make in (_OURS | _PEERS).items():
        if name not in names:
            continue
        provider = make(others if name in _PEERS else problem)
        first = first_run(provider)
        rows = place if name in _PEERS else sub.rows
        wanted = oracle(_plain(problem), sub) if name == "native-plain" else want
        checks.compare_all(name, at_rows(first.values, rows), wanted, tolerance(provider), NOISE)
        peaks[name] = peak_of(first, "attention", options, name)
        providers.append(provider)
    if options.dgl or options.save_graph:
        file = options.save_graph or Path(stack.enter_context(tempfile.TemporaryDirectory())) / "case.npz"
        save_case(file, others, place, want)
        if options.dgl:
            providers.append(stack.enter_context(DglProvider(options.dgl, file)))
    return providers, peaks


def peak_alone(argument: dict[str, Any]) -> int:
    """Peak of one provider, for a process of its own; see :func:`longhop.bench.timing.peak_of`."""
    options = AttentionOptions(**argument["options"])
    with set_up(options):
        original = make_graph(options.graph)
        given = original.ordered(options.order)
        name = argument["provider"]
        graph = in_peer_order(given, options, original) if name in _PEERS else given
        return extra_peak((_OURS | _PEERS)[name](AttentionProblem.make(graph, options)).values)


def _sweep(problem: AttentionProblem, *, transposed: bool = False) -> Sweep:
    """A pass that reads the k|v row of every pair."""
    layout, size = problem.layout, problem.packed.element_size()
    rowptr, col = (layout.t_rowptr, layout.t_col) if transposed else (layout.rowptr, layout.col)
    row = problem.packed[:, 1:]
    return Sweep(rowptr, col, row, row.stride(0) * size, row[0].numel() * size)


def gather_bound(problem: AttentionProblem) -> GatherBound:
    """Forward reads the k|v row of every pair once; backward twice: by queries, then by keys."""
    return GatherBound([_sweep(problem)], [_sweep(problem), _sweep(problem, transposed=True)])


def _notes(rows: list[Any], options: AttentionOptions) -> list[str]:
    if not options.with_terms:
        return []
    times = times_over(rows, "native", "native-plain")
    return [f"dropout {options.dropout} and a table of {options.table} rows take {times} the plain time"]
