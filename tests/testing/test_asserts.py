"""The assertions fail on what they are for."""

import pytest
import torch
from torch import Tensor, nn

from longhop.nn import GraphStructure
from longhop.testing.asserts import (
    assert_close,
    assert_finite_gradients,
    assert_gradients_close,
    assert_permutation_equivariant,
)
from longhop.testing.graphs import awkward_graphs


@pytest.mark.parametrize(
    ("got", "want", "message"),
    [
        (torch.ones(3), torch.ones(4), r"x: shape \[3\], expected \[4\]"),
        (torch.tensor([1.0, torch.nan]), torch.ones(2), "x: 1 of 2 not finite"),
        (torch.tensor([1.0, 1.1]), torch.ones(2), "relative L2 7.07e-02"),
        (torch.ones(2), torch.zeros(2), "expected all zeros"),
    ],
)
def test_assert_close_says_what_is_off(got: Tensor, want: Tensor, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        assert_close("x", got, want)
    assert_close("x", want, want)


def test_one_wrong_element_does_not_hide_among_many() -> None:
    want = torch.ones(1_000_000)
    got = want.clone()
    got[5] = 1.01
    with pytest.raises(AssertionError, match="largest element"):
        assert_close("x", got, want, relative=1e-4, cosine=1e-4)


def test_gradients_must_exist_on_both_sides() -> None:
    assert_gradients_close({"a": None, "b": torch.ones(2)}, {"a": None, "b": torch.ones(2)})
    with pytest.raises(AssertionError, match="a: one of the two has no gradient"):
        assert_gradients_close({"a": torch.ones(2)}, {"a": None})
    with pytest.raises(AssertionError, match="gradients of"):
        assert_gradients_close({"a": None}, {"b": None})


def test_gradients_that_are_noise_are_held_to_the_largest() -> None:
    want = {"weight": torch.ones(100), "bias": torch.full((4,), 1e-7)}
    assert_gradients_close(want | {"bias": -want["bias"]}, want)
    with pytest.raises(AssertionError, match=r"bias: .*expected noise"):
        assert_gradients_close(want | {"bias": torch.full((4,), 1e-4)}, want)


def test_missing_and_non_finite_gradients_are_named() -> None:
    layer = nn.Linear(2, 2)
    with pytest.raises(AssertionError, match="weight: no gradient"):
        assert_finite_gradients(layer)
    layer.weight.grad = torch.zeros(2, 2)
    layer.bias.grad = torch.tensor([0.0, torch.inf])
    with pytest.raises(AssertionError, match="bias: gradient not finite"):
        assert_finite_gradients(layer)


def test_a_layer_that_knows_row_numbers_is_caught() -> None:
    class ByRow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        def forward(self, x: Tensor, structure: GraphStructure, seed: Tensor | None) -> Tensor:
            return x * self.weight * torch.arange(1, len(x) + 1)[:, None]

    with pytest.raises(AssertionError, match="output: relative L2"):
        assert_permutation_equivariant(
            ByRow(),
            lambda graph, ids: GraphStructure.from_graph(graph, node_ids=ids),
            awkward_graphs()["odd_63"],
            torch.ones(63, 2),
        )
