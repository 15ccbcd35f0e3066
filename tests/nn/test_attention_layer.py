"""GraphSelfAttention and the transformer blocks against dense torch, on awkward and padded graphs."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from longhop.graph.build import from_coo
from longhop.layout import AttentionLayout
from longhop.nn import GraphSelfAttention, GraphStructure, PostNormBlock, PreNormBlock
from longhop.testing.asserts import (
    assert_close,
    assert_finite_gradients,
    assert_gradients_close,
    assert_permutation_equivariant,
)
from longhop.testing.graphs import awkward_graphs
from longhop.types import InputError

GRAPHS = awkward_graphs()
SEED = torch.tensor([41])


def _dense(layer: GraphSelfAttention, x: Tensor, layout: AttentionLayout) -> Tensor:
    """The layer written out with dense softmax attention over [heads, rows, width]."""
    width = layer.hidden // layer.heads
    mask = torch.zeros(layout.num_queries, layout.num_keys, dtype=torch.bool)
    mask[tuple(layout.pairs())] = True
    packed = F.linear(x, layer.qkv.weight, layer.qkv.bias)
    # Column d * H + h of each third is feature d of head h.
    q, k, v = (t.reshape(-1, width, layer.heads).permute(2, 0, 1) for t in packed.chunk(3, dim=1))
    out = F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask)[0]
    return layer.out(out.permute(1, 2, 0).reshape(len(x), -1))


@pytest.mark.parametrize("heads", [8, 3, 1])
@pytest.mark.parametrize("num_global", [0, 2])
@pytest.mark.parametrize("name", ["one_node", "no_edges", "isolated", "hub", "odd_63"])
def test_equals_dense(name: str, num_global: int, heads: int) -> None:
    torch.manual_seed(0)
    structure = GraphStructure.from_graph(GRAPHS[name], num_global=num_global)
    layer = GraphSelfAttention(24, heads)
    x = torch.randn(structure.layout.num_queries, 24)
    results = []
    for forward in (layer, _dense):
        leaf = x.clone().requires_grad_()
        out = layer(leaf, structure) if forward is layer else _dense(layer, leaf, structure.layout)
        layer.zero_grad()
        out.square().sum().backward()
        results.append((out, {n: p.grad.clone() for n, p in layer.named_parameters()} | {"x": leaf.grad}))
    (got, got_grads), (want, want_grads) = results
    assert_close("out", got, want, relative=1e-5)
    # A gradient that is zero in exact arithmetic (softmax ignores q.bias-like shifts) is noise: compare
    # with the whole scale of the gradients instead.
    assert_gradients_close(got_grads, want_grads, relative=2e-5)


def test_state_dict_keys_and_shapes() -> None:
    shapes = {k: tuple(v.shape) for k, v in GraphSelfAttention(24, 3).state_dict().items()}
    assert shapes == {
        "qkv.weight": (72, 24),
        "qkv.bias": (72,),
        "out.weight": (24, 24),
        "out.bias": (24,),
    }


@pytest.mark.parametrize("block", [PreNormBlock, PostNormBlock])
def test_isolated_nodes_and_padding_train(block: type[nn.Module]) -> None:
    """U23, U24: padded rows of two graphs see nothing; three steps stay finite and ignore their content."""
    torch.manual_seed(0)
    # Graph A: rows 0-2 and padding 3-4; graph B: rows 5-9. Row 9 is isolated.
    pairs = [(0, 1), (1, 0), (1, 2), (2, 1), (5, 6), (6, 5), (7, 8), (8, 7), (6, 8)]
    graph, _ = from_coo([j for _, j in pairs], [i for i, _ in pairs], 10)
    structure = GraphStructure.from_graph(graph)
    real = torch.tensor([0, 1, 2, 5, 6, 7, 8, 9])
    layer = block(16, 16, 4, dropout=0.1, attention_dropout=0.1, site=0)
    optimizer = torch.optim.AdamW(layer.parameters())
    x = torch.randn(10, 16)
    for step in range(3):
        optimizer.zero_grad()
        leaf = x.clone().requires_grad_()
        layer(leaf, structure, seed=SEED + step)[real].square().mean().backward()
        assert_finite_gradients(layer)
        assert not leaf.grad[3:5].any()
        optimizer.step()
    layer.eval()
    changed = x.clone()
    changed[5:] = torch.randn(5, 16)
    assert torch.equal(layer(x, structure)[:3], layer(changed, structure)[:3])


def test_padding_rows_attend_to_nothing() -> None:
    graph, _ = from_coo([1, 0], [0, 1], 4)
    structure = GraphStructure.from_graph(graph)
    values = GraphSelfAttention(8, 2).attend(torch.randn(4, 8), structure)
    assert not values[2:].any()
    assert values[:2].all()


@pytest.mark.parametrize("block", [PreNormBlock, PostNormBlock])
@pytest.mark.parametrize("num_global", [0, 1])
def test_blocks_are_equivariant_with_dropout(block: type[nn.Module], num_global: int) -> None:
    torch.manual_seed(0)
    layer = block(24, 48, 3, dropout=0.3, attention_dropout=0.3, site=2)
    graph = GRAPHS["odd_63"]

    class WithTokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer
            self.tokens = nn.Parameter(torch.randn(num_global, 24))

        def forward(self, x: Tensor, structure: GraphStructure, seed: Tensor | None) -> Tensor:
            return self.layer(torch.cat([x, self.tokens]), structure, seed=seed)[: len(x)]

    module = WithTokens() if num_global else layer
    assert_permutation_equivariant(
        module,
        lambda g, ids: GraphStructure.from_graph(g, num_global=num_global, node_ids=ids),
        graph,
        torch.randn(63, 24),
        seed=SEED,
        relative=2e-5,
    )


def test_output_needs_no_copy() -> None:
    """Nothing but views lies between the op and the next Linear."""
    structure = GraphStructure.from_graph(GRAPHS["odd_63"])
    layer = GraphSelfAttention(24, 8)
    values = layer.attend(torch.randn(63, 24), structure)
    node = values.grad_fn
    while node is not None and "graph_attention" not in type(node).__name__:
        assert "View" in type(node).__name__ or "Transpose" in type(node).__name__, type(node).__name__
        node = node.next_functions[0][0]
    assert node is not None


def test_dropout_sites_and_seeds_differ() -> None:
    torch.manual_seed(0)
    structure = GraphStructure.from_graph(GRAPHS["odd_63"])
    x = torch.randn(63, 24)
    layers = [GraphSelfAttention(24, 3, dropout=0.5, site=s) for s in (0, 1)]
    layers[1].load_state_dict(layers[0].state_dict())
    outs = [layer.attend(x, structure, seed=seed) for layer in layers for seed in (SEED, SEED, SEED + 1)]
    assert torch.equal(outs[0], outs[1])
    assert not torch.allclose(outs[0], outs[2])
    assert not torch.allclose(outs[0], outs[3])
    layers[0].eval()
    assert torch.equal(layers[0].attend(x, structure), layers[0].attend(x, structure, seed=SEED))


def test_refusals() -> None:
    structure = GraphStructure.from_graph(GRAPHS["odd_63"])
    with pytest.raises(InputError, match="heads = 5 and hidden = 24"):
        GraphSelfAttention(24, 5)
    layer = GraphSelfAttention(24, 3, dropout=0.5)
    with pytest.raises(InputError, match=r"dropout 0\.5 needs seed"):
        layer(torch.zeros(63, 24), structure)
    with pytest.raises(InputError, match=r"x must be \[63, 24\] for this layer and graph, got \[62, 24\]"):
        layer(torch.zeros(62, 24), structure)
    with pytest.raises(InputError, match="takes a GraphStructure, got CSRGraph"):
        layer(torch.zeros(63, 24), GRAPHS["odd_63"])
    with pytest.raises(InputError, match=r"node_ids must have shape \[63\], got \[5\]"):
        GraphStructure.from_graph(GRAPHS["odd_63"], node_ids=torch.arange(5))
