"""graph_attention against dense softmax attention; its checks; empty rows as SDPA has them."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from longhop.graph.build import from_coo
from longhop.layout import AttentionLayout, graph_attention
from longhop.testing.asserts import assert_close
from longhop.testing.graphs import awkward_graphs
from longhop.types import InputError

GRAPHS = awkward_graphs()
SQUARE = ["one_node", "no_edges", "isolated", "hub", "odd_63", "rectangular"]


def _heads(n: int, heads: int, width: int, seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    stored = torch.randn(n, width, heads, generator=rng).to(dtype).requires_grad_()
    return stored.transpose(1, 2)


def _dense_mask(layout: AttentionLayout) -> Tensor:
    mask = torch.zeros(layout.num_queries, layout.num_keys, dtype=torch.bool)
    query, key = layout.pairs()
    mask[query, key] = True
    return mask


def _sdpa(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    q, k, v = (t.transpose(0, 1)[None] for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)[0].transpose(0, 1)


@pytest.mark.parametrize("num_global", [0, 3])
@pytest.mark.parametrize("name", SQUARE)
def test_equals_dense_attention(name: str, num_global: int) -> None:
    layout = AttentionLayout.from_graph(GRAPHS[name], num_global=num_global)
    mask = _dense_mask(layout)
    inputs = [_heads(n, 8, 8, s) for s, n in enumerate((layout.num_queries, layout.num_keys, layout.num_keys))]
    wide = [t.detach().double().requires_grad_() for t in inputs]
    out, want = graph_attention(*inputs, layout), _sdpa(*wide, mask)
    assert isinstance(out, Tensor)
    assert_close("out", out, want, relative=2e-6)
    dout = torch.randn(out.shape, generator=torch.Generator().manual_seed(9))
    got_grads = torch.autograd.grad(out, inputs, dout)
    want_grads = torch.autograd.grad(want, wide, dout.double())
    for name_, got, expected in zip("qkv", got_grads, want_grads, strict=True):
        assert_close(name_, got, expected, relative=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_empty_row_as_sdpa_has_it(dtype: torch.dtype) -> None:
    """U25: zeros out, zero gradient, no NaN anywhere."""
    graph, _ = from_coo([0, 1, 2, 3], [0, 0, 3, 3], 4)
    layout = AttentionLayout.from_graph(graph)
    inputs = [_heads(4, 8, 8, s, dtype) for s in range(3)]
    out = graph_attention(*inputs, layout)
    want = _sdpa(*inputs, _dense_mask(layout))
    assert isinstance(out, Tensor)
    relative = 1e-6 if dtype == torch.float32 else 1e-2
    assert_close("out", out, want, relative=relative, cosine=relative)
    assert not out[1].any()
    got, expected = (torch.autograd.grad(o.float().square().sum(), inputs) for o in (out, want))
    for name, a, b in zip("qkv", got, expected, strict=True):
        assert_close(name, a, b, relative=3 * relative, cosine=relative)
    assert not got[0][1:3].any()


def test_bias_forms_agree() -> None:
    layout = AttentionLayout.from_graph(GRAPHS["odd_63"], num_global=1)
    inputs = [_heads(64, 8, 8, s) for s in range(3)]
    table = torch.randn(5, 8, requires_grad=True)
    pair_type = torch.randint(5, (layout.num_pairs,), dtype=torch.uint8)
    per_pair = table.detach()[pair_type.long()].requires_grad_()
    tokens = torch.zeros(2, 1, 8, requires_grad=True)
    by_table = graph_attention(*inputs, layout, bias=(pair_type, table), global_bias=tokens)
    by_pair = graph_attention(*inputs, layout, bias=per_pair, global_bias=tokens)
    assert isinstance(by_table, Tensor)
    assert isinstance(by_pair, Tensor)
    assert_close("out", by_table, by_pair, relative=1e-6)
    (dtable,) = torch.autograd.grad(by_table.square().sum(), [table], retain_graph=True)
    (dpair,) = torch.autograd.grad(by_pair.square().sum(), [per_pair])
    summed = torch.zeros(5, 8).index_add_(0, pair_type.long(), dpair)
    assert_close("table", dtable, summed, relative=1e-4)


def test_returns_lse_on_request() -> None:
    layout = AttentionLayout.from_graph(GRAPHS["isolated"])
    q, k, v = (_heads(10, 8, 4, s) for s in range(3))
    _, lse = graph_attention(q, k, v, layout, return_lse=True)
    scores = torch.einsum("ihd,jhd->ijh", q, k) / math.sqrt(4)
    want = scores.masked_fill(~_dense_mask(layout)[..., None], -torch.inf).logsumexp(1)
    torch.testing.assert_close(lse, want)
    assert lse.dtype == torch.float32


def _call(**change: object) -> object:
    layout = AttentionLayout.from_graph(GRAPHS["odd_63"])
    q, k, v = (torch.zeros(63, 8, 8) for _ in range(3))
    arguments: dict[str, object] = {"q": q, "k": k, "v": v, "layout": layout}
    return graph_attention(**(arguments | change))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": torch.zeros(63, 64)}, r"q must be \[Nq, H, D\], got \[63, 64\]"),
        ({"q": torch.zeros(62, 8, 8)}, "q has 62 rows, the layout has 63 queries and 0 global"),
        ({"k": torch.zeros(63, 8, 4)}, r"k must have shape \[63, 8, 8\], got \[63, 8, 4\]"),
        ({"v": torch.zeros(63, 8, 8, dtype=torch.bfloat16)}, "must share one of"),
        ({"bias": torch.zeros(3, 8)}, r"bias must have shape"),
        ({"bias": (torch.zeros(3, dtype=torch.uint8), torch.zeros(2, 8))}, "pair_type must have shape"),
        ({"global_bias": torch.zeros(2, 1, 8)}, r"global_bias must have shape \[2, 0, 8\]"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\), got 1.0"),
        ({"dropout": 0.5}, "dropout 0.5 needs seed"),
        ({"dropout": 0.5, "seed": torch.zeros(1)}, "seed must be an int64 tensor of one element"),
        ({"q_ids": torch.zeros(63)}, "q_ids must be int64"),
        ({"k_ids": torch.zeros(5, dtype=torch.int64)}, "k_ids must have shape"),
    ],
)
def test_refusals(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        _call(**change)
