import dataclasses
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from longhop.graph import (
    BuildReport,
    CSRGraph,
    Order,
    add_self_loops,
    content_hash,
    from_coo,
    from_pyg,
    from_scipy,
    index_dtype,
    induced,
    permute,
    remove_self_loops,
    skeleton,
    symmetrize,
)
from longhop.testing.graphs import awkward_graphs
from longhop.types import InputError

GRAPHS = awkward_graphs()
SQUARE = {name: graph for name, graph in GRAPHS.items() if graph.num_nodes == graph.num_cols}


def dense(graph: CSRGraph) -> torch.Tensor:
    """Entry counts (or sums of weights), rows by columns."""
    out = torch.zeros(graph.num_nodes, graph.num_cols, dtype=torch.float64)
    weight = torch.ones(graph.num_edges) if graph.weight is None else graph.weight
    return out.index_put_((graph.rows().long(), graph.col.long()), weight.double(), accumulate=True)


def counts_agree(report: BuildReport) -> bool:
    return report.edges == (
        report.edges_given
        - report.zeros_dropped
        - report.duplicates_merged
        + report.reverse_added
        + report.self_loops_added
        - report.self_loops_removed
    )


def rows_ascend(graph: CSRGraph) -> bool:
    key = graph.rows().long() * graph.num_cols + graph.col
    return bool((key[1:] > key[:-1]).all())


