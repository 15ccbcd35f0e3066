"""What a layer needs to know of a graph, made once a run."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from longhop.graph.csr import CSRGraph
from longhop.layout import AttentionLayout
from longhop.types import InputError


@dataclass(frozen=True, eq=False, kw_only=True)
class GraphStructure:
    """A layout and what belongs to its nodes and pairs.

    Attributes:
        layout: the query-key pairs; rows are the nodes, in the order of the features.
        node_ids: int64 [N] identity of each row, None for 0..N-1. Dropout masks are functions of
            identities, so a reordered graph with its ids gives the reordered result.
        degree: int64 [N] in-degree of the graph as it came; None where no layer asks for it.
        pair_type: uint8, uint16 or int32 [E] type of each pair, None where no layer asks for it.
        edge_weight: floating [E] constant weight of each pair, None for 1.
        row_ids: int64 [N + G], ``node_ids`` and N..N+G-1 for the global tokens; None with node_ids None.

    Raises:
        InputError: a tensor that does not have one entry a node or a pair.
    """

    layout: AttentionLayout
    node_ids: Tensor | None = None
    degree: Tensor | None = None
    pair_type: Tensor | None = None
    edge_weight: Tensor | None = None
    row_ids: Tensor | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        nodes, pairs = self.layout.num_rows, self.layout.num_pairs
        sizes = {"node_ids": nodes, "degree": nodes, "pair_type": pairs, "edge_weight": pairs}
        for name, size in sizes.items():
            tensor = getattr(self, name)
            if tensor is not None and tuple(tensor.shape) != (size,):
                raise InputError(f"{name} must have shape [{size}], got {list(tensor.shape)}")
        if self.node_ids is not None:
            if self.node_ids.dtype != torch.int64:
                raise InputError(f"node_ids must be int64, got {self.node_ids.dtype}")
            tokens = torch.arange(nodes, nodes + self.layout.num_global, device=self.node_ids.device)
            object.__setattr__(self, "row_ids", torch.cat([self.node_ids, tokens]))

    @classmethod
    def from_graph(
        cls,
        graph: CSRGraph,
        *,
        num_global: int = 0,
        node_ids: Tensor | None = None,
        given: CSRGraph | None = None,
        hop_classes: bool = False,
        use_weight: bool = False,
    ) -> "GraphStructure":
        """The structure whose pairs are the entries of ``graph``, exactly.

        Args:
            graph: the pairs.
            num_global: G, global tokens.
            node_ids: int64 [N] or None.
            given: the graph as it came, when pairs were added to it; its in-degrees are noted. None: ``graph``.
            hop_classes: note the class of each pair among the edges of ``given``
                (:meth:`AttentionLayout.hop_class`) as ``pair_type``.
            use_weight: take the entries' weights as ``edge_weight``.

        Returns:
            The structure; it shares the graph's tensors.

        Raises:
            InputError: sizes that do not fit.
        """
        layout = AttentionLayout.from_graph(graph, num_global=num_global)
        given = graph if given is None else given
        return cls(
            layout=layout,
            node_ids=node_ids,
            degree=given.degree(),
            pair_type=layout.hop_class(given) if hop_classes else None,
            edge_weight=graph.weight if use_weight else None,
        )


def check_inputs(x: Tensor, structure: GraphStructure, features: int, *, tokens: bool = False) -> None:
    """Refuse features that do not fit the graph or the layer, and anything that is not a structure.

    Args:
        x: a layer's input; must be [N, features], or [N + G, features] with ``tokens``.
        structure: what the caller gave as the graph.
        features: expected columns.
        tokens: whether the rows of the global tokens are part of ``x``.

    Raises:
        InputError: either is wrong.
    """
    if not isinstance(structure, GraphStructure):
        raise InputError(
            f"a layer takes a GraphStructure, got {type(structure).__name__}: make one, once a run, with "
            "GraphStructure.from_graph(graph) or model.prepare(graph)"
        )
    rows = structure.layout.num_keys if tokens else structure.layout.num_cols
    if x.dim() != 2 or x.shape[0] != rows or x.shape[1] != features:
        raise InputError(f"x must be [{rows}, {features}] for this layer and graph, got {list(x.shape)}")
