"""Graph attention: kernels against the fp64 reference, the reference against SDPA, and the op's contract."""

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from longhop.graph.csr import CSRGraph
from longhop.ops import dispatch
from longhop.ops.sparse_attention import EDGES, native_impl, reference, sparse_attention
from longhop.ops.sparse_attention import op as attention_op
from longhop.testing.asserts import assert_close
from longhop.testing.graphs import awkward_graphs
from longhop.testing.poison import poisoned_empty
from longhop.types import InputError

# The reference is the oracle here, so only the two builds of the kernels are run.
KERNELS = pytest.mark.parametrize("isa", ["avx512", "avx2", "baseline"], indirect=True)

GRAPHS = awkward_graphs()
RELATIVE = {torch.float32: 3e-6, torch.bfloat16: 1e-2}
_QKV = ("q", "k", "v", "packed")
ALL_TERMS = frozenset({"bias", "table", "global", "dropout", "lse"})


def parts_of(graph: CSRGraph) -> list[Tensor]:
    t = graph.transpose()
    return [graph.rowptr, graph.col, t.rowptr, t.col, t.perm]


@dataclasses.dataclass(frozen=True)
class Case:
    """Inputs of one call; floating terms and q, k, v are leaves of type fp64."""

    graph: CSRGraph
    heads: int
    width: int
    num_global: int
    terms: frozenset[str]
    heads_fastest: bool = True

    def inputs(self) -> dict[str, Tensor]:
        rng = torch.Generator().manual_seed(1)
        rows, cols = self.graph.num_nodes + self.num_global, self.graph.num_cols + self.num_global

        def heads(n: int) -> Tensor:
            if self.heads_fastest:
                return torch.randn(n, self.width, self.heads, generator=rng).transpose(1, 2)
            return torch.randn(n, self.heads, self.width, generator=rng)

        edges = self.graph.num_edges
        made = {"q": heads(rows), "k": heads(cols), "v": heads(cols)}
        if "bias" in self.terms:
            made["bias"] = torch.randn(edges, self.heads, generator=rng)
        if "table" in self.terms:
            made["table"] = torch.randn(5, self.heads, generator=rng)
            made["pair_type"] = torch.randint(5, (edges,), generator=rng).to(torch.uint8)
        if "global" in self.terms:
            made["global_bias"] = torch.randn(2, self.num_global, self.heads, generator=rng)
        if "dropout" in self.terms:
            made["seed"] = torch.tensor([-81985529216486896])
            made["q_ids"] = torch.randint(2**47, (rows,), generator=rng)
            made["k_ids"] = torch.randint(2**47, (cols,), generator=rng)
        return made

    def run(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Outputs and the gradient of every floating input, by name."""
        leaves = {n: t.detach().requires_grad_(t.is_floating_point()) for n, t in inputs.items()}
        out, lse = self._call(leaves)
        rng = torch.Generator().manual_seed(2)
        loss = (out.double() * torch.randn(out.shape, generator=rng).double()).sum()
        if "lse" in self.terms:
            finite = torch.where(lse.isinf(), 0.0, lse.double())
            loss = loss + (finite * torch.randn(lse.shape, generator=rng).double()).sum()
        wanted = {n: t for n, t in leaves.items() if t.requires_grad}
        grads = torch.autograd.grad(loss, list(wanted.values()))
        return {
            "out": out.detach(),
            "lse": lse.detach(),
            **{f"d{n}": g for n, g in zip(wanted, grads, strict=True)},
        }

    def _call(self, leaves: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        terms: dict[str, Any] = {n: t for n, t in leaves.items() if n not in _QKV}
        if "dropout" in self.terms:
            terms["dropout"] = 0.3
        return sparse_attention(
            [leaves[n] for n in _QKV if n in leaves], parts_of(self.graph), [EDGES, self.num_global],
            scale=self.width**-0.5, **terms,
        )  # fmt: skip


def reference_of(case: Case, dtype: torch.dtype) -> dict[str, Tensor]:
    """fp64 results from inputs rounded to ``dtype``, so that only arithmetic differs."""
    inputs = {
        n: t.to(dtype).double() if n in "qkv" else t.double() if t.is_floating_point() else t
        for n, t in case.inputs().items()
    }
    with dispatch.use_backend("reference"):
        return case.run(inputs)


def assert_case(case: Case, dtype: torch.dtype) -> None:
    inputs = {n: t.to(dtype) if n in "qkv" else t for n, t in case.inputs().items()}
    with poisoned_empty():
        got = case.run(inputs)
    want = reference_of(case, dtype)
    assert got.keys() == want.keys()
    empty = want["lse"].isinf()
    assert torch.equal(got["lse"].isinf(), empty)
    for results in (got, want):
        results["lse"] = results["lse"].masked_fill(empty, 0.0)
    for name, value in got.items():
        # ds = p (dp - delta) cancels where a query has few pairs, so dq and dk lose some digits.
        relative = RELATIVE[dtype] * (8 if name in ("dq", "dk") else 1)
        assert_close(name, value, want[name], relative=relative, cosine=max(relative**2, 1e-9))


@KERNELS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("terms", [frozenset(), ALL_TERMS], ids=["plain", "all"])
@pytest.mark.parametrize("num_global", [0, 2])
@pytest.mark.parametrize("name", list(GRAPHS))
def test_kernel_equals_reference(
    isa: str, name: str, num_global: int, terms: frozenset[str], dtype: torch.dtype
) -> None:
    assert_case(Case(GRAPHS[name], 8, 8, num_global, terms), dtype)


@KERNELS
@pytest.mark.parametrize("width", [1, 5, 8, 24])
@pytest.mark.parametrize("heads", [1, 2, 3, 4, 6, 8, 12, 24, 32, 40])
def test_every_width_and_number_of_heads(isa: str, heads: int, width: int) -> None:
    fastest = (heads + width) % 2 == 0
    assert_case(Case(GRAPHS["odd_63"], heads, width, 1, ALL_TERMS, fastest), torch.float32)


@pytest.mark.parametrize("terms", [frozenset({t}) for t in sorted(ALL_TERMS)], ids=sorted(ALL_TERMS))
def test_every_term_alone(terms: frozenset[str]) -> None:
    assert_case(Case(GRAPHS["power_law"], 8, 8, 2, terms), torch.float32)


@KERNELS
@pytest.mark.parametrize("shape", [(3, 9000), (9000, 3)], ids=["long-rows", "long-columns"])
def test_long_rows_are_cut_and_merged(isa: str, shape: tuple[int, int]) -> None:
    rng = torch.Generator().manual_seed(0)
    rows, cols = shape
    dense = torch.rand(rows, cols, generator=rng) < 0.9
    rowptr = torch.cat([torch.zeros(1, dtype=torch.int64), dense.sum(1).cumsum(0)])
    graph = CSRGraph(rowptr=rowptr, col=dense.nonzero()[:, 1].int(), num_cols=cols)
    assert_case(Case(graph, 4, 6, 1, ALL_TERMS), torch.float32)


def test_reference_equals_sdpa_and_its_backward_equals_autograd() -> None:
    """The oracle itself, against torch's attention and against autograd through the forward formula."""
    graph = GRAPHS["odd_63"]
    rng = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(63, 2, 5, generator=rng, dtype=torch.float64).requires_grad_() for _ in range(3))
    bias = torch.randn(graph.num_edges, 2, generator=rng, dtype=torch.float64).requires_grad_()
    pairs = reference.all_pairs(graph.rowptr, graph.col, 63, 0)
    terms = reference.Terms(bias, None, None, None, 0.7, 0.0, None, None, None)
    mask = torch.full((2, 63, 63), -torch.inf, dtype=torch.float64)
    mask = mask.index_put((torch.arange(2)[None], pairs.query[:, None], pairs.key[:, None]), bias)
    want = F.scaled_dot_product_attention(
        q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1), attn_mask=mask, scale=0.7
    ).transpose(0, 1)
    out, lse = reference.forward(q, k, v, pairs, terms)
    torch.testing.assert_close(out, want)
    dout = torch.randn(out.shape, generator=rng, dtype=torch.float64)
    dlse = torch.randn(lse.shape, generator=rng, dtype=torch.float64)
    want_grads = torch.autograd.grad((out * dout).sum() + (lse * dlse).sum(), (q, k, v, bias))
    with torch.no_grad():
        got = reference.backward(dout, dlse, q, k, v, out, lse, pairs, terms)
    for mine, theirs in zip((got.q, got.k, got.v, got.bias), want_grads, strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_same_bits_for_any_number_of_threads(threads: int) -> None:
    case = Case(GRAPHS["hub"], 8, 8, 1, ALL_TERMS)
    before = torch.get_num_threads()
    want = case.run(case.inputs())
    torch.set_num_threads(threads)
    try:
        got = case.run(case.inputs())
    finally:
        torch.set_num_threads(before)
    for name, value in got.items():
        assert torch.equal(value, want[name]), name


@KERNELS
def test_a_pair_with_bias_minus_infinity_is_absent(isa: str) -> None:
    graph = GRAPHS["odd_63"]
    case = Case(graph, 8, 8, 0, frozenset({"bias"}))
    inputs = case.inputs()
    drop = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(3)) < 0.5
    drop |= graph.rows() == 5  # query 5 loses all of its pairs
    inputs["bias"][drop] = -torch.inf
    kept = ~drop
    rows = graph.rows()[kept].long()
    rowptr = torch.zeros(64, dtype=torch.int64)
    rowptr[1:] = torch.bincount(rows, minlength=63).cumsum(0)
    smaller = Case(CSRGraph(rowptr=rowptr, col=graph.col[kept], num_cols=63), 8, 8, 0, frozenset({"bias"}))
    got, want = case.run(inputs), smaller.run({**inputs, "bias": inputs["bias"][kept]})
    assert torch.equal(got["dbias"][drop], torch.zeros(int(drop.sum()), 8))
    got["dbias"] = got["dbias"][kept]
    for name, value in got.items():
        torch.testing.assert_close(value, want[name], msg=name)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.int32])
