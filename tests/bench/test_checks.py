"""The checks see what is wrong, and a sample's oracle is that of the whole."""

import pytest
import torch

from longhop.bench import checks
from longhop.bench.attention_case import AttentionOptions, AttentionProblem, oracle
from longhop.bench.cases import BenchGraph
from longhop.bench.checks import CheckFailedError, compare
from longhop.graph.csr import CSRGraph
from longhop.testing.graphs import awkward_graphs

GRAPHS = {name: g for name, g in awkward_graphs().items() if g.num_nodes == g.num_cols}


@pytest.mark.parametrize("terms", [{}, {"dropout": 0.4, "table": 3}], ids=["plain", "terms"])
@pytest.mark.parametrize("name", GRAPHS)
def test_sampled_oracle_is_the_whole_one(name: str, terms: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    graph: CSRGraph = GRAPHS[name]
    options = AttentionOptions(heads=3, width=4, **terms)  # type: ignore[arg-type]
    problem = AttentionProblem.make(BenchGraph.natural(name, graph), options)
    want = oracle(problem, checks.whole(problem.layout))
    monkeypatch.setattr(checks, "SAMPLES", 20)
    sub = checks.sample(problem.layout, 12)
    got = oracle(problem, sub)
    assert 1 <= len(sub.rows) <= 20
    for tensor in ("out", "dq", "dk", "dv"):
        torch.testing.assert_close(got[tensor], want[tensor][sub.rows], rtol=1e-12, atol=1e-12)
    assert ("dtable" in want) == bool(terms)


def test_sample_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_MOST_NUMBERS", 100)
    problem = AttentionProblem.make(BenchGraph.natural("hub", GRAPHS["hub"]), AttentionOptions())
    sub = checks.sample(problem.layout, 64)
    assert len(sub.rows) == 1  # a leaf already needs the hub and all its keys
    assert len(sub.entries) == GRAPHS["hub"].num_nodes + 2


@pytest.mark.parametrize(
    ("got", "message"),
    [
        (torch.tensor([1.0, 2.0, 3.1]), "off by"),
        (torch.tensor([1.0, float("nan"), 3.0]), "1 of 3 numbers are not finite"),
        (torch.ones(2), "shape"),
    ],
)
def test_wrong_values_are_seen(got: torch.Tensor, message: str) -> None:
    with pytest.raises(CheckFailedError, match=f"dq.*{message}"):
        compare("dq", got, torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64), 1e-3)


def test_noise_is_measured_by_its_size() -> None:
    noise, zero = torch.full((100,), 1e-7), torch.zeros(100, dtype=torch.float64)
    compare("dq", noise, zero, 1e-5, floor=0.1)
    with pytest.raises(CheckFailedError):
        compare("dq", noise, zero, 1e-5)
