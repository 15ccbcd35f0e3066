"""``longhop predict``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from longhop.cli.arguments import parse
from longhop.train.predict import predict_run


@dataclass(frozen=True)
class Arguments:
    """Predictions for every node as CSV, under the original ids, from a run's folder alone."""

    run: Annotated[Path, tyro.conf.Positional]
    """Run folder."""
    out: Path | None = None
    """File to write; without it, predictions.csv in the run folder."""
    seed: int | None = None
    """Whose weights; without it, the seed that is best on validation."""


def main(words: list[str]) -> int:
    """Run the command."""
    arguments = parse(Arguments, words, prog="longhop predict")
    print(predict_run(arguments.run, arguments.out, seed=arguments.seed))
    return 0
