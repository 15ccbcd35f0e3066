"""U48: one graph, no break, and at most two compiles over ten sizes and ten seeds."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend

from longhop.graph.generate import local_random
from longhop.layout import AttentionLayout, graph_attention, spmm
from longhop.models import GCNConfig, GraphormerConfig, GTConfig, ModelConfig, SAGEConfig, build
from longhop.nn import (
    ConvBlock,
    DegreeEmbedding,
    GCNConv,
    GraphSelfAttention,
    GraphStructure,
    HopBias,
    MLPHead,
    NormLinearHead,
    PostNormBlock,
    PreNormBlock,
    RowDropout,
    SAGEConv,
    gcn_structure,
)

# Odd steps, so that no two axes have equal sizes by chance.
SIZES = [(40 + 13 * i, 3 + i) for i in range(10)]

MODELS: dict[str, ModelConfig] = {
    "graphormer": GraphormerConfig(layers=1, hidden=16, ffn=24, heads=4, attention_dropout=0.2),
    "graphormer-encodings": GraphormerConfig(
        layers=1, hidden=16, ffn=24, heads=4, degree_embedding=True, hop_bias=True, input_dropout=0.1
    ),
    "gt": GTConfig(layers=2, hidden=16, heads=4, attention_dropout=0.2),
    "gcn": GCNConfig(hidden=16, norm="batch", residual=True, input_linear=True),
    "sage": SAGEConfig(hidden=16, norm="layer", residual=True, jumping_knowledge=True),
}


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def _compiles(call: Callable[..., Tensor], inputs: Callable[[int, int], tuple[object, ...]]) -> int:
    """Compile once, call on every size with its own seed, check each result; the number of compiles."""
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(call, fullgraph=True, backend=counter)
    for nodes, degree in SIZES:
        arguments = inputs(nodes, degree)
        out = compiled(*arguments)
        torch.testing.assert_close(out, call(*arguments), rtol=1e-4, atol=1e-5)
        out.square().sum().backward()
    return counter.frame_count


@pytest.mark.parametrize(
    ("name", "ordered"), [(n, False) for n in MODELS] + [("graphormer-encodings", True), ("gcn", True)]
)
def test_models(name: str, ordered: bool) -> None:
    model = build(MODELS[name], 6, 3)

    def inputs(nodes: int, degree: int) -> tuple[object, ...]:
        ids = torch.randperm(nodes) if ordered else None
        structure = model.prepare(local_random(nodes, degree, seed=nodes), ids)
        return torch.randn(nodes, 6), structure, torch.tensor([nodes])

    assert _compiles(model, inputs) <= 2


def _attention_structure(nodes: int, degree: int, num_global: int = 0) -> GraphStructure:
    graph = local_random(nodes, degree, seed=nodes)
    return GraphStructure.from_graph(graph, num_global=num_global, hop_classes=True)


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "attention": lambda: GraphSelfAttention(16, 4, dropout=0.3),
    "pre-norm": lambda: PreNormBlock(16, 24, 4, dropout=0.1, attention_dropout=0.1, site=0),
    "post-norm": lambda: PostNormBlock(16, 24, 4, dropout=0.1, attention_dropout=0.1, site=0),
}


@pytest.mark.parametrize("num_global", [0, 2])
@pytest.mark.parametrize("name", LAYERS)
def test_attention_layers(name: str, num_global: int) -> None:
    layer = LAYERS[name]()
    hop = HopBias(4, num_global)

    def call(x: Tensor, structure: GraphStructure, seed: Tensor) -> Tensor:
        bias, global_bias = hop(structure)
        return layer(x, structure, bias=bias, global_bias=global_bias, seed=seed)

    def inputs(nodes: int, degree: int) -> tuple[object, ...]:
        structure = _attention_structure(nodes, degree, num_global)
        return torch.randn(nodes + num_global, 16), structure, torch.tensor([nodes])

    assert _compiles(call, inputs) <= 2


@pytest.mark.parametrize("widths", [(6, 10), (10, 6)])
@pytest.mark.parametrize("conv", [GCNConv, SAGEConv])
def test_convolutions(conv: type[nn.Module], widths: tuple[int, int]) -> None:
    layer = conv(*widths)
    block = ConvBlock(conv(*widths), norm="layer", residual=True, dropout=0.5, site=0)

    def structure(nodes: int, degree: int) -> GraphStructure:
        graph = local_random(nodes, degree, seed=nodes)
        return gcn_structure(graph) if conv is GCNConv else GraphStructure.from_graph(graph)

    assert _compiles(layer, lambda n, d: (torch.randn(n, widths[0]), structure(n, d))) <= 2
    seeded = lambda n, d: (torch.randn(n, widths[0]), structure(n, d), torch.tensor([n]))  # noqa: E731
    assert _compiles(block, seeded) <= 2


@pytest.mark.parametrize("reduce", ["sum", "mean", "max"])
def test_spmm(reduce: str) -> None:
    def call(layout: AttentionLayout, x: Tensor, weight: Tensor) -> Tensor:
        return spmm(layout, x, weight, reduce)

    def inputs(nodes: int, degree: int) -> tuple[object, ...]:
        layout = AttentionLayout.from_graph(local_random(nodes, degree, seed=nodes))
        return layout, torch.randn(nodes, 8, requires_grad=True), torch.rand(layout.num_pairs)

    assert _compiles(call, inputs) <= 2


def test_graph_attention_of_rectangular_layouts() -> None:
    def call(q: Tensor, k: Tensor, v: Tensor, layout: AttentionLayout, seed: Tensor) -> Tensor:
        out, lse = graph_attention(q, k, v, layout, dropout=0.2, seed=seed, return_lse=True)
        return out.sum(-1) + lse.clamp(min=-10)

    def inputs(nodes: int, degree: int) -> tuple[object, ...]:
        graph = local_random(nodes, degree, seed=nodes)
        layout = AttentionLayout.from_tensors(graph.rowptr, graph.col, num_cols=nodes + 7)
        q, k, v = (torch.randn(n, 4, 8, requires_grad=True) for n in (nodes, nodes + 7, nodes + 7))
        return q, k, v, layout, torch.tensor([nodes])

    assert _compiles(call, inputs) <= 2


@pytest.mark.parametrize(
    ("layer", "inputs"),
    [
        (NormLinearHead(16, 5), lambda n: (torch.randn(n, 16),)),
        (MLPHead(16, 5), lambda n: (torch.randn(n, 16),)),
        (DegreeEmbedding(4, 16), lambda n: (torch.arange(n) % 9,)),
        (RowDropout(0.4, 3), lambda n: (torch.randn(n, 16, requires_grad=True), torch.tensor([n]))),
    ],
    ids=["norm-linear", "mlp", "degree", "dropout"],
)
def test_small_layers(layer: nn.Module, inputs: Callable[[int], tuple[object, ...]]) -> None:
    assert _compiles(layer, lambda n, _: inputs(n)) <= 2
