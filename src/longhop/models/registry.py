"""From a config to a model."""

import difflib
from typing import TypeAlias

from longhop.models.base import NodeModel
from longhop.models.gnn import GNN, GCNConfig, SAGEConfig
from longhop.models.graph_transformer import GraphormerConfig, GTConfig, graphormer, gt
from longhop.types import InputError

ModelConfig: TypeAlias = GCNConfig | SAGEConfig | GraphormerConfig | GTConfig


def build(config: ModelConfig, in_features: int, num_outputs: int) -> NodeModel:
    """The model that a config describes, freshly initialised from torch's generator.

    Args:
        config: one of the config classes.
        in_features: F.
        num_outputs: C.

    Returns:
        The model.

    Raises:
        InputError: not a model's config, or sizes below 1.
    """
    match config:
        case GCNConfig() | SAGEConfig():
            return GNN(config, in_features, num_outputs)
        case GraphormerConfig():
            return graphormer(config, in_features, num_outputs)
        case GTConfig():
            return gt(config, in_features, num_outputs)
    raise InputError(f"no model has a config of type {type(config).__name__}; see longhop.models.ModelConfig")


def presets() -> dict[str, ModelConfig]:
    """The published models by name."""
    return {
        "graphormer-slim": GraphormerConfig(),
        "graphormer-large": GraphormerConfig(layers=12, hidden=768, ffn=768, heads=32),
        "gt": GTConfig(),
        "gcn": GCNConfig(),
        "sage": SAGEConfig(),
    }


def preset(name: str) -> ModelConfig:
    """The config of a published model; vary it with ``dataclasses.replace``.

    Args:
        name: a key of :func:`presets`.

    Returns:
        The config.

    Raises:
        InputError: an unknown name; the nearest known one is named.
    """
    known = presets()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(known)}"
    raise InputError(f"no model preset is called {name!r}; {hint}")
