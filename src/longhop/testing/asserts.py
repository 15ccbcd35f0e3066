"""Assertions about gradients and about the order of nodes, for our tests and for users' layers."""

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from longhop.graph.build import permute
from longhop.graph.csr import CSRGraph
from longhop.nn.structure import GraphStructure

Prepare = Callable[[CSRGraph, Tensor | None], GraphStructure]


def assert_close(
    name: str,
    got: Tensor,
    want: Tensor,
    *,
    relative: float = 1e-5,
    cosine: float = 1e-6,
    element: float | None = None,
) -> None:
    """Compare a tensor, often a gradient, with its oracle in three ways, none of which a few zeros can hide.

    Args:
        name: what is compared, for the message.
        got: any shape, any floating type.
        want: the oracle's, same shape.
        relative: largest ``|got - want| / |want|`` (2-norms); where the oracle is 0, largest ``|got|``.
        cosine: largest ``1 - cos(got, want)``: catches a wrong direction in a small part.
        element: largest difference of one element over the oracle's largest; None means ten times
            ``relative``.

    Raises:
        AssertionError: shapes differ, a number is not finite, or a bound is exceeded; names all three.
    """
    assert got.shape == want.shape, f"{name}: shape {list(got.shape)}, expected {list(want.shape)}"
    a, b = got.detach().double().flatten(), want.detach().double().flatten()
    if b.numel() == 0:
        return
    assert bool(a.isfinite().all()), f"{name}: {int((~a.isfinite()).sum())} of {a.numel()} not finite"
    difference, norm = float((a - b).norm()), float(b.norm())
    if norm == 0.0:
        assert difference <= relative, f"{name}: norm {difference:.2e}, expected all zeros"
        return
    found = {
        "relative L2": (difference / norm, relative),
        "1 - cosine": (1.0 - float(a @ b) / max(float(a.norm()) * norm, 1e-300), cosine),
        "largest element": (
            float((a - b).abs().max() / b.abs().max()),
            10 * relative if element is None else element,
        ),
    }
    report = ", ".join(f"{kind} {value:.2e} (<= {bound:.0e})" for kind, (value, bound) in found.items())
    assert all(value <= bound for value, bound in found.values()), f"{name}: {report}"


def assert_gradients_close(
    got: Mapping[str, Tensor | None], want: Mapping[str, Tensor | None], *, relative: float = 1e-5
) -> None:
    """:func:`assert_close` for every entry; what one side lacks, the other must lack too.

    A gradient that is zero in exact arithmetic (of a bias in front of a batch norm, say) is rounding noise:
    one smaller than 1e-6 of the largest is held to that size, not to its own.

    Args:
        got: gradients by name.
        want: the oracle's.
        relative: see :func:`assert_close`.

    Raises:
        AssertionError: names differ or a gradient is off.
    """
    assert got.keys() == want.keys(), f"gradients of {sorted(got)}, expected {sorted(want)}"
    noise = 1e-6 * max((float(g.norm()) for g in want.values() if g is not None), default=0.0)
    for name, oracle in want.items():
        value = got[name]
        assert (value is None) == (oracle is None), f"{name}: one of the two has no gradient"
        if value is None or oracle is None:
            continue
        if 0.0 < float(oracle.norm()) <= noise:
            assert float(value.norm()) <= 2 * noise, f"{name}: {float(value.norm()):.2e}, expected noise"
        else:
            assert_close(name, value, oracle, relative=relative)


def assert_finite_gradients(module: nn.Module) -> None:
    """Every parameter that asks for a gradient has a finite one of its own type.

    Args:
        module: after backward.

    Raises:
        AssertionError: names the parameter.
    """
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            continue
        assert parameter.grad is not None, f"{name}: no gradient"
        assert parameter.grad.dtype == parameter.dtype, f"{name}: gradient in {parameter.grad.dtype}"
        assert math.isfinite(float(parameter.grad.abs().sum())), f"{name}: gradient not finite"


def assert_permutation_equivariant(
    module: nn.Module,
    prepare: Prepare,
    graph: CSRGraph,
    x: Tensor,
    *,
    seed: Tensor | None = None,
    relative: float = 1e-5,
) -> None:
    """Renumbering the nodes permutes the output, dropout masks included, and leaves all gradients.

    Args:
        module: called as ``module(x, structure, seed=seed)``; rows of its output are nodes.
        prepare: from a graph and int64 [N] identities (or None) to a structure.
        graph: square.
        x: [N, F].
        seed: None or int64 tensor of one element.
        relative: see :func:`assert_close`.

    Raises:
        AssertionError: an output or a gradient is off.
    """
    order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(1))
    results = []
    for ids, features, edges in ((None, x, graph), (order, x[order], permute(graph, order))):
        module.zero_grad(set_to_none=True)
        out = module(features, prepare(edges, ids), seed=seed)
        # One weight a row, by identity, so that the gradients do not cancel.
        weight = torch.linspace(-1, 2, graph.num_nodes, dtype=out.dtype)
        (out * (weight if ids is None else weight[ids])[:, None]).sum().backward()
        grads = {name: p.grad for name, p in module.named_parameters()}
        results.append((out.detach(), grads))
    (plain, plain_grads), (permuted, permuted_grads) = results
    assert_close("output", permuted, plain[order], relative=relative)
    assert_gradients_close(permuted_grads, plain_grads, relative=relative)
