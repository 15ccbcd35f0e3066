"""A whole run: data, seeds, results."""

import contextlib
import dataclasses
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import torch

from longhop.train import allocator, rng
from longhop.train.config import RunConfig
from longhop.train.config_io import dump_yaml, load_yaml, resolved, to_dict
from longhop.train.console import Console, percent
from longhop.train.journal import Journal, write_atomic
from longhop.train.machine import hardware, kernels, versions
from longhop.train.report import Results, SeedResult
from longhop.train.seed_run import JOURNAL, RESULT, SeedRun, trained_on
from longhop.train.signals import StoppedError, caught
from longhop.train.workspace import Workspace, prepare
from longhop.types import InputError

CONFIG = "config.yaml"
_MAY_CHANGE = ("seeds", "out", "data.path", "train.save_every", "train.threads", "train.allocator")
"""Settings that another process of the same run may have otherwise: they do not enter the results."""


def run(
    config: RunConfig,
    *,
    resume: Literal["never", "auto"] = "never",
    force_resume: bool = False,
    command: str | None = None,
    console: Console | None = None,
) -> Results:
    """Train every seed of ``config`` and write the run folder.

    Args:
        config: the settings; ``config.out`` names the folder.
        resume: auto = go on with what the folder holds; finished seeds are left as they are.
        force_resume: go on even though the data have changed.
        command: what the user typed, for the results.
        console: where text goes; None = as the command line prints.

    Returns:
        The results, also in ``results.json`` and ``results.md``.

    Raises:
        InputError: wrong settings or data; nothing was written.
        TrainingFailedError: the loss became infinite or NaN.
        StoppedError: SIGINT or SIGTERM; the state was saved.
    """
    console = console or Console()
    config = resolved(config)
    if not config.out:
        config = dataclasses.replace(config, out=free_folder(config.model.name, resume))
    folder = _check_folder(config, resume)
    if config.train.allocator and not allocator.set_up():
        console.warn(f"the allocator ({allocator.description()}) is not glibc's: train.allocator does nothing")
    with _threads(config.train.threads):
        work = prepare(config)
        _check_data(work, folder, force=force_resume)
        _print_header(work, console)
        if config.train.allocator:
            allocator.release()
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / CONFIG, dump_yaml(config))
        results = Results(
            metric=work.task.metric_name,
            config=to_dict(config),
            data=work.facts,
            parameters=work.template.num_parameters(),
            command=command,
            versions=versions(),
            hardware=hardware(),
        )
        for seed in config.seeds:
            results.seeds.append(_train_seed(work, seed, seed_folder(folder, seed), console))
            results.save(folder)  # a run that is stopped at a later seed leaves those that are done
    _print_results(results, folder, console)
    return results


def seed_folder(folder: Path, seed: int) -> Path:
    """Where a seed's files are."""
    return folder / f"seed_{seed}"


def free_folder(name: str, resume: Literal["never", "auto"]) -> str:
    """``runs/NAME``, numbered: the first unused one, or the newest used one to go on with."""
    number, chosen = 1, Path("runs") / name
    while chosen.exists():
        number, last = number + 1, chosen
        chosen = Path("runs") / f"{name}-{number}"
    return str(last if resume == "auto" and number > 1 else chosen)


def _check_folder(config: RunConfig, resume: str) -> Path:
    """Refuse a folder that belongs to something else, before anything long begins."""
    folder = Path(config.out)
    if not folder.exists():
        return folder
    if not folder.is_dir():
        raise InputError(f"{folder}: is a file; choose another run folder with --out")
    if resume == "never" and any(folder.iterdir()):
        raise InputError(f"{folder}: is not empty; go on with --resume auto or choose another folder with --out")
    if (folder / CONFIG).is_file():
        old, new = (dict(_flat(to_dict(c))) for c in (load_yaml(folder / CONFIG), config))
        # Another model has other keys: its name is the difference to speak of.
        for key in sorted(old.keys() | new.keys(), key=lambda key: (key != "model.name", key)):
            if old.get(key) != new.get(key) and key not in _MAY_CHANGE:
                raise InputError(
                    f"{folder / CONFIG}: has {key} = {old.get(key)}, this run {new.get(key)}; "
                    "resume with the same settings or choose another folder with --out"
                )
    return folder


