"""``longhop train``."""

import dataclasses
import shlex
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import tyro

from longhop.cli.arguments import parse
from longhop.data import DataConfig
from longhop.models.registry import ModelConfig
from longhop.recipes import RECIPES
from longhop.train.config import OrderConfig, RunConfig, TrainConfig
from longhop.train.config_io import load_yaml, model_kinds, nearest
from longhop.train.schedule import OptimConfig
from longhop.train.trainer import free_folder, run
from longhop.types import InputError

T = TypeVar("T")
Values = tyro.conf.FlagConversionOff[T]  # --train.allocator False, as in YAML, rather than a pair of flags


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments:
    """Train what a recipe or a YAML file describes; every key of it can be changed here."""

    data: Values[DataConfig]
    model: Values[ModelConfig]
    order: Values[OrderConfig]
    optim: Values[OptimConfig]
    train: Values[TrainConfig]
    seeds: str
    """One training each: 0-4, or 0,2,5."""
    out: str = ""
    """Run folder; without it, a new one under runs."""
    resume: Literal["never", "auto"] = "never"
    """auto = go on with what the run folder holds."""
    force_resume: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Go on even though the data have changed."""


def main(words: list[str]) -> int:
    """Run the command."""
    if not words or words[0] in ("-h", "--help"):
        print(_usage())
        return 0 if words else 2
    source, options = words[0], words[1:]
    config = _base(source)
    default = default_arguments(config, options)
    arguments = parse(Arguments, options, prog=f"longhop train {source}", default=default)
    resume = arguments.resume
    if arguments.force_resume and resume == "never":
        raise InputError("--force-resume contradicts --resume never; add --resume auto")
    config = RunConfig(
        data=arguments.data,
        model=arguments.model,
        order=arguments.order,
        optim=arguments.optim,
        train=arguments.train,
        seeds=parse_seeds(arguments.seeds),
        out=arguments.out or free_folder(Path(source).stem, resume),
    )
    command = shlex.join(["longhop", "train", *words])
    run(config, resume=resume, force_resume=arguments.force_resume, command=command)
    return 0


def parse_seeds(text: str) -> tuple[int, ...]:
    """Seeds of ``0-4``, ``3`` or ``0,2,5-7``.

    Raises:
        InputError: anything else.
    """
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise InputError(f"--seeds {text}: give numbers and ranges, say 0-4 or 0,2,5")
        seeds.extend(range(int(first), int(last if dash else first) + 1))
    return tuple(seeds)


def _base(source: str) -> RunConfig:
    if source in RECIPES:
        return RECIPES[source]()
    path = Path(source)
    if path.suffix in (".yaml", ".yml") or path.exists():
        return load_yaml(path)
    known = list(RECIPES)
    raise InputError(
        f"{source}: neither a YAML file nor a recipe; the nearest recipe is {nearest(source, known)} "
        f"(all: {', '.join(known)})"
    )


def default_arguments(config: RunConfig, options: list[str]) -> Arguments:
    """What the command line starts from: ``config``, but for a model of another kind in ``options``."""
    return Arguments(
        data=config.data,
        model=_chosen_model(config.model, options),
        order=config.order,
        optim=config.optim,
        train=config.train,
        seeds=",".join(map(str, config.seeds)),
        out=config.out,
    )


def _chosen_model(model: ModelConfig, options: list[str]) -> ModelConfig:
    """``--model.name`` of another kind starts from that kind's own defaults."""
    for word, following in zip(options, [*options, ""][1:], strict=True):
        option, equals, value = word.partition("=")
        if option == "--model.name":
            name = value if equals else following
            kinds = model_kinds()
            if name not in kinds:
                raise InputError(f"--model.name {name}: choose from {', '.join(kinds)}")
            if name != model.name:
                fresh: ModelConfig = kinds[name]()
                return fresh
    return model


def _usage() -> str:
    recipes = [f"  {name:<22} {(recipe.__doc__ or '').splitlines()[0]}" for name, recipe in RECIPES.items()]
    head = [
        "usage: longhop train CONFIG.yaml|RECIPE [--section.key value ...] [--seeds 0-4] [--out DIR]",
        "                     [--resume auto] [--force-resume]",
        "",
        "`longhop train RECIPE --help` lists every key. Recipes:",
    ]
    return "\n".join([*head, *recipes])
