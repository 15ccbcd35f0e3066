"""The settings of a run: one frozen dataclass, the same keys in YAML, in recipes and on the command line.

Config classes sit beside what they configure; this module only composes them.
"""

from dataclasses import dataclass, field
from typing import Literal

from longhop.data import DataConfig
from longhop.models.registry import ModelConfig
from longhop.train.schedule import OptimConfig
from longhop.types import InputError

OrderKind = Literal["auto", "natural", "degree", "rcm", "cluster"]
Setting = Literal["transductive", "inductive"]
NATURAL_UP_TO = 20_000
"""Largest number of nodes that order ``auto`` leaves as they came: they fit the cache anyway."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OrderConfig:
    """In which order nodes lie in memory. It changes speed, never results beyond rounding."""

    kind: OrderKind = "auto"
    """auto = cluster over 20,000 nodes, else natural."""
    num_clusters: int | None = None
    """Clusters of order cluster; None = from the cache size."""
    seed: int = 0
    """Seed of the partitioner."""

    def __post_init__(self) -> None:
        if self.num_clusters is not None and self.num_clusters < 1:
            raise InputError(f"order.num_clusters must be at least 1, got {self.num_clusters}; leave it out")
        if self.num_clusters is not None and self.kind not in ("auto", "cluster"):
            raise InputError(
                f"order.num_clusters = {self.num_clusters} contradicts order.kind = {self.kind}; "
                "drop one of them or take order.kind = cluster"
            )

    def resolve(self, num_nodes: int) -> Literal["natural", "degree", "rcm", "cluster"]:
        """The order to use for a graph of ``num_nodes`` nodes."""
        if self.kind != "auto":
            return self.kind
        return "cluster" if num_nodes > NATURAL_UP_TO or self.num_clusters is not None else "natural"


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig:
    """How long to train, how to judge, when to save."""

    epochs: int = 200
    """Most passes over the training nodes."""
    eval_every: int = 1
    """Epochs between two evaluations; the last epoch is always evaluated."""
    patience: int = 0
    """Evaluations without a better validation metric after which to stop; 0 = never."""
    setting: Setting = "transductive"
    """inductive = training sees only training nodes and the edges between them."""
    split_per_seed: bool = False
    """Seed k trains on split k modulo their number, as tables over several splits have it."""
    label_smoothing: float = 0.0
    """Share of the target spread over all classes, in [0, 1)."""
    clip_norm: float = 0.0
    """Largest norm of the whole gradient; 0 = no clipping."""
    save_every: int = 50
    """Epochs between two checkpoints; 0 = at the end and on a signal only."""
    allocator: bool = True
    """Set the C allocator up to keep freed memory (see train/allocator.py)."""
    threads: int = 0
    """Threads of torch and of the kernels; 0 = torch's own choice."""

    def __post_init__(self) -> None:
        for name, least in (
            ("epochs", 1),
            ("eval_every", 1),
            ("patience", 0),
            ("save_every", 0),
            ("threads", 0),
        ):
            if getattr(self, name) < least:
                raise InputError(f"train.{name} must be at least {least}, got {getattr(self, name)}")
        if not 0 <= self.label_smoothing < 1:
            raise InputError(f"train.label_smoothing must be in [0, 1), got {self.label_smoothing}")
        if not self.clip_norm >= 0:
            raise InputError(f"train.clip_norm must be at least 0, got {self.clip_norm}")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunConfig:
    """A whole run."""

    data: DataConfig
    """What to train on."""
    model: ModelConfig
    """What to train; ``name`` tells the kinds apart."""
    order: OrderConfig = field(default_factory=OrderConfig)
    """Order of the nodes in memory."""
    optim: OptimConfig = field(default_factory=OptimConfig)
    """Optimiser and its schedule."""
    train: TrainConfig = field(default_factory=TrainConfig)
    """Length, evaluation, checkpoints."""
    seeds: tuple[int, ...] = (0,)
    """One training a seed; each has a folder of its own."""
    out: str = ""
    """Run folder; empty = a new one under ``runs``."""

    def __post_init__(self) -> None:
        if not self.seeds:
            raise InputError("seeds is empty: give at least one, say --seeds 0")
        if len(set(self.seeds)) != len(self.seeds) or min(self.seeds) < 0:
            raise InputError(f"seeds must be distinct and not negative, got {list(self.seeds)}")
        if self.optim.warmup_epochs >= self.train.epochs and self.optim.warmup_epochs:
            raise InputError(
                f"optim.warmup_epochs = {self.optim.warmup_epochs} leaves nothing of train.epochs = "
                f"{self.train.epochs}; lower the first or raise the second"
            )
