"""``bench epoch``: the counterparts are the same models; one run of two processes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from longhop.bench import CheckFailedError, EpochOptions, epoch, epoch_check, peers
from longhop.bench.epoch_data import EpochData, arrange, load_data
from longhop.bench.measure import WARM_UP
from longhop.models import GCNConfig, GTConfig
from longhop.types import InputError

pytestmark = pytest.mark.skipif(bool(peers.why_no_pyg()), reason=peers.why_no_pyg() or "PyG is installed")
TINY = EpochOptions(graph="tiny", repeat=1, malloc="default", order="natural")


def _data(nodes: int = 150) -> EpochData:
    return load_data("tiny").restricted(torch.arange(nodes))


@pytest.mark.parametrize("model", ["graphormer-slim", "gt", "gcn", "sage"])
def test_counterparts_are_the_same_function(model: Any) -> None:
    epoch_check.check(epoch.model_config(replace(TINY, model=model)), _data(), [False, model in ("gcn", "sage")])


@pytest.mark.parametrize("config", [GTConfig(layers=1, hidden=16, heads=2), GCNConfig(layers=1, hidden=8)])
def test_another_function_is_seen(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    right = epoch_check.build_peer

    def wrong(*arguments: Any) -> torch.nn.Module:
        peer = right(*arguments)
        peer.register_forward_hook(lambda module, inputs, out: 1.01 * out)
        return peer

    monkeypatch.setattr(epoch_check, "build_peer", wrong)
    with pytest.raises(CheckFailedError, match=f"pyg {config.name}, edge_index: outputs is off"):
        epoch_check.check(config, _data(), [False])


def test_same_nodes_in_two_orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGHOP_CACHE", str(tmp_path))
    data = load_data("tiny")
    ours, theirs = arrange(data, "cluster", "natural", 100)
    assert ours.graph.num_nodes == theirs.graph.num_nodes == 100
    assert ours.graph.num_edges == theirs.graph.num_edges
    assert len(ours.train) == len(theirs.train)
    assert sorted(map(tuple, ours.x.tolist())) == sorted(map(tuple, theirs.x.tolist()))


def test_data_survive_their_file(tmp_path: Path) -> None:
    data = _data()
    data.save(tmp_path / "data.npz")
    again = EpochData.load(tmp_path / "data.npz")
    for name in ("x", "y", "train"):
        assert torch.equal(getattr(again, name), getattr(data, name))
    assert torch.equal(again.graph.col, data.graph.col)


def test_run() -> None:
    report = epoch.run(replace(TINY, model="gcn", providers=("pyg-sparse",), nodes=200, order="cluster"))
    assert [row.kernel_provider for row in report.rows] == ["native", "pyg-sparse"]
    assert all(row.peak_bytes and row.num_nodes == 200 for row in report.rows)
    assert "peak memory" in report.notes[-1]


class _Worker:
    """Ours answers always; the others die at their third epoch."""

    def __init__(self, function: str, argument: dict[str, Any]) -> None:
        self.mine, self.answers = argument["provider"] == "native", 0

    def answer(self) -> dict[str, Any]:
        self.answers += 1
        if not self.mine and self.answers == 3:
            raise epoch.child.ChildError("was killed")
        return {"seconds": float(self.answers), "peak_bytes": self.answers}

    def close(self) -> None:
        pass


def test_a_counterpart_that_dies_leaves_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch.child, "Worker", _Worker)
    options = replace(TINY, model="sage", nodes=None)
    report = epoch.run(options)
    assert [row.kernel_provider for row in report.rows] == ["native"]
    assert report.rows[0].peak_bytes == WARM_UP + options.repeat
    assert report.rows[0].y_value_80 <= 1e3 * (WARM_UP + options.repeat)
    assert report.rows[0].y_value_20 > 1e3 * WARM_UP  # the first epochs are not counted
    assert report.notes == ["pyg-edge-index: was killed", "pyg-sparse: was killed"]


def test_without_the_data_a_local_graph_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch, "has_arxiv", lambda: False)
    monkeypatch.setattr(epoch, "load_data", lambda name: pytest.fail(name))
    with pytest.raises(pytest.fail.Exception, match="local-169k"):
        epoch.run(EpochOptions(malloc="default"))


@pytest.mark.parametrize(("name", "value"), [("nodes", 0), ("dropout", 1.0), ("threads", -1)])
def test_wrong_options(name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"--{name}"):
        replace(TINY, **{name: value})
