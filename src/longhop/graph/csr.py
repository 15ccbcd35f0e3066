"""The graph: a frozen CSR whose rows are queries (destinations)."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from longhop.types import InputError

INT32_MAX = 2**31 - 1


class Transpose(NamedTuple):
    """The CSR seen from its keys: row ``j`` lists the queries that attend to ``j``."""

    rowptr: Tensor  # int64 [num_cols + 1]
    col: Tensor  # [E] query of each pair, ascending inside a row
    perm: Tensor  # [E] position of the pair in the untransposed CSR


def index_dtype(*sizes: int) -> torch.dtype:
    """int32 where every size fits, else int64."""
    return torch.int32 if all(size <= INT32_MAX for size in sizes) else torch.int64


@dataclass(frozen=True, eq=False, kw_only=True)
class CSRGraph:
    """A directed graph, possibly rectangular, in compressed rows.

    Row ``i`` lists the nodes that ``i`` attends to: an edge ``u -> v`` is the entry ``u`` of row ``v``.
    Validated once, here; everything below trusts it.

    Attributes:
        rowptr: int64 [N + 1] offsets.
        col: [E] keys, int32 where sizes fit, else int64; ascending inside a row, no duplicates
            when made by :mod:`longhop.graph.build`.
        num_cols: number of keys; N for a square graph.
        weight: None or floating [E].

    Raises:
        InputError: offsets or columns that are not those of a CSR.
    """

    rowptr: Tensor
    col: Tensor
    num_cols: int
    weight: Tensor | None = None
    _cache: dict[str, Transpose] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        _validate(self)

    @property
    def num_nodes(self) -> int:
        """Number of rows, N."""
        return self.rowptr.numel() - 1

    @property
    def num_edges(self) -> int:
        """Number of entries, E."""
        return self.col.numel()

    def degree(self) -> Tensor:
        """Entries per row (in-degree), int64 [N]."""
        return self.rowptr[1:] - self.rowptr[:-1]

    def rows(self) -> Tensor:
        """Row (query) of every entry, in ``col``'s type, [E]."""
        ids = torch.arange(self.num_nodes, dtype=self.col.dtype)
        return torch.repeat_interleave(ids, self.degree(), output_size=self.num_edges)

    def edge_index(self) -> Tensor:
        """COO as PyG has it: int64 [2, E], source (key) then target (query)."""
        return torch.stack([self.col.long(), self.rows().long()])

    def transpose(self) -> Transpose:
        """The transposed CSR and the permutation between the two, made once and kept."""
        if "transpose" not in self._cache:
            self._cache["transpose"] = _transpose(self)
        return self._cache["transpose"]


def _validate(graph: CSRGraph) -> None:
    rowptr, col = graph.rowptr, graph.col
    if rowptr.dtype != torch.int64 or rowptr.dim() != 1 or rowptr.numel() == 0:
        raise InputError(f"rowptr must be int64 [N + 1], got {rowptr.dtype} {list(rowptr.shape)}")
    if col.dtype not in (torch.int32, torch.int64) or col.dim() != 1:
        raise InputError(f"col must be int32 or int64 [E], got {col.dtype} {list(col.shape)}")
    if rowptr[0] != 0 or rowptr[-1] != col.numel() or bool((rowptr[1:] < rowptr[:-1]).any()):
        raise InputError(f"rowptr must rise from 0 to E = {col.numel()}, got {int(rowptr[0])} to {int(rowptr[-1])}")
    if col.numel():
        low, high = (int(v) for v in col.aminmax())
        if low < 0 or high >= graph.num_cols:
            bad = low if low < 0 else high
            raise InputError(f"col holds node {bad}, outside 0..{graph.num_cols - 1}")
    weight = graph.weight
    if weight is not None and (weight.shape != col.shape or not weight.is_floating_point()):
        raise InputError(f"weight must be floating [E] with E = {col.numel()}, got {weight.dtype} {list(weight.shape)}")


def _transpose(graph: CSRGraph) -> Transpose:
    # scipy's counting sort: linear in E, and queries stay ascending inside each transposed row.
    dtype = index_dtype(graph.num_nodes, graph.num_edges)
    position = np.arange(graph.num_edges, dtype=np.int32 if dtype == torch.int32 else np.int64)
    csr = sp.csr_array((position, graph.col.numpy(), graph.rowptr.numpy()), shape=(graph.num_nodes, graph.num_cols))
    csc = csr.tocsc()
    indptr, indices, perm = (torch.from_numpy(a) for a in (csc.indptr, csc.indices, csc.data))
    return Transpose(indptr.long(), indices.to(dtype), perm.to(dtype))
