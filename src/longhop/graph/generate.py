"""Seeded generators of graphs: synthetic ones of any size, and the digits example.

The same arguments give the same graph everywhere. Nothing here holds self-loops unless it says so.
"""

import numpy as np
import torch
from torch import Tensor

from longhop.graph.build import from_coo, remove_self_loops
from longhop.graph.csr import CSRGraph
from longhop.types import InputError


def path(num_nodes: int, *, directed: bool = False) -> CSRGraph:
    """The path 0 - 1 - ... - N-1; with ``directed`` only the edges i -> i + 1."""
    _at_least(num_nodes, 1, "num_nodes")
    left = torch.arange(num_nodes - 1)
    return from_coo(left, left + 1, num_nodes)[0] if directed else _both_ways(left, left + 1, num_nodes)


def star(num_nodes: int) -> CSRGraph:
    """Node 0 joined with each of the N - 1 others, both ways."""
    _at_least(num_nodes, 1, "num_nodes")
    leaves = torch.arange(1, num_nodes)
    return _both_ways(torch.zeros_like(leaves), leaves, num_nodes)


def complete(num_nodes: int, *, self_loops: bool = False) -> CSRGraph:
    """Every node joined with every other, and with itself if ``self_loops``."""
    _at_least(num_nodes, 1, "num_nodes")
    ids = torch.arange(num_nodes)
    graph, _ = from_coo(ids.repeat(num_nodes), ids.repeat_interleave(num_nodes), num_nodes)
    return graph if self_loops else remove_self_loops(graph)[0]


def local_random(num_nodes: int, degree: int, seed: int = 0) -> CSRGraph:
    """The graph of the benchmarks: four of five edges join ids less than 513 apart, the fifth any two.

    Symmetric, with all self-loops; about ``degree + 1`` entries a row.

    Args:
        num_nodes: N.
        degree: mean number of neighbours before duplicates are merged.
        seed: any integer.
    """
    _at_least(num_nodes, 1, "num_nodes")
    _at_least(degree, 0, "degree")
    rng = torch.Generator().manual_seed(seed)
    count = num_nodes * degree // 2
    src = torch.randint(num_nodes, (count,), generator=rng)
    dst = (src + torch.randint(-512, 512, (count,), generator=rng)) % num_nodes
    far = torch.rand(count, generator=rng) < 0.2
    dst[far] = torch.randint(num_nodes, (int(far.sum()),), generator=rng)
    loops = torch.arange(num_nodes)
    return from_coo(torch.cat([src, dst, loops]), torch.cat([dst, src, loops]), num_nodes)[0]


