import json

import pytest

from longhop.data import DataConfig, from_arrays, inspect_dataset, load


def test_counts():
    dataset = from_arrays(
        {
            "edge_index": [[0, 0, 1, 2, 3, 5], [1, 1, 0, 1, 3, 4]],
            "x": [[1.0]] * 7,
            "y": [0, 0, 1, 1, 0, -1, 1],
            "train_mask": [0, 1],
            "val_mask": [2],
            "test_mask": [3, 4],
        }
    )
    found = inspect_dataset(dataset)
    assert json.loads(json.dumps(found)) == found
    expected = {
        "num_nodes": 7,
        "num_edges": 5,
        "num_features": 1,
        "num_classes": 2,
        "task": "binary",
        "symmetric": False,
        "degree": {"min": 0, "mean": pytest.approx(5 / 7), "max": 2},
        "isolated": 2,
        "edges_given": 6,
        "duplicates_merged": 1,
        "reverse_added": 0,
        "self_loops": 1,
        "components": 4,
        "largest_component": 3,
        "labels": [3, 3],
        "unlabelled": 1,
        "edge_homophily": pytest.approx(2 / 3),
        "splits": [{"train": 2, "val": 1, "test": 2}],
        "fingerprint": dataset.fingerprint(),
    }
    assert {key: found[key] for key in expected} == expected


def test_symmetric_graph_without_edges_or_labels_in_columns():
    found = inspect_dataset(
        from_arrays({"edge_index": [[0, 1], [1, 0]], "y": [[0, 1], [1, float("nan")], [1, 0]], "train_mask": [0]})
    )
    assert found["symmetric"]
    assert found["num_features"] == 0
    assert found["edge_homophily"] is None
    assert found["labels"] == [{"labelled": 3, "positive": 2.0}, {"labelled": 2, "positive": 1.0}]


def test_no_edges(ogb):
    dataset = from_arrays({"edges": [], "num_nodes": 2, "y": [0, 1], "train_mask": [0]} | {"edges": [[0, 0]]})
    found = inspect_dataset(dataset)
    assert (found["isolated"], found["edge_homophily"], found["components"]) == (2, None, 2)


def test_path_is_one_component():
    found = inspect_dataset(load(DataConfig(path="synthetic:path?num_nodes=10&directed=true")))
    assert (found["components"], found["symmetric"], found["notes"][0]) == (1, False, "generated data")
