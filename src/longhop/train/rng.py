"""Random numbers of a run: seeds of single steps, and the global generators that user code may draw from."""

import contextlib
import random
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


def _finalize(z: int) -> int:
    """The output function of splitmix64: every bit of ``z`` reaches every bit of the result."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def step_seed(run_seed: int, step: int) -> Tensor:
    """Seed of the dropout masks of one step: a function of its arguments, drawing from no generator.

    Args:
        run_seed: the run's seed.
        step: number of the step.

    Returns:
        int64 [1].
    """
    mixed = _finalize((_finalize((run_seed + _GOLDEN) & _MASK) + (step + 1) * _GOLDEN) & _MASK)
    return torch.tensor([mixed - (1 << 64) if mixed >> 63 else mixed], dtype=torch.int64)


def capture() -> dict[str, Tensor]:
    """State of torch's, NumPy's and Python's global generators, as tensors."""
    # The global NumPy generator is what code from elsewhere may draw from; ours never does.
    _, keys, position, has_gauss, gauss = np.random.get_state(legacy=True)  # noqa: NPY002
    _, words, next_gauss = random.getstate()
    python = [float("nan") if next_gauss is None else next_gauss]
    return {
        "torch": torch.get_rng_state(),
        "numpy_keys": torch.from_numpy(np.asarray(keys).astype(np.int64)),
        "numpy_counts": torch.tensor([int(position), int(has_gauss)]),
        "numpy_gauss": torch.tensor([float(gauss)], dtype=torch.float64),
        "python_words": torch.tensor(words, dtype=torch.int64),
        "python_gauss": torch.tensor(python, dtype=torch.float64),
    }


def restore(state: dict[str, Tensor]) -> None:
    """Put the generators back to what :func:`capture` saw."""
    torch.set_rng_state(state["torch"].clone())
    position, has_gauss = (int(v) for v in state["numpy_counts"])
    keys = state["numpy_keys"].numpy().astype(np.uint32)
    np.random.set_state(("MT19937", keys, position, has_gauss, float(state["numpy_gauss"])))  # noqa: NPY002
    gauss = float(state["python_gauss"])
    words = tuple(int(v) for v in state["python_words"])
    random.setstate((3, words, None if gauss != gauss else gauss))


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the global generators inside the with-block and put the caller's back after it."""
    before = capture()
    try:
        torch.manual_seed(seed)
        np.random.seed(seed % (1 << 32))  # noqa: NPY002
        random.seed(seed)
        yield
    finally:
        restore(before)
