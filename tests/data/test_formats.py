import os
import pickle
import shutil
import time

import numpy as np
import pytest
import scipy.sparse
import torch
from data_writers import heterophilous_arrays, write_gz

from longhop.data import DataConfig, load
from longhop.data.files import read_table
from longhop.types import InputError


def read(path, **options):
    return load(DataConfig(path=str(path), **options))


def nodes(mask: torch.Tensor) -> list[int]:
    return mask.nonzero().flatten().tolist()


def split_nodes(dataset, split: int = 0) -> list[list[int]]:
    return [nodes(mask) for mask in dataset.masks(split)]


def edges(dataset) -> set[tuple[int, int]]:
    return set(map(tuple, dataset.graph.edge_index().t().tolist()))


def test_ogb_csv(ogb):
    found = read(ogb)
    assert found.name == "ogbn_tiny"
    assert edges(found) == {(i, i + 1) for i in range(5)}
    assert found.intake.build.duplicates_merged == 1
    assert found.x.dtype == torch.float32
    assert found.x[5].tolist() == [5.5, 5.0]
    assert found.y.tolist() == [0, 1, 2, 0, 1, 2]
    assert (found.num_classes, found.task) == (3, "multiclass")
    assert split_nodes(found) == [[0, 1, 2], [3], [4, 5]]
    assert found.node_ids is None


def test_symmetrize_adds_reverse_and_counts(ogb):
    found = read(ogb, symmetrize=True)
    build = found.intake.build
    assert edges(found) == {(i, i + d) for i in range(6) for d in (-1, 1) if 0 <= i + d < 6}
    assert (build.edges_given, build.duplicates_merged, build.reverse_added, build.edges) == (6, 1, 5, 10)


def test_ogb_binary(ogb_binary):
    found = read(ogb_binary)
    assert edges(found) == {(0, 1), (1, 2), (2, 3)}
    assert found.y.tolist() == [0, 2, 1, -1]
    assert found.x.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert split_nodes(found) == [[0], [1], [2]]
    assert read(ogb_binary).fingerprint() == found.fingerprint()


def test_ogb_without_features_and_with_many_labels(ogb):
    (ogb / "raw" / "node-feat.csv.gz").unlink()
    write_gz(ogb / "raw" / "node-label.csv.gz", "0,1\n1,1\nnan,0\n0,0\n1,0\n0,1\n")
    write_gz(ogb / "raw" / "edge-feat.csv.gz", "1\n" * 6)
    found = read(ogb)
    assert found.x is None
    assert found.num_features == 0
    assert (found.task, found.num_classes) == ("multilabel", 2)
    assert found.y[2].isnan().tolist() == [True, False]
    assert "edge features are not read" in found.intake.notes


def test_table_is_parsed_once_and_again_when_it_changes(tmp_path):
    path = tmp_path / "t.csv.gz"
    write_gz(path, "1,2\n3,4\n")
    first = read_table(path, np.int64)
    first[:] = 0  # a private mapping: the cache keeps its content
    cached = list((tmp_path / "cache" / "data").glob("*.npy"))
    assert len(cached) == 1
    assert read_table(path, np.int64).tolist() == [[1, 2], [3, 4]]
    write_gz(path, "5,6\n7,8\n")
    os.utime(path, ns=(time.time_ns(), time.time_ns() + 1))
    assert read_table(path, np.int64).tolist() == [[5, 6], [7, 8]]


@pytest.mark.parametrize("state", ["unwritable", "damaged"])
def test_table_without_a_usable_cache(tmp_path, state):
    path = tmp_path / "t.csv"
    path.write_text("1,2\n")
    if state == "unwritable":
        (tmp_path / "cache").write_text("a file where the folder should be")
    else:
        read_table(path, np.int64)
        for cached in (tmp_path / "cache" / "data").iterdir():
            cached.write_bytes(cached.read_bytes()[:40])
    assert read_table(path, np.int64).tolist() == [[1, 2]]


def test_planetoid_public_split_and_isolated_test_ids(planetoid):
    found = read(planetoid)
    assert found.num_nodes == 7
    assert found.y.tolist() == [0, 1, 0, 1, 0, -1, 1]
    assert found.x.argmax(dim=1)[[4, 6]].tolist() == [2, 1]
    assert found.x[5].tolist() == [0, 0, 0]
    assert split_nodes(found) == [[0, 1], [2, 3], [4, 6]]
    assert edges(found) == {(0, 1), (1, 0), (0, 4), (4, 0), (2, 3), (3, 2), (6, 6)}
    assert found.intake.build.duplicates_merged == 1
    assert found.intake.notes[0].startswith("1 ids")


