"""The models of this package rebuilt from PyG's layers: same pairs, widths, norms, dropout, weights.

They take ``(x, structure, seed)`` as ours do, so one training loop serves both; ``structure`` is PyG's
``edge_index`` or ``adj_t``, and the seed is not looked at: their dropout draws from torch's generator.
"""

import itertools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from longhop.bench.peers import pyg, quiet, sparse_matrix
from longhop.graph.build import remove_self_loops
from longhop.graph.csr import CSRGraph
from longhop.models import (
    GNN,
    GCNConfig,
    GraphormerConfig,
    GraphTransformer,
    GTConfig,
    ModelConfig,
    NodeModel,
    SAGEConfig,
)
from longhop.nn.blocks import make_norm
from longhop.nn.heads import MLPHead, NormLinearHead

TransformerConfig = GraphormerConfig | GTConfig
GNNConfig = GCNConfig | SAGEConfig


class PygAttention(nn.Module):
    """TransformerConv without its skip Linear, and an output Linear."""

    def __init__(self, hidden: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.conv = pyg().TransformerConv(hidden, hidden // heads, heads=heads, dropout=dropout, root_weight=False)
        self.conv.lin_skip = nn.Identity()  # made even where nothing uses it
        self.out = nn.Linear(hidden, hidden)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Attend and project."""
        out: Tensor = self.out(self.conv(x, edge_index))
        return out


class PygBlock(nn.Module):
    """A pre-norm block with GELU (graphormer) or a post-norm block with ReLU (gt)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        hidden = config.hidden
        self.pre_norm = isinstance(config, GraphormerConfig)
        ffn = config.ffn if isinstance(config, GraphormerConfig) else 2 * hidden
        self.dropout = config.dropout
        self.attention = PygAttention(hidden, config.heads, config.attention_dropout)
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.up, self.down = nn.Linear(hidden, ffn), nn.Linear(ffn, hidden)

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)

    def forward(self, z: Tensor, edge_index: Tensor) -> Tensor:
        """One block."""
        if self.pre_norm:
            z = z + self._drop(self.attention(self.norm1(z), edge_index))
            return z + self._drop(self.down(F.gelu(self.up(self.norm2(z)))))
        z = self.norm1(z + self._drop(self.attention(z, edge_index)))
        out: Tensor = self.norm2(z + self.down(self._drop(F.relu(self.up(z)))))
        return out


class PygTransformer(nn.Module):
    """Graphormer or gt; a global token is one more node whose pairs are plain edges."""

    def __init__(self, config: TransformerConfig, in_features: int, num_outputs: int) -> None:
        super().__init__()
        self.encoder = nn.Linear(in_features, config.hidden)
        tokens = torch.randn(config.num_global, config.hidden)
        self.tokens = nn.Parameter(tokens) if config.num_global else None
        self.blocks = nn.ModuleList(PygBlock(config) for _ in range(config.layers))
        head = NormLinearHead if isinstance(config, GraphormerConfig) else MLPHead
        self.head = head(config.hidden, num_outputs)

    def forward(self, x: Tensor, structure: Tensor, seed: Tensor | None = None) -> Tensor:
        """Outputs of all nodes."""
        z = self.encoder(x)
        if self.tokens is not None:
            z = torch.cat([z, self.tokens])
        for block in self.blocks:
            z = block(z, structure)
        out: Tensor = self.head(z[: len(x)])
        return out


class PygConvBlock(nn.Module):
    """``Drop(ReLU(Norm(Conv(x) + Linear(x))))``."""

    def __init__(self, conv: nn.Module, in_features: int, config: GNNConfig) -> None:
        super().__init__()
        self.conv = conv
        self.residual = nn.Linear(in_features, config.hidden) if config.residual else None
        self.norm = make_norm(config.norm, config.hidden)
        self.dropout = config.dropout

    def forward(self, x: Tensor, structure: Tensor) -> Tensor:
        """One block."""
        out = self.conv(x, structure)
        if self.residual is not None:
            out = out + self.residual(x)
        if self.norm is not None:
            out = self.norm(out)
        return F.dropout(F.relu(out), self.dropout, self.training)


class PygGNN(nn.Module):
    """gcn or sage with the options that the benchmark uses; GCNConv keeps its normalised graph."""

    def __init__(self, config: GNNConfig, in_features: int, num_outputs: int) -> None:
        super().__init__()
        widths = [in_features] + [config.hidden] * config.layers
        self.blocks = nn.ModuleList(
            PygConvBlock(self._conv(config, a, b), a, config) for a, b in itertools.pairwise(widths)
        )
        self.head = nn.Linear(config.hidden, num_outputs)

    @staticmethod
    def _conv(config: GNNConfig, in_features: int, out_features: int) -> nn.Module:
        convs = pyg()
        if isinstance(config, GCNConfig):
            conv: nn.Module = convs.GCNConv(in_features, out_features, cached=True)
            return conv
        conv = convs.SAGEConv(in_features, out_features, aggr="mean")
        return conv

    def forward(self, x: Tensor, structure: Tensor, seed: Tensor | None = None) -> Tensor:
        """Outputs of all nodes."""
        with quiet():
            for block in self.blocks:
                x = block(x, structure)
            out: Tensor = self.head(x)
        return out


def build_peer(config: ModelConfig, in_features: int, num_outputs: int) -> nn.Module:
    """The PyG counterpart of a model without encodings."""
    with quiet():
        if isinstance(config, GraphormerConfig | GTConfig):
            return PygTransformer(config, in_features, num_outputs)
        return PygGNN(config, in_features, num_outputs)


def peer_structure(model: NodeModel, graph: CSRGraph, *, sparse: bool) -> Tensor:
    """What the counterpart takes as the graph.

    Args:
        model: ours; a transformer's pairs, self-loops and global tokens included, are the counterpart's edges.
        graph: as it came.
        sparse: ``adj_t`` (torch.sparse CSR) instead of ``edge_index``.

    Returns:
        int64 [2, M], source and target; or a sparse CSR tensor [N, N] whose rows are targets.
    """
    if isinstance(model, GraphTransformer):
        return model.prepare(graph).layout.pairs().flip(0).contiguous()
    if isinstance(model, GNN) and model.config.name == "gcn":
        # GCNConv adds self-loops itself, to adj_t even where there is one.
        graph = remove_self_loops(graph)[0]
    return sparse_matrix(graph, None, torch.int64, torch.float32) if sparse else graph.edge_index()


def translate(config: ModelConfig, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Our weights, or their gradients, under PyG's names and in its order of heads.

    Args:
        config: of the model.
        state: by our names.
    """
    if not isinstance(config, GraphormerConfig | GTConfig):
        return state
    heads, width = config.heads, config.hidden // config.heads
    found: dict[str, Tensor] = {}
    for name, tensor in state.items():
        if ".attention.qkv." in name:
            # Rows are (q|k|v, d, head) here and (head, d) there.
            parts = tensor.view(3, width, heads, -1).transpose(1, 2).reshape(3, *_split(tensor))
            for part, value in zip(("query", "key", "value"), parts, strict=True):
                found[name.replace("attention.qkv", f"attention.conv.lin_{part}")] = value
        elif name.endswith("attention.out.weight"):
            columns = tensor.view(-1, width, heads).transpose(1, 2)
            found[name] = columns.reshape(tensor.shape)
        else:
            found[name] = tensor
    return found


def _split(tensor: Tensor) -> tuple[Any, ...]:
    return (tensor.shape[0] // 3, *tensor.shape[1:])
