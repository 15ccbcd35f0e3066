import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from longhop.graph import add_self_loops, degree_order, natural_order, rcm_order
from longhop.graph.generate import sbm
from longhop.partition import cached_order, cluster_order, metis_child
from longhop.types import InputError

GRAPH = sbm(300, 3)[0]


def the_file(folder: Path) -> Path:
    (file,) = (folder / "orders").iterdir()  # one, and no partial file beside it
    return file


@pytest.mark.parametrize("kind", ["rcm", "cluster"])
def test_second_time_from_disk(kind: str, tmp_path: Path) -> None:
    first, hit = cached_order(GRAPH, kind, 4, 1, tmp_path)  # type: ignore[arg-type]
    again, hit_again = cached_order(GRAPH, kind, 4, 1, tmp_path)  # type: ignore[arg-type]
    assert (hit, hit_again) == (False, True)
    expected = rcm_order(GRAPH) if kind == "rcm" else cluster_order(GRAPH, 4, seed=1)
    assert torch.equal(first.perm, expected.perm)
    assert torch.equal(again.perm, expected.perm)
    assert the_file(tmp_path).suffix == ".npz"


def test_cheap_orders_are_not_kept(tmp_path: Path) -> None:
    for kind, make in (("natural", natural_order), ("degree", degree_order)):
        order, hit = cached_order(GRAPH, kind, cache_dir=tmp_path)  # type: ignore[arg-type]
        assert torch.equal(order.perm, make(GRAPH).perm)
        assert not hit
    assert list(tmp_path.iterdir()) == []


def test_key_follows_graph_and_settings_but_not_weights(tmp_path: Path) -> None:
    cached_order(GRAPH, "cluster", 4, 0, tmp_path)
    weighted = dataclasses.replace(GRAPH, weight=torch.rand(GRAPH.num_edges))
    assert cached_order(weighted, "cluster", 4, 0, tmp_path)[1]
    assert not cached_order(GRAPH, "cluster", 5, 0, tmp_path)[1]
    assert not cached_order(GRAPH, "cluster", 4, 1, tmp_path)[1]
    assert not cached_order(add_self_loops(GRAPH)[0], "cluster", 4, 0, tmp_path)[1]


def test_default_folder_and_number_of_clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGHOP_CACHE", str(tmp_path))
    assert not cached_order(GRAPH)[1]
    assert cached_order(GRAPH)[1]
    assert the_file(tmp_path).exists()


def _truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:200])


def _flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[400] ^= 1  # inside the permutation
    file.write_bytes(bytes(data))


def _other_graph(file: Path) -> None:
    np.savez(file, perm=np.arange(7), note=np.array(""))


def _no_permutation(file: Path) -> None:
    np.savez(file, perm=np.zeros(300, np.int32), note=np.array(""))


def _empty(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize("damage", [_truncate, _flip, _other_graph, _no_permutation, _empty])
def test_a_damaged_file_is_made_anew(damage, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    first, _ = cached_order(GRAPH, "rcm", cache_dir=tmp_path)
    damage(the_file(tmp_path))
    with pytest.warns(UserWarning, match="damaged"):
        again, hit = cached_order(GRAPH, "rcm", cache_dir=tmp_path)
    assert not hit
    assert torch.equal(first.perm, again.perm)
    assert cached_order(GRAPH, "rcm", cache_dir=tmp_path)[1]


def test_a_folder_that_cannot_be_written_only_warns(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.warns(UserWarning, match="could not be kept"):
        order, hit = cached_order(GRAPH, "rcm", cache_dir=blocked)
    assert not hit
    assert torch.equal(order.perm, rcm_order(GRAPH).perm)


def test_a_fallback_order_says_so_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child = tmp_path / "child.py"
    child.write_text("raise SystemExit('no METIS today')")
    with monkeypatch.context() as patch:
        patch.setattr(metis_child, "__file__", str(child))
        with pytest.warns(UserWarning, match="no METIS today"):
            first, _ = cached_order(GRAPH, "cluster", 4, cache_dir=tmp_path)
    with pytest.warns(UserWarning, match="second best.*no METIS today"):
        again, hit = cached_order(GRAPH, "cluster", 4, cache_dir=tmp_path)
    assert hit
    assert torch.equal(first.perm, again.perm)


def test_unknown_kind(tmp_path: Path) -> None:
    with pytest.raises(InputError, match='"rcm" or "cluster", got'):
        cached_order(GRAPH, "random", cache_dir=tmp_path)  # type: ignore[arg-type]
