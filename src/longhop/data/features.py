"""Features in: shape and finiteness checked, then the option of the configuration applied."""

import numpy as np
import torch
from torch import Tensor

from longhop.data.config import Features
from longhop.data.files import Array
from longhop.types import InputError

# Rows are handled in blocks, so that no temporary is as large as the features.
_BLOCK_BYTES = 1 << 24


def read_features(given: Array, num_nodes: int, where: str) -> Tensor:
    """Check features and bring them to float32, without a copy where they are that already.

    Args:
        given: [N, F] numbers, possibly mapped from a file.
        num_nodes: N.
        where: how messages name the source.

    Returns:
        float32 [N, F].

    Raises:
        InputError: another shape, another type, or a value that is not finite.
    """
    if given.dtype.kind not in "biuf":
        raise InputError(f"{where}: features are {given.dtype}, not numbers; encode them first")
    if given.ndim != 2 or given.shape[0] != num_nodes or given.shape[1] == 0:
        turned = given.ndim == 2 and given.shape[1] == num_nodes and given.shape[0] != num_nodes
        hint = "they look transposed" if turned else "give one row of F >= 1 numbers for every node"
        raise InputError(
            f"{where}: features have shape {list(given.shape)} but the graph has {num_nodes} nodes; {hint}"
        )
    array = np.ascontiguousarray(given, dtype=np.float32)
    # torch cannot share memory it may not write to.
    x = torch.from_numpy(array if array.flags.writeable else array.copy())
    for start, block in _blocks(x):
        if not torch.isfinite(block).all():
            row, column = (~torch.isfinite(block)).nonzero()[0].tolist()
            raise InputError(
                f"{where}, row {start + row}, column {column}: feature is {float(block[row, column])}; "
                "every feature must be a finite float32"
            )
    return x


def prepare_features(x: Tensor, option: Features, train: Tensor) -> Tensor:
    """Apply a feature option.

    Args:
        x: float32 [N, F]; unchanged.
        option: as :class:`longhop.data.DataConfig` has it.
        train: bool [N], the nodes that ``standardize`` measures.

    Returns:
        float32 [N, F]; ``x`` itself for ``raw``.
    """
    if option == "raw":
        return x
    out = torch.empty_like(x)
    if option == "standardize":
        # In double: the variance of a large mean must not be lost.
        measured = x[train].double()
        mean = measured.mean(dim=0)
        spread = measured.std(dim=0, correction=0)
        # A constant column becomes 0, not a division by zero.
        scale = torch.where(spread > 0, spread, 1.0)
        mean, scale = mean.float(), scale.float()
    for start, block in _blocks(x):
        target = out[start : start + len(block)]
        if option == "binary":
            torch.gt(block, 0, out=target)
        elif option == "row_normalize":
            total = block.abs().sum(dim=1, keepdim=True)
            torch.div(block, torch.where(total > 0, total, 1.0), out=target)
        else:
            torch.div(block - mean, scale, out=target)
    return out


def _blocks(x: Tensor) -> list[tuple[int, Tensor]]:
    rows = max(_BLOCK_BYTES // (4 * x.shape[1]), 1)
    return [(start, x[start : start + rows]) for start in range(0, len(x), rows)]
