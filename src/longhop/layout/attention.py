"""Attention over a layout: the checks and the defaults in front of the op."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from longhop.layout.layout import AttentionLayout
from longhop.ops.sparse_attention import EDGES, sparse_attention
from longhop.types import InputError

PAIR_TYPE_DTYPES = (torch.uint8, torch.uint16, torch.int32)
_DTYPES = (torch.float32, torch.bfloat16, torch.float64)

PairBias = Tensor | tuple[Tensor, Tensor]


def graph_attention(
    q: Float[Tensor, "Nq H D"],
    k: Float[Tensor, "Nk H D"],
    v: Float[Tensor, "Nk H D"],
    layout: AttentionLayout,
    *,
    bias: PairBias | None = None,
    global_bias: Float[Tensor, "2 G H"] | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    seed: Int[Tensor, "..."] | None = None,
    q_ids: Int[Tensor, " Nq"] | None = None,
    k_ids: Int[Tensor, " Nk"] | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Softmax attention over the pairs of a layout.

    ``out[i, h] = sum_j p_ijh v[j, h]``, p the softmax over the pairs of query i of
    ``scale * q_i . k_j + bias``. A query without pairs gives zeros and passes zero gradients. Memory
    is O(N H D) plus the bias, never O(E H D). Storage [N, D, H] seen as [N, H, D] (``transpose(1, 2)``)
    is the fast one; any strides are right.

    Args:
        q: [Nq, H, D] float32, bfloat16 or float64; the last G rows are the global tokens.
        k: [Nk, H, D], type of q; the last G rows are the global tokens.
        v: as k.
        layout: the pairs.
        bias: None, [E, H] in the layout's caller's order, or ``(pair_type, table)`` with pair_type uint8,
            uint16 or int32 [E] and table [T, H]. Differentiable in the values and in the table.
        global_bias: None or [2, G, H]: of the tokens as keys, and as queries.
        scale: None means 1 / sqrt(D).
        dropout: probability in [0, 1) with which a weight is dropped; kept ones are scaled up.
        seed: int64 tensor of one element; needed when dropout > 0.
        q_ids: None (row numbers) or int64 [Nq]: identities behind the dropout mask.
        k_ids: as q_ids, [Nk].
        return_lse: also return the log-sum-exp of each query's scores.

    Returns:
        [Nq, H, D] of q's type; with ``return_lse`` also float32 [Nq, H], -inf for a query without pairs.

    Raises:
        InputError: shapes, types or devices that do not fit each other or the layout.
    """
    _check_heads(q, k, v, layout)
    _check_ids("q_ids", q_ids, q.shape[0])
    _check_ids("k_ids", k_ids, k.shape[0])
    out, lse = _attend([q, k, v], layout, bias, global_bias, scale, dropout, seed, q_ids, k_ids)
    return (out, lse) if return_lse else out


