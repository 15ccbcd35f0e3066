import warnings

import numpy as np
import pytest
import scipy.sparse
import torch

from longhop.data import DataConfig, from_arrays, load
from longhop.types import InputError

EDGES = [[0, 1, 2], [1, 2, 0]]
X = [[1.0, 0.0], [0.0, 2.0], [3.0, 4.0]]
BASE = {"edge_index": EDGES, "x": X, "y": [0, 1, 2], "train_mask": [0], "val_mask": [1], "test_mask": [2]}


def given(**changes):
    return from_arrays({**BASE, **changes})


@pytest.fixture
def pyg():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyG's own imports warn
        return pytest.importorskip("torch_geometric.data", reason="torch_geometric is not installed").Data


@pytest.fixture
def data(pyg):
    masks = {f"{part}_mask": torch.arange(3) == i for i, part in enumerate(("train", "val", "test"))}
    return pyg(
        x=torch.tensor(X),
        edge_index=torch.tensor(EDGES),
        edge_attr=torch.ones(3, 4),
        edge_weight=torch.tensor([1.0, 2.0, 3.0]),
        y=torch.tensor([[0], [1], [2]]),
        **masks,
    )


def check(found):
    assert found.graph.edge_index().tolist() == [[2, 0, 1], [0, 1, 2]]
    assert found.graph.weight.tolist() == [3, 1, 2]
    assert found.x.tolist() == X
    assert found.y.tolist() == [0, 1, 2]
    assert [mask.nonzero().item() for mask in found.masks(0)] == [0, 1, 2]
    assert "edge_attr is not read" in found.intake.notes[0]


def test_pyg_object(data):
    check(from_arrays(data))


@pytest.mark.parametrize("wrap", ["data", "dict", "in-memory", "in-memory-new"])
def test_pyg_file(tmp_path, data, wrap):
    value = {
        "data": data,
        "dict": data.to_dict(),
        "in-memory": (data, {key: torch.tensor([0, 3]) for key in data.to_dict()}),
        "in-memory-new": (data.to_dict(), None, type(data)),
    }[wrap]
    torch.save(value, tmp_path / "d.pt")
    before = set(torch.serialization.get_safe_globals())
    check(load(DataConfig(path=str(tmp_path / "d.pt"))))
    assert set(torch.serialization.get_safe_globals()) == before


def test_several_graphs_in_one_file(tmp_path, data):
    torch.save((data, {"x": torch.tensor([0, 1, 3])}), tmp_path / "d.pt")
    with pytest.raises(InputError, match=r"d\.pt: holds several graphs"):
        load(DataConfig(path=str(tmp_path / "d.pt")))


@pytest.mark.parametrize("form", ["tuple", "dict"])
def test_processed_ogb_file_of_numpy_arrays(tmp_path, form):
    graph = {
        "edge_index": np.array(EDGES),
        "node_feat": np.array(X, dtype=np.float32),
        "num_nodes": 3,
        "edge_feat": None,
    }
    labels = np.array([[0], [1], [1]])
    torch.save((graph, labels) if form == "tuple" else {"graph": graph, "labels": labels}, tmp_path / "d.pt")
    found = load(DataConfig(path=str(tmp_path / "d.pt")))
    assert found.x.tolist() == X
    assert found.y.tolist() == [0, 1, 1]


class Evil:
    def __reduce__(self):
        import os

        return os.system, ("exit 1",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (Evil(), "refused or damaged"),
        ({"x": torch.nn.Linear(1, 1)}, "refused or damaged"),
        ([1, 2], "holds a int"),
        (b"", "truncated or damaged"),
        (b"PK\x03\x04 no zip", "truncated or damaged"),
        (b"no pickle", "refused or damaged|truncated or damaged"),
    ],
)
def test_bad_pt_file(tmp_path, content, message):
    path = tmp_path / "d.pt"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save(content, path)
    with pytest.raises(InputError, match=rf"d\.pt: ({message})"):
        load(DataConfig(path=str(path)))


