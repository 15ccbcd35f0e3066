"""GCN and GraphSAGE with the options that make them strong: norm, residual Linear, input Linear, dropout."""

from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float, Int
from torch import Tensor, nn

from longhop.graph.build import add_self_loops
from longhop.graph.csr import CSRGraph
from longhop.models.base import NodeModel, check_graph, check_range
from longhop.nn.blocks import SITES_PER_BLOCK, ConvBlock, Drop, Norm, RowDropout, project
from longhop.nn.convolution import GCNConv, SAGEConv, gcn_structure
from longhop.nn.structure import GraphStructure, check_inputs
from longhop.ops.linear import linear
from longhop.types import InputError


@dataclass(frozen=True, kw_only=True)
class GNNConfig:
    """What gcn and sage share.

    Raises:
        InputError: a value out of range.
    """

    layers: int = 2
    """Convolutions; a Linear head follows them."""
    hidden: int = 256
    """Width of the node states."""
    dropout: float = 0.5
    """After each convolution's activation, and after the input Linear."""
    norm: Norm = "none"
    """Between a convolution and its activation."""
    residual: bool = False
    """Add a Linear of each layer's input to its convolution's output."""
    input_linear: bool = False
    """A Linear on the features before the first convolution."""
    input_dropout: float = 0.0
    """On the features."""
    jumping_knowledge: bool = False
    """The head reads the sum of all layers' outputs instead of the last one."""

    def __post_init__(self) -> None:
        check_range(self, dropout=(0, 1), input_dropout=(0, 1))
        check_range(self, layers=(1, float("inf")), hidden=(1, float("inf")))
        if self.norm not in ("none", "layer", "batch"):
            raise InputError(f"norm must be none, layer or batch, got {self.norm!r}")


@dataclass(frozen=True, kw_only=True)
class GCNConfig(GNNConfig):
    """GCN: symmetric normalisation with self-loops."""

    name: Literal["gcn"] = "gcn"


@dataclass(frozen=True, kw_only=True)
class SAGEConfig(GNNConfig):
    """GraphSAGE: mean of the neighbours beside the node itself."""

    name: Literal["sage"] = "sage"
    self_loops: bool = False
    """Take the node itself into the mean too."""


class GNN(NodeModel):
    """Convolutions, each ``Drop(ReLU(Norm(Conv(x) + Linear(x))))``, and a Linear head.

    State dict: ``input`` (with ``input_linear``), ``blocks.i.conv``, ``blocks.i.residual``,
    ``blocks.i.norm``, ``head``; absent parts have no keys.

    Args:
        config: of gcn or sage.
        in_features: F.
        num_outputs: C.
    """

    def __init__(self, config: GCNConfig | SAGEConfig, in_features: int, num_outputs: int) -> None:
        super().__init__(in_features, num_outputs)
        self.config = config
        conv = GCNConv if config.name == "gcn" else SAGEConv
        sites = config.layers * SITES_PER_BLOCK
        self.input_dropout = RowDropout(config.input_dropout, sites)
        self.input = nn.Linear(in_features, config.hidden) if config.input_linear else None
        self.linear_site = sites + 1
        first = config.hidden if config.input_linear else in_features
        widths = [first] + [config.hidden] * config.layers
        self.blocks = nn.ModuleList(
            ConvBlock(
                conv(widths[i], widths[i + 1]),
                norm=config.norm,
                residual=config.residual,
                dropout=config.dropout,
                site=i,
            )
            for i in range(config.layers)
        )
        self.head = nn.Linear(config.hidden, num_outputs)

    def prepare(self, graph: CSRGraph, node_ids: Tensor | None = None) -> GraphStructure:
        """gcn: self-loops and normalised weights; sage: the graph as it is, or with self-loops.

        See :meth:`NodeModel.prepare`.
        """
        check_graph(graph)
        if isinstance(self.config, GCNConfig):
            return gcn_structure(graph, node_ids)
        if not self.config.self_loops:
            return GraphStructure.from_graph(graph, node_ids=node_ids)
        return GraphStructure.from_graph(add_self_loops(graph)[0], node_ids=node_ids, given=graph)

    def forward(
        self,
        x: Float[Tensor, "N F"],
        structure: GraphStructure,
        seed: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "N C"]:
        """Outputs of all nodes; see :meth:`NodeModel.forward`."""
        check_inputs(x, structure, self.in_features)
        x = self.input_dropout(x, seed, structure.row_ids)
        if self.input is not None:
            rate = self.config.dropout if self.training else 0.0
            x = project(x, self.input, drop=Drop(rate, seed, self.linear_site, structure.row_ids))
        layers = []
        for block in self.blocks:
            x = block(x, structure, seed)
            layers.append(x)
        x = sum(layers[:-1], x) if self.config.jumping_knowledge else x
        return linear(x, self.head.weight, self.head.bias)
