"""Graph attention as registered ops: schema, shapes without data, autograd, checks.

One forward op spans the parts of a layout and returns (out, lse); backward is an op of its own. The
operator itself is described in docs/design/attention.md.
"""

from typing import Any

import torch
from torch import Tensor

from longhop.ops import dispatch
from longhop.ops.philox import drop_threshold
from longhop.ops.sparse_attention import native_impl, reference
from longhop.ops.sparse_attention.native_impl import MAX_HEADS, Edges
from longhop.ops.sparse_attention.reference import Gradients, Terms
from longhop.saving import Role, save, saved
from longhop.types import InputError

EDGES = 0
"""Kind of the edges part: tensors rowptr, col, t_rowptr, t_col, perm; ``kinds`` holds [EDGES, G]."""

_OP = "graph_attention"


def sparse_attention(
    qkv: list[Tensor], parts: list[Tensor], kinds: list[int], *, scale: float, bias: Tensor | None = None,
    pair_type: Tensor | None = None, table: Tensor | None = None, global_bias: Tensor | None = None,
    dropout: float = 0.0, seed: Tensor | None = None, q_ids: Tensor | None = None, k_ids: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Softmax attention of every query over its pairs.

    Args:
        qkv: [q, k, v], q [Nq, H, D] and k, v [Nk, H, D], fp32 or bf16 (fp64 through the reference), strides
            (*, 1, H) used in place; or one tensor [N, 3, H, D] of all three, whose gradient is then one too.
        parts: tensors of the layout's parts; see :data:`EDGES`.
        kinds: [EDGES, G]; the last G rows of q, k and v are global tokens.
        scale: multiplies q.k.
        bias: [E, H], added to the scaled score of each stored pair.
        pair_type: uint8, uint16 or int32 [E], rows of ``table``; trusted to lie in 0..T - 1.
        table: [T, H].
        global_bias: [2, G, H]: of pairs whose key is a global token, of the others whose query is one.
        dropout: probability of dropping a weight.
        seed: int64 [1]; needed with dropout.
        q_ids: int64 [Nq], identities behind the dropout mask; row numbers when None.
        k_ids: int64 [Nk].

    Returns:
        out [Nq, H, D] with strides (D H, 1, H), and lse [Nq, H] (fp32; fp64 for fp64), -inf without pairs.

    Raises:
        InputError: shapes, types or options that do not fit together; the message names them.
    """
    _check(*unpack(qkv), parts, kinds, bias, pair_type, table, global_bias, dropout, seed, q_ids, k_ids)
    if dropout == 0.0:
        seed = None
    out: tuple[Tensor, Tensor] = _forward(
        qkv, parts, kinds, bias, pair_type, table, global_bias, scale, dropout, seed, q_ids, k_ids
    )
    return out


def unpack(qkv: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v [N, H, D] of either form that :func:`sparse_attention` takes."""
    q, k, v = qkv[0].unbind(1) if len(qkv) == 1 else qkv
    return q, k, v


def _check(
    q: Tensor, k: Tensor, v: Tensor, parts: list[Tensor], kinds: list[int], bias: Tensor | None,
    pair_type: Tensor | None, table: Tensor | None, global_bias: Tensor | None, dropout: float,
    seed: Tensor | None, q_ids: Tensor | None, k_ids: Tensor | None,
) -> None:  # fmt: skip
    """Everything that a kernel relies on, apart from the values inside index tensors."""
    if kinds[:1] != [EDGES] or len(kinds) != 2 or len(parts) != 5:
        raise InputError(f"{_OP}: kinds must be [EDGES, G] with five part tensors, got {kinds}, {len(parts)}")
    if q.dim() != 3 or k.shape != v.shape or q.shape[1:] != k.shape[1:]:
        raise InputError(
            f"{_OP}: want q [Nq, H, D] and k, v [Nk, H, D], got {list(q.shape)}, {list(k.shape)}, {list(v.shape)}"
        )
    if not q.dtype == k.dtype == v.dtype:
        raise InputError(f"{_OP}: q, k, v must share a type, got {q.dtype}, {k.dtype}, {v.dtype}")
    num_edges, num_heads, num_global = parts[1].shape[0], q.shape[1], kinds[1]
    rows, cols = q.shape[0] - num_global, k.shape[0] - num_global
    if parts[0].shape[0] != rows + 1 or parts[2].shape[0] != cols + 1:
        raise InputError(
            f"{_OP}: the layout has {parts[0].shape[0] - 1} queries and {parts[2].shape[0] - 1} keys, "
            f"q and k have {rows} and {cols} (plus {num_global} global)"
        )
    if parts[3].shape[0] != num_edges or parts[4].shape[0] != num_edges:
        raise InputError(f"{_OP}: the layout's col, t_col and perm must have the same length")
    wanted = (
        ("bias", bias, (num_edges, num_heads)), ("pair_type", pair_type, (num_edges,)),
        ("global_bias", global_bias, (2, num_global, num_heads)), ("q_ids", q_ids, (q.shape[0],)),
        ("k_ids", k_ids, (k.shape[0],)),
    )  # fmt: skip
    for name, tensor, shape in wanted:
        if tensor is not None and tuple(tensor.shape) != shape:
            raise InputError(f"{_OP}: {name} must be {list(shape)}, got {list(tensor.shape)}")
    if (pair_type is None) != (table is None):
        raise InputError(f"{_OP}: pair_type and table go together")
    if table is not None and (table.dim() != 2 or table.shape[1] != num_heads):
        raise InputError(f"{_OP}: table must be [T, {num_heads}], got {list(table.shape)}")
    if pair_type is not None and pair_type.dtype not in (torch.uint8, torch.uint16, torch.int32):
        raise InputError(f"{_OP}: pair_type must be uint8, uint16 or int32, got {pair_type.dtype}")
    if drop_threshold(dropout) and seed is None:
        raise InputError(f"{_OP}: dropout {dropout} needs a seed (int64 tensor of one element)")
    if seed is not None and (seed.dtype != torch.int64 or seed.numel() != 1):
        raise InputError(f"{_OP}: seed must be an int64 tensor of one element, got {seed.dtype}")
    for name, ids in (("q_ids", q_ids), ("k_ids", k_ids)):
        if ids is not None and (ids.dtype != torch.int64 or not ids.is_contiguous()):
            raise InputError(f"{_OP}: {name} must be contiguous int64, got {ids.dtype}")


def _slices(num_heads: int) -> list[slice]:
    return [slice(h, min(h + MAX_HEADS, num_heads)) for h in range(0, num_heads, MAX_HEADS)]


def _slice_terms(terms: Terms, heads: slice) -> Terms:
    """The terms of some heads only."""

    def cut(t: Tensor | None) -> Tensor | None:
        return None if t is None else t[..., heads]

    return terms._replace(bias=cut(terms.bias), table=cut(terms.table), global_bias=cut(terms.global_bias))


def _empty_heads(x: Tensor) -> Tensor:
    """Uninitialised [..., H, D] in the strides that every backend returns: (..., 1, H)."""
    return x.new_empty(*x.shape[:-2], x.shape[-1], x.shape[-2]).transpose(-1, -2)


def _to_heads_fastest(x: Tensor) -> Tensor:
    return x.transpose(1, 2).contiguous().transpose(1, 2)


@torch.library.custom_op("longhop::graph_attention", mutates_args=())
def _forward(
    qkv: list[Tensor], parts: list[Tensor], kinds: list[int], bias: Tensor | None, pair_type: Tensor | None,
    table: Tensor | None, global_bias: Tensor | None, scale: float, dropout: float, seed: Tensor | None,
    q_ids: Tensor | None, k_ids: Tensor | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    q, k, v = unpack(qkv)
    terms = Terms(bias, pair_type, table, global_bias, scale, dropout, seed, q_ids, k_ids)
    if dispatch.choose(_OP, q, k, v) == "reference":
        pairs = reference.all_pairs(parts[0], parts[1], k.shape[0], kinds[1])
        wide = torch.float64 if q.dtype == torch.float64 else torch.float32
        out, lse = reference.forward(q.to(wide), k.to(wide), v.to(wide), pairs, terms)
        return _to_heads_fastest(out.to(q.dtype)), lse
    edges = Edges(*parts)
    results = [
        native_impl.forward(q[:, s], k[:, s], v[:, s], edges, kinds[1], _slice_terms(terms, s), s.start // 8)
        for s in _slices(q.shape[1])
    ]
    if len(results) == 1:
        return results[0]
    return _to_heads_fastest(torch.cat([r[0] for r in results], 1)), torch.cat([r[1] for r in results], 1)


@_forward.register_fake
def _(qkv: list[Tensor], parts: list[Tensor], kinds: list[int], *terms: Any) -> tuple[Tensor, Tensor]:
    q = unpack(qkv)[0]
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    return _empty_heads(q), q.new_empty(q.shape[0], q.shape[1], dtype=wide)


@torch.library.custom_op("longhop::graph_attention_backward", mutates_args=())
def _backward(
    dout: Tensor, dlse: Tensor | None, qkv: list[Tensor], out: Tensor, lse: Tensor, parts: list[Tensor],
    kinds: list[int], bias: Tensor | None, pair_type: Tensor | None, table: Tensor | None,
    global_bias: Tensor | None, scale: float, dropout: float, seed: Tensor | None, q_ids: Tensor | None,
    k_ids: Tensor | None,
) -> tuple[list[Tensor], Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of qkv (in its form), bias, table, global_bias; an empty tensor for an absent input."""
    terms = Terms(bias, pair_type, table, global_bias, scale, dropout, seed, q_ids, k_ids)
    like = qkv[0]
    if dispatch.choose(_OP, *qkv) == "reference":
        pairs = reference.all_pairs(parts[0], parts[1], unpack(qkv)[1].shape[0], kinds[1])
        wide = torch.float64 if like.dtype == torch.float64 else torch.float32
        q, k, v = (t.to(wide) for t in unpack(qkv))
        grads = reference.backward(dout.to(wide), dlse, q, k, v, out.to(wide), lse, pairs, terms)
        heads = _in_form([_to_heads_fastest(g.to(like.dtype)) for g in grads[:3]], len(qkv) == 1)
    elif len(qkv) == 1 and native_impl.fits_packed(like):
        packed = torch.empty_like(like.transpose(2, 3), memory_format=torch.contiguous_format).transpose(2, 3)
        grads = _native_backward(dout, dlse, qkv, out, lse, parts, kinds[1], terms, list(packed.unbind(1)))
        heads = [packed]
    else:
        grads = _native_backward(dout, dlse, qkv, out, lse, parts, kinds[1], terms, None)
        heads = _in_form(list(grads[:3]), len(qkv) == 1)
    given = (bias, table, global_bias)
    rest = (
        like.new_empty(0) if g is None or t is None else g.to(t.dtype) for g, t in zip(grads[3:], given, strict=True)
    )
    return (heads, *rest)  # type: ignore[return-value]


def _in_form(grads: list[Tensor], packed: bool) -> list[Tensor]:
    """Gradients of q, k and v, stacked where they came as one tensor."""
    return [torch.stack([g.transpose(1, 2) for g in grads], 1).transpose(2, 3)] if packed else grads


def _native_backward(
    dout: Tensor, dlse: Tensor | None, qkv: list[Tensor], out: Tensor, lse: Tensor, parts: list[Tensor],
    num_global: int, terms: Terms, into: list[Tensor] | None,
) -> Gradients:  # fmt: skip
    """Gradients, those of q, k and v written to ``into`` where given: heads fastest, all heads in one call."""
    q, k, v = unpack(qkv)
    results = [
        native_impl.backward(
            dout[:, s], None if dlse is None else dlse[:, s], q[:, s], k[:, s], v[:, s], out[:, s], lse[:, s],
            Edges(*parts), num_global, _slice_terms(terms, s), s.start // 8, into,
        )
        for s in _slices(q.shape[1])
    ]  # fmt: skip
    if len(results) == 1:
        return results[0]
    # Heads are axis 1 of q, k, v and the last axis of the terms.
    joined = [
        None if pieces[0] is None else torch.cat(pieces, 1 if i < 3 else -1)
        for i, pieces in enumerate(zip(*results, strict=True))
    ]
    return Gradients._make((*(_to_heads_fastest(g) for g in joined[:3] if g is not None), *joined[3:]))


@_backward.register_fake
def _(
    dout: Tensor, dlse: Tensor | None, qkv: list[Tensor], out: Tensor, lse: Tensor, parts: list[Tensor],
    kinds: list[int], bias: Tensor | None, pair_type: Tensor | None, table: Tensor | None,
    global_bias: Tensor | None, *rest: Any,
) -> tuple[list[Tensor], Tensor, Tensor, Tensor]:  # fmt: skip
    none = qkv[0].new_empty(0)
    dbias, dtable, dglobal = (none if t is None else torch.empty_like(t) for t in (bias, table, global_bias))
    return [_empty_heads(t) for t in qkv], dbias, dtable, dglobal


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    qkv, parts, kinds, bias, pair_type, table, global_bias, scale, dropout, seed, q_ids, k_ids = inputs
    out, lse = output
    ctx.set_materialize_grads(False)
    ctx.constants = (kinds, scale, dropout, len(qkv), len(parts))
    exact = ("bias", bias), ("pair_type", pair_type), ("table", table), ("global_bias", global_bias)
    names = (*exact, ("seed", seed), ("q_ids", q_ids), ("k_ids", k_ids))
    roles = (
        (("q", Role.EXPONENTIAL), ("k", Role.EXPONENTIAL), ("v", Role.LINEAR))
        if len(qkv) == 3
        else (("qkv", Role.EXPONENTIAL),)
    )
    save(
        ctx, _OP,
        *((name, role, tensor) for (name, role), tensor in zip(roles, qkv, strict=True)),
        ("out", Role.LINEAR, out), ("lse", Role.EXACT, lse),
        *((name, Role.EXACT, tensor) for name, tensor in names),
        *(("layout", Role.EXACT, part) for part in parts),
    )  # fmt: skip


def _autograd(ctx: Any, dout: Tensor | None, dlse: Tensor | None) -> tuple[Any, ...]:
    kinds, scale, dropout, num_inputs, num_parts = ctx.constants
    tensors = saved(ctx)
    qkv, (out, lse, *terms) = tensors[:num_inputs], tensors[num_inputs : num_inputs + 9]
    bias, pair_type, table, global_bias, seed, q_ids, k_ids = terms
    parts = tensors[num_inputs + 9 :]
    nothing = (None,) * 5
    if dout is None and dlse is None:
        return ([None] * num_inputs, [None] * num_parts, None, *(None,) * 4, *nothing)
    assert out is not None
    dout = torch.zeros_like(out) if dout is None else dout
    grads, dbias, dtable, dglobal = _backward(
        dout, dlse, qkv, out, lse, parts, kinds, bias, pair_type, table, global_bias, scale, dropout, seed, q_ids, k_ids
    )
    return (
        grads, [None] * num_parts, None, None if bias is None else dbias, None,
        None if table is None else dtable, None if global_bias is None else dglobal, *nothing,
    )  # fmt: skip


_forward.register_autograd(_autograd, setup_context=_setup_context)
