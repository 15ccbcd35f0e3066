"""``bench spmm`` and ``bench dense-ops`` on tiny problems."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from longhop.bench import CheckFailedError, DenseOptions, SpmmOptions, dense_ops, peers, spmm
from longhop.types import InputError

SPMM = SpmmOptions(graph="tiny", repeat=1, malloc="default")
DENSE = DenseOptions(rows=300, width=24, repeat=1, malloc="default")


@pytest.mark.parametrize(
    "changes",
    [{}, {"weighted": "yes", "width": 12}, {"reduce": "mean"}, {"reduce": "max", "width": 65}],
    ids=lambda c: " ".join(map(str, c.values())) or "sum",
)
def test_spmm(changes: dict[str, Any]) -> None:
    report = spmm.run(replace(SPMM, **changes))
    found = {row.kernel_provider for row in report.rows}
    left_out = {note.split()[0] for note in report.notes}
    assert found | left_out == set(spmm.PROVIDERS)
    assert {"native", "torch-sparse", "reference"} <= found


def test_spmm_checks_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    right = peers.sparse_product

    def wrong(matrix: torch.Tensor, reduce: str) -> Any:
        multiply = right(matrix, reduce)
        return lambda x: multiply(x) + (x - x.detach())

    monkeypatch.setattr(peers, "sparse_product", wrong)
    with pytest.raises(CheckFailedError, match="torch-sparse on a small graph: dx is off"):
        spmm.run(replace(SPMM, providers=("torch-sparse",)))


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_dense_ops(dropout: float) -> None:
    report = dense_ops.run(replace(DENSE, dropout=dropout))
    assert {row.kernel_provider for row in report.rows} == {"native", "torch", "reference"}
    assert {row.bytes_bound for row in report.rows} == {3 * 300 * 24 * 4, 6 * 300 * 24 * 4}


def test_dense_ops_check(monkeypatch: pytest.MonkeyPatch) -> None:
    right = dense_ops.bias_act_dropout_residual

    def wrong(x: torch.Tensor, bias: torch.Tensor, *rest: Any, **options: Any) -> torch.Tensor:
        return right(x, bias if x.dtype == torch.float64 else bias.detach(), *rest, **options) + 0 * bias

    monkeypatch.setattr(dense_ops, "bias_act_dropout_residual", wrong)
    with pytest.raises(CheckFailedError, match="native: dbias is off"):
        dense_ops.run(DENSE)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (SpmmOptions, {"width": 0}, "--width"),
        (SpmmOptions, {"weighted": "yes", "reduce": "max"}, "--weighted"),
        (DenseOptions, {"dropout": 1.5}, "--dropout"),
    ],
)
def test_wrong_options(kind: type, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        kind(**options)
