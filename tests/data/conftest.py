"""Small data sets in each published format, written by hand."""

import pickle
from collections import defaultdict

import numpy as np
import pytest
import scipy.sparse
from data_writers import heterophilous_arrays, write_gz


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LONGHOP_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def ogb(tmp_path):
    """Six nodes, edges 0->1 1->2 2->3 3->4 4->5, one of them twice."""
    folder = tmp_path / "ogbn_tiny"
    raw = folder / "raw"
    write_gz(raw / "edge.csv.gz", "0,1\n1,2\n2,3\n3,4\n4,5\n0,1\n")
    write_gz(raw / "num-node-list.csv.gz", "6\n")
    write_gz(raw / "num-edge-list.csv.gz", "6\n")
    write_gz(raw / "node-feat.csv.gz", "".join(f"{i}.5,{i}\n" for i in range(6)))
    write_gz(raw / "node-label.csv.gz", "0\n1\n2\n0\n1\n2\n")
    for part, ids in {"train": "0\n1\n2\n", "valid": "3\n", "test": "4\n5\n"}.items():
        write_gz(folder / "split" / "time" / f"{part}.csv.gz", ids)
    return folder


@pytest.fixture
def ogb_binary(tmp_path):
    """As papers100M: data.npz, float labels with NaN, [N, 1]."""
    folder = tmp_path / "ogbn_binary"
    (folder / "raw").mkdir(parents=True)
    np.savez_compressed(
        folder / "raw" / "data.npz",
        edge_index=np.array([[0, 1, 2], [1, 2, 3]]),
        node_feat=np.arange(8, dtype=np.float32).reshape(4, 2),
        node_year=np.zeros((4, 1)),
        num_nodes_list=np.array([4]),
        num_edges_list=np.array([3]),
    )
    np.savez_compressed(folder / "raw" / "node-label.npz", node_label=np.array([[0.0], [2.0], [1.0], [np.nan]]))
    for part, ids in {"train": "0\n", "valid": "1\n", "test": "2\n"}.items():
        write_gz(folder / "split" / "time" / f"{part}.csv.gz", ids)
    return folder


@pytest.fixture
def planetoid(tmp_path):
    """Two training nodes, four known, test ids 4 and 6: 5 is isolated, as 15 nodes of CiteSeer are."""
    folder = tmp_path / "planetoid"
    folder.mkdir()
    eye = np.eye(3, dtype=np.float32)
    graph = defaultdict(list, {0: [1, 1, 4], 1: [0], 4: [0], 2: [3], 3: [2], 6: [6], 5: []})
    parts = {
        "x": scipy.sparse.csr_matrix(eye[:2]),
        "allx": scipy.sparse.csr_matrix(eye[[0, 1, 2, 0]]),
        "tx": scipy.sparse.csr_matrix(eye[[1, 2]]),
        "y": np.array([[1, 0], [0, 1]], dtype=np.int32),
        "ally": np.array([[1, 0], [0, 1], [1, 0], [0, 1]], dtype=np.int32),
        "ty": np.array([[0, 1], [1, 0]], dtype=np.int32),
        "graph": graph,
    }
    for part, value in parts.items():
        (folder / f"ind.tiny.{part}").write_bytes(pickle.dumps(value, protocol=2))
    # Not in ascending order: row 0 of tx is node 6.
    (folder / "ind.tiny.test.index").write_text("6\n4\n")
    return folder


@pytest.fixture
def benchmark(tmp_path):
    """gnn-benchmark's npz with pickled matrices, under a published name, split beside it."""
    folder = tmp_path / "gnn_benchmark"
    (folder / "splits").mkdir(parents=True)
    matrix = scipy.sparse.csr_matrix(
        np.array([[0, 1, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 0]], dtype=np.float32)
    )
    features = scipy.sparse.csr_matrix(np.array([[2, 0], [0, 3], [1, 1], [0, 0]], dtype=np.float32))
    np.savez(
        folder / "amazon_photo.npz",
        adj_matrix=np.array(matrix, dtype=object),
        node_attr=np.array(features, dtype=object),
        node_label=np.array([0, 1, 2, 0], dtype=np.int32),
    )
    np.savez(
        folder / "splits" / "amazon-photo_split.npz",
        train=np.array([0, 1]),
        valid=np.array([2]),
        test=np.array([3]),
    )
    return folder


@pytest.fixture
def heterophilous(tmp_path):
    path = tmp_path / "tiny.npz"
    np.savez(path, **heterophilous_arrays())
    return path
