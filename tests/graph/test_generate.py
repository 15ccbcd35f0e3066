from collections.abc import Callable

import pytest
import torch

from longhop.graph import CSRGraph, content_hash
from longhop.graph.generate import complete, digits_knn, local_random, path, rmat, sbm, star
from longhop.types import InputError


def pairs(graph: CSRGraph) -> set[tuple[int, int]]:
    return {(int(u), int(v)) for u, v in graph.edge_index().T}


def is_symmetric(graph: CSRGraph) -> bool:
    flipped = graph.transpose()
    return torch.equal(flipped.rowptr, graph.rowptr) and torch.equal(flipped.col, graph.col)


def test_small_families() -> None:
    assert pairs(path(4)) == {(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)}
    assert pairs(path(3, directed=True)) == {(0, 1), (1, 2)}
    assert pairs(star(4)) == {(0, 1), (0, 2), (0, 3), (1, 0), (2, 0), (3, 0)}
    assert complete(5).num_edges == 20
    assert complete(5, self_loops=True).num_edges == 25


@pytest.mark.parametrize("make", [path, star, complete, lambda n: local_random(n, 4), rmat])
def test_one_node(make: Callable[[int], CSRGraph]) -> None:
    assert make(1).num_nodes == 1
    with pytest.raises(InputError, match="num_nodes"):
        make(0)


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: local_random(500, 8, seed),
        lambda seed: rmat(500, 8, seed=seed),
        lambda seed: sbm(500, 3, seed=seed)[0],
    ],
)
def test_seeded_and_symmetric(make: Callable[[int], CSRGraph]) -> None:
    graph = make(1)
    assert is_symmetric(graph)
    assert content_hash(graph) == content_hash(make(1)) != content_hash(make(2))
    before = torch.get_rng_state()
    make(3)
    assert torch.equal(before, torch.get_rng_state())


def test_local_random_is_the_graph_of_the_published_table() -> None:
    graph = local_random(64_000, 8)
    assert graph.num_edges == 574_380
    away = (graph.rows().long() - graph.col.long()).abs()
    away = torch.minimum(away, 64_000 - away)
    neighbours = away > 0
    assert 0.78 < float((away[neighbours] <= 512).float().mean()) < 0.84


def test_rmat_has_hubs_at_any_size() -> None:
    graph = rmat(3000, 16)
    assert graph.num_nodes == 3000
    assert int(graph.degree().max()) > 10 * float(graph.degree().float().mean())
    flat = rmat(3000, 16, probabilities=(0.25, 0.25, 0.25))
    assert int(flat.degree().max()) < 3 * float(flat.degree().float().mean())
    with pytest.raises(InputError, match="probabilities"):
        rmat(10, probabilities=(0.9, 0.2, 0.1))


def test_sbm_has_the_homophily_and_the_signal_asked_for() -> None:
    graph, x, y = sbm(4000, 4, degree=12, homophily=0.7, num_features=8, signal=3.0, seed=5)
    assert (x.shape, x.dtype, y.dtype) == ((4000, 8), torch.float32, torch.int64)
    assert torch.bincount(y).tolist() == [1000] * 4
    same = y[graph.rows().long()] == y[graph.col.long()]
    assert abs(float(same.float().mean()) - 0.7) < 0.02
    means = torch.stack([x[y == c].mean(0) for c in range(4)])
    assert float((torch.cdist(x, means).argmin(1) == y).float().mean()) > 0.9
    with pytest.raises(InputError, match="num_nodes"):
        sbm(3, 4)


def test_digits() -> None:
    pytest.importorskip("sklearn")
    graph, x, y = digits_knn(8)
    assert (graph.num_nodes, x.shape, x.dtype) == (1797, (1797, 64), torch.float32)
    assert is_symmetric(graph)
    assert not bool((graph.rows() == graph.col).any())
    assert int(graph.degree().min()) >= 8
    assert bool(torch.isfinite(x).all())
    assert float((y[graph.rows().long()] == y[graph.col.long()]).float().mean()) > 0.9
    with pytest.raises(InputError, match="k must"):
        digits_knn(0)