def _flat(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _check_data(work: Workspace, folder: Path, *, force: bool) -> None:
    """Refuse to go on with other data than a seed was trained on."""
    now = work.facts["fingerprint"]
    for seed in work.config.seeds:
        found = trained_on(seed_folder(folder, seed))
        if found not in (None, now) and not force:
            raise InputError(
                f"{seed_folder(folder, seed)}: was trained on data with fingerprint {found}, "
                f"{work.facts['name']} now has {now}; restore the data or add --force-resume"
            )


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    if count:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _train_seed(work: Workspace, seed: int, folder: Path, console: Console) -> SeedResult:
    if (folder / RESULT).is_file():
        console.say(f"seed {seed}: finished before")
        return SeedResult.load(folder / RESULT)
    with rng.seeded(seed):
        training = SeedRun(work, seed, folder, console)
        if training.restore():
            console.say(f"seed {seed}: going on after epoch {training.epoch}")
        folder.mkdir(exist_ok=True)
        journal = Journal(folder / JOURNAL, keep_epochs=training.epoch)
        _loop(training, journal, console)
        training.save()
    result = training.result(journal)
    result.save(folder / RESULT)
    return result


def _loop(training: SeedRun, journal: Journal, console: Console) -> None:
    train, work = training.config.train, training.work
    label, nodes = f"seed {training.seed}", len(training.training.x)
    with (
        caught() as signal_received,
        console.progress(label, work.task.metric_name, train.epochs, training.epoch, nodes) as show,
    ):
        while not training.finished:
            line = training.run_epoch()
            if error := journal.append(line):
                console.warn(f"{journal.path}: not written ({error.strerror}); free some space, lines are kept")
            show(line)
            if signum := signal_received():
                training.save()
                name = signal.Signals(signum).name
                message = f"stopped by {name} after epoch {training.epoch}; go on with --resume auto"
                raise StoppedError(signum, message)
            if train.save_every and training.epoch % train.save_every == 0:
                training.try_to_save()


def _print_header(work: Workspace, console: Console) -> None:
    config, facts, found = work.config, work.facts, versions()
    console.say(
        f"longhop {found['longhop']}, torch {found['torch']}, python {found['python']}; "
        f"kernels {kernels()}; threads {torch.get_num_threads()}"
    )
    console.say(
        f"data {facts['name']}: N {facts['nodes']:,}, E {facts['edges']:,}, F {facts['features']:,}, "
        f"C {facts['classes']:,}; fingerprint {facts['fingerprint']}"
    )
    sizes = ", ".join(f"{name} {count:,}" for name, count in facts["splits"].items())
    per_seed = f", one of {work.num_splits} a seed" if config.train.split_per_seed else ""
    console.say(f"splits {sizes} (split {config.data.split}{per_seed}); setting {config.train.setting}")
    console.say(
        f"model {config.model.name}: {work.template.num_parameters():,} parameters, "
        f"{facts['pairs']:,} pairs; order {facts['order']}; prepared in {work.seconds:.1f} s"
    )
    for note in facts["notes"]:
        (console.warn if note.startswith("warning: ") else console.say)(note.removeprefix("warning: "))


def _print_results(results: Results, folder: Path, console: Console) -> None:
    metric = results.metric
    for split, score in results.summary().items():
        spread = "" if score["std"] is None else f" +- {percent(score['std'], metric)} (standard deviation)"
        console.say(f"{split} {metric} {percent(score['mean'], metric)}{spread}")
    console.say(f"results in {folder / 'results.md'}")
    console.say(results.last_line())
