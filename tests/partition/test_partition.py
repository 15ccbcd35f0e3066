import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from longhop.graph import from_coo, skeleton, symmetrize
from longhop.graph.generate import complete, path, rmat, sbm, star
from longhop.partition import Partition, metis_child, partition
from longhop.partition.fallback import fill_empty, grow_and_refine
from longhop.testing.graphs import awkward_graphs
from longhop.types import InputError

SQUARE = {name: graph for name, graph in awkward_graphs().items() if graph.num_nodes == graph.num_cols}


def is_sound(parts: Partition, num_nodes: int, num_edges: int) -> bool:
    size = torch.bincount(parts.assignment, minlength=parts.num_parts)
    report = parts.report
    return (
        parts.assignment.shape == (num_nodes,)
        and size.numel() == parts.num_parts
        and bool((size > 0).all())
        and report.kept + report.cut == num_edges
        and (report.largest, report.smallest) == (int(size.max()), int(size.min()))
    )


@pytest.mark.parametrize("method", ["metis", "bfs"])
@pytest.mark.parametrize("name", SQUARE)
def test_every_node_gets_a_part(name: str, method: str) -> None:
    graph = SQUARE[name]
    for num_parts in {1, min(4, graph.num_nodes), graph.num_nodes}:
        parts = partition(graph, num_parts, method=method)  # type: ignore[arg-type]
        assert is_sound(parts, graph.num_nodes, graph.num_edges)


@pytest.mark.parametrize("num_parts", [0, -1, 11])
def test_impossible_numbers_of_parts_are_refused(num_parts: int) -> None:
    """U32: METIS itself returns something else."""
    with pytest.raises(InputError, match=f"1 .. 10, the number of nodes, got {num_parts}"):
        partition(path(10), num_parts)


def test_other_bad_input() -> None:
    with pytest.raises(InputError, match="method"):
        partition(path(10), 2, method="magic")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="square"):
        partition(awkward_graphs()["rectangular"], 2)


def test_almost_as_many_parts_as_nodes() -> None:
    parts = partition(path(200), 199)
    assert is_sound(parts, 200, 398)
    assert parts.report.largest == 2


def test_a_directed_chain_is_cut_well_and_keeps_its_direction() -> None:
    """U30: what kills METIS as it comes."""
    chain = path(2000, directed=True)
    edges = chain.edge_index().clone()
    parts = partition(chain, 100)
    assert parts.method == "metis"
    assert is_sound(parts, 2000, 1999)
    assert parts.report.cut < 200
    assert torch.equal(chain.edge_index(), edges)


@pytest.mark.parametrize("method", ["metis", "bfs"])
def test_same_seed_same_parts(method: str) -> None:
    graph = sbm(600, 4)[0]
    first, again, other = (partition(graph, 16, method=method, seed=s).assignment for s in (1, 1, 2))  # type: ignore[arg-type]
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(("method", "worst"), [("metis", 60), ("bfs", 120)])
def test_planted_clusters_are_found(method: str, worst: int) -> None:
    blocks = torch.arange(400) // 50
    src = torch.arange(400).repeat_interleave(50)
    dst = blocks[src] * 50 + torch.arange(50).repeat(400)
    shuffle = torch.randperm(400, generator=torch.Generator().manual_seed(0))
    bridge = torch.arange(0, 350, 50)
    graph, _ = symmetrize(from_coo(shuffle[torch.cat([src, bridge])], shuffle[torch.cat([dst, bridge + 50])], 400)[0])
    report = partition(graph, 8, method=method).report  # type: ignore[arg-type]
    assert report.cut <= worst
    assert report.warnings == ()


def test_the_fallback_is_near_metis_on_a_modular_graph() -> None:
    graph = sbm(3000, 8, degree=16, homophily=0.95)[0]
    metis, own = (partition(graph, 8, method=m).report for m in ("metis", "bfs"))  # type: ignore[arg-type]
    assert own.cut_share < 2.5 * metis.cut_share + 0.1
    assert own.balance <= 1.06


