"""The maths of the fused block in plain torch: any floating type, differentiable. The oracle."""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from longhop.ops.philox import keep_lanes

_LOW = 0xFFFFFFFF


class Dropout(NamedTuple):
    """What a mask is a function of, besides the column."""

    threshold: int  # 65536 p; 0: nothing is dropped
    seed: Tensor | None  # int64 [1]
    site: int  # which call of a step
    row_ids: Tensor | None  # int64 [N]; None: row numbers

    @property
    def scale(self) -> float:
        """What kept values are multiplied by."""
        return 65536 / (65536 - self.threshold)


def keep_mask(num_rows: int, width: int, dropout: Dropout) -> Tensor:
    """Which elements are kept, bool [N, F]."""
    assert dropout.seed is not None
    device = dropout.seed.device
    ids = torch.arange(num_rows, device=device) if dropout.row_ids is None else dropout.row_ids
    group = torch.arange((width + 7) // 8, device=device)
    site = torch.tensor(dropout.site, device=device)
    lanes = keep_lanes(
        dropout.seed, (ids & _LOW)[:, None], ((ids >> 32) & _LOW)[:, None], group, site, dropout.threshold / 65536
    )
    return lanes.flatten(1)[:, :width]


def _factor(x: Tensor, dropout: Dropout) -> Tensor | None:
    """0 or the scale of kept values, [N, F]; None where nothing is dropped."""
    if dropout.threshold == 0:
        return None
    return keep_mask(x.shape[0], x.shape[1], dropout).to(x.dtype) * dropout.scale


def forward(x: Tensor, bias: Tensor | None, residual: Tensor | None, act: str, dropout: Dropout) -> Tensor:
    """``dropout(act(x + bias)) + residual``, [N, F]."""
    out = x if bias is None else x + bias
    if act != "none":
        out = functional.gelu(out) if act == "gelu" else functional.relu(out)
    factor = _factor(x, dropout)
    out = out if factor is None else out * factor
    return out if residual is None else out + residual


def pack_bits(flags: Tensor) -> Tensor:
    """Bool [N, F] as uint8 [N, ceil(F / 8)]; column c is bit c % 8 of byte c // 8."""
    groups = (flags.shape[1] + 7) // 8
    padded = functional.pad(flags, (0, 8 * groups - flags.shape[1])).view(flags.shape[0], groups, 8)
    weight = torch.tensor([1 << bit for bit in range(8)], dtype=torch.uint8, device=flags.device)
    return (padded.to(torch.uint8) * weight).sum(-1, dtype=torch.uint8)


def unpack_bits(bits: Tensor, width: int) -> Tensor:
    """The inverse of :func:`pack_bits`, bool [N, F]."""
    shift = torch.arange(8, dtype=torch.uint8, device=bits.device)
    return ((bits[..., None] >> shift) & 1).flatten(1)[:, :width].bool()


def relu_bits(x: Tensor, bias: Tensor | None, dropout: Dropout) -> Tensor:
    """Which elements pass their gradient on: neither cut by relu nor dropped, packed."""
    flags = ~((x if bias is None else x + bias) <= 0)
    if dropout.threshold:
        flags = flags & keep_mask(x.shape[0], x.shape[1], dropout)
    return pack_bits(flags)


def grad_x(
    grad: Tensor, x: Tensor | None, bias: Tensor | None, bits: Tensor | None, act: str, dropout: Dropout
) -> Tensor:
    """Gradient of x, [N, F]; that of bias is its sum over rows."""
    if bits is not None:
        return grad * unpack_bits(bits, grad.shape[1]).to(grad.dtype) * dropout.scale
    factor = _factor(grad, dropout)
    grad = grad if factor is None else grad * factor
    if act == "none":
        return grad
    assert x is not None
    z = x if bias is None else x + bias
    cdf = 0.5 * (1 + torch.erf(z / math.sqrt(2)))
    return grad * (cdf + z * torch.exp(-0.5 * z * z) / math.sqrt(2 * math.pi))
