"""Turns, quantiles, memory, and the process that one function gets for itself."""

import pytest
import torch

from longhop.bench import child
from longhop.bench.measure import WARM_UP, AutogradProvider, Seconds, Timing, alternate, can_measure_peak, extra_peak


class _Recorder:
    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self._log = log

    def run(self) -> Seconds:
        self._log.append(self.name)
        return {"fwd": float(len(self._log))}


def test_providers_take_turns() -> None:
    log: list[str] = []
    timings = alternate([_Recorder("a", log), _Recorder("b", log)], 3)
    assert log == ["a", "b"] * (WARM_UP + 3)
    # Runs are numbered; those of the first rounds are not counted.
    assert timings["a", "fwd"].median == 2 * WARM_UP + 3.0
    assert timings["b", "fwd"].median == 2 * WARM_UP + 4.0


def test_quantiles() -> None:
    assert Timing.of([5.0, 1.0, 2.0, 4.0, 3.0, 6.0]) == (3.5, 2.0, 5.0)
    assert Timing.of([2.0]) == (2.0, 2.0, 2.0)


def test_a_function_has_three_times_and_its_gradients() -> None:
    x = torch.arange(4.0, requires_grad=True)
    provider = AutogradProvider("square", lambda: x * x, (x,), torch.ones(4))
    seconds = provider.run()
    assert set(seconds) == {"fwd", "bwd", "both"}
    assert seconds["both"] >= seconds["bwd"] > 0
    out, (dx,) = provider.values()
    assert torch.equal(out, x.detach() ** 2)
    assert torch.equal(dx, 2 * x.detach())


def test_peak_counts_what_was_freed_again() -> None:
    if not can_measure_peak():
        pytest.skip("the peak of this process cannot be set back here")
    size = 96 << 20
    assert extra_peak(lambda: None) < 16 << 20
    assert extra_peak(lambda: torch.ones(size // 4).sum()) > 0.9 * size


def test_a_process_of_its_own() -> None:
    options = {"rows": 50_000, "repeat": 1, "malloc": "default"}
    peak = child.call("longhop.bench.dense_ops:peak_alone", {"options": options, "provider": "native"})
    assert peak > 3 * 50_000 * 64 * 4


def test_a_process_that_dies() -> None:
    with pytest.raises(child.ChildError, match="dense_ops:peak_alone failed"):
        child.call("longhop.bench.dense_ops:peak_alone", {})
