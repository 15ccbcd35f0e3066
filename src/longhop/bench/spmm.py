"""``longhop bench spmm``: sum, mean or maximum of neighbours' rows, as every graph convolution needs it."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from longhop.bench import checks, peers
from longhop.bench.bound import GatherBound, Sweep, why_not
from longhop.bench.cases import (
    BenchGraph,
    GraphOptions,
    choose,
    leave_out,
    make_graph,
    small_like,
    why_no_reference,
)
from longhop.bench.checks import SubProblem
from longhop.bench.measure import AutogradProvider, Mode, Provider, extra_peak
from longhop.bench.results import Report
from longhop.bench.timing import Case, first_run, lacks_memory, measure, peak_of, set_up
from longhop.layout import AttentionLayout, spmm
from longhop.ops.dispatch import use_backend
from longhop.types import InputError

KERNEL = "spmm"
Reduce = Literal["sum", "mean", "max"]
TOLERANCE = 1e-5
_SEED = 11


@dataclass(frozen=True, kw_only=True)
class SpmmOptions(GraphOptions):
    """Options of ``longhop bench spmm``.

    Raises:
        InputError: a value out of range.
    """

    width: int = 64
    """F, columns of x."""
    reduce: Reduce = "sum"
    """What becomes of a row's neighbours."""
    weighted: Literal["no", "yes"] = "no"
    """Whether pairs have constant weights, as in a GCN."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width < 1:
            raise InputError(f"--width must be at least 1, got {self.width}")
        if self.weighted == "yes" and self.reduce != "sum":
            raise InputError(f"--weighted yes contradicts --reduce {self.reduce}: weights go with sum; drop one")


@dataclass(frozen=True, eq=False)
class SpmmProblem:
    """One product and the gradient that comes back.

    Attributes:
        given: the graph.
        layout: its pairs.
        x: [N, F].
        dout: [N, F].
        weight: None or [E].
        reduce: the reduction.
    """

    given: BenchGraph
    layout: AttentionLayout
    x: Tensor
    dout: Tensor
    weight: Tensor | None
    reduce: Reduce

    @staticmethod
    def make(given: BenchGraph, options: SpmmOptions) -> "SpmmProblem":
        """Seeded inputs."""
        rng = torch.Generator().manual_seed(_SEED)
        x, dout = (torch.randn(given.graph.num_nodes, options.width, generator=rng) for _ in range(2))
        weight = torch.rand(given.graph.num_edges, generator=rng) if options.weighted == "yes" else None
        layout = AttentionLayout.from_graph(given.graph)
        return SpmmProblem(given, layout, x, dout, weight, options.reduce)


def native(problem: SpmmProblem) -> AutogradProvider:
    """Our op."""
    x = problem.x.detach().requires_grad_()
    forward = functools.partial(spmm, problem.layout, x, problem.weight, problem.reduce)
    return AutogradProvider("native", forward, (x,), problem.dout)


def reference(problem: SpmmProblem) -> AutogradProvider:
    """Our op on its reference path."""
    return replace(native(problem), name="reference", context=lambda: use_backend("reference"))


def torch_sparse(problem: SpmmProblem) -> AutogradProvider:
    """``torch.sparse.mm`` on CSR with int32 indices."""
    matrix = peers.sparse_matrix(problem.given.graph, problem.weight, torch.int32, problem.x.dtype)
    return _over("torch-sparse", problem, peers.sparse_product(matrix, problem.reduce))


def pyg_edge_index(problem: SpmmProblem) -> AutogradProvider:
    """PyG over ``edge_index``."""
    edges = problem.given.graph.edge_index()
    return _over("pyg-edge-index", problem, peers.pyg_messages(edges, problem.weight, problem.reduce))


def pyg_sparse(problem: SpmmProblem) -> AutogradProvider:
    """PyG over a torch.sparse ``adj_t``, int64 as PyG makes it."""
    matrix = peers.sparse_matrix(problem.given.graph, problem.weight, torch.int64, problem.x.dtype)
    return _over("pyg-sparse", problem, peers.pyg_product(matrix, problem.reduce))


def _over(name: str, problem: SpmmProblem, product: Callable[[Tensor], Tensor]) -> AutogradProvider:
    x = problem.x.detach().requires_grad_()
    return AutogradProvider(name, functools.partial(product, x), (x,), problem.dout)


_MAKERS: dict[str, Callable[[SpmmProblem], AutogradProvider]] = {
    "native": native,
    "torch-sparse": torch_sparse,
    "pyg-edge-index": pyg_edge_index,
    "pyg-sparse": pyg_sparse,
    "reference": reference,
}
PROVIDERS = ("native", "bound", *(name for name in _MAKERS if name != "native"))
_GATHERING = ("pyg-edge-index", "reference")


def run(options: SpmmOptions) -> Report:
    """Check everybody, then time them in turn.

    Args:
        options: what to measure.

    Returns:
        A row for each provider and mode.

    Raises:
        InputError: options that contradict each other.
        CheckFailedError: somebody computes something else; nothing was timed.
    """
    with set_up(options):
        given = make_graph(options.graph).ordered(options.order)
        problem = SpmmProblem.make(given, options)
        names, notes = _participants(options, problem)
        small = SpmmProblem.make(small_like(given, min(given.graph.num_nodes, 2000)), options)
        want = oracle(small, checks.whole(small.layout))
        for name in names:
            if name in _MAKERS:
                rows = torch.arange(small.layout.num_rows)
                got = _at_rows(_MAKERS[name](small), rows)
                checks.compare_all(f"{name} on a small graph", got, want, TOLERANCE)
        providers, peaks = _checked(problem, options, names)
        bytes_bound: dict[Mode, int] = {}
        if "bound" in names:
            bound = gather_bound(problem)
            bytes_bound = bound.bytes()
            providers.insert(1, bound)
        case = Case(KERNEL, options, given.graph, f"{options.graph} {options.order}", bytes_bound, peaks)
        return Report(measure(case, providers), notes)


def oracle(problem: SpmmProblem, sub: SubProblem) -> dict[str, Tensor]:
    """Out and dx [M, F] at the sampled rows, fp64, by gather and scatter in torch."""
    x = problem.x[sub.keys].double().requires_grad_()
    rows = x[sub.pairs.key]
    if problem.weight is not None:
        rows = rows * problem.weight[sub.entries].double()[:, None]
    index = sub.pairs.query[:, None].expand_as(rows)
    kind = {"sum": "sum", "mean": "mean", "max": "amax"}[problem.reduce]
    empty = torch.zeros(len(sub.queries), x.shape[1], dtype=torch.float64)
    out = empty.scatter_reduce(0, index, rows, kind, include_self=False)
    (dx,) = checks.gradients(out, [x], problem.dout[sub.queries].double())
    return {"out": out.detach()[sub.as_queries], "dx": dx[sub.as_keys]}


def _at_rows(provider: AutogradProvider, rows: Tensor) -> dict[str, Tensor]:
    out, (dx,) = provider.values()
    return {"out": out[rows], "dx": dx[rows]}


def _participants(options: SpmmOptions, problem: SpmmProblem) -> tuple[list[str], list[str]]:
    pairs = problem.layout.num_pairs
    reasons = {name: lacks_memory(pairs, options.width, 4) for name in _GATHERING}
    reasons["reference"] = reasons["reference"] or why_no_reference(options, pairs)
    for name in ("pyg-edge-index", "pyg-sparse"):
        reasons[name] = peers.why_no_pyg() or reasons.get(name, "")
    reasons["bound"] = why_not(4 * options.width, problem.layout.col)
    return leave_out(choose(options.providers, PROVIDERS), reasons)


def _checked(problem: SpmmProblem, options: SpmmOptions, names: list[str]) -> tuple[list[Provider], dict[str, int]]:
    """Providers that are right at sampled rows, warmed up, and their peaks."""
    sub = checks.sample(problem.layout, options.width)
    want = oracle(problem, sub)
    providers: list[Provider] = []
    peaks = {}
    for name in names:
        if name not in _MAKERS:
            continue
        provider = _MAKERS[name](problem)
        first = first_run(provider)
        out, (dx,) = first.values
        checks.compare_all(name, {"out": out[sub.rows], "dx": dx[sub.rows]}, want, TOLERANCE)
        peaks[name] = peak_of(first, "spmm", options, name)
        providers.append(provider)
    return providers, peaks


def peak_alone(argument: dict[str, Any]) -> int:
    """Peak of one provider, for a process of its own; see :func:`longhop.bench.timing.peak_of`."""
    options = SpmmOptions(**argument["options"])
    with set_up(options):
        given = make_graph(options.graph).ordered(options.order)
        return extra_peak(_MAKERS[argument["provider"]](SpmmProblem.make(given, options)).values)


def _sweep(rowptr: Tensor, col: Tensor, x: Tensor) -> Sweep:
    size = x.element_size()
    return Sweep(rowptr, col, x, x.stride(0) * size, x.shape[1] * size)


def gather_bound(problem: SpmmProblem) -> GatherBound:
    """Forward reads a row of x for every pair, backward a row of the gradient."""
    layout = problem.layout
    forward = _sweep(layout.rowptr, layout.col, problem.x)
    return GatherBound([forward], [_sweep(layout.t_rowptr, layout.t_col, problem.dout)])
