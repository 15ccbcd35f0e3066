import pytest
import torch

from longhop.ops.philox import drop_threshold, keep_factor, keep_lanes, philox
from longhop.types import InputError

ONES = 0xFFFFFFFF
# Known answers of Philox4x32-10 as its authors publish them: counters, key, words.
KNOWN = [
    ([0, 0, 0, 0], [0, 0], [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([ONES] * 4, [ONES, ONES], [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


def as_int64(low: int, high: int) -> int:
    value = low | high << 32
    return value - 2**64 if value >= 2**63 else value


@pytest.mark.parametrize(("counters", "key", "words"), KNOWN)
def test_known_answers(counters: list[int], key: list[int], words: list[int]) -> None:
    seed = torch.tensor([as_int64(*key)])
    assert philox(seed, *(torch.tensor(c) for c in counters)).tolist() == words


def test_lanes_are_halves_of_words() -> None:
    seed, rows = torch.tensor([5]), torch.arange(40)[:, None]
    columns, zero = torch.arange(3), torch.tensor(0)
    words = philox(seed, rows, zero, columns, zero)
    keep = keep_lanes(seed, rows, zero, columns, zero, 0.25)
    assert keep.shape == (40, 3, 8)
    for lane in range(8):
        half = words[..., lane // 2] >> (16 * (lane % 2)) & 0xFFFF
        assert torch.equal(keep[..., lane], half >= 16384)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_share_of_kept_lanes(p: float) -> None:
    zero = torch.tensor(0)
    keep = keep_lanes(torch.tensor([7]), torch.arange(20000), zero, zero, zero, p)
    assert abs(float(keep.double().mean()) - (1 - p)) < 5 * (p * (1 - p) / keep.numel()) ** 0.5
    assert keep_factor(p) == pytest.approx(1 / (1 - p), rel=1e-3)


@pytest.mark.parametrize("p", [-0.1, 1.0, 0.999999, float("nan")])
def test_probability_out_of_range(p: float) -> None:
    with pytest.raises(InputError, match="dropout"):
        drop_threshold(p)
