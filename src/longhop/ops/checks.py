"""Checks that several ops share: what a kernel relies on, apart from the values inside index tensors.

Kernels check those values themselves while they read them, and refuse a call with one out of range.
"""

from typing import overload

import torch
from torch import Tensor

from longhop.types import InputError

INDEX_DTYPES = (torch.int32, torch.int64)
FLOATING_DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
REDUCTIONS = ("sum", "mean", "max")


def wide_dtype(x: Tensor) -> torch.dtype:
    """What ``x`` is computed in: float64 for float64, else float32."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def unit_columns(x: Tensor) -> Tensor:
    """``x`` [N, F] itself when its columns lie side by side (rows may lie anywhere), else a copy."""
    return x if x.shape[1] <= 1 or x.stride(1) == 1 else x.contiguous()


@overload
def packed(x: Tensor) -> Tensor: ...
@overload
def packed(x: None) -> None: ...
def packed(x: Tensor | None) -> Tensor | None:
    """``x`` itself when it is contiguous (or None), else a copy that is."""
    return x if x is None else x.contiguous()


def check_matrix(op: str, name: str, x: Tensor) -> None:
    """Raise InputError unless ``x`` is a floating [N, F]."""
    if x.dim() != 2 or not x.is_floating_point():
        raise InputError(f"{op}: {name} must be floating with two axes, got {x.dtype} {list(x.shape)}")


def check_offsets(op: str, name: str, rowptr: Tensor) -> None:
    """Raise InputError unless ``rowptr`` looks like the offsets of rows."""
    if rowptr.dtype != torch.int64 or rowptr.dim() != 1 or rowptr.shape[0] == 0:
        raise InputError(f"{op}: {name} must be int64 [N + 1], got {rowptr.dtype} {list(rowptr.shape)}")


def check_vector(op: str, name: str, x: Tensor, length: int, dtypes: tuple[torch.dtype, ...]) -> None:
    """Raise InputError unless ``x`` has ``length`` elements of one of ``dtypes``."""
    if x.dim() != 1 or x.shape[0] != length or x.dtype not in dtypes:
        kinds = " or ".join(str(d).removeprefix("torch.") for d in dtypes)
        raise InputError(f"{op}: {name} must be {kinds} [{length}], got {x.dtype} {list(x.shape)}")


def check_devices(op: str, *tensors: Tensor | None) -> None:
    """Raise InputError unless all tensors lie on one device."""
    devices = {str(t.device) for t in tensors if t is not None}
    if len(devices) > 1:
        raise InputError(f"{op}: all tensors must lie on one device, got {', '.join(sorted(devices))}")


def check_mask(op: str, num_rows: int, threshold: int, seed: Tensor | None, site: int, row_ids: Tensor | None) -> None:
    """Raise InputError unless the tensors behind a dropout mask are there and fit."""
    if threshold and seed is None:
        raise InputError(f"{op}: dropout needs a seed (int64 tensor of one element)")
    if seed is not None and (seed.dtype != torch.int64 or seed.numel() != 1):
        raise InputError(f"{op}: seed must be an int64 tensor of one element, got {seed.dtype} {list(seed.shape)}")
    if not 0 <= site < 2**32:
        raise InputError(f"{op}: site must lie in 0..2^32 - 1, got {site}")
    if row_ids is not None:
        check_vector(op, "row_ids", row_ids, num_rows, (torch.int64,))


def check_reduction(op: str, reduce: str) -> None:
    """Raise InputError for a reduction that does not exist."""
    if reduce not in REDUCTIONS:
        raise InputError(f"{op}: reduce must be one of {', '.join(REDUCTIONS)}, got {reduce!r}")


def winner_bits(rowptr: Tensor, max_degree: int | None) -> int:
    """Bits of the narrowest integer that holds a position in a row: 8, 16 or 32.

    Args:
        rowptr: int64 [N + 1].
        max_degree: length of the longest row; None finds it, or takes 32 bits inside torch.compile, where
            the values of a tensor are not known.

    Raises:
        InputError: a row of 2^31 pairs or more.
    """
    if max_degree is None:
        if torch.compiler.is_compiling():
            return 32
        max_degree = int(rowptr.diff().max()) if rowptr.shape[0] > 1 else 0
    if max_degree >= 2**31:
        raise InputError(f"max: rows of up to 2^31 - 1 pairs are supported, one has {max_degree}")
    return 8 if max_degree <= 255 else 16 if max_degree <= 32767 else 32


WINNER_DTYPES = {8: torch.uint8, 16: torch.int16, 32: torch.int32}
