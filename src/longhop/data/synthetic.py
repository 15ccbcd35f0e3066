"""Generated data sets, ``synthetic:NAME?option=value&...``, from :mod:`longhop.graph.generate`."""

import inspect
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

import torch
from torch import Tensor

from longhop.data.intake import Found
from longhop.data.names import choose
from longhop.graph import generate
from longhop.graph.csr import CSRGraph
from longhop.types import InputError

Made = tuple[CSRGraph, Tensor, Tensor]

PREFIX = "synthetic:"


def read_synthetic(spec: str) -> Found:
    """Make the data set that a path names.

    ``sbm`` and ``digits`` bring features and labels. ``path``, ``star``, ``complete``, ``rmat`` and
    ``local`` are bare graphs: they get ``num_features`` normal features, and the class of a node is the
    largest of its first ``num_classes``.

    Args:
        spec: ``synthetic:sbm?num_nodes=1000&seed=0``.

    Raises:
        InputError: an unknown generator or option (the nearest known one is named), or a bad value.
    """
    name, _, query = spec.removeprefix(PREFIX).partition("?")
    made = _MAKERS[choose(name, _MAKERS, f"{PREFIX}{name}")]
    options = parse_qsl(query, keep_blank_values=True)
    graph, x, y = made(**_typed(made, options, spec))
    src, dst = graph.edge_index().numpy()
    return Found(
        name=spec.removeprefix(PREFIX),
        src=src,
        dst=dst,
        num_nodes=graph.num_nodes,
        x=x.numpy(),
        y=y.numpy(),
        notes=("generated data",),
    )


def _path(
    num_nodes: int = 1000, directed: bool = False, num_features: int = 16, num_classes: int = 4, seed: int = 0
) -> Made:
    return _dressed(generate.path(num_nodes, directed=directed), num_features, num_classes, seed)


def _star(num_nodes: int = 1000, num_features: int = 16, num_classes: int = 4, seed: int = 0) -> Made:
    return _dressed(generate.star(num_nodes), num_features, num_classes, seed)


def _complete(num_nodes: int = 100, num_features: int = 16, num_classes: int = 4, seed: int = 0) -> Made:
    return _dressed(generate.complete(num_nodes), num_features, num_classes, seed)


def _rmat(num_nodes: int = 1000, degree: int = 16, num_features: int = 16, num_classes: int = 4, seed: int = 0) -> Made:
    return _dressed(generate.rmat(num_nodes, degree, seed=seed), num_features, num_classes, seed)


def _local(
    num_nodes: int = 10000, degree: int = 14, num_features: int = 16, num_classes: int = 4, seed: int = 0
) -> Made:
    return _dressed(generate.local_random(num_nodes, degree, seed), num_features, num_classes, seed)


_MAKERS: dict[str, Callable[..., Made]] = {
    "sbm": generate.sbm,
    "digits": generate.digits_knn,
    "path": _path,
    "star": _star,
    "complete": _complete,
    "rmat": _rmat,
    "local": _local,
}


def _dressed(graph: CSRGraph, num_features: int, num_classes: int, seed: int) -> Made:
    if not 1 <= num_classes <= num_features:
        raise InputError(
            f"num_classes must lie in 1..num_features = {num_features}, got {num_classes}; raise num_features"
        )
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(graph.num_nodes, num_features, generator=rng)
    return graph, x, x[:, :num_classes].argmax(dim=1)


def _typed(made: Callable[..., Made], options: list[tuple[str, str]], spec: str) -> dict[str, Any]:
    """Query strings as the types that the generator declares."""
    parameters = inspect.signature(made).parameters
    typed: dict[str, Any] = {}
    for given, text in options:
        key = choose(given, parameters, f"{spec}: option {given}")
        kind = parameters[key].annotation
        try:
            typed[key] = {"true": True, "false": False}[text.lower()] if kind is bool else kind(text)
        except (KeyError, ValueError) as error:
            raise InputError(f"{spec}: {key} must be {kind.__name__}, got {text!r}; correct the value") from error
    return typed
