"""Single steps of a training: pure functions of what they are given."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from longhop.nn.structure import GraphStructure
from longhop.train.schedule import set_rate
from longhop.train.task import Task

SPLITS = ("train", "validation", "test")


class TrainingFailedError(RuntimeError):
    """A run cannot go on for a reason that is not a mistake in what the user typed; one sentence."""


@dataclass(frozen=True, eq=False)
class Part:
    """The labelled nodes of one split.

    Attributes:
        rows: int64 [M], in the order of the features.
        y: their labels, [M] or [M, T].
    """

    rows: Tensor
    y: Tensor


@dataclass(frozen=True, eq=False)
class View:
    """A graph as a model sees it, in the order in which it lies in memory.

    Attributes:
        x: features [N, F].
        structure: its pairs.
        parts: labelled nodes by split.
    """

    x: Tensor
    structure: GraphStructure
    parts: dict[str, Part]


@dataclass(frozen=True)
class Score:
    """How a model does on one split; a metric of None has no meaning there (no labels, one class)."""

    loss: float
    metric: float | None
    count: int


def train_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    view: View,
    task: Task,
    *,
    rate: float,
    seed: Tensor,
    clip_norm: float,
) -> float:
    """One update of the weights from the loss over the training nodes.

    Args:
        model: takes ``(x, structure, seed)``.
        optimizer: of its parameters.
        view: what to train on.
        task: the loss.
        rate: learning rate of this step.
        seed: int64 [1], of the dropout masks.
        clip_norm: largest norm of the gradient; 0 = no clipping.

    Returns:
        The loss before the update. When it is not finite the weights are left as they were.
    """
    model.train()
    optimizer.zero_grad(set_to_none=True)
    part = view.parts["train"]
    loss = task.loss(model(view.x, view.structure, seed)[part.rows], part.y)
    value = loss.item()
    if math.isfinite(value):
        loss.backward()  # type: ignore[no-untyped-call]
        if clip_norm:
            nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        set_rate(optimizer, rate)
        optimizer.step()
    # Gradients would only add to the peak of what follows.
    optimizer.zero_grad(set_to_none=True)
    return value


@torch.inference_mode()
def outputs(model: nn.Module, view: View) -> Tensor:
    """The model's outputs for all nodes, [N, C], by the kernels that training uses."""
    model.eval()
    result: Tensor = model(view.x, view.structure)
    return result


@torch.inference_mode()
def evaluate(model: nn.Module, view: View, task: Task) -> dict[str, Score]:
    """Loss and metric on every split that has nodes."""
    logits = outputs(model, view)
    scores = {}
    for split, part in view.parts.items():
        if not len(part.rows):
            continue
        chosen = logits[part.rows]
        scores[split] = Score(float(task.loss(chosen, part.y)), task.metric(chosen, part.y), len(part.rows))
    return scores
