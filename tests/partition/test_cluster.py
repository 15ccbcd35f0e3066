from pathlib import Path

import pytest
import torch

from longhop.graph import CSRGraph, from_coo, induced, permute, rcm_order
from longhop.graph.generate import local_random, path
from longhop.partition import cluster_order, default_num_clusters, partition
from longhop.partition.cluster import l2_bytes
from longhop.testing.graphs import awkward_graphs
from longhop.types import InputError

SQUARE = {name: graph for name, graph in awkward_graphs().items() if graph.num_nodes == graph.num_cols}


@pytest.mark.parametrize(
    ("nodes", "cache", "expected"),
    [
        (169_343, 512 << 10, 512),
        (169_343, 1 << 20, 256),
        (512, 512 << 10, 1),
        (513, 512 << 10, 2),
        (1, 512 << 10, 1),
        (10**9, 512 << 10, 8192),
        (5, 1, 8),
    ],
)
def test_number_of_clusters_follows_the_cache(nodes: int, cache: int, expected: int) -> None:
    assert default_num_clusters(nodes, cache) == min(expected, nodes)


def test_cache_size_is_read_from_the_system(tmp_path: Path) -> None:
    assert l2_bytes(tmp_path) == 1 << 20
    for index, (level, size) in enumerate([("1", "32K"), ("2", "512K"), ("3", "32M")]):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        (folder / "level").write_text(f"{level}\n")
        (folder / "size").write_text(f"{size}\n")
    assert l2_bytes(tmp_path) == 512 << 10
    (tmp_path / "index1" / "size").write_text("2M\n")
    assert l2_bytes(tmp_path) == 2 << 20
    (tmp_path / "index1" / "size").write_text("lots\n")
    assert l2_bytes(tmp_path) == 1 << 20


@pytest.mark.parametrize("name", SQUARE)
def test_cluster_order_of_awkward_graphs(name: str) -> None:
    graph = SQUARE[name]
    assert len(cluster_order(graph)) == graph.num_nodes
    assert len(cluster_order(graph, min(3, graph.num_nodes), inside="bfs")) == graph.num_nodes


def test_clusters_lie_side_by_side_in_the_order_of_the_whole_graph() -> None:
    graph = local_random(3000, 6)
    order = cluster_order(graph, 7, seed=3)
    part = partition(graph, 7, seed=3).assignment[order.perm]
    assert bool((part[1:] >= part[:-1]).all())
    place = rcm_order(graph).inverse()[order.perm]
    assert bool((place[1:] > place[:-1])[part[1:] == part[:-1]].all())
    assert torch.equal(order.perm, cluster_order(graph, 7, seed=3).perm)


def test_it_brings_neighbours_together() -> None:
    def reach(graph: CSRGraph) -> float:
        return float((graph.rows().long() - graph.col.long()).abs().float().median())

    shuffle = torch.randperm(4000, generator=torch.Generator().manual_seed(0))
    graph = permute(induced(local_random(4000, 8), torch.arange(4000)), shuffle)
    assert reach(permute(graph, cluster_order(graph, 16))) < reach(graph) / 4


def test_direction_and_weights_do_not_matter() -> None:
    chain = path(300, directed=True)
    src, dst = chain.edge_index()
    weighted, _ = from_coo(src, dst, 300, torch.rand(299))
    assert torch.equal(cluster_order(weighted, 4).perm, cluster_order(path(300), 4).perm)


def test_bad_settings() -> None:
    with pytest.raises(InputError, match="inside"):
        cluster_order(path(10), 2, inside="degree")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="num_parts"):
        cluster_order(path(10), 11)
