"""Optimiser and learning rate. The rate is a pure function of the step, so a schedule has no state."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from longhop.types import InputError


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimConfig:
    """Optimiser and schedule: linear warm-up, then constant, polynomial or cosine to ``final_lr``."""

    name: Literal["adamw", "adam"] = "adamw"
    """adamw decays weights apart from the gradient, adam adds the decay to it."""
    lr: float = 1e-3
    """Peak learning rate."""
    weight_decay: float = 0.0
    """Decay factor."""
    beta1: float = 0.9
    """Decay of the mean of the gradient."""
    beta2: float = 0.999
    """Decay of the mean of its square."""
    eps: float = 1e-8
    """Added to the root of the second moment."""
    schedule: Literal["constant", "polynomial", "cosine"] = "constant"
    """What follows the warm-up."""
    warmup_epochs: int = 0
    """Epochs of linear warm-up."""
    power: float = 1.0
    """Exponent of the polynomial schedule; 1 = linear."""
    final_lr: float = 0.0
    """Learning rate at the end of the polynomial and cosine schedules."""

    def __post_init__(self) -> None:
        if not (self.lr > 0 and math.isfinite(self.lr)):
            raise InputError(f"optim.lr must be positive, got {self.lr}")
        if not 0 <= self.final_lr <= self.lr:
            raise InputError(f"optim.final_lr must be in [0, optim.lr = {self.lr}], got {self.final_lr}")
        for name in ("weight_decay", "warmup_epochs"):
            if not getattr(self, name) >= 0:
                raise InputError(f"optim.{name} must be at least 0, got {getattr(self, name)}")
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"optim.{name} must be in [0, 1), got {getattr(self, name)}")
        for name in ("eps", "power"):
            if not getattr(self, name) > 0:
                raise InputError(f"optim.{name} must be positive, got {getattr(self, name)}")


def learning_rate(config: OptimConfig, step: int, total: int) -> float:
    """The rate of one step.

    Args:
        config: the schedule, its warm-up in steps.
        step: 0 for the first step of the run.
        total: steps of the whole run.

    Returns:
        ``lr * (step + 1) / warmup`` while warming up, then the schedule over what is left of ``total``.
    """
    if step < config.warmup_epochs:
        return config.lr * (step + 1) / config.warmup_epochs
    if config.schedule == "constant":
        return config.lr
    done = (step - config.warmup_epochs) / max(1, total - config.warmup_epochs)
    left = max(0.0, 1.0 - done)
    share = left**config.power if config.schedule == "polynomial" else 0.5 - 0.5 * math.cos(math.pi * left)
    return config.final_lr + (config.lr - config.final_lr) * share


def make_optimizer(model: nn.Module, config: OptimConfig) -> torch.optim.Optimizer:
    """Adam or AdamW over all parameters; the rate is set before every step by :func:`set_rate`."""
    kind = torch.optim.AdamW if config.name == "adamw" else torch.optim.Adam
    return kind(
        model.parameters(),
        lr=config.lr,
        betas=(config.beta1, config.beta2),
        eps=config.eps,
        weight_decay=config.weight_decay,
        fused=True,  # one pass over each parameter instead of a dozen small torch calls
    )


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Use ``rate`` for the next step."""
    for group in optimizer.param_groups:
        group["lr"] = rate
