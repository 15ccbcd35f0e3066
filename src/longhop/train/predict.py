"""Predictions of a finished run under the original ids, from its folder alone."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TextIO

from torch import Tensor

from longhop.train.loop import outputs
from longhop.train.runs import open_run
from longhop.train.task import Task
from longhop.types import InputError

_ROWS_AT_ONCE = 65_536


def predict_run(folder: Path, out: Path | None = None, *, seed: int | None = None) -> Path:
    """Write ``id, prediction`` and a probability a class (or label) for every node.

    The prediction is the most likely class; the labels over one half, separated by blanks (multilabel); or
    the values (regression, which has no probabilities).

    Args:
        folder: of the run.
        out: CSV file to write; None = ``predictions.csv`` in the run folder.
        seed: whose weights; None = the best on validation.

    Returns:
        The file written.

    Raises:
        InputError: no such run or seed, its data have changed, or the file cannot be written.
    """
    run = open_run(folder)
    trained = run.load(run.seeds[0] if seed is None else seed)
    work = run.work
    values = work.task.probabilities(work.order.undo(outputs(trained.model, trained.view)))
    ids = range(len(values)) if work.node_ids is None else work.node_ids.tolist()
    target = folder / "predictions.csv" if out is None else out
    partial = target.with_name(target.name + ".tmp")
    try:
        with partial.open("w", newline="", encoding="utf-8") as file:
            _write(file, work.task, ids, values)
        partial.replace(target)
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror}); choose another file with --out") from None
    return target


def _write(file: TextIO, task: Task, ids: Sequence[object], values: Tensor) -> None:
    writer = csv.writer(file, lineterminator="\n")
    shown = 0 if task.kind == "regression" else values.shape[1]
    writer.writerow(["id", "prediction", *(f"p_{column}" for column in range(shown))])
    for start in range(0, len(values), _ROWS_AT_ONCE):
        block = values[start : start + _ROWS_AT_ONCE]
        labels = _predictions(task, block)
        rows = ([f"{value:.6g}" for value in row[:shown]] for row in block.tolist())
        writer.writerows([i, p, *row] for i, p, row in zip(ids[start:], labels, rows, strict=False))


def _predictions(task: Task, values: Tensor) -> Iterable[object]:
    if task.kind == "regression":
        return [" ".join(f"{value:.6g}" for value in row) for row in values.tolist()]
    if task.kind == "multilabel":
        return [" ".join(str(t) for t, value in enumerate(row) if value > 0.5) for row in values.tolist()]
    labels: list[int] = values.argmax(1).tolist()
    return labels
