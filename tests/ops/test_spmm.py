"""spmm: kernels and op against the fp64 reference, the reference against dense algebra, and the op's contract."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from longhop.graph.csr import CSRGraph
from longhop.graph.generate import star
from longhop.ops.checks import winner_bits
from longhop.ops.spmm import max_op, reference, spmm
from longhop.ops.spmm import op as spmm_op
from longhop.saving import installed
from longhop.testing.asserts import assert_close
from longhop.testing.graphs import awkward_graphs
from longhop.testing.poison import poisoned_empty
from longhop.types import InputError

GRAPHS = awkward_graphs()
LONG_ROWS = star(10_000)  # its hub's row is cut into parts
RELATIVE = {torch.float32: 1e-6, torch.bfloat16: 5e-3}
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
REDUCE = pytest.mark.parametrize("reduce", ["sum", "mean", "max"])


def parts_of(graph: CSRGraph, dtype: torch.dtype = torch.int32) -> tuple[Tensor, ...]:
    t = graph.transpose()
    return graph.rowptr, graph.col.to(dtype), t.rowptr, t.col.to(dtype), t.perm.to(dtype)


def features(num_rows: int, width: int, seed: int = 1) -> Tensor:
    """fp64 multiples of 1/4 of which half are 0: exact in every type, and full of ties."""
    x = torch.randn(num_rows, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (4 * x).round().clamp(0, 16) / 4


def weights(num_pairs: int) -> Tensor:
    """fp64 powers of two, some negative: products are exact as well."""
    rng = torch.Generator().manual_seed(2)
    sign = 1 - 2 * (torch.rand(num_pairs, generator=rng) < 0.2).double()
    return sign * torch.exp2(torch.randint(-1, 2, (num_pairs,), generator=rng).double())


def gradients(out: Tensor, *leaves: Tensor) -> list[Tensor]:
    """Of a sum weighted by bf16-exact numbers."""
    probe = torch.randn(out.shape, generator=torch.Generator().manual_seed(3)).to(torch.bfloat16)
    return list(torch.autograd.grad(out, leaves, probe.to(out.dtype)))


def oracle(graph: CSRGraph, x: Tensor, weight: Tensor | None, reduce: str, ids: Tensor | None) -> list[Tensor]:
    leaves = [t.detach().double().requires_grad_() for t in (x, weight) if t is not None]
    if reduce == "max":
        out = reference.spmm_max(graph.rowptr, graph.col, *leaves, k_ids=ids)[0]
    else:
        out = reference.spmm(graph.rowptr, graph.col, *leaves, mean=reduce == "mean")
    return [out.detach(), *gradients(out, *leaves)]


def assert_matches(
    graph: CSRGraph, x: Tensor, weight: Tensor | None, reduce: Any, ids: Tensor | None = None, index: Any = torch.int32
) -> None:
    leaves = [t.detach().requires_grad_() for t in (x, weight) if t is not None]
    with poisoned_empty():
        out = spmm(*parts_of(graph, index), *leaves, reduce=reduce, k_ids=ids)
        got = [out.detach(), *gradients(out, *leaves)]
    assert out.is_contiguous()
    assert out.dtype == x.dtype
    for name, a, b in zip(("out", "dx", "dweight"), got, oracle(graph, x, weight, reduce, ids), strict=False):
        assert_close(name, a, b, relative=RELATIVE[x.dtype], cosine=1e-5)


def inputs(graph: CSRGraph, width: int, dtype: torch.dtype, weighted: bool) -> tuple[Tensor, Tensor | None]:
    return features(graph.num_cols, width).to(dtype), weights(graph.num_edges).float() if weighted else None


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
@REDUCE
@DTYPES
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_values_and_gradients(isa: str, graph: CSRGraph, reduce: str, dtype: torch.dtype, weighted: bool) -> None:
    assert_matches(graph, *inputs(graph, 20, dtype, weighted), reduce)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 7, 8, 64, 100, 257])
@REDUCE
@DTYPES
def test_widths(isa: str, width: int, reduce: str, dtype: torch.dtype) -> None:
    assert_matches(GRAPHS["power_law"], *inputs(GRAPHS["power_law"], width, dtype, True), reduce)


@REDUCE
@DTYPES
@pytest.mark.parametrize("width", [3, 40])
def test_long_rows(isa: str, reduce: str, dtype: torch.dtype, width: int) -> None:
    ids = torch.randperm(LONG_ROWS.num_cols, generator=torch.Generator().manual_seed(4))
    assert_matches(LONG_ROWS, *inputs(LONG_ROWS, width, dtype, True), reduce, ids)


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_ties_go_to_the_smallest_identity(isa: str, graph: CSRGraph) -> None:
    ids = torch.randperm(graph.num_cols, generator=torch.Generator().manual_seed(5)) << 33
    x = features(graph.num_cols, 33).float()
    assert_matches(graph, x, None, "max", ids)
    winner = max_op._forward(*parts_of(graph), x, None, ids, 8 if graph.num_edges < 256 else 16)[1]
    assert torch.equal(winner.long(), reference.spmm_max(graph.rowptr, graph.col, x, k_ids=ids)[1])


@REDUCE
def test_int64_columns(isa: str, reduce: str) -> None:
    assert_matches(
        GRAPHS["rectangular"], *inputs(GRAPHS["rectangular"], 9, torch.float32, True), reduce, None, torch.int64
    )


@pytest.mark.parametrize("view", ["columns", "rows", "transposed", "one_row"])
@REDUCE
def test_strided_inputs(isa: str, view: str, reduce: str) -> None:
    graph = GRAPHS["odd_100"]
    base = features(200, 200).float()
    x = {
        "columns": base[:100, 3:20],
        "rows": base[::2, :17],
        "transposed": base.t()[:100, :17],
        "one_row": base[:1, :17].expand(100, 17),
    }[view]
    assert_matches(graph, x, weights(2 * graph.num_edges)[::2].float(), reduce)


@REDUCE
def test_expanded_gradient(isa: str, reduce: Any) -> None:
    graph = GRAPHS["odd_63"]
    x, weight = (t.requires_grad_() for t in (features(63, 12).float(), weights(graph.num_edges).float()))
    spmm(*parts_of(graph), x, weight, reduce).sum().backward()
    wide = [t.detach().double().requires_grad_() for t in (x, weight)]
    if reduce == "max":
        reference.spmm_max(graph.rowptr, graph.col, *wide)[0].sum().backward()
    else:
        reference.spmm(graph.rowptr, graph.col, *wide, mean=reduce == "mean").sum().backward()
    for name, a, b in zip(("dx", "dweight"), (x, weight), wide, strict=True):
        assert_close(name, a.grad, b.grad)


@pytest.mark.parametrize("graph", [GRAPHS["power_law"], LONG_ROWS], ids=["power_law", "star"])
@REDUCE
def test_same_bits_for_any_number_of_threads(
    isa: str, graph: CSRGraph, reduce: Any, with_threads: Callable[[int], None]
) -> None:
    rng = torch.Generator().manual_seed(6)
    x = torch.randn(graph.num_cols, 37, generator=rng).requires_grad_()
    weight = torch.randn(graph.num_edges, generator=rng).requires_grad_()
    results = []
    for threads in (1, 2, 5):
        with_threads(threads)
        out = spmm(*parts_of(graph), x, weight, reduce)
        results.append([out.detach(), *gradients(out, x, weight)])
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_reference_against_dense(graph: CSRGraph) -> None:
    x, weight = features(graph.num_cols, 5), weights(graph.num_edges)
    dense = torch.zeros(graph.num_nodes, graph.num_cols, dtype=torch.float64)
    dense.index_put_((graph.rows().long(), graph.col.long()), weight, accumulate=True)
    torch.testing.assert_close(reference.spmm(graph.rowptr, graph.col, x, weight), dense @ x)
    best, winner = reference.spmm_max(graph.rowptr, graph.col, x, weight)
    for row in range(graph.num_nodes):
        begin, end = int(graph.rowptr[row]), int(graph.rowptr[row + 1])
        if begin == end:
            assert not best[row].any()
            continue
        products = weight[begin:end, None] * x[graph.col[begin:end].long()]
        assert torch.equal(best[row], products.amax(0))
        # The first of the largest, whatever torch's argmax does with ties.
        assert winner[row].tolist() == (products == best[row]).int().argmax(0).tolist()


@REDUCE
def test_gradcheck(reduce: Any) -> None:
    graph = GRAPHS["duplicates"]
    rng = torch.Generator().manual_seed(7)
    x = torch.randn(graph.num_cols, 3, generator=rng, dtype=torch.float64, requires_grad=True)
    weight = torch.rand(graph.num_edges, generator=rng, dtype=torch.float64).add_(0.5).requires_grad_()
    assert torch.autograd.gradcheck(lambda *leaves: spmm(*parts_of(graph), *leaves, reduce=reduce), (x, weight))


@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("weighted", [False, True])
def test_saves_no_features_for_constant_weights(reduce: Any, weighted: bool) -> None:
    graph = GRAPHS["odd_100"]
    x, weight = inputs(graph, 16, torch.float32, weighted)
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        spmm(*parts_of(graph), x.requires_grad_(), weight, reduce)
    assert all(t.numel() <= graph.num_edges for t in saved)
    assert x.data_ptr() not in {t.data_ptr() for t in saved}


def test_saves_features_as_linear_when_weights_learn() -> None:
    graph, seen = GRAPHS["odd_100"], {}

    class Spy:
        def pack(self, tensor: Tensor, role: Any, name: str) -> Tensor:
            seen[name] = role.value
            return tensor

        def unpack(self, packed: Tensor) -> Tensor:
            return packed

    x, weight = inputs(graph, 16, torch.float32, True)
    assert weight is not None
    with installed(Spy()):
        out = spmm(*parts_of(graph), x, weight.requires_grad_())
    out.sum().backward()
    assert seen["spmm.x"] == "linear"
    assert weight.grad is not None


@pytest.mark.parametrize(
    ("max_degree", "bits"), [(0, 8), (255, 8), (256, 16), (32767, 16), (32768, 32), (2**31 - 1, 32)]
)
def test_winners_take_the_narrowest_integer(max_degree: int, bits: int) -> None:
    assert winner_bits(torch.zeros(1, dtype=torch.int64), max_degree) == bits


def test_nan_and_infinity_survive(isa: str) -> None:
    graph = GRAPHS["hub"]
    x = features(graph.num_cols, 16).float()
    x[3, 4], x[5, 6] = torch.nan, -torch.inf
    best = spmm(*parts_of(graph), x, reduce="max")
    assert torch.equal(best.isnan(), reference.spmm_max(graph.rowptr, graph.col, x)[0].isnan())
    only = CSRGraph(rowptr=torch.tensor([0, 1]), col=torch.tensor([5], dtype=torch.int32), num_cols=graph.num_cols)
    assert spmm(*parts_of(only), x, reduce="max")[0, 6] == -torch.inf


@pytest.mark.parametrize("broken", ["rowptr", "col", "t_col", "perm"])
@pytest.mark.parametrize("value", [-1, 10**6])
def test_indices_out_of_range_are_refused(isa: str, broken: str, value: int) -> None:
    graph = GRAPHS["odd_63"]
    parts = dict(zip(("rowptr", "col", "t_rowptr", "t_col", "perm"), parts_of(graph), strict=True))
    parts[broken] = parts[broken].clone()
    parts[broken][7] = value
    x, weight = (t.requires_grad_() for t in (features(63, 16).float(), weights(graph.num_edges).float()))
    if isa == "reference" and value < 0 and broken != "rowptr":
        pytest.skip("torch indexes from the end")
    with pytest.raises((RuntimeError, IndexError)):
        spmm(*parts.values(), x, weight).sum().backward()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": torch.zeros(9, 4)}, "63 keys, x has 9 rows"),
        ({"x": torch.zeros(63)}, "two axes"),
        ({"x": torch.zeros(63, 4, dtype=torch.int64)}, "floating"),
        ({"rowptr": torch.zeros(64, dtype=torch.int32)}, "rowptr must be int64"),
        ({"perm": torch.zeros(5, dtype=torch.int32)}, "perm must be int32"),
        ({"weight": torch.zeros(5)}, r"weight must be .*\[\d+\], got torch.float32 \[5\]"),
        ({"k_ids": torch.zeros(63)}, "k_ids must be int64"),
        ({"weight": torch.zeros(5, device="meta")}, "one device, got cpu, meta"),
        ({"reduce": "min"}, "reduce must be one of sum, mean, max"),
        ({"max_degree": 2**31, "reduce": "max"}, "2\\^31"),
    ],
)
def test_input_errors(change: dict[str, Any], message: str) -> None:
    names = ("rowptr", "col", "t_rowptr", "t_col", "perm")
    arguments = dict(zip(names, parts_of(GRAPHS["odd_63"]), strict=True)) | {"x": torch.zeros(63, 4)}
    with pytest.raises(InputError, match=message):
        spmm(**(arguments | change))


@pytest.mark.parametrize("view", ["plain", "strided"])
def test_opcheck(view: str) -> None:
    graph = GRAPHS["rectangular"]
    parts = parts_of(graph)
    x = torch.randn(graph.num_cols, 24)
    x = (x[:, 3:12] if view == "strided" else x).requires_grad_()
    grad = torch.randn(x.shape[1], graph.num_nodes).t() if view == "strided" else torch.randn(graph.num_nodes, 24)
    weight = torch.rand(2 * graph.num_edges)[::2].requires_grad_()
    detached = x.detach()
    winner = max_op._forward(*parts, detached, None, None, 16)[1]
    calls: list[tuple[Any, tuple[Any, ...]]] = [
        (spmm_op._forward, (*parts, x, weight, True)),
        (spmm_op._forward, (*parts, x, None, False)),
        (spmm_op._grad_x, (parts[0], *parts[2:], grad, weight.detach(), True)),
        (spmm_op._grad_weight, (*parts[:2], grad, detached, False)),
        (max_op._forward, (*parts, x, weight, None, 16)),
        (max_op._grad_x, (*parts, grad, winner, None)),
        (max_op._grad_weight, (*parts[:2], grad, detached, winner)),
    ]
    for op, arguments in calls:
        torch.library.opcheck(op, arguments)


@REDUCE
def test_compiles_once_for_any_size(reduce: Any, compile_counter: Any) -> None:
    compiled = torch.compile(spmm, fullgraph=True, backend=compile_counter)
    for size in range(20, 30):
        graph = star(size)
        x = torch.randn(size, 16, requires_grad=True)
        weight = torch.rand(graph.num_edges, requires_grad=True)
        out = compiled(*parts_of(graph), x, weight, reduce, max_degree=size - 1)
        got = gradients(out, x, weight)
        want = gradients(spmm(*parts_of(graph), x, weight, reduce), x, weight)
        assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))
    assert compile_counter.count <= 2


@REDUCE
def test_offsets_beyond_32_bits(isa: str, reduce: Any) -> None:
    """U35: An expanded row as 2^32 elements, of which the last rows are read."""
    num_rows, width = 2**20, 2**12
    x = torch.arange(width).float().expand(num_rows, width)
    col = torch.tensor([num_rows - 1, 0, num_rows - 2], dtype=torch.int32)
    t_rowptr = torch.zeros(num_rows + 1, dtype=torch.int64)
    out = spmm(torch.tensor([0, 2, 3]), col, t_rowptr, col, col, x, reduce=reduce)
    factor = torch.tensor([[2.0 if reduce == "sum" else 1.0], [1.0]])
    assert torch.equal(out, factor * x[0])
