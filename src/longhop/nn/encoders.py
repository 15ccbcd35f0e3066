"""What enters a graph transformer: degree embedding, hop-class bias, global tokens."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from longhop.layout import NUM_HOP_CLASSES
from longhop.layout.attention import PairBias
from longhop.nn.structure import GraphStructure
from longhop.types import InputError

EMBEDDING_STD = 0.02


class DegreeEmbedding(nn.Module):
    """One learned row for each in-degree; degrees over the cap share the last row.

    State dict: ``table.weight`` [cap + 1, h].

    Args:
        cap: largest degree that has a row of its own.
        hidden: width h.
    """

    def __init__(self, cap: int, hidden: int) -> None:
        super().__init__()
        if cap < 1:
            raise InputError(f"the cap of the degree embedding must be 1 or more, got {cap}")
        self.cap = cap
        self.table = nn.Embedding(cap + 1, hidden)
        nn.init.normal_(self.table.weight, std=EMBEDDING_STD)

    def forward(self, degree: Int[Tensor, " N"] | None) -> Float[Tensor, "N h"]:
        """Look up.

        Args:
            degree: int64 [N].

        Returns:
            [N, h].

        Raises:
            InputError: the structure has no degrees.
        """
        if degree is None:
            raise InputError("the degree embedding needs structure.degree: use GraphStructure.from_graph")
        rows: Tensor = self.table(degree.clamp(max=self.cap))
        return rows


class HopBias(nn.Module):
    """One learned number a head for each hop class of a pair, and for each global token's two roles.

    State dict: ``table`` [5, H] (classes of :meth:`AttentionLayout.hop_class`) and, with global tokens,
    ``tokens`` [2, G, H] (as key, as query).

    Args:
        heads: H.
        num_global: G.
    """

    def __init__(self, heads: int, num_global: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(NUM_HOP_CLASSES, heads).normal_(std=EMBEDDING_STD))
        self.tokens = nn.Parameter(torch.empty(2, num_global, heads).normal_(std=EMBEDDING_STD)) if num_global else None

    def forward(self, structure: GraphStructure) -> tuple[PairBias, Tensor | None]:
        """The two biases that attention takes.

        Args:
            structure: with ``pair_type``.

        Returns:
            ``(pair_type, table)`` and [2, G, H] or None.

        Raises:
            InputError: the structure has no pair types.
        """
        if structure.pair_type is None:
            raise InputError("the hop bias needs structure.pair_type: from_graph(..., hop_classes=True) makes it")
        return (structure.pair_type, self.table), self.tokens
