"""graphormer and gt against the same models written with dense torch attention."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from longhop.models import GraphormerConfig, GraphTransformer, GTConfig, build
from longhop.nn import GraphSelfAttention, GraphStructure
from longhop.testing.asserts import assert_close, assert_gradients_close
from longhop.testing.graphs import awkward_graphs

GRAPHS = awkward_graphs()


def _dense_bias(model: GraphTransformer, structure: GraphStructure, heads: int) -> Tensor:
    """[H, M, M]: -inf where there is no pair, else the pair's bias."""
    layout = structure.layout
    query, key = layout.pairs()
    values = torch.zeros(len(query), heads)
    if model.hop is not None:
        assert structure.pair_type is not None
        values[: layout.num_pairs] = model.hop.table[structure.pair_type.long()]
        if model.hop.tokens is not None:
            first = layout.num_rows
            rest_query, rest_key = query[layout.num_pairs :], key[layout.num_pairs :]
            as_key = rest_key >= first
            token = torch.where(as_key, rest_key, rest_query) - first
            values[layout.num_pairs :] = model.hop.tokens[(~as_key).long(), token]
    dense = torch.full((layout.num_queries, layout.num_keys, heads), -torch.inf)
    return dense.index_put((query, key), values).permute(2, 0, 1)


def _attention(layer: GraphSelfAttention, x: Tensor, bias: Tensor) -> Tensor:
    width = layer.hidden // layer.heads
    q, k, v = (t.reshape(-1, width, layer.heads).permute(2, 0, 1) for t in layer.qkv(x).chunk(3, dim=1))
    out = F.softmax(q @ k.transpose(1, 2) / width**0.5 + bias, dim=-1) @ v
    return layer.out(out.permute(1, 2, 0).reshape(len(x), -1))


def _graphormer_block(block: nn.Module, z: Tensor, bias: Tensor) -> Tensor:
    z = z + _attention(block.attention, block.norm1(z), bias)
    return z + block.down(F.gelu(block.up(block.norm2(z))))


def _gt_block(block: nn.Module, z: Tensor, bias: Tensor) -> Tensor:
    z = block.norm1(z + _attention(block.attention, z, bias))
    return block.norm2(z + block.down(F.relu(block.up(z))))


def _dense_model(model: GraphTransformer, x: Tensor, structure: GraphStructure) -> Tensor:
    z = model.encoder(x)
    if model.degree is not None:
        assert structure.degree is not None
        z = z + model.degree.table.weight[structure.degree.clamp(max=model.degree.cap)]
    if model.tokens is not None:
        z = torch.cat([z, model.tokens])
    bias = _dense_bias(model, structure, model.config.heads)
    block_of = _graphormer_block if isinstance(model.config, GraphormerConfig) else _gt_block
    for block in model.blocks:
        z = block_of(block, z, bias)
    z = z[: len(x)]
    if isinstance(model.config, GraphormerConfig):
        return model.head.linear(model.head.norm(z))
    return model.head.linear(F.relu(model.head.second(F.relu(model.head.first(z)))))


@pytest.mark.parametrize("encodings", [False, True], ids=["plain", "encodings"])
@pytest.mark.parametrize("num_global", [0, 2])
@pytest.mark.parametrize("config", [GraphormerConfig, GTConfig])
def test_equals_dense_model(config: type, num_global: int, encodings: bool) -> None:
    torch.manual_seed(0)
    shared = {"layers": 2, "hidden": 32, "heads": 8, "num_global": num_global}
    options = {"degree_embedding": encodings, "hop_bias": encodings, "both_directions": encodings}
    model = build(config(**shared, **options), 6, 3).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    graph = GRAPHS["power_law"]
    structure = model.prepare(graph)
    x = torch.randn(graph.num_nodes, 6)
    results = []
    for forward in (lambda: model(x, structure), lambda: _dense_model(model, x, structure)):
        model.zero_grad()
        out = forward()
        out.square().sum().backward()
        results.append((out.detach(), {n: p.grad.clone() for n, p in model.named_parameters()}))
    (got, got_grads), (want, want_grads) = results
    assert_close("out", got, want, relative=1e-5)
    assert_gradients_close(got_grads, want_grads, relative=1e-4)
