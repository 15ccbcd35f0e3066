"""Whole models: sizes, awkward graphs, order of nodes, repeatability, precision, refusals."""

import dataclasses

import pytest
import torch
from torch.nn import functional as F

from longhop.graph.build import from_coo
from longhop.graph.csr import CSRGraph
from longhop.models import (
    GCNConfig,
    GraphormerConfig,
    GTConfig,
    ModelConfig,
    SAGEConfig,
    build,
    preset,
    presets,
)
from longhop.models.graph_transformer import TransformerConfig
from longhop.testing.asserts import assert_finite_gradients, assert_permutation_equivariant
from longhop.testing.graphs import awkward_graphs
from longhop.types import InputError

GRAPHS = awkward_graphs()
SEED = torch.tensor([7])
EVERYTHING = {
    "dropout": 0.2,
    "attention_dropout": 0.2,
    "input_dropout": 0.1,
    "degree_embedding": True,
    "hop_bias": True,
    "both_directions": True,
}
CONFIGS: dict[str, ModelConfig] = {
    "graphormer": GraphormerConfig(layers=2, hidden=16, ffn=24, heads=4),
    "graphormer-full": GraphormerConfig(layers=2, hidden=16, ffn=24, heads=4, num_global=2, **EVERYTHING),
    "gt": GTConfig(layers=2, hidden=16, heads=2),
    "gt-full": GTConfig(layers=2, hidden=16, heads=2, num_global=1, **EVERYTHING),
    "gcn": GCNConfig(hidden=16),
    "gcn-full": GCNConfig(hidden=16, layers=3, norm="batch", residual=True, input_linear=True, input_dropout=0.1),
    "sage": SAGEConfig(hidden=16),
    "sage-full": SAGEConfig(hidden=16, layers=3, norm="layer", residual=True, jumping_knowledge=True),
}
ALL = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())


@pytest.mark.parametrize(
    ("name", "count"),
    [("graphormer-slim", 111_912), ("gt", 558_088), ("graphormer-large", 42_691_624)],
)
def test_published_sizes(name: str, count: int) -> None:
    with torch.device("meta"):
        assert build(preset(name), 128, 40).num_parameters() == count


def test_encodings_add_their_tables() -> None:
    plain = build(preset("graphormer-slim"), 128, 40).num_parameters()
    full = dataclasses.replace(GraphormerConfig(), degree_embedding=True, hop_bias=True, degree_cap=10)
    assert build(full, 128, 40).num_parameters() == plain + 11 * 64 + 5 * 8 + 2 * 8


def test_initialisation_of_transformers() -> None:
    torch.manual_seed(0)
    model = build(GraphormerConfig(hidden=256, ffn=256, degree_embedding=True), 128, 40)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name
        elif "norm" in name:
            assert torch.equal(parameter, torch.ones_like(parameter)), name
        else:
            std = 0.02 if name in ("tokens", "degree.table.weight") else 0.01
            assert float(parameter.detach().std()) == pytest.approx(std, rel=0.15), name


@pytest.mark.parametrize("name", ["one_node", "no_edges", "self_loops_only", "isolated", "hub"])
@ALL
def test_awkward_graphs_train(config: ModelConfig, name: str) -> None:
    """U23, U26: isolated nodes, E = 0 and N = 1 give finite outputs and gradients."""
    torch.manual_seed(0)
    graph = GRAPHS[name]
    model = build(config, 6, 3)
    out = model(torch.randn(graph.num_nodes, 6), model.prepare(graph), SEED)
    assert out.shape == (graph.num_nodes, 3)
    assert bool(out.isfinite().all())
    F.cross_entropy(out, torch.zeros(graph.num_nodes, dtype=torch.int64)).backward()
    assert_finite_gradients(model)


@ALL
def test_no_nodes_is_refused(config: ModelConfig) -> None:
    nothing = torch.zeros(1, dtype=torch.int64)
    empty = CSRGraph(rowptr=nothing, col=nothing[:0], num_cols=0)
    with pytest.raises(InputError, match="the graph has no nodes"):
        build(config, 6, 3).prepare(empty)


@ALL
def test_order_of_nodes_changes_nothing(config: ModelConfig) -> None:
    """With dropout on: masks belong to nodes, not to rows."""
    torch.manual_seed(0)
    model = build(config, 6, 3)
    assert_permutation_equivariant(
        model, model.prepare, GRAPHS["power_law"], torch.randn(200, 6), seed=SEED, relative=1e-4
    )


