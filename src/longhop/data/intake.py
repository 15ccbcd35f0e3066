"""From what a reader found to a checked :class:`NodeDataset`; every reader ends here."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from longhop.data.config import DataConfig
from longhop.data.dataset import IntakeReport, NodeDataset
from longhop.data.features import prepare_features, read_features
from longhop.data.files import Array
from longhop.data.labels import Labels, labelled, read_labels
from longhop.data.splits import random_split, read_splits
from longhop.graph.build import BuildReport, from_coo, symmetrize
from longhop.graph.csr import CSRGraph
from longhop.types import InputError


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a reader found, unchecked.

    Attributes:
        name: of the data set.
        src: [E] source of every edge.
        dst: [E] destination of every edge.
        num_nodes: N.
        y: labels, see :func:`longhop.data.labels.read_labels`.
        x: [N, F] or None.
        weight: [E] or None.
        splits: see :func:`longhop.data.splits.read_splits`; empty means that none came with the data.
        undirected: the format stores each undirected edge once, so that its reverse belongs to the graph.
        node_ids: original ids [N], or None.
        where: how messages name the source of ``edges``, ``x``, ``y``, ``train``, ``val``, ``test``.
        notes: sentences for the user.
        num_classes: C where the format says it, else 0.
    """

    name: str
    src: Array
    dst: Array
    num_nodes: int
    y: Array
    x: Array | None = None
    weight: Array | None = None
    splits: Mapping[str, Array] = field(default_factory=dict)
    undirected: bool = False
    node_ids: Array | None = None
    where: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    num_classes: int = 0

    def place(self, part: str) -> str:
        """How messages name the source of a part."""
        return self.where.get(part, f"{self.name}: {part}")


def assemble(found: Found, config: DataConfig) -> NodeDataset:
    """Check what a reader found and build the data set.

    Args:
        found: of the reader.
        config: of the run; its path and format have done their work already.

    Raises:
        InputError: anything that does not fit together, naming file, row and both numbers.
    """
    if found.num_nodes < 1:
        raise InputError(f"{found.place('y')}: the data set has {found.num_nodes} nodes; at least one is needed")
    notes = list(found.notes)
    graph, report = _graph(found, config.symmetrize or found.undirected)
    labels = read_labels(found.y, found.num_nodes, found.place("y"))
    labels = labels._replace(num_classes=max(labels.num_classes, found.num_classes))
    has_label = labelled(labels.y)
    given = found.splits
    if not given:
        given = random_split(has_label, config.seed)
        notes.append(f"no split came with the data: 60/20/20 at random, seed {config.seed}")
    where = {part: found.place(part) for part in given}
    splits, split_notes = read_splits(given, found.num_nodes, has_label, where)
    count = splits.train.shape[1]
    if not 0 <= config.split < count:
        raise InputError(f"split is {config.split}, but {found.name} has splits 0..{count - 1}; choose one of them")
    x = None
    if found.x is not None:
        x = read_features(found.x, found.num_nodes, found.place("x"))
        x = prepare_features(x, config.features, splits.train[:, config.split])
    elif config.features != "raw":
        raise InputError(f"features is {config.features}, but {found.name} has no features; use raw")
    return NodeDataset(
        name=found.name,
        graph=graph,
        x=x,
        y=labels.y,
        num_classes=labels.num_classes,
        task=_task(labels),
        splits=splits,
        node_ids=_checked_ids(found),
        intake=IntakeReport(build=report, notes=(*notes, *split_notes)),
    )


def joined(first: BuildReport, second: BuildReport) -> BuildReport:
    """The counts of two steps as those of one."""
    changes = (
        "duplicates_merged",
        "reverse_added",
        "self_loops_added",
        "self_loops_removed",
        "zeros_dropped",
    )
    sums = {name: getattr(first, name) + getattr(second, name) for name in changes}
    return replace(second, edges_given=first.edges_given, **sums)


def relabel(ids: Array, node_ids: Array, where: str) -> Array:
    """Positions 0..N-1 of original ids.

    Args:
        ids: [E] original ids, numbers or strings.
        node_ids: [N] original id of every node, no two equal.
        where: how messages name ``ids``.

    Raises:
        InputError: an id that ``node_ids`` lacks, or one that it holds twice.
    """
    if (ids.dtype.kind in "US") != (node_ids.dtype.kind in "US"):
        raise InputError(f"{where}: ids are {ids.dtype} but node_ids {node_ids.dtype}; give both in one type")
    order = np.argsort(node_ids, kind="stable")
    ranked = node_ids[order]
    twice = ranked[1:] == ranked[:-1]
    if twice.any():
        raise InputError(f"node_ids holds {ranked[1:][twice][0]!s} twice; give every node its own id")
    at = np.minimum(np.searchsorted(ranked, ids), max(len(ranked) - 1, 0))
    missing = ranked[at] != ids if len(ranked) else np.ones(len(ids), dtype=bool)
    if missing.any():
        row = int(missing.argmax())
        raise InputError(
            f"{where}, row {row}: node {ids[row]!s} is not among the {len(node_ids)} node_ids; "
            "add the node or remove the edge"
        )
    positions: Array = order[at]
    return positions


def _graph(found: Found, both_ways: bool) -> tuple[CSRGraph, BuildReport]:
    place = found.place("edges")
    _check_ids({"source": found.src, "target": found.dst}, found.num_nodes, place)
    weight = None if found.weight is None else torch.from_numpy(np.array(found.weight))
    with located(place):
        graph, report = from_coo(found.src, found.dst, found.num_nodes, weight)
        if both_ways:
            graph, second = symmetrize(graph)
            report = joined(report, second)
    return graph, report


def _check_ids(ends: Mapping[str, Array], num_nodes: int, place: str) -> None:
    for end, ids in ends.items():
        # Types that are no ids are for the builder to refuse.
        wrong = (ids < 0) | (ids >= num_nodes) if ids.dtype.kind in "iu" else np.zeros(0, dtype=bool)
        if wrong.any():
            row = int(wrong.argmax())
            spans = [(given.min(), given.max()) for given in ends.values()]
            from_one = min(low for low, _ in spans) == 1 and max(high for _, high in spans) == num_nodes
            hint = "these ids start at 1 and must start at 0" if from_one else "correct the id"
            raise InputError(
                f"{place}, {end} in row {row}: node {ids[row]} is outside 0..{num_nodes - 1} "
                f"(the graph has {num_nodes} nodes); {hint}"
            )


@contextmanager
def located(place: str) -> Iterator[None]:
    """Put the source of the data before the message of a check that does not know it."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{place}: {error}") from error


def _task(labels: Labels) -> Any:
    # A format may know of more classes than are present.
    if labels.task == "binary" and labels.num_classes > 2:
        return "multiclass"
    return labels.task


def _checked_ids(found: Found) -> Array | None:
    ids = found.node_ids
    if ids is not None and ids.shape != (found.num_nodes,):
        raise InputError(
            f"{found.place('node_ids')}: ids of shape {list(ids.shape)} for {found.num_nodes} nodes; "
            "give one for every node"
        )
    return ids
