"""Launches csrc/kernels/edge_softmax.cpp. Shapes and types were checked by op.py."""

import torch
from torch import Tensor

from longhop.ops import native
from longhop.ops.checks import packed


def edge_softmax(rowptr: Tensor, scores: Tensor) -> Tensor:
    """Weights [E, H] in the type of ``scores``."""
    out = torch.empty(scores.shape, dtype=scores.dtype)
    if scores.shape[1] > 0:
        native.call(
            "edge_softmax", "piipiip",
            packed(rowptr), rowptr.numel() - 1, scores.shape[0], packed(scores),
            scores.dtype == torch.bfloat16, scores.shape[1], out,
        )  # fmt: skip
    return out


def backward(rowptr: Tensor, grad: Tensor, weights: Tensor) -> Tensor:
    """Gradient of the scores, [E, H]."""
    out = torch.empty(grad.shape, dtype=grad.dtype)
    if grad.shape[1] > 0:
        native.call(
            "edge_softmax_grad", "piippiip",
            packed(rowptr), rowptr.numel() - 1, grad.shape[0], packed(grad), packed(weights),
            grad.dtype == torch.bfloat16, grad.shape[1], out,
        )  # fmt: skip
    return out
