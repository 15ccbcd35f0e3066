"""What a data set holds, in numbers: the report of ``longhop inspect``."""

from typing import Any

import scipy.sparse
import torch
from scipy.sparse.csgraph import connected_components

from longhop.data.dataset import NodeDataset
from longhop.data.labels import labelled
from longhop.graph.csr import CSRGraph


def inspect_dataset(dataset: NodeDataset) -> dict[str, Any]:
    """Describe a data set.

    Returns:
        Numbers, strings, lists and dictionaries only, ready for JSON: ``name``, ``num_nodes``,
        ``num_edges``, ``num_features``, ``num_classes``, ``task``, ``symmetric``, ``degree`` (in-degree:
        min, mean, max), ``isolated`` (no edge but to themselves), ``edges_given``, ``duplicates_merged``,
        ``reverse_added``, ``self_loops``, ``components`` (weakly connected) and ``largest_component``,
        ``labels`` (nodes a class, or per column), ``unlabelled``, ``edge_homophily`` (share of edges
        between equal classes; None where it has no meaning), ``splits`` (sizes, one entry a split),
        ``fingerprint``, ``notes``.
    """
    graph, build = dataset.graph, dataset.intake.build
    degree = graph.degree()
    count, largest = _components(graph)
    return {
        "name": dataset.name,
        "num_nodes": graph.num_nodes,
        "num_edges": graph.num_edges,
        "num_features": dataset.num_features,
        "num_classes": dataset.num_classes,
        "task": dataset.task,
        "symmetric": is_symmetric(graph),
        "degree": {
            "min": int(degree.min()),
            "mean": graph.num_edges / graph.num_nodes,
            "max": int(degree.max()),
        },
        "isolated": _isolated(graph),
        "edges_given": build.edges_given,
        "duplicates_merged": build.duplicates_merged,
        "reverse_added": build.reverse_added,
        "self_loops": build.self_loops,
        "components": count,
        "largest_component": largest,
        "labels": _balance(dataset),
        "unlabelled": int((~labelled(dataset.y)).sum()),
        "edge_homophily": _homophily(dataset),
        "splits": [
            {part: int(mask[:, i].sum()) for part, mask in zip(("train", "val", "test"), dataset.splits, strict=True)}
            for i in range(dataset.num_splits)
        ],
        "fingerprint": dataset.fingerprint(),
        "notes": list(dataset.intake.notes),
    }


def is_symmetric(graph: CSRGraph) -> bool:
    """Whether every edge has its reverse (weights apart)."""
    flipped = graph.transpose()
    return torch.equal(graph.rowptr, flipped.rowptr) and torch.equal(graph.col, flipped.col.to(graph.col.dtype))


def _components(graph: CSRGraph) -> tuple[int, int]:
    # scipy wants data for every entry; one byte each is the least.
    entries = torch.ones(graph.num_edges, dtype=torch.uint8).numpy()
    matrix = scipy.sparse.csr_matrix(
        (entries, graph.col.numpy(), graph.rowptr.numpy()), shape=(graph.num_nodes, graph.num_nodes)
    )
    count, component = connected_components(matrix, directed=True, connection="weak")
    return int(count), int(torch.bincount(torch.from_numpy(component)).max())


def _isolated(graph: CSRGraph) -> int:
    rows = graph.rows()
    apart = rows != graph.col
    touched = torch.zeros(graph.num_nodes, dtype=torch.bool)
    touched[rows[apart].long()] = True
    touched[graph.col[apart].long()] = True
    return int((~touched).sum())


def _balance(dataset: NodeDataset) -> list[int] | list[dict[str, float]]:
    y = dataset.y
    if y.dim() == 1:
        return torch.bincount(y[y >= 0], minlength=dataset.num_classes).tolist()
    known = ~y.isnan()
    key = "positive" if dataset.task == "multilabel" else "mean"
    sums = y.nan_to_num().double().sum(dim=0)
    values = sums if key == "positive" else sums / known.sum(dim=0).clamp(min=1)
    return [{"labelled": n, key: value} for n, value in zip(known.sum(dim=0).tolist(), values.tolist(), strict=True)]


def _homophily(dataset: NodeDataset) -> float | None:
    graph, y = dataset.graph, dataset.y
    if y.dim() != 1:
        return None
    left, right = y[graph.rows().long()], y[graph.col.long()]
    counted = (graph.rows() != graph.col) & (left >= 0) & (right >= 0)
    pairs = int(counted.sum())
    return int((counted & (left == right)).sum()) / pairs if pairs else None
