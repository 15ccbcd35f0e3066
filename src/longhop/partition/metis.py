"""The parent's side of METIS: start the child, bound its time, distrust its answer."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from longhop.graph import CSRGraph
from longhop.partition import metis_child

# METIS wants about a third of this on an idle machine.
_SECONDS_PER_EDGE = 2e-5
_SECONDS_AT_LEAST = 120.0


class MetisError(RuntimeError):
    """METIS gave no usable answer; the message is the reason, fit for the middle of a sentence."""


def run_metis(skeleton: CSRGraph, num_parts: int, seed: int, timeout: float | None = None) -> npt.NDArray[np.int64]:
    """Partition an undirected graph without self-loops.

    Args:
        skeleton: what :func:`longhop.graph.skeleton` returns. METIS kills its process on anything else.
        num_parts: 2 .. N - 1.
        seed: same seed, same parts.
        timeout: seconds; None allows two minutes and 20 microseconds an entry.

    Returns:
        int64 [N] part of every node; some parts may be empty.

    Raises:
        MetisError: the child died, was too slow, or answered with something that is no partition.
    """
    if timeout is None:
        timeout = _SECONDS_AT_LEAST + _SECONDS_PER_EDGE * skeleton.num_edges
    with tempfile.TemporaryDirectory(prefix="longhop-metis-") as name:
        folder = Path(name)
        np.save(folder / "rowptr.npy", skeleton.rowptr.numpy())
        np.save(folder / "col.npy", skeleton.col.numpy())
        _run_child([str(folder), str(num_parts), str(seed % 2**31)], timeout)
        try:
            part = np.load(folder / "part.npy")
        except (OSError, ValueError, EOFError) as error:
            raise MetisError(f"left no readable answer ({error})") from error
    return _checked(part, skeleton.num_nodes, num_parts)


def _run_child(arguments: list[str], timeout: float) -> None:
    try:
        done = subprocess.run(
            [sys.executable, metis_child.__file__, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
        )
    except subprocess.TimeoutExpired as error:
        raise MetisError(f"did not finish within {timeout:g} s") from error
    except OSError as error:
        raise MetisError(f"could not be started ({error})") from error
    if done.returncode < 0:
        raise MetisError(f"was killed by signal {-done.returncode}")
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise MetisError(f"failed ({lines[-1] if lines else f'exit code {done.returncode}'})")


def _checked(part: npt.NDArray[np.int64], num_nodes: int, num_parts: int) -> npt.NDArray[np.int64]:
    if part.shape != (num_nodes,) or part.dtype != np.int64:
        raise MetisError(f"answered {list(part.shape)} {part.dtype} for {num_nodes} nodes")
    if part.min() < 0 or part.max() >= num_parts:
        raise MetisError(f"answered parts {part.min()} .. {part.max()}, not 0 .. {num_parts - 1}")
    used = int(np.count_nonzero(np.bincount(part)))
    # A few empty parts of many are normal on small graphs and can be filled; most of them empty is a failure.
    if used <= num_parts // 2:
        raise MetisError(f"filled only {used} of {num_parts} parts")
    return part
