"""The maths of edge_softmax in plain torch: any floating type, differentiable. The oracle."""

import torch
from torch import Tensor


def edge_softmax(rowptr: Tensor, scores: Tensor) -> Tensor:
    """Softmax of ``scores`` [E, H] over the pairs of each row; -inf counts as absent."""
    row = torch.repeat_interleave(rowptr.diff())
    index, size = row[:, None].expand_as(scores), (rowptr.numel() - 1, scores.shape[1])
    top = scores.new_zeros(size).scatter_reduce(0, index, scores.detach(), "amax", include_self=False)
    top = top.masked_fill(top == -torch.inf, 0.0)
    weights = (scores - top[row]).exp()
    total = scores.new_zeros(size).index_add(0, row, weights)
    return weights / total.masked_fill(total == 0.0, 1.0)[row]


def backward(rowptr: Tensor, grad: Tensor, weights: Tensor) -> Tensor:
    """``weights * (grad - sum of weights * grad over the row)``, [E, H]."""
    row = torch.repeat_interleave(rowptr.diff())
    product = weights * grad
    total = grad.new_zeros(rowptr.numel() - 1, grad.shape[1]).index_add(0, row, product)
    return product - weights * total[row]
