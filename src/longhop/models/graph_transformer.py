"""Graphormer and GT: transformers whose attention runs over the edges of the graph."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from longhop.graph.build import add_self_loops, symmetrize
from longhop.graph.csr import CSRGraph
from longhop.models.base import NodeModel, check_graph, check_range
from longhop.nn.attention import append_tokens
from longhop.nn.blocks import SITES_PER_BLOCK, PostNormBlock, PreNormBlock, RowDropout
from longhop.nn.encoders import EMBEDDING_STD, DegreeEmbedding, HopBias
from longhop.nn.heads import MLPHead, NormLinearHead
from longhop.nn.structure import GraphStructure, check_inputs
from longhop.ops.linear import linear
from longhop.types import InputError

INF = float("inf")


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """What graphormer and gt share.

    Raises:
        InputError: a value out of range, or heads that do not divide the width.
    """

    layers: int = 4
    """Attention blocks."""
    hidden: int = 64
    """Width of the node states."""
    heads: int = 8
    """Attention heads; divides hidden."""
    num_global: int = 0
    """Global tokens: each sees all nodes and is seen by all."""
    dropout: float = 0.1
    """On the outputs of the layers."""
    attention_dropout: float = 0.0
    """On attention weights."""
    input_dropout: float = 0.0
    """On the embedded features."""
    degree_embedding: bool = False
    """Add a learned row for each node's in-degree."""
    degree_cap: int = 512
    """Largest in-degree with a row of its own."""
    hop_bias: bool = False
    """Add a learned number a head for each pair's relation to the edges, one table for all layers."""
    both_directions: bool = False
    """Attend along both directions of every edge, whichever is given; hop_bias still tells them apart."""

    def __post_init__(self) -> None:
        check_range(self, dropout=(0, 1), attention_dropout=(0, 1), input_dropout=(0, 1))
        check_range(self, layers=(1, INF), hidden=(1, INF), heads=(1, INF), degree_cap=(1, INF))
        check_range(self, num_global=(0, INF))
        if self.hidden % self.heads:
            raise InputError(f"heads must divide hidden, got heads = {self.heads} and hidden = {self.hidden}")


@dataclass(frozen=True, kw_only=True)
class GraphormerConfig(TransformerConfig):
    """Graphormer: pre-norm blocks with GELU, one global token, norm and Linear at the end."""

    name: Literal["graphormer"] = "graphormer"
    num_global: int = 1
    """Global tokens: each sees all nodes and is seen by all."""
    ffn: int = 64
    """Width inside the feed-forward half of a block."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, ffn=(1, INF))


@dataclass(frozen=True, kw_only=True)
class GTConfig(TransformerConfig):
    """GT: post-norm blocks with ReLU and a feed-forward width of 2 hidden, an MLP at the end."""

    name: Literal["gt"] = "gt"
    hidden: int = 128
    """Width of the node states, 4 or more."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, hidden=(4, INF))


class GraphTransformer(NodeModel):
    """Features to node states, blocks of attention over the pairs, states to outputs.

    ``Z = Dropout([x W + b (+ degree row); tokens])``, the global tokens last; then ``blocks``; then
    ``head`` on the nodes. State dict: ``encoder``, ``tokens`` [G, h], ``degree``, ``hop``, ``blocks.i``,
    ``head``; absent parts have no keys. Linear weights start as N(0, 0.02 / sqrt(layers)), biases as 0,
    embeddings as N(0, 0.02).

    Args:
        config: the shared settings.
        in_features: F.
        num_outputs: C.
        block: makes block i; all blocks take (z, structure, bias=, global_bias=, seed=).
        head: from [N, h] to [N, C].
    """

    def __init__(
        self,
        config: TransformerConfig,
        in_features: int,
        num_outputs: int,
        block: Callable[[int], nn.Module],
        head: nn.Module,
    ) -> None:
        super().__init__(in_features, num_outputs)
        self.config = config
        self.encoder = nn.Linear(in_features, config.hidden)
        tokens = torch.empty(config.num_global, config.hidden).normal_(std=EMBEDDING_STD)
        self.tokens = nn.Parameter(tokens) if config.num_global else None
        self.degree = DegreeEmbedding(config.degree_cap, config.hidden) if config.degree_embedding else None
        self.hop = HopBias(config.heads, config.num_global) if config.hop_bias else None
        self.input_dropout = RowDropout(config.input_dropout, config.layers * SITES_PER_BLOCK)
        self.blocks = nn.ModuleList(block(i) for i in range(config.layers))
        self.head = head
        std = 0.02 / math.sqrt(config.layers)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=std)
                nn.init.zeros_(module.bias)

    def prepare(self, graph: CSRGraph, node_ids: Tensor | None = None) -> GraphStructure:
        """Every edge is a pair, every node attends to itself; see :meth:`NodeModel.prepare`."""
        check_graph(graph)
        pairs = symmetrize(graph)[0] if self.config.both_directions else graph
        pairs, _ = add_self_loops(pairs)
        return GraphStructure.from_graph(
            pairs,
            num_global=self.config.num_global,
            node_ids=node_ids,
            given=graph,
            hop_classes=self.config.hop_bias,
        )

    def forward(
        self,
        x: Float[Tensor, "N F"],
        structure: GraphStructure,
        seed: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "N C"]:
        """Outputs of all nodes; see :meth:`NodeModel.forward`."""
        check_inputs(x, structure, self.in_features)
        z = linear(x, self.encoder.weight, self.encoder.bias)
        if self.degree is not None:
            z = z + self.degree(structure.degree).to(z.dtype)
        if self.tokens is not None:
            z = append_tokens(z, self.tokens)
        z = self.input_dropout(z, seed, structure.row_ids)
        bias, global_bias = (None, None) if self.hop is None else self.hop(structure)
        for block in self.blocks:
            z = block(z, structure, bias=bias, global_bias=global_bias, seed=seed)
        # The head runs on the tokens too: cutting [N, C] pads a smaller gradient than cutting [N, h].
        out: Tensor = self.head(z)
        return out[: structure.layout.num_rows]


def graphormer(config: GraphormerConfig, in_features: int, num_outputs: int) -> GraphTransformer:
    """The model of a :class:`GraphormerConfig`.

    Args:
        config: settings.
        in_features: F.
        num_outputs: C.

    Returns:
        A model with pre-norm blocks.
    """

    def block(index: int) -> PreNormBlock:
        return PreNormBlock(
            config.hidden,
            config.ffn,
            config.heads,
            dropout=config.dropout,
            attention_dropout=config.attention_dropout,
            site=index,
        )

    head = NormLinearHead(config.hidden, num_outputs)
    return GraphTransformer(config, in_features, num_outputs, block, head)


def gt(config: GTConfig, in_features: int, num_outputs: int) -> GraphTransformer:
    """The model of a :class:`GTConfig`.

    Args:
        config: settings.
        in_features: F.
        num_outputs: C.

    Returns:
        A model with post-norm blocks.
    """

    def block(index: int) -> PostNormBlock:
        return PostNormBlock(
            config.hidden,
            2 * config.hidden,
            config.heads,
            dropout=config.dropout,
            attention_dropout=config.attention_dropout,
            site=index,
        )

    return GraphTransformer(config, in_features, num_outputs, block, MLPHead(config.hidden, num_outputs))
