"""Whether our model and its counterpart are the same function, gradients included."""

import copy
import dataclasses
import math

import torch
from torch import Tensor, nn

from longhop.bench.checks import CheckFailedError, compare
from longhop.bench.epoch_data import EpochData
from longhop.bench.peer_models import build_peer, peer_structure, translate
from longhop.models import GraphormerConfig, GTConfig, ModelConfig, NodeModel, build
from longhop.nn.structure import GraphStructure

OUTPUT_TOLERANCE = 1e-4
GRADIENT_TOLERANCE = 1e-3
_NOISE = 1e-3
"""A gradient smaller than this share of the largest (of a bias in front of a norm) is rounding noise."""

_DRAWS = 3
"""An input of a ReLU that fp32 rounds across zero changes a gradient by more than the tolerance, in one draw of the
weights; a wrong model is wrong in all."""


def check(config: ModelConfig, data: EpochData, peers: list[bool]) -> None:
    """Compare outputs and the gradient of every parameter with ours in fp64, by its reference path.

    Ours is compared with and without dropout (the masks are the same in both), PyG's without.

    Args:
        config: of the model.
        data: a small graph.
        peers: for each counterpart, whether it takes the graph as a sparse matrix.

    Raises:
        CheckFailedError: something is off, for every draw of the weights.
    """
    for seed in range(_DRAWS):
        try:
            _check_draw(config, data, peers, seed)
            return
        except CheckFailedError:
            if seed == _DRAWS - 1:
                raise


def _check_draw(config: ModelConfig, data: EpochData, peers: list[bool], seed: int) -> None:
    torch.manual_seed(seed)
    ours = build(config, data.x.shape[1], data.num_classes)
    _enliven(ours)
    weights = ours.state_dict()
    dout = torch.randn(len(data.x), data.num_classes)
    want = _oracle(ours, data, dout)
    _compare(f"native {config.name} with dropout", _run(ours, data.x, ours.prepare(data.graph), dout), want)

    calm = _without_dropout(config)
    ours = build(calm, data.x.shape[1], data.num_classes)
    ours.load_state_dict(weights)
    structure = ours.prepare(data.graph)
    want = _oracle(ours, data, dout)
    _compare(f"native {config.name}", _run(ours, data.x, structure, dout), want)
    translated = (want[0], translate(config, want[1]))
    for sparse in peers:
        peer = build_peer(calm, data.x.shape[1], data.num_classes)
        # Running statistics of a norm stay as they are made in both.
        known = dict(peer.named_parameters())
        peer.load_state_dict({k: v for k, v in translate(config, weights).items() if k in known}, strict=False)
        found = _run(peer, data.x, peer_structure(ours, data.graph, sparse=sparse), dout)
        _compare(f"pyg {config.name}, {'adj_t' if sparse else 'edge_index'}", found, translated)


Found = tuple[Tensor, dict[str, Tensor]]


def _enliven(model: nn.Module) -> None:
    """Weights large enough for attention to differ from a mean."""
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
        else:
            parameter.data.add_(0.1 * torch.randn_like(parameter))


def _without_dropout(config: ModelConfig) -> ModelConfig:
    if isinstance(config, GraphormerConfig | GTConfig):
        return dataclasses.replace(config, dropout=0.0, attention_dropout=0.0, input_dropout=0.0)
    return dataclasses.replace(config, dropout=0.0, input_dropout=0.0)


def _oracle(model: NodeModel, data: EpochData, dout: Tensor) -> Found:
    structure = model.prepare(data.graph)
    if structure.edge_weight is not None:
        structure = dataclasses.replace(structure, edge_weight=structure.edge_weight.double())
    return _run(copy.deepcopy(model).double(), data.x.double(), structure, dout.double())


def _run(model: nn.Module, x: Tensor, structure: GraphStructure | Tensor, dout: Tensor) -> Found:
    model.train()
    model.zero_grad(set_to_none=True)
    out = model(x, structure, torch.tensor([3]))
    out.backward(dout)
    return out.detach(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def _compare(label: str, got: Found, want: Found) -> None:
    compare(f"{label}: outputs", got[0], want[0], OUTPUT_TOLERANCE)
    noise = _NOISE * max(float(g.norm()) for g in want[1].values())
    for name, gradient in want[1].items():
        floor = noise / math.sqrt(gradient.numel())
        compare(f"{label}: gradient of {name}", got[1][name], gradient, GRADIENT_TOLERANCE, floor)
