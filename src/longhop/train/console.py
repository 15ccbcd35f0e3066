"""What a run prints: a progress bar on a terminal, plain lines elsewhere."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_BETWEEN_EVALUATIONS = 5.0

Line = dict[str, Any]
Update = Callable[[Line], None]


class Console:
    """Where a run's text goes; all of it passes here.

    Args:
        quiet: print nothing but warnings.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self._seen: set[str] = set()

    def say(self, text: str) -> None:
        """Print one line."""
        if not self.quiet:
            print(text, flush=True)

    def warn(self, text: str) -> None:
        """Print a warning to stderr, once however often it comes."""
        if text not in self._seen:
            self._seen.add(text)
            print(f"warning: {text}", file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def progress(self, label: str, metric: str, epochs: int, done: int, nodes: int) -> Iterator[Update]:
        """Show a training inside the with-block; call what is yielded with each epoch's journal line.

        Args:
            label: what is trained.
            metric: name of the metric.
            epochs: most epochs.
            done: epochs done already.
            nodes: nodes that one epoch visits.
        """
        if self.quiet:
            yield lambda line: None
        elif sys.stdout.isatty():
            with _bar(label, metric, epochs, done, nodes) as update:
                yield update
        else:
            yield _Lines(self.say, label, metric, epochs, nodes)


def describe(line: Line, metric: str, nodes: int) -> str:
    """Loss, validation, speed and memory of an epoch in a few words."""
    parts = [f"loss {line['loss']:.4f}"]
    score = line.get("validation") or line.get("train")
    if score is not None and score["metric"] is not None:
        where = "validation" if line.get("validation") else "training"
        parts.append(f"{where} {metric} {percent(score['metric'], metric)}")
    seconds = line["seconds"]["compute"]
    speed = f"{nodes / seconds:,.0f} nodes/s" if seconds > 0 else "- nodes/s"
    return ", ".join([*parts, speed, f"{line['peak_rss_bytes'] / 2**30:.2f} GiB"])


def percent(value: float | None, metric: str) -> str:
    """A metric as people write it: accuracy with a percent sign, ROC-AUC x 100, MAE as it is."""
    if value is None:
        return "not defined"
    if metric == "MAE":
        return f"{value:.4f}"
    return f"{100 * value:.1f} %" if metric == "accuracy" else f"{100 * value:.1f}"


class _Lines:
    """One line about every ten seconds, and sooner after an evaluation."""

    def __init__(self, say: Callable[[str], None], label: str, metric: str, epochs: int, nodes: int) -> None:
        self._say, self._label, self._metric = say, label, metric
        self._epochs, self._nodes = epochs, nodes
        self._printed = time.monotonic()
        self._first: tuple[int, float] | None = None

    def __call__(self, line: Line) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first = line["epoch"], now  # the first epoch pays for what later ones find ready
        wait = _SECONDS_BETWEEN_EVALUATIONS if "train" in line else _SECONDS_BETWEEN_LINES
        if now - self._printed < wait and line["epoch"] not in (1, self._epochs):
            return
        self._printed = now
        text = f"{self._label} epoch {line['epoch']}/{self._epochs}: {describe(line, self._metric, self._nodes)}"
        done = line["epoch"] - self._first[0]
        if done:
            text += f", {_clock((self._epochs - line['epoch']) * (now - self._first[1]) / done)} left"
        self._say(text)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextlib.contextmanager
def _bar(label: str, metric: str, epochs: int, done: int, nodes: int) -> Iterator[Update]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as progress:
        bar = progress.add_task(label, total=epochs, completed=done, state="")
        last: Line = {}

        def update(line: Line) -> None:
            # Between evaluations the last known metrics stay on the screen.
            last.update(line)
            progress.update(bar, completed=line["epoch"], state=describe(last, metric, nodes))

        yield update