def graph_attention_qkvpacked(
    qkv: Float[Tensor, "N 3 H D"],
    layout: AttentionLayout,
    *,
    bias: PairBias | None = None,
    global_bias: Float[Tensor, "2 G H"] | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    seed: Int[Tensor, "..."] | None = None,
    ids: Int[Tensor, " N"] | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Self-attention of q, k and v that one Linear made; their gradient comes as one tensor, without a copy.

    Storage [N, 3, D, H] seen as [N, 3, H, D] (``transpose(2, 3)``) is the fast one.

    Args:
        qkv: [N, 3, H, D]; the rest is as for :func:`graph_attention`.
        layout: as many queries as keys.
        bias: see :func:`graph_attention`.
        global_bias: see :func:`graph_attention`.
        scale: see :func:`graph_attention`.
        dropout: see :func:`graph_attention`.
        seed: see :func:`graph_attention`.
        ids: identities of the rows, both as queries and as keys.
        return_lse: see :func:`graph_attention`.

    Returns:
        As :func:`graph_attention`.

    Raises:
        InputError: shapes, types or devices that do not fit each other or the layout.
    """
    if qkv.dim() != 4 or qkv.shape[1] != 3:
        raise InputError(f"qkv must be [N, 3, H, D], got {list(qkv.shape)}")
    q, k, v = qkv.unbind(1)
    _check_heads(q, k, v, layout)
    _check_ids("ids", ids, qkv.shape[0])
    out, lse = _attend([qkv], layout, bias, global_bias, scale, dropout, seed, ids, ids)
    return (out, lse) if return_lse else out


def _attend(
    qkv: list[Tensor],
    layout: AttentionLayout,
    bias: PairBias | None,
    global_bias: Tensor | None,
    scale: float | None,
    dropout: float,
    seed: Tensor | None,
    q_ids: Tensor | None,
    k_ids: Tensor | None,
) -> tuple[Tensor, Tensor]:
    heads, width = qkv[0].shape[-2:]
    per_pair, pair_type, table = _split_bias(bias, layout.num_pairs, heads)
    if global_bias is not None:
        _check_shape("global_bias", global_bias, (2, layout.num_global, heads))
    check_dropout(dropout, seed)
    return sparse_attention(
        qkv,
        [layout.rowptr, layout.col, layout.t_rowptr, layout.t_col, layout.perm],
        [EDGES, layout.num_global],
        bias=per_pair,
        pair_type=pair_type,
        table=table,
        global_bias=global_bias,
        scale=1 / math.sqrt(width) if scale is None else scale,
        dropout=dropout,
        seed=seed if dropout > 0 else None,
        q_ids=q_ids,
        k_ids=k_ids,
    )


def check_dropout(dropout: float, seed: Tensor | None) -> None:
    """Refuse a probability outside [0, 1) and dropout without a usable seed.

    Args:
        dropout: probability.
        seed: None or int64 tensor of one element.

    Raises:
        InputError: either is wrong.
    """
    if not 0.0 <= dropout < 1.0:
        raise InputError(f"dropout must be in [0, 1), got {dropout}")
    if dropout == 0.0:
        return
    if seed is None:
        raise InputError(f"dropout {dropout} needs seed: an int64 tensor of one element, another each step")
    if seed.dtype != torch.int64 or seed.numel() != 1:
        raise InputError(f"seed must be an int64 tensor of one element, got {seed.dtype} {list(seed.shape)}")


def _check_heads(q: Tensor, k: Tensor, v: Tensor, layout: AttentionLayout) -> None:
    if q.dim() != 3:
        raise InputError(f"q must be [Nq, H, D], got {list(q.shape)}")
    if q.dtype not in _DTYPES or k.dtype != q.dtype or v.dtype != q.dtype:
        raise InputError(
            f"q, k and v must share one of float32, bfloat16, float64, got {q.dtype}, {k.dtype}, {v.dtype}"
        )
    if q.shape[0] != layout.num_queries:
        raise InputError(
            f"q has {q.shape[0]} rows, the layout has {layout.num_rows} queries and {layout.num_global} global tokens"
        )
    expected = (layout.num_keys, q.shape[1], q.shape[2])
    _check_shape("k", k, expected)
    _check_shape("v", v, expected)


def _split_bias(
    bias: PairBias | None, num_pairs: int, heads: int
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """(per-pair bias, pair type, table), the ones not given None."""
    if bias is None:
        return None, None, None
    if isinstance(bias, Tensor):
        _check_shape("bias", bias, (num_pairs, heads))
        return bias, None, None
    pair_type, table = bias
    _check_shape("pair_type", pair_type, (num_pairs,))
    if pair_type.dtype not in PAIR_TYPE_DTYPES:
        raise InputError(f"pair_type must be uint8, uint16 or int32, got {pair_type.dtype}")
    if table.dim() != 2 or table.shape[1] != heads:
        raise InputError(f"table must be [T, H] with H = {heads}, got {list(table.shape)}")
    return None, pair_type, table


def _check_shape(name: str, tensor: Tensor, expected: tuple[int, ...]) -> None:
    if tuple(tensor.shape) != expected:
        raise InputError(f"{name} must have shape {list(expected)}, got {list(tensor.shape)}")


def _check_ids(name: str, ids: Tensor | None, rows: int) -> None:
    if ids is None:
        return
    if ids.dtype != torch.int64:
        raise InputError(f"{name} must be int64, got {ids.dtype}")
    _check_shape(name, ids, (rows,))
