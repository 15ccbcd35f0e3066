"""GCN and GraphSAGE convolutions against PyG's on the same weights."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from longhop.graph.build import from_coo
from longhop.graph.csr import CSRGraph
from longhop.nn import ConvBlock, GCNConv, GraphStructure, NodeBatchNorm, SAGEConv, gcn_structure
from longhop.testing.asserts import (
    assert_close,
    assert_finite_gradients,
    assert_gradients_close,
    assert_permutation_equivariant,
)
from longhop.testing.graphs import awkward_graphs
from longhop.types import InputError

GRAPHS = awkward_graphs()
NAMES = ["one_node", "one_self_loop", "no_edges", "isolated", "chain", "hub", "odd_63", "power_law"]
WIDTHS = [(12, 20), (20, 12)]
SEED = torch.tensor([5])


def _run(module: nn.Module, x: Tensor, *graph: object) -> tuple[Tensor, dict[str, Tensor | None]]:
    leaf = x.clone().requires_grad_()
    module.zero_grad()
    out = module(leaf, *graph)
    out.square().sum().backward()
    return out.detach(), {n: p.grad for n, p in module.named_parameters()} | {"x": leaf.grad}


def _compare(ours: nn.Module, theirs: nn.Module, structure: GraphStructure, x: Tensor, *graph: object) -> None:
    theirs.load_state_dict(ours.state_dict())
    got, got_grads = _run(ours, x, structure)
    want, want_grads = _run(theirs, x, *graph)
    assert_close("out", got, want, relative=1e-5)
    assert_gradients_close(got_grads, want_grads, relative=1e-5)


@pytest.mark.parametrize("widths", WIDTHS, ids=["aggregate-first", "multiply-first"])
@pytest.mark.parametrize("name", NAMES)
def test_gcn_equals_pyg(name: str, widths: tuple[int, int]) -> None:
    pyg = pytest.importorskip("torch_geometric.nn")
    graph = GRAPHS[name]
    x = torch.randn(graph.num_nodes, widths[0], generator=torch.Generator().manual_seed(0))
    _compare(GCNConv(*widths), pyg.GCNConv(*widths), gcn_structure(graph), x, graph.edge_index())


def test_weighted_gcn_equals_pyg() -> None:
    pyg = pytest.importorskip("torch_geometric.nn")
    rng = torch.Generator().manual_seed(0)
    src, dst = torch.randint(30, (2, 200), generator=rng)
    graph, _ = from_coo(src, dst, 30, torch.rand(200, generator=rng) + 0.1)
    x = torch.randn(30, 12, generator=rng)
    _compare(GCNConv(12, 8), pyg.GCNConv(12, 8), gcn_structure(graph), x, graph.edge_index(), graph.weight)


@pytest.mark.parametrize("widths", WIDTHS, ids=["aggregate-first", "multiply-first"])
@pytest.mark.parametrize("name", NAMES)
def test_sage_equals_pyg(name: str, widths: tuple[int, int]) -> None:
    pyg = pytest.importorskip("torch_geometric.nn")
    graph = GRAPHS[name]
    x = torch.randn(graph.num_nodes, widths[0], generator=torch.Generator().manual_seed(0))
    structure = GraphStructure.from_graph(graph)
    _compare(SAGEConv(*widths), pyg.SAGEConv(*widths), structure, x, graph.edge_index())


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("norm", ["none", "layer", "batch"])
@pytest.mark.parametrize("conv", [GCNConv, SAGEConv])
def test_block_is_conv_plus_residual_norm_relu(conv: type[nn.Module], norm: str, residual: bool) -> None:
    torch.manual_seed(0)
    graph = GRAPHS["odd_63"]
    structure = _structure(conv, graph)
    block = ConvBlock(conv(12, 20), norm=norm, residual=residual, dropout=0.5, site=0).eval()
    nn.init.normal_(block.conv.bias)
    x = torch.randn(63, 12)
    want = block.conv(x, structure)
    if block.residual is not None:
        want = want + block.residual(x)
    if block.norm is not None:
        want = block.norm(want)
    assert_close("eval", block(x, structure), F.relu(want), relative=1e-5)


def _structure(conv: type[nn.Module], graph: CSRGraph, ids: Tensor | None = None) -> GraphStructure:
    return gcn_structure(graph, ids) if conv is GCNConv else GraphStructure.from_graph(graph, node_ids=ids)


@pytest.mark.parametrize("norm", ["none", "layer", "batch"])
@pytest.mark.parametrize("conv", [GCNConv, SAGEConv])
def test_block_is_equivariant_with_dropout(conv: type[nn.Module], norm: str) -> None:
    torch.manual_seed(0)
    block = ConvBlock(conv(12, 20), norm=norm, residual=True, dropout=0.4, site=3)
    assert_permutation_equivariant(
        block,
        lambda g, ids: _structure(conv, g, ids),
        GRAPHS["odd_63"],
        torch.randn(63, 12),
        seed=SEED,
        relative=1e-4,
    )


@pytest.mark.parametrize("name", ["one_node", "no_edges", "isolated"])
@pytest.mark.parametrize("norm", ["none", "layer", "batch"])
@pytest.mark.parametrize("conv", [GCNConv, SAGEConv])
def test_block_trains_without_edges(conv: type[nn.Module], norm: str, name: str) -> None:
    torch.manual_seed(0)
    graph = GRAPHS[name]
    block = ConvBlock(conv(12, 20), norm=norm, residual=True, dropout=0.4, site=3)
    out = block(torch.randn(graph.num_nodes, 12), _structure(conv, graph), SEED)
    out.sum().backward()
    assert bool(out.isfinite().all())
    assert_finite_gradients(block)


def test_batch_norm_of_one_node_uses_running_statistics() -> None:
    norm = NodeBatchNorm(4)
    x = torch.randn(1, 4)
    assert torch.equal(norm(x), norm.eval()(x))
    with pytest.raises(ValueError, match="more than 1 value"):
        nn.BatchNorm1d(4)(x)


def test_rows_of_a_gcn_without_edges_are_themselves() -> None:
    structure = gcn_structure(GRAPHS["no_edges"])
    assert structure.edge_weight is not None
    assert torch.equal(structure.edge_weight, torch.ones(5))


def test_refusals() -> None:
    graph = GRAPHS["odd_63"]
    with pytest.raises(InputError, match="needs edge_weight"):
        GCNConv(12, 20)(torch.zeros(63, 12), GraphStructure.from_graph(graph))
    with pytest.raises(InputError, match="square graph, got 70 x 130"):
        gcn_structure(GRAPHS["rectangular"])
    with pytest.raises(InputError, match="layout without global tokens"):
        SAGEConv(12, 20)(torch.zeros(63, 12), GraphStructure.from_graph(graph, num_global=1))
    with pytest.raises(InputError, match="norm must be none, layer or batch, got 'bath'"):
        ConvBlock(GCNConv(2, 2), norm="bath", residual=False, dropout=0.0, site=0)  # type: ignore[arg-type]
