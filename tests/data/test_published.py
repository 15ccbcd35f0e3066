"""Counts of the published data sets, as their authors give them."""

import time

import pytest

from longhop import env
from longhop.data import DataConfig, inspect_dataset, load
from longhop.data.load import find
from longhop.types import InputError

pytestmark = pytest.mark.data


@pytest.fixture(scope="module")
def one_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _own_cache(one_cache, monkeypatch):
    monkeypatch.setenv("LONGHOP_CACHE", str(one_cache))


# path, options, N, undirected edges without self-loops, F, C, (train, val, test)
SETS = [
    ("ogbn_arxiv", {}, 169_343, 1_157_799, 40, 40, (90_941, 29_799, 48_603)),
    ("planetoid/cora", {}, 2_708, 5_278, 1_433, 7, (140, 500, 1_000)),
    ("planetoid/citeseer", {}, 3_327, 4_552, 3_703, 6, (120, 500, 1_000)),
    ("gnn_benchmark/computers", {}, 13_752, 245_861, 767, 10, (8_251, 2_750, 2_751)),
    ("gnn_benchmark/photo", {}, 7_650, 119_081, 745, 8, (4_590, 1_530, 1_530)),
    ("gnn_benchmark/cs", {"features": "binary"}, 18_333, 81_894, 6_805, 15, (10_999, 3_666, 3_668)),
    ("gnn_benchmark/physics", {"features": "binary"}, 34_493, 247_962, 8_415, 5, (20_695, 6_898, 6_900)),
    ("heterophilous/minesweeper", {"split": 9}, 10_000, 39_402, 7, 2, (5_000, 2_500, 2_500)),
    ("heterophilous/tolokers", {"split": 9}, 11_758, 519_000, 10, 2, (5_879, 2_939, 2_940)),
    ("heterophilous/squirrel-filtered", {}, 2_223, 46_998, 2_089, 5, (1_053, 718, 452)),
    ("heterophilous/chameleon_filtered", {}, 890, 8_854, 2_325, 5, (409, 287, 194)),
]


def published(path: str) -> str:
    root = env.data_root()
    if root is None or not (root / path.split("/")[0]).exists():
        pytest.skip(f"{path.split('/')[0]} is not under LONGHOP_DATA ({root})")
    return f"$LONGHOP_DATA/{path}"


@pytest.mark.parametrize(
    ("path", "options", "nodes", "edges", "features", "classes", "split"), SETS, ids=[row[0] for row in SETS]
)
def test_counts(path, options, nodes, edges, features, classes, split):
    dataset = load(DataConfig(path=published(path), symmetrize=True, **options))
    build = dataset.intake.build
    assert (build.edges - build.self_loops) // 2 == edges
    assert (dataset.num_nodes, dataset.num_features, dataset.num_classes) == (nodes, features, classes)
    assert tuple(int(mask.sum()) for mask in dataset.masks(options.get("split", 0))) == split
    assert dataset.num_splits == (10 if path.startswith("heterophilous") else 1)
    if options.get("features") == "binary":
        assert set(dataset.x[:500].unique().tolist()) == {0.0, 1.0}


def test_arxiv_as_published():
    path = published("ogbn_arxiv")
    for both, edges, hub in ((False, 1_166_243, 13_155), (True, 2_315_598, 13_161)):
        found = inspect_dataset(load(DataConfig(path=path, symmetrize=both)))
        assert (found["num_edges"], found["degree"]["max"], found["symmetric"]) == (edges, hub, both)


def test_arxiv_comes_from_the_cache_the_second_time(tmp_path, monkeypatch):
    monkeypatch.setenv("LONGHOP_CACHE", str(tmp_path))
    config = DataConfig(path=published("ogbn_arxiv"))
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        dataset = load(config)
        seconds.append(time.perf_counter() - start)
    assert seconds[1] < seconds[0] / 2
    assert dataset.x.is_contiguous()


@pytest.mark.parametrize("name", ["ogbn-ARXIV", "OGBN_arxiv"])
def test_name_case_does_not_matter(name):
    published("ogbn_arxiv")
    assert find(DataConfig(path="$LONGHOP_DATA", name=name)).name == "ogbn_arxiv"


def test_misspelt_name_names_the_nearest():
    published("ogbn_arxiv")
    with pytest.raises(InputError, match="did you mean ogbn_arxiv"):
        load(DataConfig(path="$LONGHOP_DATA", name="ogbn-axriv"))


def test_citeseer_has_fifteen_nodes_without_label():
    found = inspect_dataset(load(DataConfig(path=published("planetoid/citeseer"))))
    assert found["unlabelled"] == 15
    assert found["symmetric"]
