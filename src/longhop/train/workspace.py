"""Everything that a run's seeds share: data in their order, pairs, task."""

import time
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from longhop import env
from longhop.data import NodeDataset, load
from longhop.graph.build import induced, permute
from longhop.graph.csr import CSRGraph
from longhop.graph.order import Order
from longhop.models.base import NodeModel
from longhop.models.registry import build
from longhop.nn.structure import GraphStructure
from longhop.partition import cached_order
from longhop.train.config import OrderConfig, RunConfig
from longhop.train.loop import SPLITS, Part, View
from longhop.train.task import Task
from longhop.types import InputError


@dataclass(frozen=True, eq=False, kw_only=True)
class Workspace:
    """Data, order and pairs of a run, made once.

    Attributes:
        config: of the run.
        facts: what the header and the results say of the data.
        node_ids: original ids [N] in the original order, None for 0..N-1.
        order: where each node lies in memory.
        graph: reordered.
        x: features [N, F], reordered.
        y: labels, reordered.
        masks: bool [N, S] train, validation and test, reordered.
        task: loss and metric.
        structure: the pairs of the whole graph.
        template: the model without storage.
        seconds: time that preparation took.
    """

    config: RunConfig
    facts: dict[str, Any]
    node_ids: Any
    order: Order
    graph: CSRGraph
    x: Tensor
    y: Tensor
    masks: dict[str, Tensor]
    task: Task
    structure: GraphStructure
    template: NodeModel
    seconds: float
    _views: dict[int, tuple[View, View]] = field(default_factory=dict, repr=False)

    def build_model(self) -> NodeModel:
        """A freshly initialised model, from torch's generator."""
        return build(self.config.model, self.template.in_features, self.task.num_outputs)

    def split_of(self, seed: int) -> int:
        """The column of the split masks that a seed trains on."""
        return seed % self.num_splits if self.config.train.split_per_seed else self.config.data.split

    @property
    def num_splits(self) -> int:
        """S, splits that the data hold."""
        return self.masks["train"].shape[1]

    def views(self, split: int) -> tuple[View, View]:
        """What training sees and what evaluation sees; the same in the transductive setting."""
        if split not in self._views:
            parts = {name: _part(mask[:, split], self.y) for name, mask in self.masks.items()}
            full = View(self.x, self.structure, parts)
            inductive = self.config.train.setting == "inductive"
            self._views[split] = (self._training_view(parts["train"]) if inductive else full), full
        return self._views[split]

    def _training_view(self, part: Part) -> View:
        """The graph between training nodes alone."""
        graph = induced(self.graph, part.rows)
        structure = self.template.prepare(graph, node_ids=self.order.perm[part.rows])
        inside = {"train": Part(torch.arange(len(part.rows)), part.y)}
        return View(self.x[part.rows], structure, inside)


def prepare(config: RunConfig) -> Workspace:
    """Load the data, order the nodes, make the pairs.

    Raises:
        InputError: data or settings that a run cannot start from.
    """
    start = time.perf_counter()
    dataset = load(config.data)
    if dataset.x is None:
        raise InputError(f"{dataset.name}: the data have no node features, which a model needs; add an array of them")
    _check_splits(dataset, config)
    order, cached = _order(dataset.graph, config.order)
    natural = order is None
    kept = Order(torch.arange(dataset.num_nodes)) if order is None else order
    arrange = (lambda t: t) if natural else kept.apply
    graph = dataset.graph if natural else permute(dataset.graph, kept)
    task = _task(dataset, config)
    with torch.device("meta"):
        template = build(config.model, dataset.num_features, task.num_outputs)
    structure = template.prepare(graph, node_ids=None if natural else kept.perm)
    facts = _facts(dataset, config, structure, task) | {"order": _order_name(config, dataset, cached)}
    return Workspace(
        config=config,
        facts=facts,
        node_ids=dataset.node_ids,
        order=kept,
        graph=graph,
        x=arrange(dataset.x),
        y=arrange(dataset.y),
        masks={name: arrange(mask) for name, mask in zip(SPLITS, dataset.splits, strict=True)},
        task=task,
        structure=structure,
        template=template,
        seconds=time.perf_counter() - start,
    )


def _check_splits(dataset: NodeDataset, config: RunConfig) -> None:
    if not dataset.splits.train[:, config.data.split].any():
        raise InputError(f"{dataset.name}: split {config.data.split} has no training nodes; choose another split")
    if config.train.split_per_seed and config.data.features == "standardize":
        raise InputError(
            "train.split_per_seed contradicts data.features = standardize, which follows one split; "
            "run the splits one by one with --data.split"
        )


def _order(graph: CSRGraph, config: OrderConfig) -> tuple[Order | None, bool]:
    """The order (None = as it came) and whether it came from the cache."""
    kind = config.resolve(graph.num_nodes)
    if kind == "natural":
        return None, False
    return cached_order(graph, kind, config.num_clusters, config.seed, env.cache_dir())


def _order_name(config: RunConfig, dataset: NodeDataset, cached: bool) -> str:
    return config.order.resolve(dataset.num_nodes) + (" (cached)" if cached else "")


def _task(dataset: NodeDataset, config: RunConfig) -> Task:
    outputs = 1 if dataset.task == "binary" else dataset.num_classes
    return Task(kind=dataset.task, num_outputs=outputs, label_smoothing=config.train.label_smoothing)


def _facts(dataset: NodeDataset, config: RunConfig, structure: GraphStructure, task: Task) -> dict[str, Any]:
    """What the header and the results say of the data."""
    masks = dict(zip(SPLITS, dataset.masks(config.data.split), strict=True))
    notes = list(dataset.intake.notes)
    if task.kind == "multilabel":
        for name, mask in masks.items():
            skipped = dataset.num_classes - len(task.scored_labels(dataset.y[mask]))
            if skipped:
                notes.append(f"{skipped} of {dataset.num_classes} labels have one class in {name}: no ROC-AUC")
    return {
        "name": dataset.name,
        "fingerprint": dataset.fingerprint(),
        "nodes": dataset.num_nodes,
        "edges": dataset.graph.num_edges,
        "features": dataset.num_features,
        "classes": dataset.num_classes,
        "task": dataset.task,
        "splits": {name: int(mask.sum()) for name, mask in masks.items()},
        "pairs": structure.layout.num_pairs,
        "notes": notes,
    }


def _part(mask: Tensor, y: Tensor) -> Part:
    rows = mask.nonzero().flatten()
    return Part(rows, y[rows])
