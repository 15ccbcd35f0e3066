"""``longhop bench epoch``: one training epoch of a model against the same model built from PyG's layers.

Each provider trains in a process of its own, an epoch at a time and in turn: its peak memory is that of the process.
"""

import dataclasses
import itertools
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from longhop.bench import child, peers
from longhop.bench.cases import CommonOptions, GraphName, OrderName, choose, has_arxiv, leave_out
from longhop.bench.epoch_check import check
from longhop.bench.epoch_data import EpochData, arrange, load_data
from longhop.bench.measure import WARM_UP, Mode, Timing
from longhop.bench.peer_models import build_peer, peer_structure
from longhop.bench.results import Report, Row
from longhop.bench.timing import Case, rows_of, set_up
from longhop.graph.order import bfs_order
from longhop.models import GCNConfig, ModelConfig, SAGEConfig, build, preset
from longhop.models.graph_transformer import TransformerConfig
from longhop.train import allocator
from longhop.train.loop import Part, View, train_step
from longhop.train.machine import peak_bytes
from longhop.train.rng import step_seed
from longhop.train.schedule import OptimConfig, make_optimizer
from longhop.train.task import Task
from longhop.types import InputError

ModelName = Literal["graphormer-slim", "gt", "gcn", "sage"]
GT_NODES = 64_000
"""PyG's gt needs over 20 GB for all of ogbn-arxiv."""


@dataclass(frozen=True, kw_only=True)
class EpochOptions(CommonOptions):
    """Options of ``longhop bench epoch``.

    Raises:
        InputError: a value out of range.
    """

    model: ModelName = "graphormer-slim"
    """What to train; encodings off, gcn and sage with three residual layers of 192 and batch norm."""
    graph: GraphName = "arxiv"
    """What to train on; local-169k where ogbn-arxiv is not installed."""
    order: OrderName = "cluster"
    """Order of the nodes in memory."""
    peer_order: Literal["same", "natural"] = "same"
    """Order in which everybody else gets the graph."""
    nodes: int | None = None
    """Only the first nodes of the cluster order; none given = 64,000 for gt, all for the others."""
    dropout: float | None = None
    """After layers; none given = the model's own."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nodes is not None and self.nodes < 1:
            raise InputError(f"--nodes must be at least 1, got {self.nodes}; leave it out for all")
        if self.dropout is not None and not 0 <= self.dropout < 1:
            raise InputError(f"--dropout must be in [0, 1), got {self.dropout}")


def model_config(options: EpochOptions) -> ModelConfig:
    """Settings of the model that the options name."""
    gnn: dict[str, Any] = {"layers": 3, "hidden": 192, "norm": "batch", "residual": True}
    made: dict[str, ModelConfig] = {"gcn": GCNConfig(**gnn), "sage": SAGEConfig(**gnn)}
    config = made[options.model] if options.model in made else preset(options.model)
    return config if options.dropout is None else dataclasses.replace(config, dropout=options.dropout)


def run(options: EpochOptions) -> Report:
    """Check that the models are the same, then train each in its own process.

    Args:
        options: what to measure.

    Returns:
        A row for each provider; peaks are those of whole processes.

    Raises:
        InputError: options that contradict each other.
        CheckFailedError: a counterpart computes something else; nothing was timed.
        ChildError: the process that trains ours died.
    """
    notes = []
    if options.graph == "arxiv" and not has_arxiv():
        options = dataclasses.replace(options, graph="local-169k")
        notes.append("ogbn-arxiv is not installed: random features on local-169k instead")
    config = model_config(options)
    with set_up(options):
        names, left_out = _participants(options, config)
        ours, theirs = _data(options)
        check(config, _small(ours), [name == "pyg-sparse" for name in names if name != "native"])
        with tempfile.TemporaryDirectory() as folder:
            files = {True: Path(folder) / "ours.npz", False: Path(folder) / "theirs.npz"}
            for mine, data in ((True, ours), (False, theirs)):
                data.save(files[mine])
            found, died = _train_all(options, names, files)
    timings: dict[tuple[str, Mode], Timing] = {(n, "epoch"): Timing.of(f["seconds"]) for n, f in found.items()}
    peaks = {name: int(f["peak_bytes"]) for name, f in found.items()}
    x_value = f"{options.graph} {options.order}"
    rows = rows_of(Case(f"epoch {options.model}", options, ours.graph, x_value, {}, peaks), timings)
    return Report(rows, [*notes, *left_out, *died, *_peaks(rows)])


def _participants(options: EpochOptions, config: ModelConfig) -> tuple[list[str], list[str]]:
    graph_as = ("edge-index",) if isinstance(config, TransformerConfig) else ("edge-index", "sparse")
    others = tuple(f"pyg-{name}" for name in graph_as)
    names = choose(options.providers, ("native", *others))
    return leave_out(names, dict.fromkeys(others, peers.why_no_pyg()))


def _data(options: EpochOptions) -> tuple[EpochData, EpochData]:
    data = load_data(options.graph)
    nodes = options.nodes if options.nodes is not None else GT_NODES if options.model == "gt" else 0
    peer_order: OrderName = options.order if options.peer_order == "same" else "natural"
    return arrange(data, options.order, peer_order, nodes if nodes < data.graph.num_nodes else 0)


def _small(data: EpochData) -> EpochData:
    """A part of the graph that an oracle in double precision can train on."""
    ball = bfs_order(data.graph).perm[:700]
    return data.restricted(ball)


def _train_all(
    options: EpochOptions, names: list[str], files: dict[bool, Path]
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Seconds of all counted epochs and the peak by provider, and why one is missing."""
    found: dict[str, dict[str, Any]] = {}
    notes = []
    workers = {}
    for name in names:
        argument = {"options": dataclasses.asdict(options), "provider": name, "data": str(files[name == "native"])}
        workers[name] = child.Worker("longhop.bench.epoch:train_alone", argument)
    try:
        for epoch in range(WARM_UP + options.repeat):
            for name in list(workers):
                try:
                    answer = workers[name].answer()
                except child.ChildError as error:
                    if name == "native":
                        raise
                    notes.append(f"{name}: {error}")
                    found.pop(name, None)
                    workers.pop(name).close()
                    continue
                seconds = found.setdefault(name, {"seconds": []})["seconds"]
                found[name]["peak_bytes"] = answer["peak_bytes"]
                if epoch >= WARM_UP:
                    seconds.append(answer["seconds"])
    finally:
        for worker in workers.values():
            worker.close()
    return found, notes


