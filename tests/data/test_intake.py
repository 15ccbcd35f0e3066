import dataclasses

import numpy as np
import pytest
import torch

from longhop.data import DataConfig, from_arrays
from longhop.types import InputError

N = 4
NAN = float("nan")


def given(features="raw", split=0, **changes):
    base = {
        "edge_index": [[0, 1, 2], [1, 2, 3]],
        "x": np.arange(8.0).reshape(4, 2),
        "y": [0, 1, 2, 0],
        "train_mask": [0, 1],
        "val_mask": [2],
        "test_mask": [3],
    }
    return from_arrays({**base, **changes}, features=features, split=split)


@pytest.mark.parametrize(
    ("y", "task", "classes", "out"),
    [
        ([0, 1, 2, 0], "multiclass", 3, [0, 1, 2, 0]),
        ([[0], [1], [-1], [0]], "binary", 2, [0, 1, -1, 0]),
        (np.array([True, False, True, False]), "binary", 2, [1, 0, 1, 0]),
        ([0.0, 1.0, NAN, 3.0], "multiclass", 4, [0, 1, -1, 3]),
        ([0.5, 1.0, 2.0, 3.0], "regression", 1, [[0.5], [1], [2], [3]]),
        ([[0, 1], [1, 1], [0, 0], [1, 0]], "multilabel", 2, [[0, 1], [1, 1], [0, 0], [1, 0]]),
        ([[0.5, 1], [1, 1], [0, 0], [1, 0]], "regression", 2, [[0.5, 1], [1, 1], [0, 0], [1, 0]]),
    ],
)
def test_label_shapes(y, task, classes, out):
    found = given(y=y)
    assert (found.task, found.num_classes) == (task, classes)
    assert found.y.tolist() == out
    assert found.y.dtype == (torch.int64 if found.y.dim() == 1 else torch.float32)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1, 2], r"y\]: labels have shape \[3\] but the graph has 4 nodes"),
        ([0, -3, 1, 1], r"y\], row 1: class -3"),
        ([[0, 1], [2, 1], [0, 0], [1, 0]], r"y\], row 1, column 0: label 2 is neither 0 nor 1"),
        ([0.0, float("inf"), 1.0, 1.0], r"y\], row 1: the label is infinite"),
        (["a", "b", "c", "d"], "not numbers"),
        (np.zeros((4, 1, 1)), r"shape \[4, 1, 1\]"),
    ],
)
def test_bad_labels(y, message):
    with pytest.raises(InputError, match=message):
        given(y=y, num_nodes=N)


TRAIN = torch.tensor([True, False, True, False])


@pytest.mark.parametrize(
    "mask",
    [
        TRAIN,
        TRAIN.to(torch.uint8),
        TRAIN.long(),
        TRAIN[:, None],
        TRAIN[:, None].to(torch.uint8),
        [0, 2],
        [[2], [0]],
    ],
    ids=["bool", "uint8", "int", "bool-n1", "uint8-n1", "list", "list-n1"],
)
def test_mask_forms(mask):
    found = given(train_mask=mask, val_mask=None, test_mask=[1])
    assert found.masks(0).train.tolist() == TRAIN.tolist()
    assert found.splits.train.shape == (N, 1)


