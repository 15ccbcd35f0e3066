"""A partitioner of our own: breadth-first ranges, refined by balanced label propagation."""

import numpy as np
import numpy.typing as npt

from longhop.graph import CSRGraph, rcm_order

Parts = npt.NDArray[np.int64]

_ROUNDS = 50
# Stop after this many rounds that each lower the cut by less than this share.
_PATIENCE, _WORTHWHILE = 3, 0.002
_AGREE = 20
_SLACK = 1.05  # a part may grow to this times the mean


def grow_and_refine(skeleton: CSRGraph, num_parts: int, seed: int) -> Parts:
    """Cut a breadth-first numbering into equal ranges, then let nodes join the part of most neighbours.

    Args:
        skeleton: undirected graph without self-loops.
        num_parts: 1 .. N.
        seed: of the coin that keeps neighbours from swapping places for ever.

    Returns:
        int64 [N]; no part empty, none over 1.05 times the mean (or the mean rounded up).
    """
    nodes = skeleton.num_nodes
    position = rcm_order(skeleton).inverse().numpy()
    part = position * num_parts // nodes
    rows, cols = skeleton.rows().numpy(), skeleton.col.numpy()
    rng = np.random.default_rng(seed)
    best, best_cut, idle = part, _cut(part, rows, cols), 0
    for _ in range(_ROUNDS):
        part = _propagate(part, num_parts, rows, cols, rng)
        cut = _cut(part, rows, cols)
        idle = 0 if cut < (1 - _WORTHWHILE) * best_cut else idle + 1
        if cut < best_cut:
            best, best_cut = part, cut
        if idle == _PATIENCE:
            break
    return best


def fill_empty(part: Parts, num_parts: int) -> Parts:
    """Give every empty part half of one of the largest; ``num_parts`` is at most N."""
    while True:
        size = np.bincount(part, minlength=num_parts)
        empty = np.flatnonzero(size == 0)
        if len(empty) == 0:
            return part
        donors = np.argsort(-size, kind="stable")[: len(empty)]
        # Parts much smaller than the largest wait: it may have to be halved again.
        donors = donors[size[donors] >= max(int(size.max()) // 2, 2)]
        heir = np.full(num_parts, -1)
        heir[donors] = empty[: len(donors)]
        by_part = np.argsort(part, kind="stable")
        rank = np.empty_like(part)
        rank[by_part] = np.arange(len(part)) - np.repeat(np.cumsum(size) - size, size)
        moves = (heir[part] >= 0) & (rank >= size[part] // 2)
        part = np.where(moves, heir[part], part)


def _cut(part: Parts, rows: npt.NDArray[np.integer], cols: npt.NDArray[np.integer]) -> int:
    return int(np.count_nonzero(part[rows] != part[cols]))


def _propagate(
    part: Parts,
    num_parts: int,
    rows: npt.NDArray[np.integer],
    cols: npt.NDArray[np.integer],
    rng: np.random.Generator,
) -> Parts:
    """One round: every second node, by a coin, that gains by moving moves, best gains first, sizes held."""
    node, target, gain = _best_moves(part, num_parts, rows, cols)
    keep = rng.random(len(node)) < 0.5
    node, target, gain = node[keep], target[keep], gain[keep]
    size = np.bincount(part, minlength=num_parts)
    chosen = _hold_sizes(part[node], target, gain, size)
    moved = part.copy()
    moved[node[chosen]] = target[chosen]
    return moved


def _hold_sizes(source: Parts, target: Parts, gain: Parts, size: Parts) -> Parts:
    """Positions of moves that together leave every part within its bounds, best gains first."""
    mean = size.sum() / len(size)
    room = np.maximum(max(int(_SLACK * mean), int(np.ceil(mean))) - size, 0)
    spare = np.maximum(size - max(int(mean / _SLACK), 1), 0)
    chosen = np.arange(len(source))
    # What leaves a part makes room in it, and what enters makes some spare: drop moves until both agree.
    for _ in range(_AGREE):
        before = len(chosen)
        leaving = np.bincount(source[chosen], minlength=len(size))
        chosen = chosen[_first_of_group(target[chosen], gain[chosen], room + leaving)]
        entering = np.bincount(target[chosen], minlength=len(size))
        chosen = chosen[_first_of_group(source[chosen], gain[chosen], spare + entering)]
        if len(chosen) == before:
            return chosen
    # They did not: count on no exchange at all.
    chosen = chosen[_first_of_group(target[chosen], gain[chosen], room)]
    return chosen[_first_of_group(source[chosen], gain[chosen], spare)]


def _best_moves(
    part: Parts, num_parts: int, rows: npt.NDArray[np.integer], cols: npt.NDArray[np.integer]
) -> tuple[Parts, Parts, Parts]:
    """Nodes with more neighbours in another part than in their own: node, that part, how many more."""
    key = rows * np.int64(num_parts) + part[cols]
    pair, count = np.unique(key, return_counts=True)
    node, other = pair // num_parts, pair % num_parts
    own = np.zeros(len(part), dtype=np.int64)
    at_home = other == part[node]
    own[node[at_home]] = count[at_home]
    # The last entry of each node after sorting by (node, count) is its best part.
    by_count = np.lexsort((count, node))
    last = np.append(node[1:] != node[:-1], True)[: len(node)]
    best = by_count[last]
    gain = count[best] - own[node[best]]
    better = gain > 0
    return node[best][better], other[best][better], gain[better]


def _first_of_group(group: Parts, gain: Parts, limit: Parts) -> Parts:
    """Positions of the ``limit[g]`` entries of largest gain in every group g."""
    ranked = np.lexsort((-gain, group))
    sorted_group = group[ranked]
    start = np.searchsorted(sorted_group, sorted_group, side="left")
    rank = np.arange(len(group)) - start
    return ranked[rank < limit[sorted_group]]
