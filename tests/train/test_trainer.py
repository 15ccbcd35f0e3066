import csv
import dataclasses
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from longhop.models import GCNConfig, GraphormerConfig, GTConfig, SAGEConfig
from longhop.train import (
    Console,
    OrderConfig,
    RunConfig,
    StoppedError,
    TrainingFailedError,
    evaluate_run,
    load_yaml,
    predict_run,
    run,
    seed_run,
)
from longhop.train.journal import read
from longhop.train.workspace import prepare
from longhop.types import InputError

Make = Callable[..., RunConfig]


def losses(folder: Path | str, seed: int = 0) -> list[tuple[float, Any]]:
    """What must not depend on how often a run was stopped."""
    lines = read(Path(folder) / f"seed_{seed}" / "journal.jsonl")
    return [(line["loss"], line.get("train"), line.get("validation"), line.get("test")) for line in lines]


class StoppingConsole(Console):
    """Sends a signal to this process after an epoch."""

    def __init__(self, epoch: int, signum: int = signal.SIGTERM) -> None:
        super().__init__(quiet=True)
        self.epoch, self.signum = epoch, signum

    @contextmanager
    def progress(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        yield lambda line: os.kill(os.getpid(), self.signum) if line["epoch"] == self.epoch else None


def write_npz(path: Path, **changes: Any) -> str:
    """Ten nodes in a ring, two classes, masks."""
    source = np.arange(10)
    arrays = {
        "edge_index": np.stack([source, (source + 1) % 10]),
        "x": np.eye(10, dtype=np.float32),
        "y": source % 2,
        "train_mask": source < 6,
        "val_mask": (source >= 6) & (source < 8),
        "test_mask": source >= 8,
    } | changes
    np.savez(path, **{name: value for name, value in arrays.items() if value is not None})
    return str(path)


def test_a_run_writes_its_folder(make: Make, console: Console) -> None:
    config = make(seeds=(0, 4))
    results = run(config, console=console, command="longhop train x.yaml")
    folder = Path(config.out)
    assert load_yaml(folder / "config.yaml") == config
    stored = json.loads((folder / "results.json").read_text())
    test = [s["scores"]["test"]["metric"] for s in stored["seeds"]]
    assert stored["summary"]["test"]["mean"] == pytest.approx(np.mean(test))
    assert stored["summary"]["test"]["std"] == pytest.approx(np.std(test, ddof=1))
    assert stored["command"] == "longhop train x.yaml"
    assert stored["setting"] == "transductive"
    assert stored["peak_rss_bytes"] > 0
    assert stored["hardware"]["threads"] == torch.get_num_threads()
    assert results.last_line() == f"test accuracy {100 * np.mean(test):.1f} %"
    assert "longhop train x.yaml" in (folder / "results.md").read_text()
    lines = read(folder / "seed_4" / "journal.jsonl")
    assert [line["epoch"] for line in lines] == list(range(1, 11))
    assert lines[0]["seconds"]["prepare"] > 0
    assert lines[1]["seconds"]["prepare"] == 0
    assert {"loss", "lr", "train", "validation", "test", "peak_rss_bytes"} <= lines[0].keys()


@pytest.mark.parametrize("model", [None, GraphormerConfig(layers=1, hidden=8, heads=2, attention_dropout=0.2)])
def test_same_seed_same_losses(model: Any, make: Make, tmp_path: Path, console: Console) -> None:
    changes = {} if model is None else {"model": model}
    for out in ("a", "b"):
        run(make(out=str(tmp_path / out), **changes), console=console)
    assert losses(tmp_path / "a") == losses(tmp_path / "b")
    assert len(losses(tmp_path / "a")) == 10


def test_the_callers_random_numbers_are_left_alone(make: Make, console: Console) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    run(make(), console=console)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(("stop", "signum"), [(5, signal.SIGTERM), (8, signal.SIGINT), (10, signal.SIGTERM)])
def test_a_stopped_run_goes_on_bit_for_bit(
    stop: int, signum: int, make: Make, tmp_path: Path, console: Console
) -> None:
    whole = run(make(out=str(tmp_path / "whole")), console=console)
    config = make()
    with pytest.raises(StoppedError, match=f"after epoch {stop}") as caught:
        run(config, console=StoppingConsole(stop, signum))
    assert caught.value.signum == signum
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    resumed = run(config, resume="auto", console=console)
    assert losses(config.out) == losses(tmp_path / "whole")
    assert resumed.seeds[0].scores == whole.seeds[0].scores
    assert resumed.seeds[0].best_epoch == whole.seeds[0].best_epoch
    for name in ("best", "last"):
        files = [Path(out) / "seed_0" / name / "model.safetensors" for out in (config.out, tmp_path / "whole")]
        assert files[0].read_bytes() == files[1].read_bytes()


def test_finished_seeds_are_skipped_and_new_ones_added(make: Make, console: Console) -> None:
    config = make(seeds=(0,))
    run(config, console=console)
    file = Path(config.out) / "seed_0" / "result.json"
    stamp = file.stat().st_mtime_ns
    results = run(dataclasses.replace(config, seeds=(0, 1)), resume="auto", console=console)
    assert file.stat().st_mtime_ns == stamp
    assert [s.seed for s in results.seeds] == [0, 1]


def test_a_used_folder_needs_resume(make: Make, console: Console) -> None:
    run(make(), console=console)
    with pytest.raises(InputError, match="not empty; go on with --resume auto"):
        run(make(), console=console)


def test_other_settings_are_refused_on_resume(make: Make, console: Console) -> None:
    run(make(), console=console)
    with pytest.raises(InputError, match=r"has optim.lr = 0.01, this run 0.02"):
        run(make(lr=0.02), resume="auto", console=console)
    with pytest.raises(InputError, match=r"has model.name = gcn, this run sage"):
        run(make(model=SAGEConfig()), resume="auto", console=console)
    run(make(save_every=1, threads=1), resume="auto", console=console)


def test_other_data_are_refused_on_resume_unless_forced(make: Make, tmp_path: Path, console: Console) -> None:
    path = write_npz(tmp_path / "d.npz")
    config = make(path=path)
    with pytest.raises(StoppedError):
        run(config, console=StoppingConsole(3))
    write_npz(tmp_path / "d.npz", x=2 * np.eye(10, dtype=np.float32))
    before = (Path(config.out) / "config.yaml").stat().st_mtime_ns
    with pytest.raises(InputError, match=r"fingerprint .* restore the data or add --force-resume"):
        run(config, resume="auto", console=console)
    assert (Path(config.out) / "config.yaml").stat().st_mtime_ns == before
    run(config, resume="auto", force_resume=True, console=console)
    assert len(losses(config.out)) == 10


def test_a_loss_that_is_not_finite_stops_and_keeps_the_weights(
    make: Make, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = seed_run.train_step
    monkeypatch.setattr(
        seed_run, "train_step", lambda *a, rate, **k: float("nan") if rate == 0.0 else step(*a, rate=rate, **k)
    )
    rates = seed_run.learning_rate
    monkeypatch.setattr(seed_run, "learning_rate", lambda c, s, t: 0.0 if s == 6 else rates(c, s, t))
    config = make()
    with pytest.raises(TrainingFailedError, match=r"seed 0, epoch 7: the loss is nan; lower optim.lr"):
        run(config, console=console)
    assert len(losses(config.out)) == 6
    assert json.loads((Path(config.out) / "seed_0" / "last" / "state.json").read_text())["epoch"] == 4


def test_a_huge_rate_is_reported_not_hidden(make: Make, console: Console) -> None:
    model = SAGEConfig(layers=3, hidden=8, dropout=0.0)
    with pytest.raises(TrainingFailedError, match="the loss is"):
        run(make(model=model, lr=1e30, clip_norm=0.0, epochs=50), console=console)


def test_a_failing_evaluation_loses_nothing(
    make: Make, tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(make(out=str(tmp_path / "whole")), console=console)
    evaluate, calls = seed_run.evaluate, []

    def fails_once(*args: Any) -> Any:
        calls.append(1)
        if len(calls) == 6:
            raise MemoryError("too much")
        return evaluate(*args)

    monkeypatch.setattr(seed_run, "evaluate", fails_once)
    config = make()
    with pytest.raises(MemoryError):
        run(config, console=console)
    run(config, resume="auto", console=console)
    assert losses(config.out) == losses(tmp_path / "whole")


def test_a_full_disk_does_not_stop_a_run(
    make: Make, console: Console, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save, calls = seed_run.SeedRun.save, []

    def full_once(self: seed_run.SeedRun) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise OSError(28, "No space left on device")
        save(self)

    monkeypatch.setattr(seed_run.SeedRun, "save", full_once)
    config = make()
    run(config, console=console)
    assert "checkpoint not written (No space left on device)" in capsys.readouterr().err
    assert (Path(config.out) / "seed_0" / "last" / "model.safetensors").is_file()


def test_patience_stops_early_and_keeps_the_best(make: Make, console: Console) -> None:
    config = make(epochs=200, patience=3, eval_every=2, lr=0.1)
    seed = run(config, console=console).seeds[0]
    assert seed.epochs == seed.best_epoch + 6 < 200
    lines = [line for line in read(Path(config.out) / "seed_0" / "journal.jsonl") if "validation" in line]
    best = max(lines, key=lambda line: (line["validation"]["metric"], -line["validation"]["loss"]))
    assert best["epoch"] == seed.best_epoch
    assert best["test"]["metric"] == seed.scores["test"].metric


def test_without_validation_the_last_epoch_counts_and_nothing_stops(
    make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str], console: Console
) -> None:
    path = write_npz(tmp_path / "d.npz", val_mask=None)
    seed = run(make(path=path, patience=1), console=console).seeds[0]
    assert (seed.epochs, seed.best_epoch) == (10, 10)
    assert "validation" in capsys.readouterr().err


def test_training_alone_sees_no_other_node_in_the_inductive_setting(make: Make, console: Console) -> None:
    config = make(setting="inductive")
    work = prepare(config)
    training, full = work.views(0)
    assert len(training.x) == len(full.parts["train"].rows) < len(full.x)
    assert torch.equal(training.x, full.x[full.parts["train"].rows])
    assert training.structure.layout.num_rows == len(training.x)
    assert run(config, console=console).config["train"]["setting"] == "inductive"


def test_each_seed_has_its_own_split_where_asked(make: Make, tmp_path: Path, console: Console) -> None:
    rows = np.arange(10)
    masks = {
        name: np.stack([np.isin((rows + shift) % 10, chosen) for shift in (0, 3)], 1)
        for name, chosen in {"train_mask": range(6), "val_mask": (6, 7), "test_mask": (8, 9)}.items()
    }
    path = write_npz(tmp_path / "d.npz", **masks)
    results = run(make(path=path, split_per_seed=True, seeds=(0, 1, 2), epochs=3), console=console)
    assert [s.split for s in results.seeds] == [0, 1, 0]
    with pytest.raises(InputError, match="split_per_seed contradicts"):
        run(make(path=path, split_per_seed=True, features="standardize", out=str(tmp_path / "o")), console=console)
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("kind", ["degree", "rcm", "cluster"])
@pytest.mark.parametrize(
    "model",
    # Not batch norm: Adam makes steps of full size from the rounding errors that are the gradient of a bias before it.
    [
        GCNConfig(hidden=8, norm="layer"),
        GTConfig(layers=1, hidden=8, heads=2, attention_dropout=0.3, degree_embedding=True, hop_bias=True),
    ],
)
def test_the_order_changes_nothing_but_rounding(
    kind: Any, model: Any, make: Make, tmp_path: Path, console: Console
) -> None:
    for out, order in (("a", OrderConfig(kind="natural")), ("b", OrderConfig(kind=kind))):
        run(make(out=str(tmp_path / out), order=order, epochs=4, model=model), console=console)
    first, second = ([line[0] for line in losses(tmp_path / out)] for out in ("a", "b"))
    np.testing.assert_allclose(second, first, rtol=2e-4)
    tables = [np.loadtxt(predict_run(tmp_path / out), delimiter=",", skiprows=1) for out in ("a", "b")]
    np.testing.assert_array_equal(tables[0][:, 0], np.arange(60))
    np.testing.assert_allclose(tables[1][:, 2:], tables[0][:, 2:], atol=2e-3)


def test_evaluate_and_predict_need_the_folder_alone(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, console: Console
) -> None:
    ids = np.array([f"node {i}, x" for i in range(10)])
    edges = np.stack([ids, np.roll(ids, -1)])
    write_npz(tmp_path / "d.npz", node_ids=ids, edge_index=edges)
    monkeypatch.chdir(tmp_path)
    config = make(path="d.npz", seeds=(0, 1), order=OrderConfig(kind="degree"))
    results = run(config, console=console)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    folder = Path(config.out)
    found = evaluate_run(folder)
    for row, seed in zip(found["seeds"], results.seeds, strict=True):
        assert row["scores"]["test"]["metric"] == seed.scores["test"].metric
        assert row["scores"]["test"]["loss"] == pytest.approx(seed.scores["test"].loss, rel=1e-5)
    assert found["summary"] == results.summary()
    with predict_run(folder, tmp_path / "p.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == ids.tolist()
    assert all(float(row["p_0"]) + float(row["p_1"]) == pytest.approx(1, abs=1e-4) for row in rows)
    assert all(int(row["prediction"]) == (float(row["p_1"]) > 0.5) for row in rows)


def test_a_run_opened_again_refuses_what_does_not_fit(make: Make, tmp_path: Path, console: Console) -> None:
    with pytest.raises(InputError, match=r"holds no config.yaml"):
        evaluate_run(tmp_path)
    config = make(path=write_npz(tmp_path / "d.npz"), epochs=3)
    run(config, console=console)
    with pytest.raises(InputError, match="seed 3 has no weights"):
        predict_run(Path(config.out), seed=3)
    with pytest.raises(InputError, match="cannot be written"):
        predict_run(Path(config.out), tmp_path / "no" / "p.csv")
    write_npz(tmp_path / "d.npz", y=(np.arange(10) + 1) % 2)
    with pytest.raises(InputError, match="restore the data"):
        evaluate_run(Path(config.out))


@pytest.mark.parametrize("model", ["gcn", "sage", "graphormer", "gt"])
@pytest.mark.parametrize("graph", ["empty", "loops", "chain", "star", "doubled"])
def test_awkward_graphs_train_to_finite_numbers(
    graph: str, model: str, make: Make, tmp_path: Path, console: Console
) -> None:
    rows = np.arange(10)
    edges = {
        "empty": np.zeros((2, 0), dtype=np.int64),
        "loops": np.stack([rows, rows]),
        "chain": np.stack([rows[:-1], rows[1:]]),
        "star": np.stack([rows[1:], np.zeros(9, dtype=np.int64)]),
        "doubled": np.tile(np.stack([rows, (rows + 1) % 10]), 3),
    }
    configs = {
        "gcn": make().model,
        "sage": SAGEConfig(hidden=8),
        "graphormer": GraphormerConfig(layers=1, hidden=8, heads=2),
        "gt": GTConfig(layers=1, hidden=8, heads=2),
    }
    path = write_npz(tmp_path / "d.npz", edge_index=edges[graph])
    results = run(make(path=path, model=configs[model], epochs=5), console=console)
    assert all(np.isfinite(score.loss) for score in results.seeds[0].scores.values())
    assert all(np.isfinite(line[0]) for line in losses(results.config["out"]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": None}, "no node features"),
        ({"x": np.full((10, 2), np.nan, dtype=np.float32)}, "nan|finite"),
        ({"train_mask": np.zeros(10, dtype=bool)}, "training split"),
        ({"edge_index": np.array([[0], [10]])}, "10"),
        ({"x": np.zeros((9, 2), dtype=np.float32)}, "9"),
    ],
)
def test_bad_data_leave_no_folder(
    changes: dict[str, Any], message: str, make: Make, tmp_path: Path, console: Console
) -> None:
    config: RunConfig = make(path=write_npz(tmp_path / "d.npz", **changes))
    with pytest.raises(InputError, match=message):
        run(config, console=console)
    assert not Path(config.out).exists()
