"""``bench attention`` on a tiny graph; nothing here looks at a time."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from longhop.bench import AttentionOptions, CheckFailedError, attention, attention_sweeps, cases, peers
from longhop.bench.attention_case import AttentionProblem
from longhop.bench.bound import GatherBound
from longhop.bench.dgl import SCRIPT
from longhop.bench.results import Report
from longhop.ops import native
from longhop.types import InputError

TINY = AttentionOptions(graph="tiny", repeat=1, malloc="default")
HAS_KERNELS = isinstance(native.load(), native.NativeLibrary)

FAKE_DGL = """
import sys
print(sys.argv[1:][1:2] == ["--serve"] and "ready" or "wrong call", flush=True)
for line in sys.stdin:
    print({"run fwd": 0.25, "run both": 1.0}[line.strip()], flush=True)
"""


def _providers(report: Report, mode: str = "both") -> list[str]:
    return [row.kernel_provider for row in report.rows if row.kernel_operation_mode == mode]


def test_everybody_is_checked_and_timed() -> None:
    report = attention.run(TINY)
    expected = ["native", "bound", "reference", "torch", "pyg"]
    here = {"bound": HAS_KERNELS, "pyg": not peers.why_no_pyg()}
    assert _providers(report) == [name for name in expected if here.get(name, True)]
    assert all(row.ratio == 1.0 for row in report.rows if row.kernel_provider == "native")
    assert {(row.num_nodes, row.num_edges) for row in report.rows} == {(600, 5348)}
    bound = {row.kernel_operation_mode: row.bytes_bound for row in report.rows}
    if HAS_KERNELS:
        assert bound == {"fwd": 5348 * 512, "bwd": 5348 * 1024, "both": 5348 * 1536}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"providers": ("torch",)}, ["native", "torch"]),
        ({"dropout": 0.3, "table": 16}, ["native", "native-plain"]),
        ({"table": 300}, ["native", "native-plain"]),
        ({"dtype": "bf16", "providers": ("torch",)}, ["native", "native-f32", "torch"]),
        ({"heads": 3, "width": 5, "providers": ("reference",)}, ["native", "reference"]),
        ({"order": "cluster", "peer_order": "natural", "providers": ("torch",)}, ["native", "torch"]),
    ],
    ids=["chosen", "terms", "large-table", "bf16", "odd", "two-orders"],
)
def test_options(changes: dict[str, Any], expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGHOP_CACHE", str(tmp_path))
    report = attention.run(replace(TINY, **changes))
    assert _providers(report) == expected
    assert bool(report.notes) == ("dropout" in changes or "table" in changes)


def test_a_wrong_provider_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = peers.gather_scatter_attention
    monkeypatch.setattr(peers, "gather_scatter_attention", lambda *a: right(*a) * 1.001)
    monkeypatch.setattr(attention, "measure", lambda *a: pytest.fail("timed"))
    with pytest.raises(CheckFailedError, match="torch on a small graph: out is off"):
        attention.run(replace(TINY, providers=("torch",)))


def test_sampled_rows_are_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that is right on small graphs only."""
    right = peers.gather_scatter_attention

    def wrong(q: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        out = right(q, *rest)
        return out if len(q) != 600 else out.roll(1, 0)

    monkeypatch.setattr(peers, "gather_scatter_attention", wrong)
    with pytest.raises(CheckFailedError, match=r"^torch: out is off"):
        attention.run(replace(TINY, providers=("torch",)))


@pytest.mark.skipif(not HAS_KERNELS, reason="no native library")
def test_bound_reads_every_pair() -> None:
    problem = AttentionProblem.make(cases.make_graph("tiny"), TINY)
    bound = attention.gather_bound(problem)
    assert isinstance(bound, GatherBound)
    assert set(bound.run()) == {"fwd", "bwd", "both"}


def test_star_and_ring_have_as_many_pairs() -> None:
    report = attention_sweeps.star(TINY, leaves=5000)
    assert _providers(report) == ["native", "native-ring"]
    assert report.rows[0].num_edges == cases.ring_graph(5000).graph.num_edges == 10_000
    assert report.rows[0].max_degree == 5000


def test_widths() -> None:
    report = attention_sweeps.widths(TINY, heads=(1, 3), sizes=(4, 16))
    lines = [row for row in report.rows if row.metric_name == "time a line"]
    assert len(report.rows) == 4 * 3 + 4 * 2 == 12 + len(lines)
    assert min(row.ratio or 0.0 for row in lines if row.x_value == "H=3 D=16") >= 1.0
    assert len(report.notes) == 4


def test_saved_case(tmp_path: Path) -> None:
    file = tmp_path / "case.npz"
    attention.run(replace(TINY, providers=("torch",), save_graph=file))
    with np.load(file) as case:
        assert case["rowptr"][-1] == len(case["col"]) == 5348
        assert case["out"].shape == case["dk"].shape == (len(case["rows"]), 8, 8)
        assert case["perm"].tolist() == list(range(600))


def test_dgl_takes_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="start from the root of the source tree"):
        attention.run(replace(TINY, providers=("torch",), dgl=sys.executable))
    SCRIPT.parent.mkdir()
    SCRIPT.write_text(FAKE_DGL)
    report = attention.run(replace(TINY, providers=("torch",), dgl=sys.executable))
    found = {r.kernel_operation_mode: r.y_value_50 for r in report.rows if r.kernel_provider == "dgl"}
    assert found == {"fwd": 250.0, "both": 1000.0}
    SCRIPT.write_text("print('wrong dq is off')")
    with pytest.raises(CheckFailedError, match="dgl: dq is off"):
        attention.run(replace(TINY, providers=("torch",), dgl=sys.executable))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"repeat": 0}, "--repeat"),
        ({"heads": 0}, "--heads"),
        ({"dropout": 1.0}, "--dropout"),
        ({"dgl": "python", "dtype": "bf16"}, "--dgl"),
    ],
)
def test_wrong_options(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(TINY, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"providers": ("nobody",)}, "choose from native"), ({"providers": ("torch",), "dropout": 0.1}, "contradicts")],
)
def test_wrong_providers(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        attention.run(replace(TINY, **changes))
