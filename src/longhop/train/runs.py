"""A finished run opened again, from its folder alone."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longhop.models.base import NodeModel
from longhop.train import checkpoint
from longhop.train.config_io import load_yaml
from longhop.train.loop import View
from longhop.train.seed_run import BEST
from longhop.train.trainer import CONFIG, seed_folder
from longhop.train.workspace import Workspace, prepare
from longhop.types import InputError


@dataclass(frozen=True, eq=False)
class Trained:
    """The best weights of one seed.

    Attributes:
        seed: of the training.
        epoch: of the weights.
        model: in evaluation mode.
        view: the whole graph, with the splits that the seed was trained on.
    """

    seed: int
    epoch: int
    model: NodeModel
    view: View


@dataclass(frozen=True, eq=False)
class OpenRun:
    """A run folder and its data.

    Attributes:
        folder: of the run.
        work: data, order and pairs, made again from ``config.yaml``.
        seeds: seeds that have weights, the best validation first.
    """

    folder: Path
    work: Workspace
    seeds: tuple[int, ...]

    def load(self, seed: int) -> Trained:
        """The best weights of ``seed``.

        Raises:
            InputError: the seed has none, they were trained on other data, or are damaged.
        """
        if seed not in self.seeds:
            raise InputError(f"{self.folder}: seed {seed} has no weights; choose from {list(self.seeds)}")
        best = _best(self.folder, seed)
        assert best is not None
        numbers = checkpoint.load_numbers(best)
        facts = self.work.facts
        if numbers["fingerprint"] != facts["fingerprint"]:
            raise InputError(
                f"{best}: was trained on data with fingerprint {numbers['fingerprint']}, "
                f"{facts['name']} now has {facts['fingerprint']}; restore the data"
            )
        model = self.work.build_model()
        checkpoint.apply_weights(model, best / checkpoint.WEIGHTS)
        return Trained(seed, numbers["epoch"], model.eval(), self.work.views(numbers["split"])[1])


def open_run(folder: Path) -> OpenRun:
    """Open a run folder.

    Raises:
        InputError: not a run folder, no weights in it, or its data are gone.
    """
    if not (folder / CONFIG).is_file():
        raise InputError(f"{folder}: holds no {CONFIG}; give the folder that `longhop train` wrote")
    # Not config.seeds: several calls may have trained seeds of one folder.
    found = {}
    for path in folder.glob("seed_*"):
        best = _best(folder, int(path.name.removeprefix("seed_")))
        if best is not None:
            found[int(path.name.removeprefix("seed_"))] = checkpoint.load_numbers(best)
    if not found:
        raise InputError(f"{folder}: holds no trained weights yet; train with --resume auto --out {folder}")
    work = prepare(load_yaml(folder / CONFIG))
    return OpenRun(folder, work, tuple(sorted(found, key=lambda seed: _rank(found[seed], work, seed))))


def _best(folder: Path, seed: int) -> Path | None:
    return checkpoint.find(seed_folder(folder, seed) / BEST)


def _rank(numbers: dict[str, Any], work: Workspace, seed: int) -> tuple[float, int]:
    """Sorts the best validation metric first."""
    metric = numbers["scores"].get("validation", {}).get("metric")
    if metric is None:
        return (float("inf"), seed)
    return (-metric if work.task.higher_is_better else metric, seed)