def _losses(config: ModelConfig, steps: int) -> list[float]:
    torch.manual_seed(3)
    graph = GRAPHS["power_law"]
    model = build(config, 6, 3)
    structure = model.prepare(graph)
    x, y = torch.randn(200, 6), torch.randint(3, (200,))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x, structure, SEED + step), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@ALL
def test_same_seed_same_losses(config: ModelConfig) -> None:
    """U46: two runs of one seed give identical loss lists, and they learn."""
    first = _losses(config, 6)
    assert first == _losses(config, 6)
    assert first[-1] < first[0]


@ALL
def test_evaluation_needs_no_seed_and_drops_nothing(config: ModelConfig) -> None:
    torch.manual_seed(0)
    model = build(config, 6, 3)
    structure = model.prepare(GRAPHS["odd_63"])
    x = torch.randn(63, 6)
    with pytest.raises(InputError, match=r"dropout 0\.\d needs seed"):
        model(x, structure)
    model.eval()
    assert torch.equal(model(x, structure), model(x, structure, SEED))


@ALL
def test_bf16_autocast_step(config: ModelConfig) -> None:
    torch.manual_seed(0)
    model = build(config, 6, 3)
    structure = model.prepare(GRAPHS["odd_63"])
    x, y = torch.randn(63, 6), torch.randint(3, (63,))
    with torch.no_grad():
        plain = model(x, structure, SEED)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(x, structure, SEED)
    F.cross_entropy(out.float(), y).backward()
    assert_finite_gradients(model)
    assert float((out.detach().float() - plain).norm() / plain.norm()) < 0.05


def test_hop_bias_tells_directions_apart() -> None:
    torch.manual_seed(0)
    graph, _ = from_coo([0, 1, 2], [1, 2, 3], 5)
    config = GraphormerConfig(layers=1, hidden=16, ffn=16, heads=4, hop_bias=True, both_directions=True)
    model = build(config, 6, 3)
    structure = model.prepare(graph)
    assert structure.pair_type is not None
    assert structure.pair_type.tolist() == [0, 2, 1, 0, 2, 1, 0, 2, 1, 0, 0]
    assert structure.degree is not None
    assert structure.degree.tolist() == [0, 1, 1, 1, 0]
    directed = dataclasses.replace(config, both_directions=False)
    other = build(directed, 6, 3).prepare(graph).pair_type
    assert other is not None
    assert other.tolist() == [0, 1, 0, 1, 0, 1, 0, 0]


@ALL
def test_state_dict_round_trip(config: ModelConfig) -> None:
    torch.manual_seed(0)
    first, second = (build(config, 6, 3).eval() for _ in range(2))
    second.load_state_dict(first.state_dict(), strict=True)
    structure = first.prepare(GRAPHS["odd_63"])
    x = torch.randn(63, 6)
    assert torch.equal(first(x, structure), second(x, structure))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GraphormerConfig(heads=7), "heads = 7 and hidden = 64"),
        (
            lambda: GraphormerConfig(dropout=1.0),
            "model graphormer: dropout must be at least 0 and below 1, got 1",
        ),
        (lambda: GTConfig(layers=0), "model gt: layers must be at least 1, got 0"),
        (lambda: GTConfig(num_global=-1), "num_global must be at least 0, got -1"),
        (lambda: GCNConfig(norm="bath"), "norm must be none, layer or batch, got 'bath'"),
        (lambda: SAGEConfig(hidden=0), "model sage: hidden must be at least 1, got 0"),
        (lambda: build(GCNConfig(), 0, 3), "in_features must be 1 or more, got 0"),
        (lambda: build(TransformerConfig(), 4, 3), "no model has a config of type TransformerConfig"),
        (lambda: preset("graphormer-slimm"), "did you mean graphormer-slim"),
    ],
)
def test_refusals(make: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()  # type: ignore[operator]


def test_features_of_another_width_are_refused() -> None:
    model = build(GCNConfig(), 6, 3)
    with pytest.raises(InputError, match=r"x must be \[63, 6\] for this layer and graph, got \[63, 5\]"):
        model(torch.zeros(63, 5), model.prepare(GRAPHS["odd_63"]), SEED)


def test_presets_build() -> None:
    with torch.device("meta"):
        assert all(build(config, 4, 2).num_parameters() > 0 for config in presets().values())


def test_sage_may_take_the_node_itself_into_the_mean() -> None:
    graph, _ = from_coo([0, 1, 2], [1, 2, 2], 3)
    for self_loops, pairs in ((False, 3), (True, 5)):
        structure = build(SAGEConfig(hidden=4, self_loops=self_loops), 2, 2).prepare(graph)
        assert structure.layout.num_pairs == pairs
        assert structure.degree.tolist() == [0, 1, 2]
