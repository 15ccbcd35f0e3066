"""spmm over a layout against dense matrices, and its refusals."""

import pytest
import torch
from torch import Tensor

from longhop.layout import AttentionLayout, spmm
from longhop.testing.asserts import assert_close
from longhop.testing.graphs import awkward_graphs
from longhop.types import InputError

GRAPHS = awkward_graphs()


def _dense(layout: AttentionLayout, x: Tensor, weight: Tensor | None, reduce: str) -> Tensor:
    given = torch.ones(layout.num_pairs, dtype=x.dtype) if weight is None else weight
    if reduce == "max":
        messages = x[layout.col.long()] * given[:, None]
        rows = torch.split(messages, layout.rowptr.diff().tolist())
        return torch.stack([r.amax(0) if len(r) else 0 * x[0] for r in rows])
    matrix = torch.zeros(layout.num_rows, layout.num_cols, dtype=x.dtype)
    matrix = matrix.index_put((layout.rows(), layout.col.long()), given, accumulate=True)
    if reduce == "mean":
        matrix = matrix / layout.rowptr.diff().clamp(min=1)[:, None]
    return matrix @ x


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max"])
@pytest.mark.parametrize("name", ["one_node", "no_edges", "hub", "odd_63", "rectangular"])
def test_equals_dense(name: str, reduce: str, weighted: bool) -> None:
    layout = AttentionLayout.from_graph(GRAPHS[name])
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(layout.num_cols, 12, generator=rng)
    weight = torch.rand(layout.num_pairs, generator=rng) + 0.5 if weighted else None
    narrow, wide = x.clone().requires_grad_(), x.double().requires_grad_()
    out = spmm(layout, narrow, weight, reduce)
    want = _dense(layout, wide, None if weight is None else weight.double(), reduce)
    assert_close("out", out, want, relative=1e-6)
    dout = torch.randn(out.shape, generator=rng)
    (got,) = torch.autograd.grad(out, narrow, dout)
    (expected,) = torch.autograd.grad(want, wide, dout.double())
    assert_close("x", got, expected, relative=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": torch.zeros(62, 4)}, "num_cols = 63, got"),
        ({"weight": torch.zeros(5)}, r"weight must be \[E\]"),
        ({"reduce": "median"}, "reduce must be one of sum, mean, max, got 'median'"),
        ({"k_ids": torch.zeros(63)}, "k_ids must be int64"),
        ({"layout": AttentionLayout.from_graph(GRAPHS["odd_63"], num_global=1)}, "without global tokens"),
    ],
)
def test_refusals(change: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {
        "layout": AttentionLayout.from_graph(GRAPHS["odd_63"]),
        "x": torch.zeros(63, 4),
    }
    with pytest.raises(InputError, match=message):
        spmm(**(arguments | change))  # type: ignore[arg-type]