def train_alone(argument: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Train one provider in this process; called through :mod:`longhop.bench.child`.

    Args:
        argument: ``options``, ``provider``, and the file of its ``data``.

    Yields:
        ``seconds`` of an epoch, and ``peak_bytes`` of the process until then.
    """
    options = EpochOptions(**argument["options"])
    with set_up(options):
        torch.manual_seed(0)
        data = EpochData.load(Path(argument["data"]))
        model, view = _model_and_view(model_config(options), data, argument["provider"])
        task = Task(kind="multiclass", num_outputs=data.num_classes)
        config = OptimConfig()
        optimizer = make_optimizer(model, config)
        # What preparation needed is no part of training.
        allocator.release()
        for step in itertools.count():
            start = time.perf_counter()
            train_step(model, optimizer, view, task, rate=config.lr, seed=step_seed(0, step), clip_norm=0.0)
            yield {"seconds": time.perf_counter() - start, "peak_bytes": peak_bytes()}


def _model_and_view(config: ModelConfig, data: EpochData, provider: str) -> tuple[nn.Module, View]:
    features, parts = data.x.shape[1], {"train": Part(data.train, data.y[data.train])}
    ours = build(config, features, data.num_classes)
    if provider == "native":
        return ours, View(data.x, ours.prepare(data.graph), parts)
    structure: Any = peer_structure(ours, data.graph, sparse=provider == "pyg-sparse")
    return build_peer(config, features, data.num_classes), View(data.x, structure, parts)


def _peaks(rows: list[Row]) -> list[str]:
    """How our process's peak compares with the leanest of the others."""
    ours = [row.peak_bytes for row in rows if row.kernel_provider == "native" and row.peak_bytes]
    others = [row.peak_bytes for row in rows if row.kernel_provider != "native" and row.peak_bytes]
    if not ours or not others:
        return []
    share = ours[0] / min(others)
    return [f"our process's peak memory is {share:.2f} of the leanest other's"]
