import shutil

import numpy as np
import pytest

from longhop.data import DataConfig, load
from longhop.data.load import find
from longhop.types import InputError


@pytest.fixture
def root(tmp_path, ogb, planetoid, benchmark, heterophilous, monkeypatch):
    """A collection with one data set of every format."""
    folder = tmp_path / "root"
    folder.mkdir()
    for path in (ogb, planetoid, benchmark, heterophilous):
        shutil.move(path, folder)
    (folder / "README.md").write_text("no data")
    np.savez(folder / "other.npz", a=np.arange(3))
    (folder / "broken.npz").write_bytes(b"no zip")
    monkeypatch.setenv("LONGHOP_DATA", str(folder))
    return folder


@pytest.mark.parametrize(
    ("path", "name", "format_", "spelled"),
    [
        ("", "OGBN-Tiny", "ogb", "ogbn_tiny"),
        ("ogbn_tiny", "", "ogb", "ogbn_tiny"),
        ("OGBN-TINY", "", "ogb", "ogbn_tiny"),
        ("planetoid", "TINY", "planetoid", "tiny"),
        ("planetoid/Tiny", "", "planetoid", "tiny"),
        ("planetoid/ind.tiny.graph", "", "planetoid", "tiny"),
        ("", "photo", "gnn-benchmark", "amazon_photo"),
        ("gnn_benchmark", "", "gnn-benchmark", "amazon_photo"),
        ("tiny.npz", "", "heterophilous", "tiny"),
    ],
)
def test_finds_and_tells_the_format(root, path, name, format_, spelled):
    config = DataConfig(path=f"$LONGHOP_DATA/{path}", name=name)
    found = find(config)
    assert (found.format, found.name) == (format_, spelled)
    assert load(config).name == spelled


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("", {"name": "ogbn-tniy"}, "did you mean ogbn_tiny"),
        ("ogbn_tyni", {}, "did you mean ogbn_tiny"),
        ("", {"name": "phoot"}, "did you mean amazon_photo"),
        ("", {"name": "zzz"}, "choose one of amazon_photo, broken, ogbn_tiny, tiny, tiny"),
        ("", {}, r"holds several data sets \(amazon_photo, .*choose one by data.name"),
        ("nowhere", {}, "data set nowhere"),
        ("nowhere/deep", {}, "no such file or folder"),
        ("nowhere", {"name": "x"}, "no such file or folder"),
        ("README.md", {}, "holds nothing of format auto; expected an OGB folder"),
        ("other.npz", {}, "holds nothing of format auto"),
        ("planetoid", {"format": "ogb"}, "holds nothing of format ogb"),
        ("broken.npz", {}, r"broken\.npz: truncated or damaged"),
        ("", {"name": "broken"}, r"broken\.npz: truncated or damaged"),
    ],
)
def test_says_what_is_there(root, path, options, message):
    with pytest.raises(InputError, match=message):
        load(DataConfig(path=f"$LONGHOP_DATA/{path}", **options))


def test_root_that_is_not_set(monkeypatch, tmp_path):
    monkeypatch.delenv("LONGHOP_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="LONGHOP_DATA names no folder"):
        load(DataConfig(path="$LONGHOP_DATA/x"))


def test_path_alone_is_relative_to_where_one_is(root, monkeypatch):
    monkeypatch.chdir(root)
    assert load(DataConfig(path="planetoid")).name == "tiny"
    (root / "empty").mkdir()
    with pytest.raises(InputError, match="nowhere: no such file"):
        load(DataConfig(path="empty/nowhere"))
    with pytest.raises(InputError, match="no such file"):
        load(DataConfig(path="absent/x"))


def test_pyg_folder_layout(root):
    (root / "Cora").mkdir()
    shutil.move(root / "planetoid", root / "Cora" / "raw")
    assert load(DataConfig(path=str(root / "Cora"))).name == "tiny"


@pytest.mark.parametrize(
    ("spec", "nodes", "edges"),
    [
        ("sbm?num_nodes=60&num_classes=3&seed=1", 60, None),
        ("SBM?homophily=0.5", 1000, None),
        ("path?num_nodes=50", 50, 98),
        ("path?num_nodes=50&directed=true", 50, 49),
        ("star?num_nodes=50", 50, 98),
        ("complete?num_nodes=5", 5, 20),
        ("rmat?num_nodes=100", 100, None),
        ("local?num_nodes=2000&degree=6", 2000, None),
    ],
)
def test_synthetic(spec, nodes, edges):
    found = load(DataConfig(path=f"synthetic:{spec}"))
    again = load(DataConfig(path=f"synthetic:{spec}"))
    assert found.num_nodes == nodes
    assert edges is None or found.graph.num_edges == edges
    assert found.num_classes >= 3
    assert found.fingerprint() == again.fingerprint()
    sizes = [int(mask.sum()) for mask in found.masks(0)]
    assert sizes == [round(0.6 * nodes), round(0.2 * nodes), nodes - round(0.6 * nodes) - round(0.2 * nodes)]


def test_digits():
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    found = load(DataConfig(path="synthetic:digits"))
    assert (found.num_nodes, found.num_features, found.num_classes) == (1797, 64, 10)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("sbn", "did you mean sbm"),
        ("sbm?num_node=3", "did you mean num_nodes"),
        ("sbm?num_nodes=many", "num_nodes must be int, got 'many'"),
        ("path?directed=maybe", "directed must be bool"),
        ("sbm?num_nodes=0", "num_nodes must be at least 4"),
        ("path?num_nodes=0", "num_nodes must be at least 1"),
        ("star?num_classes=99", "num_classes must lie in"),
    ],
)
def test_bad_synthetic(spec, message):
    with pytest.raises(InputError, match=message):
        load(DataConfig(path=f"synthetic:{spec}"))


def test_contradictory_format():
    with pytest.raises(InputError, match=r"drop data\.format"):
        load(DataConfig(path="synthetic:sbm", format="ogb"))


def test_star_of_many_leaves():
    found = load(DataConfig(path="synthetic:star?num_nodes=1000001"))
    assert found.graph.num_edges == 2_000_000
