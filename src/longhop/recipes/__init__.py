"""Recipes: functions that return the whole settings of a run. Start one with ``longhop train NAME``."""

from collections.abc import Callable

from longhop.recipes.arxiv import arxiv_gcn, arxiv_graphormer_slim, arxiv_gt, arxiv_sage
from longhop.recipes.digits import demo
from longhop.recipes.small import computer_gcn, cora_gcn, minesweeper_gcn, photo_sage
from longhop.train.config import RunConfig

RECIPES: dict[str, Callable[[], RunConfig]] = {
    recipe.__name__: recipe
    for recipe in (
        demo,
        cora_gcn,
        photo_sage,
        computer_gcn,
        minesweeper_gcn,
        arxiv_graphormer_slim,
        arxiv_gcn,
        arxiv_sage,
        arxiv_gt,
    )
}

__all__ = ["RECIPES", *RECIPES]