@pytest.mark.parametrize(
    ("value", "edges"),
    [
        (np.array([5, 2, 6]), [[5, 2, 6], [2, 6, 5]]),
        (np.array(["u-9", "u-10", "u-1"]), [["u-9", "u-10", "u-1"], ["u-10", "u-1", "u-9"]]),
        (torch.tensor([1, 2, 3]), [[1, 2, 3], [2, 3, 1]]),
    ],
    ids=["sparse", "strings", "1-based"],
)
def test_original_ids_are_kept(value, edges):
    """U28: results go out under the ids that came in."""
    found = given(node_ids=value, edge_index=edges)
    assert found.graph.edge_index().tolist() == given().graph.edge_index().tolist()
    assert found.node_ids.tolist() == value.tolist()


def test_id_without_edges_is_an_isolated_node():
    found = given(node_ids=["a", "b", "c"], edge_index=[["a"], ["c"]])
    assert found.graph.degree().tolist() == [0, 0, 1]


def test_n_id_names_nodes_that_are_numbered_already():
    assert given(n_id=torch.tensor([7, 8, 9])).node_ids.tolist() == [7, 8, 9]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"node_ids": [2, 5, 6], "edge_index": [[2, 3], [5, 6]]},
            r"edge_index\], row 1: node 3 is not among the 3",
        ),
        ({"node_ids": [2, 5, 5], "edge_index": [[2], [5]]}, "holds 5 twice"),
        ({"node_ids": ["a", "b", "c"]}, "give both in one type"),
        ({"n_id": [1, 2]}, r"node_ids: ids of shape \[2\] for 3 nodes"),
        (
            {"edge_index": [[0, 5], [1, 1]]},
            r"edge_index\], source in row 1: node 5 is outside 0\.\.2 .*3 nodes",
        ),
        ({"edge_index": [[0, 1], [1, 2], [2, 0]]}, r"shape \[3, 2\] instead of \[2, E\]"),
        ({"edge_index": [[0.0, 1.5], [1, 2]]}, r"edge_index\]: src must hold integer ids"),
        ({"edge_index": None}, "no edges among"),
        ({"edge_index": [[0, 1], [1]]}, "edge_index.*not an array"),
        ({"y": None}, "no labels among"),
        ({"x": [[1.0, 2.0, 3.0]]}, r"x\]: features have shape \[1, 3\] .*3 nodes; they look transposed"),
        ({"x": X[:2]}, r"x\]: features have shape \[2, 2\] but the graph has 3 nodes"),
        ({"x": [[1, 2], [3, float("inf")], [0, 0]]}, r"x\], row 1, column 1: feature is inf"),
        ({"x": [["a"], ["b"], ["c"]]}, "not numbers"),
        ({"edge_weight": [1.0, 2.0]}, r"edge_index\]: weight must be \[E\] with E = 3"),
        ({"edge_weight": [1.0, float("nan"), 1.0]}, "finite"),
        ({"num_nodes": 2}, r"has 2 nodes"),
        ({"num_nodes": 2.5}, "one whole number"),
        ({"y": [], "x": None}, "0 nodes; at least one is needed"),
    ],
)
def test_bad_arrays(changes, message):
    with pytest.raises(InputError, match=message):
        given(**changes)


def test_scipy_torch_sparse_and_half_features():
    for x in (scipy.sparse.csr_matrix(X), torch.tensor(X).to_sparse(), torch.tensor(X, dtype=torch.bfloat16)):
        assert given(x=x).x.tolist() == X


def test_users_arrays_are_not_changed():
    x = torch.tensor(X)
    for features in ("row_normalize", "binary", "standardize"):
        from_arrays({**BASE, "x": x}, features=features)
    assert x.tolist() == X


def test_read_only_arrays_are_taken():
    x = np.array(X, dtype=np.float32)
    x.flags.writeable = False
    assert given(x=x).x.tolist() == X


def test_npz_of_named_arrays(tmp_path):
    np.savez(tmp_path / "mine.npz", **BASE)
    found = load(DataConfig(path=str(tmp_path)))
    assert (found.name, found.num_nodes) == ("mine", 3)