def rmat(
    num_nodes: int,
    degree: int = 16,
    *,
    probabilities: tuple[float, float, float] = (0.57, 0.19, 0.19),
    seed: int = 0,
) -> CSRGraph:
    """A power-law graph by recursive quadrants (R-MAT), symmetric, ids shuffled.

    Args:
        num_nodes: N; need not be a power of two.
        degree: mean number of neighbours before duplicates are merged (hubs lose many to that).
        probabilities: of the first three quadrants; the fourth has the rest.
        seed: any integer.
    """
    _at_least(num_nodes, 1, "num_nodes")
    _at_least(degree, 0, "degree")
    a, b, c = probabilities
    if min(a, b, c) < 0 or a + b + c > 1:
        raise InputError(f"probabilities must be three numbers >= 0 with a sum <= 1, got {probabilities}")
    rng = torch.Generator().manual_seed(seed)
    levels = max(num_nodes - 1, 1).bit_length()
    src = torch.zeros(num_nodes * degree // 2, dtype=torch.int64)
    dst = torch.zeros_like(src)
    for _ in range(levels):
        draw = torch.rand(src.numel(), generator=rng)
        src = src * 2 + (draw >= a + b)
        dst = dst * 2 + (((draw >= a) & (draw < a + b)) | (draw >= a + b + c))
    # Scale the 2^levels ids onto N, then shuffle: recursion puts every hub at the low ids.
    shuffle = torch.randperm(num_nodes, generator=rng)
    src, dst = (shuffle[(ids * num_nodes) >> levels] for ids in (src, dst))
    return _both_ways(src, dst, num_nodes)


def sbm(
    num_nodes: int = 1000,
    num_classes: int = 4,
    *,
    degree: int = 10,
    homophily: float = 0.8,
    num_features: int = 16,
    signal: float = 1.0,
    seed: int = 0,
) -> tuple[CSRGraph, Tensor, Tensor]:
    """A stochastic block model with features: classes of equal size, in random order of the ids.

    Args:
        num_nodes: N, at least ``num_classes``.
        num_classes: C.
        degree: mean number of neighbours before duplicates are merged.
        homophily: share of edges drawn inside a class.
        num_features: F.
        signal: length of each class's mean, in standard deviations of the noise of one feature.
        seed: any integer.

    Returns:
        The symmetric graph, x float32 [N, F], y int64 [N].

    Raises:
        InputError: fewer nodes than classes, or a share outside 0..1.
    """
    _at_least(num_classes, 1, "num_classes")
    _at_least(num_nodes, num_classes, "num_nodes")
    _at_least(degree, 0, "degree")
    if not 0 <= homophily <= 1:
        raise InputError(f"homophily must lie in 0..1, got {homophily}")
    rng = torch.Generator().manual_seed(seed)
    y = torch.arange(num_nodes)[torch.randperm(num_nodes, generator=rng)] % num_classes
    src = torch.randint(num_nodes, (num_nodes * degree // 2,), generator=rng)
    inside = torch.rand(src.numel(), generator=rng) < homophily
    # Outside: any class but the own one, equally likely (C = 1 has none, so stays inside).
    shift = torch.randint(1, max(num_classes, 2), (src.numel(),), generator=rng)
    target_class = torch.where(inside, y[src], (y[src] + shift) % num_classes)
    members = torch.argsort(y, stable=True)
    size = torch.bincount(y, minlength=num_classes)
    first = torch.cumsum(size, 0) - size
    draw = torch.rand(src.numel(), generator=rng, dtype=torch.float64)
    dst = members[first[target_class] + (draw * size[target_class]).long()]
    means = torch.nn.functional.normalize(torch.randn(num_classes, num_features, generator=rng), dim=1)
    x = signal * means[y] + torch.randn(num_nodes, num_features, generator=rng)
    return _both_ways(src, dst, num_nodes), x, y


def digits_knn(k: int = 8) -> tuple[CSRGraph, Tensor, Tensor]:
    """scikit-learn's 1,797 handwritten digits, each joined with its k nearest in standardised pixels.

    Returns:
        The symmetric graph, x float32 [1797, 64] standardised pixels, y int64 [1797] digits 0..9.

    Raises:
        InputError: k out of range, or scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits
        from sklearn.neighbors import NearestNeighbors
    except ImportError as error:
        raise InputError("the digits graph needs scikit-learn; install longhop[demo]") from error
    pixels, digits = load_digits(return_X_y=True)
    if not 1 <= k < len(pixels):
        raise InputError(f"k must lie in 1 .. {len(pixels) - 1}, got {k}")
    spread = pixels.std(axis=0)
    # Some pixels are the same in all images: they stay 0.
    x = (pixels - pixels.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    # Without an argument, kneighbors leaves each image itself out.
    near = torch.from_numpy(NearestNeighbors(n_neighbors=k).fit(x).kneighbors(return_distance=False))
    image = torch.arange(len(x)).repeat_interleave(k)
    graph = _both_ways(near.reshape(-1), image, len(x))
    return graph, torch.from_numpy(x).float(), torch.from_numpy(digits).long()


def _both_ways(src: Tensor, dst: Tensor, num_nodes: int) -> CSRGraph:
    apart = src != dst
    src, dst = src[apart], dst[apart]
    return from_coo(torch.cat([src, dst]), torch.cat([dst, src]), num_nodes)[0]


def _at_least(value: int, least: int, name: str) -> None:
    if value < least:
        raise InputError(f"{name} must be at least {least}, got {value}")
