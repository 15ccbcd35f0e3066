"""Models, their configs and the registry."""

from longhop.models.base import NodeModel
from longhop.models.gnn import GNN, GCNConfig, SAGEConfig
from longhop.models.graph_transformer import GraphormerConfig, GraphTransformer, GTConfig
from longhop.models.registry import ModelConfig, build, preset, presets

__all__ = [
    "GNN",
    "GCNConfig",
    "GTConfig",
    "GraphTransformer",
    "GraphormerConfig",
    "ModelConfig",
    "NodeModel",
    "SAGEConfig",
    "build",
    "preset",
    "presets",
]
