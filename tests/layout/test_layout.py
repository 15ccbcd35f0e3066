"""The layout's own facts: pairs, report, hop classes, refusals."""

import dataclasses

import pytest
import torch

from longhop.graph.build import add_self_loops, from_coo, symmetrize
from longhop.graph.csr import CSRGraph
from longhop.layout import NUM_HOP_CLASSES, AttentionLayout
from longhop.testing.graphs import awkward_graphs
from longhop.types import InputError

GRAPHS = awkward_graphs()


@pytest.mark.parametrize("num_global", [0, 2])
@pytest.mark.parametrize("name", GRAPHS)
def test_pairs_and_report_count_the_same(name: str, num_global: int) -> None:
    graph = GRAPHS[name]
    layout = AttentionLayout.from_graph(graph, num_global=num_global)
    query, key = layout.pairs()
    report = layout.report()
    assert query.numel() == report.pairs_requested == report.pairs_kept
    assert (report.pairs_added, report.pairs_dropped) == (0, 0)
    assert torch.equal(query[: graph.num_edges], graph.rows().long())
    assert torch.equal(key[: graph.num_edges], graph.col.long())
    empty = set(range(layout.num_queries)) - set(query.tolist())
    assert len(empty) == report.queries_without_keys
    assert report.bytes >= graph.col.nbytes * 3


def test_every_query_sees_the_tokens_and_each_token_everything() -> None:
    graph, _ = from_coo([0, 1], [1, 2], 3)
    layout = AttentionLayout.from_graph(graph, num_global=2)
    pairs = {tuple(p) for p in layout.pairs().T.tolist()}
    tokens = {(i, t) for i in range(5) for t in (3, 4)} | {(t, j) for t in (3, 4) for j in range(5)}
    assert pairs == {(1, 0), (2, 1)} | tokens
    assert layout.pairs().shape[1] == len(pairs)


def test_from_tensors_equals_from_graph() -> None:
    graph = GRAPHS["rectangular"]
    made = AttentionLayout.from_tensors(graph.rowptr, graph.col, num_cols=graph.num_cols, num_global=1)
    expected = AttentionLayout.from_graph(graph, num_global=1)
    for field in dataclasses.fields(AttentionLayout):
        a, b = getattr(made, field.name), getattr(expected, field.name)
        assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def _naive_classes(layout: AttentionLayout, given: CSRGraph) -> list[int]:
    edges = {(i, j) for i, j in zip(given.rows().tolist(), given.col.tolist(), strict=True) if i != j}
    classes = []
    for i, j in zip(layout.rows().tolist(), layout.col.tolist(), strict=True):
        found = ((i, j) in edges) + 2 * ((j, i) in edges)
        classes.append(0 if i == j else found or NUM_HOP_CLASSES - 1)
    return classes


@pytest.mark.parametrize("name", [n for n, g in GRAPHS.items() if g.num_nodes == g.num_cols])
def test_hop_classes(name: str) -> None:
    given = GRAPHS[name]
    pairs, _ = add_self_loops(symmetrize(given)[0])
    for graph, known in ((pairs, given), (given, given), (GRAPHS["odd_63"], GRAPHS["odd_63"])):
        layout = AttentionLayout.from_graph(graph)
        classes = layout.hop_class(known)
        assert classes.dtype == torch.uint8
        assert classes.tolist() == _naive_classes(layout, known)


def test_hop_classes_of_pairs_that_no_edge_gave() -> None:
    given, _ = from_coo([0], [1], 3)
    pairs, _ = from_coo([0, 1, 2], [1, 0, 0], 3)
    assert AttentionLayout.from_graph(pairs).hop_class(given).tolist() == [2, 4, 1]


def test_refusals_name_the_numbers() -> None:
    graph = GRAPHS["odd_63"]
    with pytest.raises(InputError, match="num_global must be 0 or more, got -1"):
        AttentionLayout.from_graph(graph, num_global=-1)
    with pytest.raises(InputError, match="63 x 63 pairs and 100 x 100 edges"):
        AttentionLayout.from_graph(graph).hop_class(GRAPHS["odd_100"])
    layout = AttentionLayout.from_graph(graph)
    with pytest.raises(InputError, match="perm must have one entry a pair"):
        dataclasses.replace(layout, perm=layout.perm[:-1])
    with pytest.raises(InputError, match="t_rowptr must have num_cols"):
        dataclasses.replace(layout, num_cols=64)
