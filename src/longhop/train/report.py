"""Results of a run: ``results.json`` for machines, ``results.md`` for people."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from longhop.train.console import percent
from longhop.train.journal import plain, write_atomic
from longhop.train.loop import SPLITS, Score


@dataclass(frozen=True, kw_only=True)
class SeedResult:
    """One training.

    Attributes:
        seed: of weights and dropout.
        split: column of the split masks.
        epochs: how many were trained.
        best_epoch: the one of the best validation metric (of equal ones the lowest validation loss), whose
            weights are kept; the last evaluated one without a validation split.
        scores: of that epoch's weights, by split.
        seconds: prepare, compute, evaluate; over all epochs.
        peak_rss_bytes: most memory of the process.
        fingerprint: of the data.
    """

    seed: int
    split: int
    epochs: int
    best_epoch: int
    scores: dict[str, Score]
    seconds: dict[str, float]
    peak_rss_bytes: int
    fingerprint: str

    def save(self, path: Path) -> None:
        """Write as JSON."""
        write_atomic(path, json.dumps(plain(asdict(self)), indent=2) + "\n")

    @classmethod
    def load(cls, path: Path) -> "SeedResult":
        """Read what :meth:`save` wrote."""
        values = json.loads(path.read_text(encoding="utf-8"))
        values["scores"] = {name: Score(**score) for name, score in values["scores"].items()}
        return cls(**values)


@dataclass(kw_only=True)
class Results:
    """All trainings of a run.

    Attributes:
        metric: accuracy, ROC-AUC or MAE.
        config: resolved settings.
        data: facts of the data.
        parameters: trainable numbers of the model.
        command: what was typed, or None when run from Python.
        versions: of longhop, torch, Python.
        hardware: processor, cores, threads, memory.
        seeds: one entry a finished seed.
    """

    metric: str
    config: dict[str, Any]
    data: dict[str, Any]
    parameters: int
    command: str | None
    versions: dict[str, str]
    hardware: dict[str, Any]
    seeds: list[SeedResult] = field(default_factory=list)

    def summary(self) -> dict[str, dict[str, float | None]]:
        """Mean and unbiased standard deviation (None for one seed) of the metric over seeds, by split."""
        return summarize([s.scores for s in self.seeds])

    def last_line(self) -> str:
        """``test accuracy NN.N %``: the mean over seeds of the test metric at the best validation epoch."""
        return f"test {self.metric} {percent(self.summary()['test']['mean'], self.metric)}"

    def save(self, folder: Path) -> None:
        """Write ``results.json`` and ``results.md``."""
        values = {
            "metric": self.metric,
            "setting": self.config["train"]["setting"],
            "summary": self.summary(),
            "peak_rss_bytes": max(s.peak_rss_bytes for s in self.seeds),
            "seconds": sum(sum(s.seconds.values()) for s in self.seeds),
            **asdict(self),
        }
        write_atomic(folder / "results.json", json.dumps(plain(values), indent=2) + "\n")
        write_atomic(folder / "results.md", self.markdown())

    def markdown(self) -> str:
        """The results as a page of Markdown."""
        name, metric = self.config["model"]["name"], self.metric
        lines = [
            f"# {name} on {self.data['name']}",
            "",
            "Test at the best validation epoch, of equal ones the one with the lowest validation loss.",
            "",
        ]
        lines += _table(("split", metric, "std", "seeds"), _summary_rows(self))
        lines += _table(("seed", "split", "best epoch", "epochs", *SPLITS, "seconds"), _seed_rows(self))
        lines += _table(("", ""), _facts(self))
        return "\n".join(lines) + "\n"


def summarize(rows: Sequence[dict[str, Score]]) -> dict[str, dict[str, float | None]]:
    """Mean and unbiased standard deviation of the metric, by split; None where there are too few values."""
    summary: dict[str, dict[str, float | None]] = {}
    for split in SPLITS:
        found = [scores[split].metric for scores in rows if split in scores]
        values = [value for value in found if value is not None]
        summary[split] = {
            "mean": statistics.fmean(values) if values else None,
            "std": statistics.stdev(values) if len(values) > 1 else None,
        }
    return summary


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(str(cell) for cell in line) + " |" for line in lines] + [""]


def _summary_rows(results: Results) -> list[list[Any]]:
    rows = []
    for split, score in results.summary().items():
        std = "-" if score["std"] is None else percent(score["std"], results.metric)
        rows.append([split, percent(score["mean"], results.metric), std, len(results.seeds)])
    return rows


def _seed_rows(results: Results) -> list[list[Any]]:
    rows = []
    for s in results.seeds:
        scores = [percent(s.scores[n].metric if n in s.scores else None, results.metric) for n in SPLITS]
        rows.append([s.seed, s.split, s.best_epoch, s.epochs, *scores, f"{sum(s.seconds.values()):.1f}"])
    return rows


def _facts(results: Results) -> list[list[Any]]:
    data, hardware, versions = results.data, results.hardware, results.versions
    counts = ("nodes", "edges", "features", "classes")
    sizes = ", ".join(f"{name} {count:,}" for name, count in data["splits"].items())
    return [
        ["data", f"{data['name']}, fingerprint {data['fingerprint']}"],
        [", ".join(counts), ", ".join(f"{data[name]:,}" for name in counts)],
        ["splits", sizes],
        ["setting", results.config["train"]["setting"]],
        ["parameters", f"{results.parameters:,}"],
        ["peak memory", f"{max(s.peak_rss_bytes for s in results.seeds) / 2**30:.2f} GiB"],
        ["hardware", f"{hardware['processor']}, {hardware['threads']} threads"],
        ["versions", ", ".join(f"{name} {version}" for name, version in versions.items())],
        ["command", f"`{results.command}`" if results.command else "run from Python"],
    ]
