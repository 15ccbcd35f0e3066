"""Metrics of a finished run, from its folder alone."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from longhop.train.loop import evaluate
from longhop.train.report import summarize
from longhop.train.runs import open_run


def evaluate_run(folder: Path, *, seed: int | None = None) -> dict[str, Any]:
    """Loss and metric of the best weights on the three splits, computed anew.

    Args:
        folder: of the run.
        seed: one seed; None = all.

    Returns:
        ``metric`` (its name), ``seeds`` (seed, epoch, scores by split), ``summary`` (mean and unbiased
        standard deviation by split).

    Raises:
        InputError: no such run or seed, or its data have changed.
    """
    run = open_run(folder)
    rows = []
    for each in sorted(run.seeds) if seed is None else (seed,):
        trained = run.load(each)
        rows.append((each, trained.epoch, evaluate(trained.model, trained.view, run.work.task)))
    seeds = [
        {"seed": each, "epoch": epoch, "scores": {name: asdict(s) for name, s in scores.items()}}
        for each, epoch, scores in rows
    ]
    summary = summarize([scores for _, _, scores in rows])
    return {"metric": run.work.task.metric_name, "seeds": seeds, "summary": summary}
