"""The maths of graph attention in plain torch: the oracle, and the path for types without a kernel.

Memory is O(E H D); the kernels need O(N H D). Every function takes heads as [N, H, D].
"""

from typing import NamedTuple

import torch
from torch import Tensor

from longhop.ops.philox import keep_factor, keep_lanes


class Pairs(NamedTuple):
    """All pairs of a layout, pairs of the CSR first."""

    query: Tensor  # int64 [M]
    key: Tensor  # int64 [M]
    stored: int  # E: how many of them stand in the CSR


class Terms(NamedTuple):
    """What the score of a pair is made of besides q and k."""

    bias: Tensor | None  # [E, H]
    pair_type: Tensor | None  # [E]
    table: Tensor | None  # [T, H]
    global_bias: Tensor | None  # [2, G, H]: globals as key, as query
    scale: float
    dropout: float
    seed: Tensor | None  # int64 [1]
    q_ids: Tensor | None  # int64 [Nq]
    k_ids: Tensor | None  # int64 [Nk]


def all_pairs(rowptr: Tensor, col: Tensor, num_keys: int, num_global: int) -> Pairs:
    """Pairs of the CSR, then (query, global key), then (global query, node key).

    Args:
        rowptr: int64 [Nq - G + 1].
        col: [E].
        num_keys: Nk, global tokens included.
        num_global: G, the last rows of q, k and v.
    """
    rows = rowptr.numel() - 1
    num_queries, nodes = rows + num_global, num_keys - num_global
    query = torch.repeat_interleave(torch.arange(rows), rowptr.diff(), output_size=col.numel())
    extra_query = [
        torch.arange(num_queries).repeat_interleave(num_global),
        torch.arange(rows, num_queries).repeat_interleave(nodes),
    ]
    extra_key = [torch.arange(nodes, num_keys).repeat(num_queries), torch.arange(nodes).repeat(num_global)]
    return Pairs(torch.cat([query, *extra_query]), torch.cat([col.long(), *extra_key]), col.numel())


def _global_entries(pairs: Pairs, num_queries: int, num_keys: int, num_global: int) -> Tensor:
    """Row of the flattened global bias [2 G, H] of each pair outside the CSR, int64 [M - E].

    A global key decides before a global query.
    """
    query, key = pairs.query[pairs.stored :], pairs.key[pairs.stored :]
    nodes = num_keys - num_global
    return torch.where(key >= nodes, key - nodes, num_global + query - (num_queries - num_global))


def scores(q: Tensor, k: Tensor, pairs: Pairs, terms: Terms) -> Tensor:
    """Scaled, biased score of every pair, [M, H]."""
    s = (q[pairs.query] * k[pairs.key]).sum(-1) * terms.scale
    stored = s[: pairs.stored]
    if terms.bias is not None:
        stored = stored + terms.bias
    if terms.table is not None and terms.pair_type is not None:
        stored = stored + terms.table[terms.pair_type.long()]
    rest = s[pairs.stored :]
    if terms.global_bias is not None:
        num_global = terms.global_bias.shape[1]
        entries = _global_entries(pairs, q.shape[0], k.shape[0], num_global)
        rest = rest + terms.global_bias.flatten(0, 1)[entries]
    return torch.cat([stored, rest])


def dropout_scale(pairs: Pairs, num_heads: int, terms: Terms, dtype: torch.dtype) -> Tensor | None:
    """0 or 65536 / (65536 - t) for every pair and head, [M, H]; None without dropout."""
    if terms.dropout == 0.0 or terms.seed is None:
        return None
    i = pairs.query if terms.q_ids is None else terms.q_ids[pairs.query]
    j = pairs.key if terms.k_ids is None else terms.k_ids[pairs.key]
    groups = torch.arange((num_heads + 7) // 8)
    high = ((i >> 32) & 0xFFFF) | (((j >> 32) & 0xFFFF) << 16)
    low_i, low_j = i & 0xFFFFFFFF, j & 0xFFFFFFFF
    keep = keep_lanes(
        terms.seed, low_i[:, None], low_j[:, None], high[:, None], groups[None, :], terms.dropout
    )  # [M, groups, 8]
    return keep.flatten(1)[:, :num_heads].to(dtype) * keep_factor(terms.dropout)


def forward(q: Tensor, k: Tensor, v: Tensor, pairs: Pairs, terms: Terms) -> tuple[Tensor, Tensor]:
    """Output [Nq, H, D] and log-sum-exp [Nq, H]; a query without pairs gives 0 and -inf. Differentiable."""
    s = scores(q, k, pairs, terms)
    index = pairs.query[:, None].expand_as(s)
    top = s.new_full((q.shape[0], q.shape[1]), -torch.inf).scatter_reduce(0, index, s.detach(), "amax")
    around = torch.where(top.isinf(), 0.0, top)
    weight = torch.exp(s - around[pairs.query])
    total = s.new_zeros(top.shape).index_add(0, pairs.query, weight)
    empty = total == 0
    probability = weight / torch.where(empty, 1.0, total)[pairs.query]
    mask = dropout_scale(pairs, q.shape[1], terms, s.dtype)
    used = probability if mask is None else probability * mask
    out = v.new_zeros(q.shape[0], *v.shape[1:]).index_add(0, pairs.query, used[..., None] * v[pairs.key])
    lse = torch.where(empty, -torch.inf, around + torch.where(empty, 1.0, total).log())
    return out, lse


class Gradients(NamedTuple):
    """Gradients of every differentiable input; None where there is no such input."""

    q: Tensor
    k: Tensor
    v: Tensor
    bias: Tensor | None
    table: Tensor | None
    global_bias: Tensor | None


def backward(
    dout: Tensor, dlse: Tensor | None, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor,
    pairs: Pairs, terms: Terms,
) -> Gradients:  # fmt: skip
    """Gradients from the saved out and lse: p = exp(s - lse), ds = p (mask dout.v - dout.out + dlse)."""
    s = scores(q, k, pairs, terms)
    i, j = pairs.query, pairs.key
    p = torch.exp(s - torch.where(lse.isinf(), torch.inf, lse)[i])
    mask = dropout_scale(pairs, q.shape[1], terms, s.dtype)
    dp = (dout[i] * v[j]).sum(-1)
    used = p
    if mask is not None:
        dp, used = dp * mask, p * mask
    delta = (dout * out).sum(-1)
    if dlse is not None:
        delta = delta - dlse
    ds = p * (dp - delta[i])
    dq = torch.zeros_like(q).index_add(0, i, ds[..., None] * k[j]) * terms.scale
    dk = torch.zeros_like(k).index_add(0, j, ds[..., None] * q[i]) * terms.scale
    dv = torch.zeros_like(v).index_add(0, j, used[..., None] * dout[i])
    stored = ds[: pairs.stored]
    dtable = dglobal = None
    if terms.table is not None and terms.pair_type is not None:
        dtable = torch.zeros_like(terms.table).index_add(0, terms.pair_type.long(), stored)
    if terms.global_bias is not None:
        num_global = terms.global_bias.shape[1]
        entries = _global_entries(pairs, q.shape[0], k.shape[0], num_global)
        flat = torch.zeros_like(terms.global_bias).flatten(0, 1).index_add(0, entries, ds[pairs.stored :])
        dglobal = flat.view_as(terms.global_bias)
    return Gradients(dq, dk, dv, stored.clone() if terms.bias is not None else None, dtable, dglobal)