def test_table_gradient_through_sorted_pairs(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> None:
    """Tables whose partial sums would be large are summed over pairs sorted by type: same numbers."""
    case = Case(GRAPHS["power_law"], 8, 8, 0, frozenset({"table", "dropout"}))
    inputs = case.inputs()
    inputs["pair_type"] = inputs["pair_type"].to(dtype)
    want = case.run(inputs)
    monkeypatch.setattr(native_impl, "MAX_TABLE_BYTES", 0)
    got = case.run(inputs)
    torch.testing.assert_close(got["dtable"], want["dtable"])


@KERNELS
def test_nan_reaches_the_output(isa: str) -> None:
    case = Case(GRAPHS["odd_63"], 8, 8, 0, frozenset())
    inputs = case.inputs()
    inputs["k"][int(GRAPHS["odd_63"].col[0])] = torch.nan
    assert case.run(inputs)["out"][0].isnan().all()


@KERNELS
def test_views_with_odd_strides_give_the_same(isa: str) -> None:
    case = Case(GRAPHS["odd_100"], 8, 8, 0, frozenset())
    inputs = case.inputs()
    want = case.run(inputs)
    wide = torch.zeros(100, 3, 8, 8)
    for i, name in enumerate("qkv"):
        wide[:, i] = inputs[name].transpose(1, 2)
    packed = {name: wide[:, i].transpose(1, 2) for i, name in enumerate("qkv")}
    reversed_rows = {name: t.flip(0).contiguous().flip(0) for name, t in inputs.items()}
    expanded_v = {**inputs, "v": inputs["v"][:1].expand(100, 8, 8)}
    for got in (case.run(packed), case.run(reversed_rows)):
        for name in ("out", "lse", "dq", "dk", "dv"):
            assert torch.equal(got[name], want[name]), name
    same_rows = case.run(expanded_v)["out"]
    assert torch.allclose(same_rows[GRAPHS["odd_100"].degree() > 0], inputs["v"][:1], atol=1e-6)


@KERNELS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("heads", "width"), [(8, 8), (4, 6), (3, 5), (16, 4), (40, 2)])
@pytest.mark.parametrize("terms", [frozenset(), ALL_TERMS], ids=["plain", "all"])
def test_one_packed_tensor_gives_the_same(
    isa: str, terms: frozenset[str], heads: int, width: int, dtype: torch.dtype
) -> None:
    case = Case(GRAPHS["odd_63"], heads, width, 1, terms)
    inputs = {n: t.to(dtype) if n in "qkv" else t for n, t in case.inputs().items()}
    want = case.run(inputs)
    stacked = torch.stack([inputs.pop(n) for n in "qkv"], 1)
    for packed in (stacked, stacked.transpose(2, 3).contiguous().transpose(2, 3)):
        with poisoned_empty():
            got = case.run({"packed": packed, **inputs})
        for i, name in enumerate("qkv"):
            assert torch.equal(got["dpacked"][:, i], want[f"d{name}"]), name
        for name in want.keys() - {"dq", "dk", "dv"}:
            assert torch.equal(got[name], want[name]), name


