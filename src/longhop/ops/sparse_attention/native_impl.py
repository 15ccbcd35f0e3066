"""Launches the CPU kernels of csrc/kernels/attention_*.cpp.

The kernels want a row of q, k or v as [D, H] with heads fastest, padded so that it is a whole number of
eight-lane vectors: heads to 1, 2, 4, 8, 16 or 32, and D so that H D is a multiple of 8. Inputs that have
this form already are used where they lie; others are copied into it once.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from longhop.ops import native
from longhop.ops.philox import drop_threshold
from longhop.ops.sparse_attention.reference import Gradients, Terms
from longhop.types import InputError

MAX_HEADS = 32  # a kernel call; more heads are served in slices
MAX_TABLE_BYTES = 64 << 20  # partial sums of all work items together
GRAIN = 4096  # pairs a work item, as in csrc/attention.h


@dataclass(frozen=True)
class Edges:
    """Tensors of the edges part; see AttentionLayout."""

    rowptr: Tensor
    col: Tensor
    t_rowptr: Tensor
    t_col: Tensor
    perm: Tensor


@dataclass(frozen=True)
class Shape:
    """How rows look to the kernels."""

    heads: int  # as the caller counts them
    width: int  # D of the caller
    lane_heads: int  # heads in one vector
    groups: int  # vectors for one d
    padded_heads: int
    padded_width: int

    @staticmethod
    def of(heads: int, width: int) -> "Shape":
        """The smallest padded shape that holds ``heads`` x ``width``."""
        lanes = next((h for h in (1, 2, 4, 8) if h >= heads), 8)
        padded = next((h for h in (lanes, 16, 32) if h >= heads), heads)
        per_vector = max(8 // padded, 1)  # d of every head in one vector
        return Shape(heads, width, lanes, max(padded // 8, 1), padded, -(-width // per_vector) * per_vector)

    @property
    def vectors(self) -> int:
        """Eight-lane vectors in a row."""
        return self.padded_heads * self.padded_width // 8

    @property
    def exact(self) -> bool:
        """No padding."""
        return self.padded_heads == self.heads and self.padded_width == self.width


def rows(x: Tensor, shape: Shape) -> Tensor:
    """``x`` [N, H, D] as heads-fastest rows: a tensor whose row i starts at data_ptr + i * stride(0)."""
    _, h, d = x.shape
    right = (x.stride(1) == 1 and x.stride(2) == h) or h * d == 0
    if shape.exact and right and x.stride(0) >= 0:
        return x
    return _copy_rows(x, shape.padded_heads, shape.padded_width)


def _packed_rows(q: Tensor, k: Tensor, v: Tensor, shape: Shape) -> tuple[Tensor, Tensor, Tensor]:
    """:func:`rows` of each; in one pass where they lie beside each other, as one projection leaves them."""
    _, h, d = q.shape
    step = h * d * q.element_size()
    beside = q.shape == k.shape == v.shape and q.stride() == k.stride() == v.stride() and q.stride()[1:] == (1, h)
    beside = beside and k.data_ptr() - q.data_ptr() == step == v.data_ptr() - k.data_ptr()
    if shape.exact or not beside or shape.padded_width != d:
        return rows(q, shape), rows(k, shape), rows(v, shape)
    together = q.as_strided((q.shape[0], h, 3 * d), (q.stride(0), 1, h))
    packed = _copy_rows(together, shape.padded_heads, 3 * d)
    return packed[:, :d], packed[:, d : 2 * d], packed[:, 2 * d :]


def _copy_rows(x: Tensor, num_heads: int, width: int) -> Tensor:
    """[N, H, D] of any strides as contiguous [N, width, num_heads], zeros in the padding."""
    n, h, d = x.shape
    out = x.new_empty(n, width, num_heads)
    native.call(
        "head_rows", "piiiiiipiii", x, *x.stride(), n, h, d, out, num_heads, width, x.element_size()
    )  # fmt: skip
    return out


def _lanes(table: Tensor, shape: Shape) -> Tensor:
    """Rows of heads [T, H] as rows of lanes, fp32 [T, 8 groups]: repeated below eight heads, else padded."""
    padded = table.new_zeros(table.shape[0], shape.padded_heads, dtype=torch.float32)
    padded[:, : shape.heads] = table
    return padded.repeat(1, 8 // shape.lane_heads) if shape.padded_heads < 8 else padded


def _table(terms: Terms, num_global: int, shape: Shape) -> tuple[Tensor | None, int]:
    """Pair-type table and global bias as one table of lanes, and the number of pair types.

    With a global bias alone all other pairs are of one type, whose row holds zeros.
    """
    if terms.table is None and terms.global_bias is None:
        return None, 0
    parts = [torch.zeros(1, shape.heads) if terms.table is None else terms.table.float()]
    types = parts[0].shape[0]
    if terms.global_bias is not None:
        parts.append(terms.global_bias.reshape(2 * num_global, shape.heads).float())
    elif num_global:
        parts.append(torch.zeros(2 * num_global, shape.heads))
    return _lanes(torch.cat(parts), shape), types


def _common(terms: Terms, table: Tensor | None, types: int, first_group: int) -> tuple[str, list[object]]:
    """Trailing arguments that forward and backward share, from bias to first_group."""
    bias = None if terms.bias is None else terms.bias.float().contiguous()
    if terms.pair_type is not None and terms.pair_type.numel():
        largest = int(terms.pair_type.numpy().max())  # torch has no max for uint16
        if largest >= types:
            raise InputError(f"pair_type holds {largest}, the table has rows 0..{types - 1}")
    pair_type = None if terms.pair_type is None else terms.pair_type.contiguous()
    size = 0 if pair_type is None else pair_type.element_size()
    threshold = 0 if terms.seed is None else drop_threshold(terms.dropout)
    args = [bias, pair_type, size, types, table, terms.scale, threshold, terms.seed]
    return "ppiipfipppi", [*args, terms.q_ids, terms.k_ids, first_group]


def forward(
    q: Tensor, k: Tensor, v: Tensor, edges: Edges, num_global: int, terms: Terms, first_group: int = 0
) -> tuple[Tensor, Tensor]:
    """Output [Nq, H, D] with strides (D H, 1, H) in q's type, and lse fp32 [Nq, H]."""
    shape = Shape.of(q.shape[1], q.shape[2])
    qr, kr, vr = _packed_rows(q, k, v, shape)
    out = q.new_empty(q.shape[0], shape.width, shape.heads)
    lse = torch.empty(q.shape[0], q.shape[1], dtype=torch.float32)
    table, types = _table(terms, num_global, shape)
    signature, trailing = _common(terms, table, types, first_group)
    native.call(
        "attention_forward",
        "ppiiiiiiiii" + "pipipi" + "i" + signature + "pip",
        edges.rowptr, edges.col, edges.col.element_size(), edges.rowptr.numel() - 1, k.shape[0] - num_global,
        num_global, shape.heads, shape.width, shape.lane_heads, shape.groups, shape.vectors,
        qr, qr.stride(0), kr, kr.stride(0), vr, vr.stride(0), q.dtype == torch.bfloat16,
        *trailing, out, out.stride(0), lse,
    )  # fmt: skip
    return out.transpose(1, 2), lse


