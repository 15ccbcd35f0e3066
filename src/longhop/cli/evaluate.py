"""``longhop evaluate``."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from longhop.cli.arguments import parse
from longhop.train.console import percent
from longhop.train.evaluate import evaluate_run
from longhop.train.journal import plain


@dataclass(frozen=True)
class Arguments:
    """Metrics of a run's best weights on the three splits, computed anew from its folder alone."""

    run: Annotated[Path, tyro.conf.Positional]
    """Run folder."""
    seed: int | None = None
    """One seed; without it, all."""
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Print JSON."""


def main(words: list[str]) -> int:
    """Run the command."""
    arguments = parse(Arguments, words, prog="longhop evaluate")
    found = evaluate_run(arguments.run, seed=arguments.seed)
    print(json.dumps(plain(found), indent=2) if arguments.json else _text(found))
    return 0


def _text(found: dict[str, Any]) -> str:
    metric, lines = found["metric"], []
    for row in found["seeds"]:
        scores = [f"{split} {percent(score['metric'], metric)}" for split, score in row["scores"].items()]
        lines.append(f"seed {row['seed']}, epoch {row['epoch']}: {', '.join(scores)}")
    lines += [f"{split} {metric} {percent(s['mean'], metric)}" for split, s in found["summary"].items()]
    return "\n".join(lines)