def test_counts_of_the_report() -> None:
    graph, _ = from_coo([0, 1, 2, 3, 0, 0], [1, 0, 3, 2, 2, 3], 4)
    report = partition(graph, 2).report
    assert (report.kept, report.cut) == (4, 2)
    assert report.halo == 1  # node 0 is the only foreign key, and of one part only
    assert report.halo_share == pytest.approx(1 / 5)
    assert report.cut_share == pytest.approx(1 / 3)
    assert "4 edges kept + 2 cut" in report.summary()


def test_star_is_balanced_or_says_so() -> None:
    """U33: the hub draws all leaves to its part."""
    report = partition(star(10_001), 8).report
    assert report.balance <= 1.1 or any("max/mean" in line for line in report.warnings)
    assert any("87.5%" in line for line in report.warnings)


def test_unbalanced_parts_are_reported() -> None:
    report = partition(complete(100), 8).report
    if report.balance > 1.1:
        assert any(f"{report.largest} nodes" in line for line in report.warnings)


def test_dense_random_graph_warns_that_clusters_do_not_help() -> None:
    dense = rmat(600, 150, probabilities=(0.25, 0.25, 0.25))
    report = partition(dense, 8).report
    (line,) = (line for line in report.warnings if "no clusters" in line)
    assert f"{report.cut_share:.1%}" in line
    assert f"{report.halo_share:.1%}" in line


BAD_CHILDREN = {
    "killed by signal 11": "import os; os.kill(os.getpid(), 11)",
    "failed (KeyError: 'x')": "raise KeyError('x')",
    "failed (exit code 3)": "raise SystemExit(3)",
    "within 1 s": "import time; time.sleep(60)",
    "no readable answer": "pass",
    "answered [5] int64": "answer(np.zeros(5, np.int64))",
    "answered parts -1": "answer(np.full(40, -1))",
    "filled only 1 of 4 parts": "answer(np.zeros(40, np.int64))",
}


@pytest.mark.parametrize("reason", BAD_CHILDREN)
def test_a_bad_answer_leads_to_the_fallback_with_its_reason(
    reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = tmp_path / "child.py"
    child.write_text(
        "import sys\nimport numpy as np\n"
        "answer = lambda part: np.save(sys.argv[1] + '/part.npy', part)\n" + BAD_CHILDREN[reason]
    )
    monkeypatch.setattr(metis_child, "__file__", str(child))
    graph = path(40)
    with pytest.warns(UserWarning, match="METIS .* were used for 4 parts") as caught:
        parts = partition(graph, 4, timeout=1 if "within" in reason else 60)
    assert len(caught) == 1
    assert reason in str(caught[0].message)
    assert reason in parts.report.warnings[0]
    assert parts.method == "bfs"
    assert is_sound(parts, 40, graph.num_edges)


def test_empty_parts_of_metis_are_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child = tmp_path / "child.py"
    child.write_text("import sys, numpy as np\nnp.save(sys.argv[1] + '/part.npy', np.repeat([0, 1, 4], [4, 26, 10]))")
    monkeypatch.setattr(metis_child, "__file__", str(child))
    parts = partition(path(40), 5)
    assert is_sound(parts, 40, 78)
    assert parts.report.largest == 13
    assert "2 of 5 parts empty" in parts.report.warnings[0]


def test_missing_interpreter_is_a_reason_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.warns(UserWarning, match="could not be started"):
        partition(path(40), 4)


def test_good_parts_warn_about_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert partition(path(1000), 4).report.warnings == ()


def test_fill_empty_halves_what_is_large() -> None:
    filled = fill_empty(np.zeros(1000, np.int64), 16)
    size = np.bincount(filled, minlength=16)
    assert size.min() >= 31
    assert size.max() <= 125
    assert np.bincount(fill_empty(np.zeros(7, np.int64), 7), minlength=7).tolist() == [1] * 7


@pytest.mark.parametrize("num_parts", [1, 7, 50, 100])
def test_fallback_holds_its_sizes(num_parts: int) -> None:
    bare = skeleton(rmat(100, 8))
    size = np.bincount(grow_and_refine(bare, num_parts, seed=0), minlength=num_parts)
    assert size.min() >= 1
    assert size.max() <= max(np.floor(105 / num_parts), np.ceil(100 / num_parts))


@pytest.mark.parametrize("seed", [-5, 2**40])
def test_any_integer_is_a_seed(seed: int) -> None:
    assert partition(path(10), 2, seed=seed).report.cut == 2
