"""Multi-head self-attention over a graph."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from longhop.layout import graph_attention_qkvpacked
from longhop.layout.attention import PairBias
from longhop.nn.structure import GraphStructure, check_inputs
from longhop.ops.linear import LayerNorm, linear
from longhop.types import InputError

_ODD = 0x9E3779B97F4A7C15


def seed_offset(site: int) -> int:
    """What call site ``site`` adds to a step's seed: far apart for any two sites, never zero.

    Args:
        site: number of the call site.

    Returns:
        A signed 64-bit number.
    """
    word = (site + 1) * _ODD % 2**64
    return word - 2**64 if word >= 2**63 else word


def norm_of(norm: nn.LayerNorm | None) -> LayerNorm | None:
    """A layer norm as :func:`longhop.ops.linear.linear` takes it."""
    return None if norm is None else (norm.weight, norm.bias, norm.eps)


class GraphSelfAttention(nn.Module):
    """q, k and v from one Linear, attention over the pairs of a graph, and an output Linear.

    Heads are stored fastest: feature d of head h is column ``d * H + h``, which is what the kernels
    read without a copy.

    State dict: ``qkv.weight`` [3h, h] and ``qkv.bias`` [3h], rows ``i * h + d * H + head`` with i = 0
    (q), 1 (k), 2 (v); ``out.weight`` [h, h], columns ``d * H + head``, and ``out.bias`` [h].

    Args:
        hidden: width h of input and output.
        heads: H; divides ``hidden``.
        dropout: on attention weights, in training only.
        site: number of this layer among all that share a step's seed.

    Raises:
        InputError: heads does not divide hidden.
    """

    def __init__(self, hidden: int, heads: int, *, dropout: float = 0.0, site: int = 0) -> None:
        super().__init__()
        if heads < 1 or hidden % heads:
            raise InputError(f"heads must divide hidden, got heads = {heads} and hidden = {hidden}")
        self.hidden = hidden
        self.heads = heads
        self.dropout = dropout
        self.seed_offset = seed_offset(site)
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.out = nn.Linear(hidden, hidden)

    def attend(
        self,
        x: Float[Tensor, "M h"],
        structure: GraphStructure,
        *,
        bias: PairBias | None = None,
        global_bias: Tensor | None = None,
        seed: Tensor | None = None,
        norm: nn.LayerNorm | None = None,
    ) -> Float[Tensor, "M h"]:
        """The attention over ``norm(x)`` without the output Linear; other arguments as :meth:`forward`."""
        check_inputs(x, structure, self.hidden, tokens=True)
        rows = x.shape[0]
        packed = linear(x, self.qkv.weight, self.qkv.bias, norm=norm_of(norm))
        packed = packed.view(rows, 3, self.hidden // self.heads, self.heads)
        dropout = self.dropout if self.training else 0.0
        out = graph_attention_qkvpacked(
            packed.transpose(2, 3),
            structure.layout,
            bias=bias,
            global_bias=global_bias,
            dropout=dropout,
            seed=seed + self.seed_offset if dropout > 0 and seed is not None else None,
            ids=structure.row_ids,
        )
        assert isinstance(out, Tensor)
        return out.transpose(1, 2).reshape(rows, self.hidden)  # a view of [M, D, H] memory

    def forward(
        self,
        x: Float[Tensor, "M h"],
        structure: GraphStructure,
        *,
        bias: PairBias | None = None,
        global_bias: Float[Tensor, "2 G H"] | None = None,
        seed: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "M h"]:
        """Attend and project.

        Args:
            x: [N + G, h], the global tokens last.
            structure: the graph.
            bias: None, [E, H], or ``(pair_type, table)``; see :func:`longhop.layout.graph_attention`.
            global_bias: None or [2, G, H].
            seed: int64 tensor of one element, another one each step; needed in training with dropout.

        Returns:
            [N + G, h].

        Raises:
            InputError: shapes that do not fit, or dropout without a seed.
        """
        values = self.attend(x, structure, bias=bias, global_bias=global_bias, seed=seed)
        return linear(values, self.out.weight, self.out.bias)


def append_tokens(x: Float[Tensor, "N h"], tokens: Float[Tensor, "G h"]) -> Float[Tensor, "M h"]:
    """``x`` with the global tokens as its last rows, in x's type.

    Args:
        x: [N, h].
        tokens: [G, h].

    Returns:
        [N + G, h].
    """
    return torch.cat([x, tokens.to(x.dtype)])
