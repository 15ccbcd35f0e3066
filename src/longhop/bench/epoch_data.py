"""What an epoch trains on, and its way into the processes that train."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from longhop.bench.cases import GraphName, OrderName, load_arxiv, make_graph
from longhop.graph.build import induced
from longhop.graph.csr import CSRGraph
from longhop.partition import cached_order

_FEATURES, _CLASSES = 128, 40  # of random data, as ogbn-arxiv has them as published
_SEED = 17


@dataclass(frozen=True, eq=False)
class EpochData:
    """A graph to train on.

    Attributes:
        graph: every edge both ways.
        x: float32 [N, F].
        y: int64 [N].
        train: int64 [M], rows whose labels the loss sees.
        num_classes: C.
    """

    graph: CSRGraph
    x: Tensor
    y: Tensor
    train: Tensor
    num_classes: int

    def restricted(self, nodes: Tensor) -> "EpochData":
        """Some nodes in the order given, and the edges between them."""
        is_train = torch.zeros(self.graph.num_nodes, dtype=torch.bool)
        is_train[self.train] = True
        train = is_train[nodes].nonzero().flatten()
        return EpochData(induced(self.graph, nodes), self.x[nodes], self.y[nodes], train, self.num_classes)

    def save(self, path: Path) -> None:
        """Write an npz file for :meth:`load`."""
        np.savez(
            path,
            rowptr=self.graph.rowptr.numpy(),
            col=self.graph.col.numpy(),
            x=self.x.numpy(),
            y=self.y.numpy(),
            train=self.train.numpy(),
            num_classes=self.num_classes,
        )

    @staticmethod
    def load(path: Path) -> "EpochData":
        """Read the file of :meth:`save`."""
        with np.load(path, allow_pickle=False) as file:
            rowptr, col, x, y, train = (torch.from_numpy(file[n]) for n in ("rowptr", "col", "x", "y", "train"))
            graph = CSRGraph(rowptr=rowptr, col=col, num_cols=len(rowptr) - 1)
            return EpochData(graph, x, y, train, int(file["num_classes"]))


def load_data(name: GraphName) -> EpochData:
    """A graph with features and labels, as it comes: ogbn-arxiv's own, random ones for the others.

    Raises:
        InputError: an unknown name, or the data are not here.
    """
    if name == "arxiv":
        found = load_arxiv()
        assert found.x is not None
        train = found.masks(0).train.nonzero().flatten()
        return EpochData(found.graph, found.x, found.y, train, found.num_classes)
    graph = make_graph(name).graph
    rng = torch.Generator().manual_seed(_SEED)
    x = torch.randn(graph.num_nodes, _FEATURES, generator=rng)
    y = torch.randint(_CLASSES, (graph.num_nodes,), generator=rng)
    train = torch.randperm(graph.num_nodes, generator=rng)[: graph.num_nodes // 2].sort().values
    return EpochData(graph, x, y, train, _CLASSES)


def arrange(data: EpochData, order: OrderName, peer_order: OrderName, nodes: int) -> tuple[EpochData, EpochData]:
    """What ours and what others train on: the same nodes, each in its order.

    Args:
        data: as it comes.
        order: ours.
        peer_order: of everybody else.
        nodes: 0 for all; otherwise the first so many of the cluster order.

    Returns:
        The data for ours and for the others.
    """
    wanted = {order, peer_order}
    kind: OrderName = "cluster" if nodes or "cluster" in wanted else "natural"
    clusters, _ = cached_order(data.graph, kind)
    chosen = clusters.perm[:nodes] if nodes else clusters.perm
    ordered = {"cluster": chosen, "natural": chosen.sort().values}
    made = {name: data.restricted(ordered[name]) for name in wanted}
    return made[order], made[peer_order]
