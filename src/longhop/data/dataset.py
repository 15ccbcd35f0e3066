"""A node-level data set in memory, as every run sees it."""

import hashlib
from dataclasses import dataclass
from typing import Literal, NamedTuple

from torch import Tensor

from longhop.data.files import Array
from longhop.graph.build import BuildReport, content_hash
from longhop.graph.csr import CSRGraph

Task = Literal["multiclass", "binary", "multilabel", "regression"]


class Splits(NamedTuple):
    """Which nodes train, validate and test: three bool masks, [N, S] for S splits or [N] for one of them."""

    train: Tensor
    val: Tensor
    test: Tensor


@dataclass(frozen=True, kw_only=True)
class IntakeReport:
    """What was understood and changed while the data came in.

    Attributes:
        build: counts of the edges.
        notes: sentences for the user: what was assumed, left out or is missing.
    """

    build: BuildReport
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class NodeDataset:
    """One graph with features, labels and splits; checked at intake, trusted below.

    Attributes:
        name: of the data set.
        graph: the graph, duplicates merged, reverse edges added where asked for, self-loops as given.
        x: float32 [N, F], finite, or None.
        y: int64 [N] class ids with -1 = unlabelled (multiclass, binary), or float32 [N, T] with
            NaN = unlabelled (multilabel: 0 and 1; regression).
        num_classes: C classes, or T columns of a float ``y``.
        task: ``binary`` is two classes.
        splits: bool [N, S]; disjoint, of labelled nodes only, every training split non-empty.
        node_ids: original ids [N], or None where they are 0..N-1.
        intake: what was understood.
    """

    name: str
    graph: CSRGraph
    x: Tensor | None
    y: Tensor
    num_classes: int
    task: Task
    splits: Splits
    node_ids: Array | None = None
    intake: IntakeReport

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.graph.num_nodes

    @property
    def num_features(self) -> int:
        """F; 0 without features."""
        return 0 if self.x is None else self.x.shape[1]

    @property
    def num_splits(self) -> int:
        """S."""
        return self.splits.train.shape[1]

    def masks(self, split: int) -> Splits:
        """Three bool [N] masks: column ``split`` of the splits."""
        train, val, test = (mask[:, split].contiguous() for mask in self.splits)
        return Splits(train, val, test)

    def fingerprint(self) -> str:
        """32 hex digits of graph, features, labels and splits: equal data, equal digits, on any machine."""
        digest = hashlib.blake2b(digest_size=16)
        digest.update(content_hash(self.graph).encode())
        for part in (self.x, self.y, *self.splits):
            if part is not None:
                digest.update(f"{part.dtype}{list(part.shape)}".encode())
                if part.numel():
                    digest.update(part.contiguous().numpy().data)
        return digest.hexdigest()
