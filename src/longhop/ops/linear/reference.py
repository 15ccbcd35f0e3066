"""A Linear and what stands around it, in plain torch. The oracle, and the path where there are no kernels."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from longhop.ops.fused_block import reference as elementwise
from longhop.ops.fused_block.reference import Dropout


class Before(NamedTuple):
    """What x goes through: a layer norm, an activation, or nothing."""

    act: str  # none, relu or gelu
    gamma: Tensor | None  # [F]; with beta and eps: layer norm
    beta: Tensor | None  # [F]
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        """What enters the product, [N, F]."""
        if self.gamma is not None:
            return F.layer_norm(x, self.gamma.shape, self.gamma, self.beta, self.eps)
        return F.gelu(x) if self.act == "gelu" else F.relu(x) if self.act == "relu" else x

    def gradient(self, x: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of x, gamma and beta (empty without a norm) from that of what enters the product."""
        if self.gamma is not None:
            centred = x - x.mean(1, keepdim=True)
            rstd = (centred.square().mean(1, keepdim=True) + self.eps).rsqrt()
            hat, scaled = centred * rstd, grad * self.gamma
            along = (scaled * hat).mean(1, keepdim=True)
            dx = rstd * (scaled - scaled.mean(1, keepdim=True) - hat * along)
            return dx, (grad * hat).sum(0), grad.sum(0)
        none = x.new_empty(0)
        if self.act == "gelu":
            return torch.ops.aten.gelu_backward(grad, x), none, none.clone()
        return torch.where(x <= 0, 0, grad) if self.act == "relu" else grad, none, none.clone()


class Wants(NamedTuple):
    """Which gradients are asked for."""

    x: bool
    weight: bool
    bias: bool
    norm: bool  # gamma and beta


def forward(
    x: Tensor, weight: Tensor, bias: Tensor | None, before: Before, residual: Tensor | None, dropout: Dropout
) -> Tensor:
    """``dropout(before(x) @ weight.T + bias) + residual``, [N, K]."""
    return elementwise.forward(F.linear(before(x), weight, bias), None, residual, "none", dropout)


def backward(
    grad: Tensor, x: Tensor | None, weight: Tensor | None, before: Before, dropout: Dropout, wants: Wants
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of x, weight, bias, gamma and beta; an empty tensor for what is not wanted."""
    grad = elementwise.grad_x(grad, None, None, None, "none", dropout)
    dx, dweight, dbias, dgamma, dbeta = (grad.new_empty(0) for _ in range(5))
    if wants.weight:
        assert x is not None
        dweight = grad.t() @ before(x)
    if wants.x or wants.norm:
        assert weight is not None
        back = grad @ weight
        found = (back, dgamma, dbeta) if x is None else before.gradient(x, back)
        dx = found[0] if wants.x else dx
        dgamma, dbeta = found[1:] if wants.norm else (dgamma, dbeta)
    return dx, dweight, grad.sum(0) if wants.bias else dbias, dgamma, dbeta
