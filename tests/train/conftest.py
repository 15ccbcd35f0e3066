import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longhop.data import DataConfig
from longhop.models import GCNConfig
from longhop.train import Console, OptimConfig, RunConfig, TrainConfig

Make = Callable[..., RunConfig]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGHOP_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def console() -> Console:
    return Console(quiet=True)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A run of a second; keyword arguments replace fields of the section that has them."""

    def make(**changes: Any) -> RunConfig:
        config = RunConfig(
            data=DataConfig(path="synthetic:sbm?num_nodes=60&seed=1"),
            model=GCNConfig(layers=2, hidden=8, dropout=0.5, norm="batch"),
            optim=OptimConfig(lr=0.01, schedule="cosine", warmup_epochs=2),
            train=TrainConfig(epochs=10, save_every=4, clip_norm=1.0, allocator=False),
            out=str(tmp_path / "run"),
        )
        for name, value in changes.items():
            if name in ("model", "order", "seeds", "out"):
                config = dataclasses.replace(config, **{name: value})
                continue
            sections = [s for s in ("data", "optim", "train") if hasattr(getattr(config, s), name)]
            section = dataclasses.replace(getattr(config, sections[0]), **{name: value})
            config = dataclasses.replace(config, **{sections[0]: section})
        return config

    return make