@pytest.mark.parametrize("form", ["three", "packed"])
@pytest.mark.parametrize("terms", [frozenset(), ALL_TERMS], ids=["plain", "all"])
@pytest.mark.parametrize("strided", [False, True], ids=["contiguous", "strided"])
def test_opcheck(strided: bool, terms: frozenset[str], form: str) -> None:
    case = Case(GRAPHS["odd_63"], 8, 8, 1, terms, heads_fastest=strided)
    inputs = case.inputs()
    if form == "packed":
        packed = torch.stack([inputs.pop(n).transpose(1, 2) for n in "qkv"], 1).transpose(2, 3)
        inputs["packed"] = packed if strided else packed.contiguous()
    made = {n: t.requires_grad_(t.is_floating_point()) for n, t in inputs.items()}
    order = ("bias", "pair_type", "table", "global_bias")
    args = (
        [made[n] for n in _QKV if n in made], parts_of(case.graph), [EDGES, 1], *(made.get(n) for n in order), 0.3,
        0.3 if "dropout" in terms else 0.0, made.get("seed"), made.get("q_ids"), made.get("k_ids"),
    )  # fmt: skip
    torch.library.opcheck(attention_op._forward, args)


def test_compiles_once_for_all_sizes() -> None:
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")

    def step(q: Tensor, parts: list[Tensor], seed: Tensor) -> Tensor:
        return sparse_attention([q, q, q], parts, [EDGES, 0], scale=0.3, dropout=0.2, seed=seed)[0]

    compiled = torch.compile(step, fullgraph=True, backend=counter)
    for n in range(10, 20):
        graph = CSRGraph(rowptr=torch.arange(n + 1), col=torch.arange(n).int(), num_cols=n)
        q = torch.randn(n, 8, 4).transpose(1, 2)
        eager = step(q, parts_of(graph), torch.tensor([n]))
        assert torch.equal(compiled(q, parts_of(graph), torch.tensor([n])), eager)
    assert counter.frame_count <= 2


