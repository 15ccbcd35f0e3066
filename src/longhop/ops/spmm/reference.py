"""The maths of spmm in plain torch: O(E F) memory, any floating type, differentiable. The oracle."""

import torch
from torch import Tensor


def rows_of(rowptr: Tensor) -> Tensor:
    """Row of every pair, int64 [E]."""
    return torch.repeat_interleave(rowptr.diff())


def messages(col: Tensor, x: Tensor, weight: Tensor | None) -> Tensor:
    """``weight[e] * x[col[e]]``, [E, F]."""
    picked = x[col.long()]
    return picked if weight is None else picked * weight[:, None]


def spmm(rowptr: Tensor, col: Tensor, x: Tensor, weight: Tensor | None = None, *, mean: bool = False) -> Tensor:
    """Sum or mean of messages over each row, [Nq, F]; an empty row gives 0."""
    out = x.new_zeros(rowptr.numel() - 1, x.shape[1])
    out = out.index_add(0, rows_of(rowptr), messages(col, x, weight))
    return out / rowptr.diff().clamp(min=1)[:, None] if mean else out


def grad_x(
    rowptr: Tensor, t_rowptr: Tensor, t_col: Tensor, perm: Tensor, grad: Tensor, weight: Tensor | None, mean: bool
) -> Tensor:
    """Gradient of x: the sum over the transposed graph, weights read through ``perm``."""
    if mean:
        grad = grad / rowptr.diff().clamp(min=1)[:, None]
    return spmm(t_rowptr, t_col, grad, None if weight is None else weight[perm.long()])


def grad_weight(rowptr: Tensor, col: Tensor, grad: Tensor, x: Tensor, mean: bool) -> Tensor:
    """Gradient of the weights, [E]: one dot product a pair."""
    if mean:
        grad = grad / rowptr.diff().clamp(min=1)[:, None]
    return (grad[rows_of(rowptr)] * x[col.long()]).sum(1)


def tie_order(rowptr: Tensor, col: Tensor, k_ids: Tensor | None) -> Tensor:
    """Pairs of each row in the order in which ties are decided, int64 [E]: by identity, then position."""
    if k_ids is None:
        return torch.arange(col.numel(), device=col.device)
    by_id = torch.argsort(k_ids[col.long()], stable=True)
    return by_id[torch.argsort(rows_of(rowptr)[by_id], stable=True)]


def spmm_max(
    rowptr: Tensor, col: Tensor, x: Tensor, weight: Tensor | None = None, k_ids: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Largest message over each row, [Nq, F], and its position in the row, int64 [Nq, F].

    Ties go to the smallest ``k_ids[col]`` (to the first pair when None), NaN wins; an empty row gives 0, 0.
    """
    size = (rowptr.numel() - 1, x.shape[1])
    order = tie_order(rowptr, col, k_ids)
    row = rows_of(rowptr)
    values = messages(col, x, weight)[order]  # grouped by row still
    index = row[:, None].expand_as(values)
    best = values.new_zeros(size).scatter_reduce(0, index, values.detach(), "amax", include_self=False)
    rank = (torch.arange(order.numel(), device=col.device) - rowptr[row])[:, None].expand_as(values)
    rank = rank.where((values == best[row]) | values.isnan(), order.numel())
    first = torch.zeros(size, dtype=torch.int64, device=col.device)
    first = first.scatter_reduce(0, index, rank, "amin", include_self=False)
    full = (rowptr.diff() > 0)[:, None].expand(size)
    pair = (rowptr[:-1, None] + first)[full]  # in tie order
    column = torch.arange(size[1], device=col.device).expand(size)[full]
    out = values.new_zeros(size).index_put((full,), values[pair, column])
    position = torch.zeros_like(first)
    position[full] = (order[pair] - rowptr[:-1, None].expand(size)[full]).to(position.dtype)
    return out, position


def _won(rowptr: Tensor, winner: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Row, column and pair of every winner, empty rows left out."""
    full = (rowptr.diff() > 0)[:, None].expand(winner.shape)
    row, column = full.nonzero(as_tuple=True)
    return row, column, rowptr[row] + winner[row, column]


def max_grad_x(
    rowptr: Tensor, col: Tensor, num_sources: int, grad: Tensor, winner: Tensor, weight: Tensor | None
) -> Tensor:
    """Gradient of x: each output's gradient goes to its winner."""
    row, column, pair = _won(rowptr, winner)
    values = grad[row, column] if weight is None else grad[row, column] * weight[pair]
    flat = col.long()[pair] * grad.shape[1] + column
    return grad.new_zeros(num_sources * grad.shape[1]).index_add(0, flat, values).view(num_sources, grad.shape[1])


def max_grad_weight(rowptr: Tensor, col: Tensor, grad: Tensor, x: Tensor, winner: Tensor) -> Tensor:
    """Gradient of the weights, [E]."""
    row, column, pair = _won(rowptr, winner)
    return grad.new_zeros(col.numel()).index_add(0, pair, grad[row, column] * x[col.long()[pair], column])
