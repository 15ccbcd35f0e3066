import dataclasses
from pathlib import Path

import pytest

from longhop.models import build
from longhop.recipes import RECIPES
from longhop.train import Console, RunConfig, run


def changed(config: RunConfig, out: Path, **train: int) -> RunConfig:
    return dataclasses.replace(config, out=str(out), train=dataclasses.replace(config.train, **train))


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_builds(name: str) -> None:
    assert build(RECIPES[name]().model, 8, 3).num_parameters() > 0


def test_the_demo_learns_in_few_epochs(tmp_path: Path) -> None:
    results = run(changed(RECIPES["demo"](), tmp_path / "run", epochs=25), console=Console(quiet=True))
    assert results.seeds[0].scores["test"].metric > 0.95


@pytest.mark.slow
def test_the_demo_reaches_what_it_promises(tmp_path: Path) -> None:
    results = run(changed(RECIPES["demo"](), tmp_path / "run"), console=Console(quiet=True))
    assert results.seeds[0].scores["test"].metric > 0.97
    assert sum(results.seeds[0].seconds.values()) < 180
