import pytest
import torch

from longhop.train import OptimConfig
from longhop.train.schedule import learning_rate, make_optimizer, set_rate


def test_warm_up_is_linear_and_ends_at_the_peak() -> None:
    config = OptimConfig(lr=1.0, warmup_epochs=4)
    assert [learning_rate(config, s, 10) for s in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("schedule", ["polynomial", "cosine"])
def test_a_schedule_falls_from_the_peak_to_the_final_rate(schedule: str) -> None:
    config = OptimConfig(lr=1.0, final_lr=0.2, warmup_epochs=2, schedule=schedule)  # type: ignore[arg-type]
    rates = [learning_rate(config, s, 12) for s in range(2, 13)]
    assert rates[0] == pytest.approx(1.0)
    assert rates[5] == pytest.approx(0.6)  # half-way
    assert rates[-1] == pytest.approx(0.2)
    assert rates == sorted(rates, reverse=True)


def test_power_bends_the_polynomial() -> None:
    config = OptimConfig(lr=1.0, schedule="polynomial", power=2.0)
    assert learning_rate(config, 5, 10) == pytest.approx(0.25)


@pytest.mark.parametrize(("name", "expected"), [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)])
def test_the_optimiser_has_the_settings(name: str, expected: type) -> None:
    config = OptimConfig(name=name, lr=0.3, weight_decay=0.1, beta1=0.8)  # type: ignore[arg-type]
    optimizer = make_optimizer(torch.nn.Linear(2, 2), config)
    assert type(optimizer) is expected
    set_rate(optimizer, 0.7)
    group = optimizer.param_groups[0]
    assert (group["lr"], group["weight_decay"], group["betas"]) == (0.7, 0.1, (0.8, 0.999))
