import random

import numpy as np
import torch

from longhop.train import rng


def draw() -> tuple[float, float, float, float]:
    return float(torch.rand(1)), np.random.rand(), np.random.randn(), random.gauss(0, 1)  # noqa: NPY002


def test_step_seeds_differ_and_draw_from_no_generator() -> None:
    before = torch.get_rng_state()
    seeds = {int(rng.step_seed(run, step)) for run in range(50) for step in range(200)}
    assert len(seeds) == 10_000
    assert torch.equal(torch.get_rng_state(), before)
    assert rng.step_seed(3, 5).dtype == torch.int64
    assert rng.step_seed(3, 5).shape == (1,)
    assert torch.equal(rng.step_seed(3, 5), rng.step_seed(3, 5))
    assert min(seeds) < 0 < max(seeds)


def test_every_generator_goes_on_where_it_was() -> None:
    draw()  # leaves a spare normal number in NumPy's and Python's generators
    state = rng.capture()
    first = draw()
    rng.restore(state)
    assert draw() == first


def test_seeded_seeds_and_gives_back() -> None:
    before = rng.capture()
    with rng.seeded(7):
        first = draw()
    with rng.seeded(7):
        assert draw() == first
    after = rng.capture()
    assert all(torch.equal(before[name].nan_to_num(), after[name].nan_to_num()) for name in before)
