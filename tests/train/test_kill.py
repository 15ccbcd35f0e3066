"""U50: a process that is killed leaves a run that goes on bit for bit."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from longhop.train import Console, load_yaml, run
from longhop.train.journal import read

EPOCHS = 40
CONFIG = """
data: {path: 'synthetic:sbm?num_nodes=200&seed=1'}
model: {name: graphormer, layers: 2, hidden: 16, heads: 2, attention_dropout: 0.2}
optim: {lr: 0.01, schedule: polynomial, warmup_epochs: 3}
train: {epochs: %d, save_every: 5, clip_norm: 1.0, threads: 1, allocator: false}
"""


def command(config: Path, out: Path, *more: str) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "longhop.cli.app", "train", str(config), "--out", str(out), *more]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("kill") / "run.yaml"
    file.write_text(CONFIG % EPOCHS)
    return file


@pytest.fixture(scope="module")
def unbroken(config: Path) -> Path:
    out = config.parent / "whole"
    run(dataclasses.replace(load_yaml(config), out=str(out)), console=Console(quiet=True))
    return out


def losses(out: Path) -> list[tuple[float, dict[str, float]]]:
    return [(line["loss"], line["validation"]) for line in read(out / "seed_0" / "journal.jsonl")]


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
def test_killed_in_mid_epoch_and_resumed(signum: int, config: Path, unbroken: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut"
    victim = subprocess.Popen(command(config, cut), stdout=subprocess.DEVNULL)
    journal = cut / "seed_0" / "journal.jsonl"
    while victim.poll() is None and (not journal.exists() or journal.read_bytes().count(b"\n") < 8):
        time.sleep(0.002)
    os.kill(victim.pid, signum)
    code = victim.wait()
    assert code == (-signal.SIGKILL if signum == signal.SIGKILL else 128 + signal.SIGTERM)
    assert 8 <= len(losses(cut)) < EPOCHS
    assert not (cut / "seed_0" / "result.json").exists()
    done = json.loads((cut / "seed_0" / "last" / "state.json").read_text())["epoch"]
    assert done % 5 == 0 if signum == signal.SIGKILL else done == len(losses(cut))
    resumed = subprocess.run(command(config, cut, "--resume", "auto"), capture_output=True, text=True, check=True)
    assert f"going on after epoch {done}" in resumed.stdout
    assert losses(cut) == losses(unbroken)
    assert len(losses(cut)) == EPOCHS