def test_gnn_benchmark_with_split_file(benchmark):
    found = read(benchmark, name="Photo", features="binary")
    assert edges(found) == {(0, 1), (1, 2), (2, 1), (3, 0)}
    assert found.graph.weight is None
    assert found.x.tolist() == [[1, 0], [0, 1], [1, 1], [0, 0]]
    assert split_nodes(found) == [[0, 1], [2], [3]]
    assert found.num_classes == 3


def test_gnn_benchmark_laid_out_in_parts_and_without_split(tmp_path):
    matrix = scipy.sparse.random(10, 10, density=0.3, format="csr", random_state=0)
    parts = {f"adj_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}
    np.savez(
        tmp_path / "some.npz",
        **parts,
        adj_shape=matrix.shape,
        attr_matrix=np.eye(10),
        labels=np.arange(10) % 2,
    )
    found = read(tmp_path)
    assert found.graph.num_edges == matrix.nnz
    assert found.graph.weight.sum().item() == pytest.approx(matrix.sum())
    assert [len(part) for part in split_nodes(found)] == [6, 2, 2]
    assert split_nodes(found) == split_nodes(read(tmp_path))
    assert split_nodes(found) != split_nodes(read(tmp_path, seed=1))
    assert "at random, seed 0" in found.intake.notes[0]


def test_repeated_entries_are_duplicates_and_stored_zeros_no_edges(tmp_path):
    data, indices, indptr = np.array([1.0, 1.0, 0.0, 1.0]), np.array([1, 1, 2, 0]), np.array([0, 3, 4, 4])
    parts = {"adj_data": data, "adj_indices": indices, "adj_indptr": indptr, "adj_shape": (3, 3)}
    np.savez(tmp_path / "some.npz", **parts, labels=np.arange(3))
    found = read(tmp_path)
    assert edges(found) == {(0, 1), (1, 0)}
    assert found.graph.weight is None
    assert found.intake.build.duplicates_merged == 1
    assert found.intake.notes[0] == "1 stored zeros of the adjacency are no edges"


def test_heterophilous_masks_and_both_directions(heterophilous):
    found = read(heterophilous, split=7)
    assert found.num_splits == 10
    assert split_nodes(found, 7) == [[2], [3], [4]]
    assert found.task == "binary"
    assert found.intake.build.reverse_added == 3
    shutil.copy(heterophilous, heterophilous.with_name("tiny_directed.npz"))
    assert read(heterophilous.with_name("tiny_directed.npz")).graph.num_edges == 3


def break_file(path, how):
    data = path.read_bytes()
    if how == "missing":
        path.unlink()
    elif how == "empty":
        path.write_bytes(b"")
    else:
        path.write_bytes(data[: len(data) // 2])


OGB_FILES = ["raw/edge", "raw/num-node-list", "raw/node-label", "raw/node-feat", "split/time/train"]
# Without its features a data set is one without features.
OGB_DAMAGE = [
    (name, how) for name in OGB_FILES for how in ("missing", "empty", "cut") if (name, how) != (OGB_FILES[3], "missing")
]


@pytest.mark.parametrize(("name", "how"), OGB_DAMAGE)
def test_ogb_damage_names_the_file(ogb, name, how):
    break_file(ogb / f"{name}.csv.gz", how)
    with pytest.raises(InputError, match="holds nothing" if (name, how) == ("raw/edge", "missing") else name):
        read(ogb)


@pytest.mark.parametrize("how", ["empty", "cut"])
@pytest.mark.parametrize("part", ["y", "tx", "ty", "allx", "ally", "graph"])
def test_planetoid_damage_names_the_file(planetoid, part, how):
    break_file(planetoid / f"ind.tiny.{part}", how)
    with pytest.raises(InputError, match=rf"ind\.tiny\.{part}: truncated or damaged pickle"):
        read(planetoid)


@pytest.mark.parametrize("index", ["", "6\n", "6\n6\n", "5\n6\n", "4\n99\n"])
def test_planetoid_wrong_test_index(planetoid, index):
    (planetoid / "ind.tiny.test.index").write_text(index)
    with pytest.raises(
        InputError, match=r"ind\.tiny\.(test\.index: (must list each|node 99 is not in the graph)|tx: 2 rows)"
    ):
        read(planetoid)


@pytest.mark.parametrize("part", ["y", "tx", "ty", "allx", "ally", "test.index"])
def test_planetoid_missing_file(planetoid, part):
    (planetoid / f"ind.tiny.{part}").unlink()
    with pytest.raises(InputError, match=rf"ind\.tiny\.{part}: no such file"):
        read(planetoid)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ({0: [99], 6: []}, "node 99 is outside 0..6"),
        ({0: ["a"]}, "not a dictionary of neighbour lists"),
        ([1, 2], "not a dictionary of neighbour lists"),
    ],
)
def test_planetoid_bad_graph(planetoid, graph, message):
    (planetoid / "ind.tiny.graph").write_bytes(pickle.dumps(graph, protocol=2))
    with pytest.raises(InputError, match=rf"ind\.tiny\.graph.*{message}"):
        read(planetoid)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("raw/edge.csv.gz", "0,1\n1,9\n", r"edge.*: 2 edges, but .*num-edge-list.* says 6"),
        (
            "raw/edge.csv.gz",
            "0,1\n" * 5 + "1,9\n",
            r"edge.*, target in row 5: node 9 is outside 0\.\.5 .*6 nodes",
        ),
        ("raw/edge.csv.gz", "1,2\n" * 5 + "3,6\n", r"these ids start at 1 and must start at 0"),
        ("raw/edge.csv.gz", "0,1\n" * 5 + "-1,2\n", r"source in row 5: node -1"),
        ("raw/edge.csv.gz", "0,1\n0,1\n2\n", r"edge.*, line 3: 1 columns, but 2 in the lines above"),
        ("raw/edge.csv.gz", "0,1\na,b\n", r"edge.*, line 2: 'a,b' is not int64 numbers"),
        ("raw/edge.csv.gz", "0,1,2\n" * 6, r"edge.*, line 1: 3 columns instead of source,target"),
        ("raw/node-feat.csv.gz", "1,2\n" * 5, r"node-feat.*shape \[5, 2\] but the graph has 6 nodes"),
        (
            "raw/node-feat.csv.gz",
            "1,2,3,4,5,6\n",
            r"node-feat.*shape \[1, 6\] .* 6 nodes; they look transposed",
        ),
        ("raw/node-feat.csv.gz", "1,2\n" * 5 + "1,nan\n", r"node-feat.*, row 5, column 1: feature is nan"),
        ("raw/node-feat.csv.gz", "1,2\n" * 5 + "1e39,0\n", r"node-feat.*, row 5, column 0: feature is inf"),
        ("raw/node-label.csv.gz", "1\n" * 7, r"node-label.*shape \[7, 1\] but the graph has 6 nodes"),
        ("raw/node-label.csv.gz", "-2\n" * 6, r"node-label.*, row 0: class -2 is below 0"),
        ("raw/num-node-list.csv.gz", "0\n", r"node-label.*0 nodes; at least one is needed"),
        ("raw/num-node-list.csv.gz", "3\n3\n", r"num-node-list.*2 graphs"),
        ("split/time/train.csv.gz", "", r"train.*training split 0 has 0 labelled nodes of 6"),
        ("split/time/train.csv.gz", "0\n6\n", r"train.*, row 1: node 6 is outside 0\.\.5"),
        ("split/time/test.csv.gz", "5\n2\n", r"test.*: node 2 is in train and in test of split 0"),
    ],
)
def test_ogb_bad_content(ogb, name, text, message):
    write_gz(ogb / name, text)
    with pytest.raises(InputError, match=message):
        read(ogb)


def test_ogb_without_validation_split_is_allowed_and_noted(ogb):
    (ogb / "split" / "time" / "valid.csv.gz").unlink()
    found = read(ogb)
    assert not found.masks(0).val.any()
    assert any("no validation split" in note for note in found.intake.notes)


def test_ogb_without_edges_trains_on(ogb):
    write_gz(ogb / "raw" / "edge.csv.gz", "")
    write_gz(ogb / "raw" / "num-edge-list.csv.gz", "0\n")
    assert read(ogb).graph.num_edges == 0


@pytest.mark.parametrize("key", ["node_labels", "edges"])
def test_npz_without_a_needed_array(tmp_path, key):
    arrays = heterophilous_arrays()
    del arrays[key]
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InputError, match=r"a\.npz"):
        read(tmp_path / "a.npz", format="heterophilous")


def test_gzip_of_another_kind(ogb):
    (ogb / "raw" / "edge.csv.gz").write_bytes(b"0,1\n")
    with pytest.raises(InputError, match=r"edge\.csv\.gz: truncated or damaged"):
        read(ogb)