@KERNELS
def test_64_bit_columns_give_the_same(isa: str) -> None:
    graph = GRAPHS["power_law"]
    wide = CSRGraph(rowptr=graph.rowptr, col=graph.col.long(), num_cols=graph.num_cols)
    want = Case(graph, 8, 8, 1, ALL_TERMS)
    got = Case(wide, 8, 8, 1, ALL_TERMS).run(want.inputs())
    for name, value in want.run(want.inputs()).items():
        assert torch.equal(got[name], value), name


def test_bad_input_is_named() -> None:
    case = Case(GRAPHS["odd_63"], 8, 8, 0, frozenset({"table"}))
    good = case.inputs()
    for name, bad, message in (
        ("k", good["k"][:-1], "k and v|q \\[Nq"),
        ("pair_type", good["pair_type"].long(), "pair_type must be"),
        ("table", good["table"][:, :3], "table must be"),
        ("table", good["table"][:2], "pair_type holds"),
        ("q", good["q"].half(), "must share a type"),
    ):
        with pytest.raises(InputError, match=message):
            case.run({**good, name: bad})
    with pytest.raises(InputError, match="needs a seed"):
        sparse_attention(
            [good[n] for n in "qkv"], parts_of(case.graph), [EDGES, 0], scale=1.0, dropout=0.5
        )  # fmt: skip
