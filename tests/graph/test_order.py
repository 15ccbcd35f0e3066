from collections.abc import Callable

import pytest
import torch

from longhop.graph import (
    CSRGraph,
    Order,
    bfs_order,
    degree_order,
    from_coo,
    induced,
    natural_order,
    permute,
    rcm_order,
)
from longhop.graph.generate import local_random, path, star
from longhop.testing.graphs import awkward_graphs
from longhop.types import InputError

ORDERS = [natural_order, degree_order, rcm_order, bfs_order]
SQUARE = {name: graph for name, graph in awkward_graphs().items() if graph.num_nodes == graph.num_cols}


def bandwidth(graph: CSRGraph) -> int:
    return int((graph.rows().long() - graph.col.long()).abs().max())


def shuffled(graph: CSRGraph, seed: int = 0) -> CSRGraph:
    return permute(graph, torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(seed)))


@pytest.mark.parametrize("make", ORDERS)
@pytest.mark.parametrize("name", SQUARE)
def test_every_order_is_a_permutation_and_repeats(name: str, make: Callable[[CSRGraph], Order]) -> None:
    graph = SQUARE[name]
    order = make(graph)  # an Order checks itself
    assert len(order) == graph.num_nodes
    assert torch.equal(order.perm, make(graph).perm)


def test_apply_and_undo() -> None:
    order = Order(torch.tensor([2, 0, 1]))
    x = torch.tensor([[10.0], [11.0], [12.0]])
    assert order.apply(x).flatten().tolist() == [12, 10, 11]
    assert torch.equal(order.undo(order.apply(x)), x)
    assert order.inverse().tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    "perm",
    [
        torch.tensor([0, 0]),
        torch.tensor([0, 2]),
        torch.tensor([-1, 0]),
        torch.tensor([0.0]),
        torch.eye(2).long(),
    ],
)
def test_what_is_no_permutation_is_refused(perm: torch.Tensor) -> None:
    with pytest.raises(InputError, match="order"):
        Order(perm)


def test_permute_refuses_an_order_of_another_graph() -> None:
    with pytest.raises(InputError, match="3 nodes and the graph 5"):
        permute(path(5), torch.arange(3))


def test_degree_order_puts_hubs_first_and_is_stable() -> None:
    graph, _ = from_coo([0, 1, 2, 0, 0], [3, 3, 3, 1, 2], 5)
    assert degree_order(graph).perm.tolist() == [3, 1, 2, 0, 4]


@pytest.mark.parametrize("make", [rcm_order, bfs_order])
def test_a_shuffled_path_and_its_direction(make: Callable[[CSRGraph], Order]) -> None:
    directed = shuffled(path(200, directed=True))
    moved = permute(directed, make(directed))
    assert bandwidth(moved) <= (1 if make is rcm_order else 2)
    assert moved.num_edges == 199


def test_rcm_brings_neighbours_together() -> None:
    graph = shuffled(induced(local_random(3000, 6), torch.arange(3000)))
    lattice, _ = from_coo(*_ring(2000, 5), 2000)
    mixed = shuffled(lattice)
    assert bandwidth(permute(mixed, rcm_order(mixed))) <= 25
    assert bandwidth(permute(graph, rcm_order(graph))) < bandwidth(graph)


def test_bfs_keeps_components_together() -> None:
    graph, _ = from_coo([0, 2, 1, 3], [2, 4, 3, 5], 7)
    assert bfs_order(graph).perm.tolist() == [0, 2, 4, 1, 3, 5, 6]


def test_a_hub_with_neighbours_of_many_degrees_is_not_quadratic() -> None:
    size = 300_000
    src = torch.randint(1, size, (4 * size,), generator=torch.Generator().manual_seed(0))
    leaves = torch.arange(1, size)
    graph, _ = from_coo(torch.cat([leaves, src]), torch.cat([leaves * 0, src.flip(0)]), size)
    assert sorted(rcm_order(graph).perm.tolist()) == list(range(size))  # 0.5 s; over 30 s when quadratic


def test_isolated_nodes_keep_a_row() -> None:
    """U27: with their own place in every order."""
    hub = star(50)
    graph = CSRGraph(rowptr=torch.cat([hub.rowptr, hub.rowptr[-1:]]), col=hub.col, num_cols=51)
    for make in ORDERS:
        moved = permute(graph, make(graph))
        assert int((moved.degree() == 0).sum()) == 1


def _ring(nodes: int, reach: int) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.arange(nodes).repeat(reach)
    return ids, (ids + torch.arange(1, reach + 1).repeat_interleave(nodes)) % nodes
