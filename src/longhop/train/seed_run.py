"""One training from its seed to its result, in a folder of its own, resumable at any epoch."""

import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from longhop.train import checkpoint, rng
from longhop.train.console import Console
from longhop.train.journal import Journal
from longhop.train.loop import Score, TrainingFailedError, evaluate, train_step
from longhop.train.machine import peak_bytes, versions
from longhop.train.report import SeedResult
from longhop.train.schedule import learning_rate, make_optimizer
from longhop.train.workspace import Workspace

RESULT, JOURNAL, LAST, BEST = "result.json", "journal.jsonl", "last", "best"


@dataclass
class Best:
    """The best weights so far and how they do."""

    epoch: int
    scores: dict[str, Score]
    weights: dict[str, Tensor]
    on_disk: bool = False


class SeedRun:
    """The state of one training.

    Args:
        work: what all seeds share.
        seed: of weights and dropout; the global generators must have been seeded with it.
        folder: made on the first save.
        console: where warnings go.
    """

    def __init__(self, work: Workspace, seed: int, folder: Path, console: Console) -> None:
        self.work, self.seed, self.folder, self.console = work, seed, folder, console
        self.config = work.config
        self.split = work.split_of(seed)
        self.training, self.full = work.views(self.split)
        self.model = work.build_model()
        self.optimizer = make_optimizer(self.model, self.config.optim)
        self.epoch = self.step = self.stale = 0
        self.best: Best | None = None
        self._prepare_seconds = work.seconds
        self._unjudged: dict[str, Any] | None = None

    def restore(self) -> bool:
        """Go on from ``last/`` where there is one; returns whether there was.

        Raises:
            InputError: a damaged checkpoint.
        """
        last = checkpoint.find(self.folder / LAST)
        if last is None:
            return False
        numbers = checkpoint.load_numbers(last)
        tensors = checkpoint.load_tensors(last / checkpoint.STATE)
        checkpoint.apply_weights(self.model, last / checkpoint.WEIGHTS)
        checkpoint.restore_optimizer(self.optimizer, tensors)
        rng.restore({n.removeprefix("rng."): t for n, t in tensors.items() if n.startswith("rng.")})
        self.epoch, self.step, self.stale = (numbers[name] for name in ("epoch", "step", "stale"))
        self._unjudged = numbers["unjudged"]
        if numbers["best"] is not None:
            scores = {name: Score(**score) for name, score in numbers["best"]["scores"].items()}
            weights = checkpoint.load_weights(last / checkpoint.BEST)
            self.best = Best(numbers["best"]["epoch"], scores, weights)
        return True

    def run_epoch(self) -> dict[str, Any]:
        """Train one epoch, evaluate when it is due.

        Returns:
            The epoch's line of the journal.

        Raises:
            TrainingFailedError: the loss is not finite.
        """
        line = self._unjudged = self._unjudged or self._train()
        train = self.config.train
        if self.epoch % train.eval_every == 0 or self.epoch == train.epochs:
            start = time.perf_counter()
            try:
                scores = evaluate(self.model, self.full, self.work.task)
            except Exception:
                self.try_to_save()  # resumed from here, the epoch is evaluated and not trained again
                raise
            self._judge(scores)
            line["seconds"]["evaluate"] = time.perf_counter() - start
            line |= {name: {"loss": s.loss, "metric": s.metric} for name, s in scores.items()}
        line["peak_rss_bytes"] = peak_bytes()
        self._unjudged = None
        return line

    @property
    def finished(self) -> bool:
        """All epochs done, or validation has not risen for ``patience`` evaluations."""
        train = self.config.train
        if self._unjudged is not None:
            return False
        return self.epoch >= train.epochs or bool(train.patience and self.stale >= train.patience)

    def save(self) -> None:
        """Write ``best/`` when it changed, then ``last/``.

        Raises:
            OSError: the disk is full, say; what was saved before is still there.
        """
        if self.best is not None and not self.best.on_disk:
            checkpoint.replace_folder(self.folder / BEST, self._fill_best)
            self.best.on_disk = True
        checkpoint.replace_folder(self.folder / LAST, self._fill_last)

    def try_to_save(self) -> None:
        """Save, with a warning when the disk is full: the last checkpoint is there, training can go on."""
        try:
            self.save()
        except OSError as error:
            self.console.warn(f"{self.folder}: checkpoint not written ({error.strerror or error}); free some space")

    def result(self, journal: Journal) -> SeedResult:
        """What the training came to."""
        best = self.best
        assert best is not None  # the last epoch is always evaluated
        seconds = {
            key: sum(line["seconds"][key] for line in journal.lines) for key in ("prepare", "compute", "evaluate")
        }
        return SeedResult(
            seed=self.seed,
            split=self.split,
            epochs=self.epoch,
            best_epoch=best.epoch,
            scores=best.scores,
            seconds=seconds,
            peak_rss_bytes=max(line["peak_rss_bytes"] for line in journal.lines),
            fingerprint=self.work.facts["fingerprint"],
        )

    def _train(self) -> dict[str, Any]:
        config, start = self.config, time.perf_counter()
        rate = learning_rate(config.optim, self.step, config.train.epochs)
        loss = train_step(
            self.model,
            self.optimizer,
            self.training,
            self.work.task,
            rate=rate,
            seed=rng.step_seed(self.seed, self.step),
            clip_norm=config.train.clip_norm,
        )
        if not math.isfinite(loss):
            raise TrainingFailedError(
                f"seed {self.seed}, epoch {self.epoch + 1}: the loss is {loss}; "
                f"lower optim.lr (now {config.optim.lr:g}) or set train.clip_norm"
            )
        self.epoch += 1
        self.step += 1
        seconds = {"prepare": self._prepare_seconds, "compute": time.perf_counter() - start, "evaluate": 0.0}
        self._prepare_seconds = 0.0  # paid once, shown in the first epoch's line
        return {"epoch": self.epoch, "step": self.step, "loss": loss, "lr": rate, "seconds": seconds}

    def _judge(self, scores: dict[str, Score]) -> None:
        """Keep the weights when validation is the best so far, or when there is none to tell."""
        old = self.best
        if old is not None and not self._better(scores, old.scores):
            self.stale += 1
            return
        self.stale = 0
        weights = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
        self.best = Best(self.epoch, scores, weights)

    def _better(self, new: dict[str, Score], old: dict[str, Score]) -> bool:
        if "validation" not in new:
            return True
        return self._key(new["validation"]) > self._key(old["validation"])

    def _key(self, score: Score) -> tuple[float, float]:
        """Metric first; of equal ones the lower loss. A metric without meaning leaves the loss to decide."""
        metric = score.metric if score.metric is not None else 0.0
        return (metric if self.work.task.higher_is_better else -metric, -score.loss)

    def _numbers(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "split": self.split,
            "fingerprint": self.work.facts["fingerprint"],
            "versions": versions(),
        }

    def _fill_best(self, folder: Path) -> None:
        best = self.best
        assert best is not None
        checkpoint.save_weights(best.weights, folder / checkpoint.WEIGHTS)
        scores = {name: asdict(score) for name, score in best.scores.items()}
        checkpoint.save_numbers(self._numbers() | {"epoch": best.epoch, "scores": scores}, folder)

    def _fill_last(self, folder: Path) -> None:
        checkpoint.save_weights(self.model.state_dict(), folder / checkpoint.WEIGHTS)
        random = {f"rng.{name}": tensor for name, tensor in rng.capture().items()}
        tensors = checkpoint.optimizer_tensors(self.optimizer) | random
        checkpoint.save_tensors(tensors, folder / checkpoint.STATE)
        best = None
        if self.best is not None:
            checkpoint.link_or_copy(self.folder / BEST / checkpoint.WEIGHTS, folder / checkpoint.BEST)
            scores = {name: asdict(score) for name, score in self.best.scores.items()}
            best = {"epoch": self.best.epoch, "scores": scores}
        numbers = {"epoch": self.epoch, "step": self.step, "stale": self.stale, "best": best}
        checkpoint.save_numbers(self._numbers() | numbers | {"unjudged": self._unjudged}, folder)


def trained_on(folder: Path) -> str | None:
    """Fingerprint of the data that a seed's folder belongs to, None for a folder without a training."""
    if (folder / RESULT).is_file():
        return SeedResult.load(folder / RESULT).fingerprint
    last = checkpoint.find(folder / LAST)
    return None if last is None else str(checkpoint.load_numbers(last)["fingerprint"])
