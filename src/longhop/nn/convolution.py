"""Graph convolutions: GCN and GraphSAGE."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from longhop.graph.build import add_self_loops
from longhop.graph.csr import CSRGraph
from longhop.layout import spmm
from longhop.nn.structure import GraphStructure, check_inputs
from longhop.ops.linear import linear
from longhop.types import InputError


def gcn_structure(graph: CSRGraph, node_ids: Tensor | None = None) -> GraphStructure:
    """The pairs and the constant weights of a GCN: ``D^-1/2 (A + I) D^-1/2``.

    D holds the row sums of A + I, A the weights of the graph (1 without). A node that has a self-loop
    keeps it and gets no second one; a row sum that is not positive gives weight 0.

    Args:
        graph: square.
        node_ids: int64 [N] or None.

    Returns:
        Structure with ``edge_weight`` float32 [E + added self-loops].

    Raises:
        InputError: the graph is not square.
    """
    if graph.num_nodes != graph.num_cols:
        raise InputError(f"a GCN needs a square graph, got {graph.num_nodes} x {graph.num_cols}")
    looped, _ = add_self_loops(graph)
    rows, col = looped.rows().long(), looped.col.long()
    given = torch.ones(looped.num_edges) if looped.weight is None else looped.weight
    total = torch.zeros(looped.num_nodes, dtype=torch.float64).index_add_(0, rows, given.double())
    inverse = torch.where(total > 0, total, 1).rsqrt() * (total > 0)
    weight = (inverse[rows] * given.double() * inverse[col]).float()
    weighted = CSRGraph(rowptr=looped.rowptr, col=looped.col, num_cols=looped.num_cols, weight=weight)
    return GraphStructure.from_graph(weighted, node_ids=node_ids, given=graph, use_weight=True)


def add_product(total: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """``total + x W^T``, written over ``total`` where types allow: saves a pass over [N, K] and its memory.

    Args:
        total: [N, K], not needed afterwards, nor by the backward of what made it.
        x: [N, F].
        weight: [K, F].

    Returns:
        [N, K].
    """
    if total.dtype == x.dtype == weight.dtype:
        return total.addmm_(x, weight.t())
    return total + linear(x, weight)


class GCNConv(nn.Module):
    """``out = A_hat x W^T + b`` with the constant weights of :func:`gcn_structure`.

    The narrower of the two sides is the one that is aggregated. State dict: ``lin.weight`` [out, in],
    ``bias`` [out], as in PyG.

    Args:
        in_features: input width.
        out_features: output width.
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.lin = nn.Linear(in_features, out_features, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_features))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot weights, zero bias."""
        nn.init.xavier_uniform_(self.lin.weight)
        nn.init.zeros_(self.bias)

    def propagate(self, x: Float[Tensor, "N F"], structure: GraphStructure) -> Float[Tensor, "N K"]:
        """:meth:`forward` without the bias."""
        check_inputs(x, structure, self.in_features)
        weight = structure.edge_weight
        if weight is None:
            raise InputError("GCNConv needs edge_weight: make the structure with gcn_structure(graph)")
        if self.in_features <= self.out_features:
            return linear(spmm(structure.layout, x, weight), self.lin.weight)
        return spmm(structure.layout, linear(x, self.lin.weight), weight)

    def forward(self, x: Float[Tensor, "N F"], structure: GraphStructure) -> Float[Tensor, "N K"]:
        """Convolve.

        Args:
            x: [N, in_features].
            structure: from :func:`gcn_structure`.

        Returns:
            [N, out_features].

        Raises:
            InputError: shapes that do not fit, or a structure without weights.
        """
        out = self.propagate(x, structure)
        return out + self.bias.to(out.dtype)


class SAGEConv(nn.Module):
    """``out = mean_j x_j W_l^T + b + x W_r^T`` over the neighbours as given; no self-loop is added.

    A node without neighbours has mean 0. State dict: ``lin_l.weight``, ``lin_l.bias``, ``lin_r.weight``,
    as in PyG.

    Args:
        in_features: input width.
        out_features: output width.
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.lin_l = nn.Linear(in_features, out_features)
        self.lin_r = nn.Linear(in_features, out_features, bias=False)

    @property
    def bias(self) -> Tensor:
        """The bias that :meth:`propagate` leaves out."""
        return self.lin_l.bias

    def reset_parameters(self) -> None:
        """Weights and bias uniform in +-1/sqrt(in_features)."""
        self.lin_l.reset_parameters()
        self.lin_r.reset_parameters()

    def propagate(self, x: Float[Tensor, "N F"], structure: GraphStructure) -> Float[Tensor, "N K"]:
        """:meth:`forward` without the bias."""
        check_inputs(x, structure, self.in_features)
        own = linear(x, self.lin_r.weight)
        if self.in_features <= self.out_features:
            neighbours = spmm(structure.layout, x, reduce="mean")
            return add_product(own, neighbours, self.lin_l.weight)
        return own.add_(spmm(structure.layout, linear(x, self.lin_l.weight), reduce="mean"))

    def forward(self, x: Float[Tensor, "N F"], structure: GraphStructure) -> Float[Tensor, "N K"]:
        """Convolve.

        Args:
            x: [N, in_features].
            structure: the graph, without self-loops added.

        Returns:
            [N, out_features].

        Raises:
            InputError: shapes that do not fit.
        """
        out = self.propagate(x, structure)
        return out + self.bias.to(out.dtype)
