"""Philox4x32-10 (Salmon et al., SC'11) in torch integers, and the dropout masks made of it.

One call yields four 32-bit words = eight 16-bit lanes; lane ``l`` is the low (``l`` even) or high (``l``
odd) half of word ``l // 2``. csrc/philox.h makes the same bits.
"""

import torch
from torch import Tensor

from longhop.types import InputError

_M0, _M1 = 0xD2511F53, 0xCD9E8D57
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_LOW = 0xFFFFFFFF


def _multiply(factor: int, x: Tensor) -> tuple[Tensor, Tensor]:
    """High and low word of ``factor * x`` for 32-bit values held in int64, without overflow."""
    low = factor * (x & 0xFFFF)
    high = factor * (x >> 16)
    middle = high + (low >> 16)
    return middle >> 16, ((middle & 0xFFFF) << 16) | (low & 0xFFFF)


def philox(seed: Tensor, c0: Tensor, c1: Tensor, c2: Tensor, c3: Tensor) -> Tensor:
    """Random words for broadcastable counters.

    Args:
        seed: int64 [1], its two words are the key.
        c0: first word of the 32-bit counters, held in int64, any shape.
        c1: second word.
        c2: third word.
        c3: fourth word.

    Returns:
        int64 [..., 4], each word in 0..2^32 - 1.
    """
    k0, k1 = seed.reshape(()) & _LOW, (seed.reshape(()) >> 32) & _LOW
    c0, c1, c2, c3 = torch.broadcast_tensors(c0, c1, c2, c3)  # type: ignore[no-untyped-call]
    for _ in range(10):
        high0, low0 = _multiply(_M0, c0)
        high1, low1 = _multiply(_M1, c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    return torch.stack([c0, c1, c2, c3], -1)


def drop_threshold(p: float) -> int:
    """Lanes below this are dropped: round(65536 p).

    Raises:
        InputError: p outside [0, 1), or so close to 1 that every lane would be dropped.
    """
    if not 0.0 <= p < 1.0 or round(65536 * p) == 65536:
        raise InputError(f"dropout must lie in [0, 1), got {p}")
    return round(65536 * p)


def keep_factor(p: float) -> float:
    """What kept values are multiplied by: 65536 / (65536 - t)."""
    return 65536 / (65536 - drop_threshold(p))


def keep_lanes(seed: Tensor, c0: Tensor, c1: Tensor, c2: Tensor, c3: Tensor, p: float) -> Tensor:
    """Which of the eight lanes of each call are kept, bool [..., 8]."""
    words = philox(seed, c0, c1, c2, c3)
    lanes = torch.stack([words & 0xFFFF, words >> 16], -1).flatten(-2)
    return lanes >= drop_threshold(p)