def fits_packed(qkv: Tensor) -> bool:
    """Whether one call can write all gradients into a tensor [N, 3, H, D], heads fastest."""
    return qkv.shape[2] <= MAX_HEADS


def _table_gradient_fits(num_pairs: int, num_rows: int, entries: int, shape: Shape) -> bool:
    items = (num_pairs + 4 * num_rows) // GRAIN + 2
    return items * entries * 8 * shape.groups * 4 <= MAX_TABLE_BYTES


def backward(
    dout: Tensor, dlse: Tensor | None, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor,
    edges: Edges, num_global: int, terms: Terms, first_group: int = 0, into: list[Tensor] | None = None,
) -> Gradients:  # fmt: skip
    """Gradients of q, k, v (strides (D H, 1, H), their types) and fp32 ones of bias, table, global bias.

    The former are written to ``into`` where given; see :func:`fits_packed`.
    """
    shape = Shape.of(q.shape[1], q.shape[2])
    qr, kr, vr = _packed_rows(q, k, v, shape)
    outr, doutr = rows(out, shape), rows(dout.to(q.dtype), shape)
    if into is None:
        dq, dk, dv = (t.new_empty(t.shape[0], shape.width, shape.heads) for t in (q, k, v))
    else:
        dq, dk, dv = (t.transpose(1, 2) for t in into)
    table, types = _table(terms, num_global, shape)
    entries = 0 if table is None else table.shape[0]
    num_pairs = edges.col.numel()
    by_type = table is not None and not _table_gradient_fits(num_pairs, q.shape[0], entries, shape)
    if by_type and terms.global_bias is not None:
        raise MemoryError(f"a table of {types} pair types with a global bias needs more than 64 MB of partial sums")
    dbias = torch.empty(num_pairs, shape.heads) if terms.bias is not None or by_type else None
    dtable = torch.empty_like(table) if table is not None and not by_type else None
    stats = torch.empty(q.shape[0], 2, 8 * shape.groups)
    signature, trailing = _common(terms, table, types, first_group)
    native.call(
        "attention_backward",
        "ppippipi" + "iiiiiiii" + "pipipipipi" + "i" + "pp" + signature + "ppppipp",
        edges.rowptr, edges.col, edges.col.element_size(), edges.t_rowptr, edges.t_col,
        edges.t_col.element_size(), edges.perm, edges.perm.element_size(),
        edges.rowptr.numel() - 1, k.shape[0] - num_global, num_global, shape.heads, shape.width, shape.lane_heads,
        shape.groups, shape.vectors, qr, qr.stride(0), kr, kr.stride(0), vr, vr.stride(0), outr, outr.stride(0),
        doutr, doutr.stride(0), q.dtype == torch.bfloat16, lse.contiguous(),
        None if dlse is None else dlse.float().contiguous(),
        *trailing, stats, dq, dk, dv, dq.stride(0), dbias, dtable,
    )  # fmt: skip
    heads = (g.transpose(1, 2) for g in (dq, dk, dv))
    return Gradients._make((*heads, *_term_gradients(terms, dbias, dtable, types, num_global)))


def _term_gradients(
    terms: Terms, dbias: Tensor | None, dtable: Tensor | None, types: int, num_global: int
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    grad_table = grad_global = None
    if dtable is not None:
        heads = (terms.table if terms.table is not None else terms.global_bias).shape[-1]  # type: ignore[union-attr]
        per_head = dtable[:, :heads]
        grad_table = per_head[:types].clone() if terms.table is not None else None
        if terms.global_bias is not None:
            grad_global = per_head[types:].reshape(2, num_global, heads).clone()
    elif dbias is not None and terms.table is not None and terms.pair_type is not None:
        grad_table = _sum_by_type(dbias, terms.pair_type.long(), types)
    return (dbias if terms.bias is not None else None), grad_table, grad_global


def _sum_by_type(ds: Tensor, pair_type: Tensor, types: int) -> Tensor:
    """Sum of ds [E, H] over pairs of each type, [T, H]: pairs sorted by type, so the order is fixed."""
    order = torch.argsort(pair_type, stable=True)
    lengths = torch.bincount(pair_type, minlength=types)
    return torch.segment_reduce(ds[order], "sum", lengths=lengths, axis=0, unsafe=True, initial=0.0)