def test_many_masks_share_one_test_set():
    train = torch.eye(4, 3, dtype=torch.uint8)
    found = given(train_mask=train, val_mask=None, test_mask=[3], split=2)
    assert found.num_splits == 3
    assert found.splits.test.shape == (N, 3)
    assert [found.masks(i).train.nonzero().item() for i in range(3)] == [0, 1, 2]
    assert all(mask.is_contiguous() for mask in found.masks(1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_mask": [0, 4]}, r"train_mask\], row 1: node 4 is outside 0\.\.3 \(the graph has 4 nodes\)"),
        ({"train_mask": []}, r"train_mask\]: training split 0 has 0 labelled nodes of 4"),
        ({"train_mask": torch.zeros(4, dtype=torch.bool)}, "0 labelled nodes"),
        ({"train_mask": None}, "training split 0 has 0 labelled nodes"),
        ({"y": [-1, -1, 0, 1]}, "training split 0 has 0 labelled nodes"),
        (
            {"train_mask": torch.eye(4, 2, dtype=torch.bool) & (torch.arange(2) == 0)},
            "training split 1 has 0",
        ),
        ({"train_mask": torch.ones(3, dtype=torch.bool)}, r"mask has shape \[3\] but the graph has 4 nodes"),
        ({"train_mask": [0.5, 1.0]}, "float64"),
        ({"train_mask": [[0, 1], [2, 3]]}, r"\[2, 2\]"),
        ({"test_mask": [1, 3]}, r"test_mask\]: node 1 is in train and in test of split 0, as are 1 nodes"),
        ({"val_mask": [0, 1]}, "node 0 is in train and in val of split 0, as are 2 nodes"),
        ({"train_mask": torch.ones(4, 2).bool(), "val_mask": torch.zeros(4, 3).bool()}, "2 splits, but 3"),
        ({"split": 1}, r"split is 1, but data has splits 0\.\.0"),
        ({"x": None, "features": "binary"}, "has no features; use raw"),
    ],
)
def test_bad_splits(changes, message):
    with pytest.raises(InputError, match=message):
        given(**changes)


def test_unlabelled_nodes_leave_the_splits():
    found = given(y=[0, -1, 1, 0])
    assert found.masks(0).train.tolist() == [True, False, False, False]
    assert found.intake.notes == ("1 train nodes have no label and were taken out of the split",)


@pytest.mark.parametrize("part", ["val", "test"])
def test_missing_part_is_noted(part):
    found = given(**{f"{part}_mask": None})
    assert not getattr(found.splits, part).any()
    word = {"val": "validation", "test": "test"}[part]
    assert any(note.startswith(f"warning: there is no {word} split") for note in found.intake.notes)


def test_row_normalize():
    found = given("row_normalize", x=[[1.0, 3.0], [0, 0], [-2, 2], [0.1, 0]])
    assert found.x.tolist() == [[0.25, 0.75], [0, 0], [-0.5, 0.5], [1, 0]]


def test_binary():
    assert given("binary", x=[[1.0, 0.0], [-2, 0.5], [7, 0], [0, 0]]).x.tolist() == [
        [1, 0],
        [0, 1],
        [1, 0],
        [0, 0],
    ]


def test_standardize_measures_training_nodes_only():
    x = torch.tensor([[1e4 + 1, 5], [1e4 + 3, 5], [0, 6], [1e6, 5]])
    found = given("standardize", x=x)
    assert found.x[:2].tolist() == [[-1, 0], [1, 0]]
    other = given("standardize", x=torch.cat([x[:3], torch.zeros(1, 2)]))
    assert torch.equal(found.x[:3], other.x[:3])


def test_features_in_blocks(monkeypatch):
    monkeypatch.setattr("longhop.data.features._BLOCK_BYTES", 8)
    found = given("row_normalize")
    torch.testing.assert_close(found.x.sum(dim=1), torch.ones(4))
    with pytest.raises(InputError, match="row 3, column 0"):
        given(x=[[0, 0], [0, 0], [0, 0], [NAN, 0]])


def test_fingerprint_depends_on_everything_and_nothing_else():
    base = given().fingerprint()
    assert base == given().fingerprint() == given(train_mask=torch.tensor([1, 1, 0, 0])).fingerprint()
    others = [
        given(y=[0, 1, 2, 1]),
        given(x=np.ones((4, 2))),
        given(x=None),
        given(edge_index=[[0, 1], [1, 2]]),
        given(train_mask=[0]),
    ]
    assert len({base, *(other.fingerprint() for other in others)}) == 6


@pytest.mark.parametrize("graph", [[[], []], [[0, 1, 2, 3], [0, 1, 2, 3]], [[0] * 6, [1] * 6]])
def test_degenerate_graphs_come_in(graph):
    assert given(edge_index=np.array(graph, dtype=np.int64)).num_nodes == N


@pytest.mark.parametrize("field", ["format", "features"])
def test_unknown_option(field):
    with pytest.raises(InputError, match=rf"data\.{field} is 'foo'; choose one of"):
        DataConfig(path="x", **{field: "foo"})


def test_config_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        DataConfig(path="x").path = "y"
