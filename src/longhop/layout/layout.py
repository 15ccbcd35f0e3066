"""Which query-key pairs one attention call has, and how they are stored."""

from dataclasses import dataclass

import torch
from torch import Tensor

from longhop.graph.csr import CSRGraph
from longhop.types import InputError

HOP_SELF = 0
HOP_FORWARD = 1
HOP_REVERSE = 2
HOP_BOTH = 3
HOP_OTHER = 4
NUM_HOP_CLASSES = 5


@dataclass(frozen=True, kw_only=True)
class LayoutReport:
    """What a layout holds compared with what was asked for.

    Attributes:
        pairs_requested: pairs of the graph plus those of the global tokens.
        pairs_kept: requested pairs that the layout holds.
        pairs_added: pairs that nobody asked for.
        pairs_dropped: requested pairs that the layout lacks.
        queries_without_keys: queries whose output is zero.
        bytes: memory of the stored tensors.
    """

    pairs_requested: int
    pairs_kept: int
    pairs_added: int
    pairs_dropped: int
    queries_without_keys: int
    bytes: int


@dataclass(frozen=True, eq=False, kw_only=True)
class AttentionLayout:
    """The query-key pairs of one attention call: the edges of a graph and ``G`` global tokens.

    Rows of the CSR are queries, its columns keys. The global tokens are the last ``G`` rows of q, k
    and v and are not in the CSR: every query sees each of them, each of them sees every key.

    Attributes:
        rowptr: int64 [N + 1] offsets of the queries.
        col: int32 or int64 [E] keys.
        t_rowptr: int64 [num_cols + 1] offsets of the transposed CSR, whose rows are keys.
        t_col: [E] query of each pair of the transposed CSR.
        perm: [E] place in ``col`` of each pair of the transposed CSR.
        num_cols: number of keys without the global tokens; N for a square layout.
        num_global: number of global tokens, G.
        max_degree: the longest row of the CSR.

    Raises:
        InputError: tensors whose sizes contradict each other, or a negative number of tokens.
    """

    rowptr: Tensor
    col: Tensor
    t_rowptr: Tensor
    t_col: Tensor
    perm: Tensor
    num_cols: int
    num_global: int = 0
    max_degree: int

    def __post_init__(self) -> None:
        if self.num_global < 0:
            raise InputError(f"num_global must be 0 or more, got {self.num_global}")
        if self.t_rowptr.numel() != self.num_cols + 1:
            raise InputError(
                f"t_rowptr must have num_cols + 1 = {self.num_cols + 1} entries, got {self.t_rowptr.numel()}"
            )
        for name in ("t_col", "perm"):
            if getattr(self, name).shape != self.col.shape:
                shape = list(getattr(self, name).shape)
                raise InputError(f"{name} must have one entry a pair, E = {self.col.numel()}, got {shape}")

    @classmethod
    def from_graph(cls, graph: CSRGraph, *, num_global: int = 0) -> "AttentionLayout":
        """The pairs of ``graph``, exactly, and ``num_global`` global tokens.

        Args:
            graph: every entry is a pair; self-loops are not added.
            num_global: G, the number of global tokens.

        Returns:
            The layout; it shares the graph's tensors.
        """
        transpose = graph.transpose()
        longest = int(graph.degree().max()) if graph.num_nodes else 0
        return cls(
            rowptr=graph.rowptr,
            col=graph.col,
            t_rowptr=transpose.rowptr,
            t_col=transpose.col,
            perm=transpose.perm,
            num_cols=graph.num_cols,
            num_global=num_global,
            max_degree=longest,
        )

    @classmethod
    def from_tensors(
        cls, rowptr: Tensor, col: Tensor, *, num_cols: int | None = None, num_global: int = 0
    ) -> "AttentionLayout":
        """A layout from the two tensors of a CSR.

        Args:
            rowptr: int64 [N + 1] offsets of the queries.
            col: int32 or int64 [E] keys.
            num_cols: number of keys; None means N.
            num_global: G, the number of global tokens.

        Returns:
            The layout, with its transpose made.

        Raises:
            InputError: the tensors are not those of a CSR.
        """
        keys = rowptr.numel() - 1 if num_cols is None else num_cols
        return cls.from_graph(CSRGraph(rowptr=rowptr, col=col, num_cols=keys), num_global=num_global)

    @property
    def num_rows(self) -> int:
        """Queries without the global tokens, N."""
        return self.rowptr.shape[0] - 1

    @property
    def num_queries(self) -> int:
        """Rows of q: N + G."""
        return self.num_rows + self.num_global

    @property
    def num_keys(self) -> int:
        """Rows of k and v: num_cols + G."""
        return self.num_cols + self.num_global

    @property
    def num_pairs(self) -> int:
        """Pairs of the CSR, E, without those of the global tokens."""
        return self.col.shape[0]

    @property
    def pair_order(self) -> Tensor | None:
        """Place of each stored pair in the caller's order; None where the two are the same, as here."""
        return None

    def rows(self) -> Tensor:
        """Query of every pair of the CSR, int64 [E]."""
        ids = torch.arange(self.num_rows, device=self.col.device)
        return torch.repeat_interleave(ids, self.rowptr.diff(), output_size=self.num_pairs)

    def pairs(self) -> Tensor:
        """Every pair, those of the global tokens included, for tests: O(E + G N) memory.

        Returns:
            int64 [2, M]: query row and key row; first the CSR's pairs in its order, then each query with the
            tokens as keys, then each token with the nodes as keys.
        """
        queries = torch.arange(self.num_queries)
        nodes = torch.arange(self.num_cols)
        query_tokens = torch.arange(self.num_rows, self.num_queries)
        key_tokens = torch.arange(self.num_cols, self.num_keys)
        csr = torch.stack([self.rows(), self.col.long()])
        as_keys = torch.cartesian_prod(queries, key_tokens).reshape(-1, 2).T
        as_queries = torch.cartesian_prod(query_tokens, nodes).reshape(-1, 2).T
        return torch.cat([csr, as_keys, as_queries], dim=1)

    def report(self) -> LayoutReport:
        """Count pairs, queries without keys and bytes."""
        tokens = self.num_global
        total = self.num_pairs + tokens * (self.num_rows + self.num_keys)
        empty = 0 if tokens else int((self.rowptr.diff() == 0).sum())
        stored = (self.rowptr, self.col, self.t_rowptr, self.t_col, self.perm)
        return LayoutReport(
            pairs_requested=total,
            pairs_kept=total,
            pairs_added=0,
            pairs_dropped=0,
            queries_without_keys=empty,
            bytes=sum(t.numel() * t.element_size() for t in stored),
        )

    def hop_class(self, given: CSRGraph) -> Tensor:
        """Relation of each pair (j -> i) to the edges of ``given``.

        0: i = j; 1: the edge j -> i is given; 2: only i -> j is given; 3: both are; 4: neither.
        Self-loops of ``given`` play no part.

        Args:
            given: the graph as it came, square, over the same nodes as this layout.

        Returns:
            uint8 [E], in the order of ``col``.

        Raises:
            InputError: the layout or ``given`` is not square, or their sizes differ.
        """
        sizes = {self.num_rows, self.num_cols, given.num_nodes, given.num_cols}
        if len(sizes) != 1:
            raise InputError(
                f"hop classes need a square layout and graph over the same nodes, got {self.num_rows} x "
                f"{self.num_cols} pairs and {given.num_nodes} x {given.num_cols} edges"
            )
        query, key = self.rows(), self.col.long()
        pairs = query * self.num_cols + key
        given_query, given_key = given.rows().long(), given.col.long()
        # Both lookups go through ascending numbers in ascending order, which the caches like.
        forward = _contains(_sorted_keys(given_query, given_key, self.num_cols), pairs)
        reverse = _contains(_sorted_keys(given_key, given_query, self.num_cols), pairs)
        table = torch.tensor([HOP_OTHER, HOP_FORWARD, HOP_REVERSE, HOP_BOTH], dtype=torch.uint8)
        found = table[forward.to(torch.int64) + 2 * reverse.to(torch.int64)]
        return torch.where(query == key, torch.zeros_like(found), found)


def _sorted_keys(query: Tensor, key: Tensor, num_cols: int) -> Tensor:
    """One ascending int64 a pair; sorts only where the rows are not ascending yet."""
    packed = query * num_cols + key
    if packed.numel() > 1 and bool((packed.diff() < 0).any()):
        packed = packed.sort().values
    return packed


def _contains(ascending: Tensor, wanted: Tensor) -> Tensor:
    """Whether each of ``wanted`` is in ``ascending``, bool."""
    if ascending.numel() == 0:
        return torch.zeros_like(wanted, dtype=torch.bool)
    place = torch.searchsorted(ascending, wanted).clamp_(max=ascending.numel() - 1)
    return ascending[place] == wanted