def random_coo(nodes: int, edges: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    ends = torch.randint(nodes, (2, edges), generator=torch.Generator().manual_seed(seed))
    return ends[0], ends[1]


def test_edge_u_to_v_is_entry_u_of_row_v() -> None:
    graph, report = from_coo([2, 0, 2], [1, 1, 0])
    assert graph.rowptr.tolist() == [0, 1, 3, 3]
    assert graph.col.tolist() == [2, 0, 2]
    assert report == BuildReport(num_nodes=3, edges_given=3, edges=3)


def test_duplicates_are_merged_and_their_weights_summed() -> None:
    graph, report = from_coo([1, 0, 1, 1, 2], [0, 0, 0, 0, 2], weight=[1.0, 5.0, 2.0, 4.0, 8.0])
    assert graph.col.tolist() == [0, 1, 2]
    assert graph.weight is not None
    assert graph.weight.tolist() == [5.0, 7.0, 8.0]
    assert (report.duplicates_merged, report.self_loops) == (2, 2)
    assert counts_agree(report)


@pytest.mark.parametrize("weighted", [False, True])
def test_coo_matches_a_dense_sum(weighted: bool) -> None:
    src, dst = random_coo(37, 900)
    weight = torch.rand(900, dtype=torch.float64) if weighted else None
    graph, report = from_coo(src.int(), dst.numpy(), 37, weight)
    expected = torch.zeros(37, 37, dtype=torch.float64).index_put_(
        (dst, src), torch.ones(900, dtype=torch.float64) if weight is None else weight, accumulate=True
    )
    torch.testing.assert_close(dense(graph), expected if weighted else (expected > 0).double())
    assert rows_ascend(graph)
    assert counts_agree(report)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([0, 7, 1], [0, 0, 0], 3), [r"src\[1\]", "7", "3 nodes", "3 ids"]),
        (([0, 1], [0, -4], 3), [r"dst\[1\]", "-4", "0 .. 2"]),
        (([0, 1], [0], 3), ["2", "1"]),
        (([], []), ["num_nodes"]),
        (([], [], 0), ["at least one node"]),
        (([0.5], [1.0], 2), ["src", "integer", "float64"]),
        (([[0, 1]], [[1, 0]], 2), ["src", r"\[1, 2\]"]),
        (([0, 1], [1, 0], 2, [1.0]), ["weight", "E = 2"]),
        (([0, 1], [1, 0], 2, [1.0, float("nan")]), [r"weight\[1\]", "nan"]),
        (([0], [0], 2**40, None), ["2\\^63"]),
    ],
)
def test_bad_edges_are_named(arguments: tuple[Any, ...], words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        from_coo(*arguments)
    for word in words:
        assert caught.match(word)


@pytest.mark.parametrize(("nodes", "edges"), [(1, 0), (5, 0)])
def test_no_edges(nodes: int, edges: int) -> None:
    graph, report = from_coo(torch.empty(0), np.empty(0), nodes)
    assert graph.rowptr.tolist() == [0] * (nodes + 1)
    assert report == BuildReport(num_nodes=nodes, edges_given=edges, edges=0)


def test_indices_are_64_bit_where_they_must_be() -> None:
    assert index_dtype(2**31 - 1) == torch.int32
    assert index_dtype(5, 2**31) == torch.int64
    wide, _ = from_coo([2**33 - 1, 0, 2**33 - 1], [2, 2, 0], 3, num_cols=2**33)
    assert wide.col.dtype == torch.int64
    assert wide.col.tolist() == [2**33 - 1, 0, 2**33 - 1]
    # N x N is far over 2^32 here: row and column must come apart again.
    far, _ = from_coo([99_999, 0], [99_998, 99_999], 100_000)
    assert far.edge_index().tolist() == [[99_999, 0], [99_998, 99_999]]


@pytest.mark.parametrize("make", [sp.coo_matrix, sp.csr_array, sp.csc_matrix, sp.lil_matrix])
def test_scipy_formats(make: type) -> None:
    matrix = make(np.array([[0, 1, 0], [0, 0, 0], [1, 1, 0]]))
    graph, report = from_scipy(matrix)
    torch.testing.assert_close(dense(graph).T, torch.from_numpy(matrix.toarray()).double())
    assert graph.weight is None
    assert counts_agree(report)
    other, _ = from_scipy(matrix, rows_are="target")
    torch.testing.assert_close(dense(other), dense(graph).T)


def test_scipy_stored_zeros_are_counted_and_weights_kept() -> None:
    row, col = np.array([[0, 1, 2, 2], [1, 1, 0, 0]])
    matrix = sp.coo_matrix((np.array([2.0, 0.0, 3.0, 4.0]), (row, col)), shape=(3, 3))
    graph, report = from_scipy(matrix)
    assert graph.weight is not None
    assert graph.weight.dtype == torch.float32
    assert dense(graph).tolist() == [[0, 0, 7], [2, 0, 0], [0, 0, 0]]
    assert (report.zeros_dropped, report.duplicates_merged, report.edges) == (1, 1, 2)
    assert counts_agree(report)


@pytest.mark.parametrize("matrix", [np.eye(3), sp.csr_matrix((2, 3)), "graph"])
def test_scipy_refuses(matrix: object) -> None:
    with pytest.raises(InputError):
        from_scipy(matrix)


def test_pyg_data() -> None:
    data = pytest.importorskip("torch_geometric.data")
    edges = torch.tensor([[0, 1, 1], [1, 0, 0]])
    graph, report = from_pyg(data.Data(edge_index=edges, x=torch.zeros(4, 2)))
    assert (graph.num_nodes, graph.num_edges, report.duplicates_merged) == (4, 2, 1)
    weighted, _ = from_pyg(data.Data(edge_index=edges, edge_weight=torch.tensor([[1.0], [2.0], [3.0]])))
    assert weighted.num_nodes == 2
    assert weighted.weight is not None
    assert weighted.weight.tolist() == [5.0, 1.0]
    with pytest.raises(InputError, match="edge_index"):
        from_pyg(data.Data(x=torch.zeros(4, 2)))


@pytest.mark.parametrize("name", SQUARE)
def test_symmetrize(name: str) -> None:
    graph = SQUARE[name]
    both, report = symmetrize(graph)
    present = dense(graph) > 0
    assert torch.equal(dense(both) > 0, present | present.T)
    assert rows_ascend(both)
    assert counts_agree(report)
    assert report.reverse_added == int((present.T & ~present).sum())


def test_symmetrize_weights() -> None:
    graph, _ = from_coo([0, 1, 2, 0], [1, 0, 0, 0], 3, [1.0, 3.0, 5.0, 7.0])
    both, _ = symmetrize(graph)
    assert dense(both).tolist() == [[7, 2, 5], [2, 0, 0], [5, 0, 0]]


@pytest.mark.parametrize("name", SQUARE)
def test_self_loops_in_and_out(name: str) -> None:
    graph = SQUARE[name]
    looped, added = add_self_loops(graph)
    bare, removed = remove_self_loops(looped)
    present = dense(graph) > 0
    eye = torch.eye(graph.num_nodes, dtype=torch.bool)
    assert torch.equal(dense(looped) > 0, present | eye)
    assert torch.equal(dense(bare) > 0, present & ~eye)
    assert (added.self_loops, removed.self_loops) == (graph.num_nodes, 0)
    assert removed.self_loops_removed == graph.num_nodes
    assert counts_agree(added)
    assert counts_agree(removed)
    assert rows_ascend(looped)


def test_self_loop_weights() -> None:
    graph, _ = from_coo([0, 1], [0, 0], 2, [4.0, 5.0])
    looped, _ = add_self_loops(graph, weight=0.5)
    assert dense(looped).tolist() == [[4, 5], [0, 0.5]]
    bare, _ = remove_self_loops(looped)
    assert dense(bare).tolist() == [[0, 5], [0, 0]]


def test_skeleton_forgets_direction_weights_and_loops() -> None:
    graph, _ = from_coo([0, 1, 1], [1, 2, 1], 4, [1.0, 2.0, 3.0])
    bare = skeleton(graph)
    assert bare.weight is None
    assert bare.edge_index().tolist() == [[1, 0, 2, 1], [0, 1, 1, 2]]


@pytest.mark.parametrize("name", SQUARE)
def test_permute_moves_rows_and_columns(name: str) -> None:
    graph = dataclasses.replace(SQUARE[name], weight=torch.rand(SQUARE[name].num_edges), _cache={})
    order = torch.randperm(graph.num_nodes)
    moved = permute(graph, Order(order))
    torch.testing.assert_close(dense(moved), dense(graph)[order][:, order])
    assert moved.num_edges == graph.num_edges
    back = permute(moved, Order(order).inverse())
    torch.testing.assert_close(dense(back), dense(graph))


def test_permute_sorts_columns() -> None:
    graph, _ = from_coo(*random_coo(50, 400), 50)
    assert rows_ascend(permute(graph, torch.randperm(50)))


def test_induced_is_the_dense_block() -> None:
    src, dst = random_coo(40, 500)
    graph, _ = from_coo(src, dst, 40, torch.rand(500))
    nodes = torch.randperm(40)[:17]
    part = induced(graph, nodes)
    torch.testing.assert_close(dense(part), dense(graph)[nodes][:, nodes])
    mask = torch.zeros(40, dtype=torch.bool)
    mask[nodes] = True
    torch.testing.assert_close(dense(induced(graph, mask)), dense(graph)[mask][:, mask])
    assert induced(graph, nodes[:0]).num_nodes == 0


@pytest.mark.parametrize("nodes", [[0, 40], [-1], [3, 3]])
def test_induced_refuses(nodes: list[int]) -> None:
    graph, _ = from_coo(*random_coo(40, 500), 40)
    with pytest.raises(InputError, match="nodes"):
        induced(graph, torch.tensor(nodes))


@pytest.mark.parametrize("change", [symmetrize, add_self_loops, remove_self_loops, skeleton])
def test_rectangular_graphs_are_refused(change: object) -> None:
    with pytest.raises(InputError, match="70 queries x 130 keys"):
        change(GRAPHS["rectangular"])  # type: ignore[operator]


def test_content_hash_sees_edges_sizes_and_weights_only() -> None:
    graph, _ = from_coo([0, 1], [1, 2], 3)
    same = CSRGraph(rowptr=graph.rowptr, col=graph.col.long(), num_cols=3)
    assert content_hash(same) == content_hash(graph)
    others = [
        from_coo([0, 2], [1, 2], 3)[0],
        from_coo([0, 1], [1, 2], 4)[0],
        from_coo([0, 1], [1, 2], 3, num_cols=4)[0],
        from_coo([0, 1], [1, 2], 3, [1.0, 1.0])[0],
        from_coo([0, 1], [1, 2], 3, [1.0, 2.0])[0],
    ]
    assert len({content_hash(other) for other in [graph, *others]}) == 6


@pytest.mark.parametrize("name", GRAPHS)
def test_transpose_is_the_dense_transpose(name: str) -> None:
    graph = GRAPHS[name]
    rowptr, col, perm = graph.transpose()
    flipped = CSRGraph(rowptr=rowptr, col=col, num_cols=graph.num_nodes)
    torch.testing.assert_close(dense(flipped), dense(graph).T)
    assert torch.equal(graph.rows()[perm.long()], col)


@pytest.mark.slow
def test_ten_million_edges_take_seconds() -> None:
    import time

    src, dst = random_coo(1_000_000, 10_000_000)
    start = time.perf_counter()
    graph, _ = from_coo(src, dst, 1_000_000)
    add_self_loops(symmetrize(graph)[0])
    assert time.perf_counter() - start < 30
