"""Splits in, as masks or index lists; three bool masks [N, S] out."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from longhop.data.dataset import Splits
from longhop.data.files import Array
from longhop.types import InputError

PARTS = ("train", "val", "test")


def read_splits(
    given: Mapping[str, Array], num_nodes: int, labelled: Tensor, where: Mapping[str, str]
) -> tuple[Splits, list[str]]:
    """Bring masks or index lists into bool [N, S] and check them.

    Args:
        given: ``train`` and, where there are any, ``val`` and ``test``: bool or 0/1 [N], [N, 1], [N, S];
            or a list of node ids.
        num_nodes: N.
        labelled: bool [N]; other nodes are taken out of every split, with a note.
        where: how messages name the source of each part.

    Returns:
        The splits and notes.

    Raises:
        InputError: no training nodes, a node in two parts of one split, ids out of range, wrong shapes.
    """
    masks, notes = {}, []
    for part in PARTS:
        if part in given:
            masks[part] = _mask(given[part], num_nodes, where.get(part, part))
        else:
            masks[part] = torch.zeros(num_nodes, 1, dtype=torch.bool)
    count = max(mask.shape[1] for mask in masks.values())
    for part, mask in masks.items():
        if mask.shape[1] not in (1, count):
            raise InputError(
                f"{where.get(part, part)}: {mask.shape[1]} splits, but {count} in another part; give equal numbers"
            )
        dropped = int((mask & ~labelled[:, None]).any(dim=1).sum())
        if dropped:
            notes.append(f"{dropped} {part} nodes have no label and were taken out of the split")
        masks[part] = (mask & labelled[:, None]).expand(num_nodes, count).contiguous()
    splits = Splits(**masks)
    _check_disjoint(splits, where)
    empty = (~splits.train.any(dim=0)).nonzero().flatten().tolist()
    if empty:
        raise InputError(
            f"{where.get('train', 'train')}: training split {empty[0]} has 0 labelled nodes of {num_nodes}; "
            "name at least one"
        )
    if not splits.val.any(dim=0).all():
        notes.append("warning: there is no validation split; training cannot stop early or pick its best epoch")
    if not splits.test.any(dim=0).all():
        notes.append("warning: there is no test split; no test result can be given")
    return splits, notes


def random_split(labelled: Tensor, seed: int) -> dict[str, Array]:
    """Labelled nodes at random: 60 % train, 20 % validate, 20 % test, as index lists."""
    nodes = labelled.nonzero().flatten()
    nodes = nodes[torch.randperm(len(nodes), generator=torch.Generator().manual_seed(seed))]
    # At least one trains, however small the graph.
    train = max(round(0.6 * len(nodes)), min(1, len(nodes)))
    val = round(0.2 * len(nodes))
    parts = nodes.tensor_split([train, train + val])
    return {part: ids.numpy() for part, ids in zip(PARTS, parts, strict=True)}


def _mask(given: Array, num_nodes: int, where: str) -> Tensor:
    """One part as bool [N, S]."""
    if given.dtype.kind == "b" or _is_zero_one(given, num_nodes):
        if given.ndim not in (1, 2) or given.shape[0] != num_nodes:
            raise InputError(
                f"{where}: the mask has shape {list(given.shape)} but the graph has {num_nodes} nodes; "
                "give one row for every node"
            )
        return torch.from_numpy(given.reshape(num_nodes, -1).astype(bool))
    if given.size and (given.dtype.kind not in "iu" or given.size != len(given)):
        raise InputError(
            f"{where}: got {given.dtype} {list(given.shape)}; a split is a mask [N] or [N, S], or a list of node ids"
        )
    ids = given.reshape(-1).astype(np.int64)
    wrong = (ids < 0) | (ids >= num_nodes)
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"{where}, row {row}: node {ids[row]} is outside 0..{num_nodes - 1} "
            f"(the graph has {num_nodes} nodes); correct the list"
        )
    mask = np.zeros((num_nodes, 1), dtype=bool)
    mask[ids] = True
    return torch.from_numpy(mask)


def _is_zero_one(given: Array, num_nodes: int) -> bool:
    """Integers that are a mask: uint8, [N, S], or N > 2 zeros and ones, which are no list of distinct ids."""
    if given.dtype.kind not in "iu" or not bool(((given == 0) | (given == 1)).all()):
        return False
    shaped = given.ndim == 2 and given.shape[1] > 1
    return given.dtype == np.uint8 or shaped or (given.size == num_nodes and num_nodes > 2)


def _check_disjoint(splits: Splits, where: Mapping[str, str]) -> None:
    for first, second in (("train", "val"), ("train", "test"), ("val", "test")):
        both = getattr(splits, first) & getattr(splits, second)
        if both.any():
            node, split = both.nonzero()[0].tolist()
            count = int(both[:, split].sum())
            raise InputError(
                f"{where.get(second, second)}: node {node} is in {first} and in {second} of split {split}, "
                f"as are {count} nodes in all; a node may be in one part only"
            )
