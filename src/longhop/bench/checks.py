"""Nothing is timed before it was right: comparisons against oracles in double precision.

The oracle is ``reference.py`` of the op under autograd, so it shares no backward formula with the kernels.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from longhop.layout import AttentionLayout
from longhop.ops.sparse_attention import reference

SAMPLES = 200
_MOST_NUMBERS = 25_000_000
"""Pairs x heads x width that an oracle may hold in one tensor."""


class CheckFailedError(RuntimeError):
    """A provider computes something else than the oracle: its speed means nothing."""


def compare(what: str, got: Tensor, want: Tensor, tolerance: float, floor: float = 0.0) -> None:
    """Compare in the 2-norm and element by element.

    Args:
        what: provider and tensor, for the message.
        got: what a provider computed.
        want: the oracle's, same shape.
        tolerance: largest ``|got - want| / |want|``; of a single element ten times that, over the largest.
        floor: size of an element below which ``want`` counts as noise of that size: what is zero in exact
            arithmetic by cancellation has rounding errors of the size of its terms.

    Raises:
        CheckFailedError: shapes differ, a number is not finite or a bound is exceeded.
    """
    if got.shape != want.shape:
        raise CheckFailedError(f"{what}: shape {list(got.shape)}, expected {list(want.shape)}")
    if want.numel() == 0:
        return
    a, b = got.detach().double(), want.detach().double()
    if not bool(a.isfinite().all()):
        raise CheckFailedError(f"{what}: {int((~a.isfinite()).sum())} of {a.numel()} numbers are not finite")
    whole = float((a - b).norm()) / max(float(b.norm()), floor * math.sqrt(b.numel()), 1e-30)
    single = float((a - b).abs().max()) / max(float(b.abs().max()), floor, 1e-30)
    if whole > tolerance or single > 10 * tolerance:
        raise CheckFailedError(
            f"{what} is off by {whole:.1e} of its norm (at most {tolerance:.0e}) and {single:.1e} of its "
            f"largest element (at most {10 * tolerance:.0e}); no time is given"
        )


def compare_all(
    provider: str, got: Mapping[str, Tensor], want: Mapping[str, Tensor], tolerance: float, floor: float = 0.0
) -> None:
    """:func:`compare` for every tensor of the oracle.

    Args:
        provider: for the message.
        got: at least what ``want`` has.
        want: the oracle's.
        tolerance: see :func:`compare`.
        floor: see :func:`compare`.

    Raises:
        CheckFailedError: one is off.
    """
    for name, tensor in want.items():
        compare(f"{provider}: {name}", got[name], tensor, tolerance, floor)


@dataclass(frozen=True, eq=False)
class SubProblem:
    """Some rows of a layout and all that their outputs and gradients depend on.

    Attributes:
        rows: int64 [M], the sampled rows.
        queries: int64 [Q] ascending: the rows and every query that sees one of them.
        keys: int64 [K] ascending: the rows and all keys of ``queries``.
        entries: int64 [P] positions in the layout's ``col`` of all pairs of ``queries``.
        pairs: the same pairs, as places in ``queries`` and ``keys``.
    """

    rows: Tensor
    queries: Tensor
    keys: Tensor
    entries: Tensor
    pairs: reference.Pairs

    @property
    def as_queries(self) -> Tensor:
        """Places of the rows in ``queries``."""
        return torch.searchsorted(self.queries, self.rows)

    @property
    def as_keys(self) -> Tensor:
        """Places of the rows in ``keys``."""
        return torch.searchsorted(self.keys, self.rows)


def sample(layout: AttentionLayout, numbers_a_pair: int, seed: int = 0) -> SubProblem:
    """A sub-problem of up to :data:`SAMPLES` rows that an oracle can hold.

    A sampled row's dq needs its own pairs; its dk and dv need every query that sees it, each with all its
    pairs. Rows whose sub-problem is too large for the others' sake (neighbours of hubs) are left out.

    Args:
        layout: square, without global tokens.
        numbers_a_pair: numbers that the oracle holds for a pair in one tensor.
        seed: of the draw.
    """
    order = torch.randperm(layout.num_rows, generator=torch.Generator().manual_seed(seed))[:SAMPLES]
    degree = layout.rowptr.diff()
    seen = torch.zeros(layout.t_col.numel() + 1, dtype=torch.int64)
    torch.cumsum(degree[layout.t_col.long()], 0, out=seen[1:])
    cost = (seen[layout.t_rowptr[order + 1]] - seen[layout.t_rowptr[order]]) + degree[order]
    order = order[cost.argsort(stable=True)]
    fits = cost.sort().values.cumsum(0) <= _MOST_NUMBERS // numbers_a_pair
    fits[0] = True
    rows = order[fits].sort().values
    sees_row = layout.t_col.long()[_entries(layout.t_rowptr, rows)]
    queries = _distinct(torch.cat([rows, sees_row]))
    entries = _entries(layout.rowptr, queries)
    col = layout.col.long()[entries]
    keys = _distinct(torch.cat([rows, col]))
    query = torch.repeat_interleave(torch.arange(len(queries)), degree[queries])
    pairs = reference.Pairs(query, torch.searchsorted(keys, col), len(entries))
    return SubProblem(rows, queries, keys, entries, pairs)


def whole(layout: AttentionLayout) -> SubProblem:
    """All rows of a small layout as a sub-problem."""
    ids = torch.arange(layout.num_rows)
    pairs = reference.Pairs(layout.rows(), layout.col.long(), layout.num_pairs)
    return SubProblem(ids, ids, ids, torch.arange(layout.num_pairs), pairs)


def gradients(out: Tensor, inputs: Sequence[Tensor], dout: Tensor) -> tuple[Tensor, ...]:
    """Gradients of every input, zeros for one that the output does not depend on."""
    found = torch.autograd.grad(out, list(inputs), dout, allow_unused=True)
    return tuple(torch.zeros_like(x) if g is None else g for x, g in zip(inputs, found, strict=True))


def _distinct(ids: Tensor) -> Tensor:
    """Each id once, ascending."""
    return torch.from_numpy(np.unique(ids.numpy()))


def _entries(rowptr: Tensor, rows: Tensor) -> Tensor:
    """Positions of all entries of some rows, row after row."""
    length = rowptr[rows + 1] - rowptr[rows]
    start = rowptr[rows] - (length.cumsum(0) - length)
    return torch.repeat_interleave(start, length) + torch.arange(int(length.sum()))
