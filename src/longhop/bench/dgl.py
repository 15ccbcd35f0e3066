"""DGL's row: benchmarks/dgl_attention.py in an environment of its own, taking turns with ours."""

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from longhop.bench.attention_case import INPUT_SEED, AttentionProblem
from longhop.bench.checks import CheckFailedError
from longhop.bench.measure import Seconds
from longhop.types import InputError

SCRIPT = Path("benchmarks/dgl_attention.py")
_READY, _WRONG = "ready", "wrong"


def save_case(path: Path, problem: AttentionProblem, rows: Tensor, want: dict[str, Tensor]) -> None:
    """Write what another process needs to run the same attention and to check itself.

    Args:
        path: npz file: rowptr, col, perm (``perm[row] = node``, inputs are drawn by node), heads, width,
            seed of the inputs, rows [M], and out, dq, dk, dv [M, H, D] at these rows.
        problem: the graph in the order to run it in.
        rows: sampled rows of the problem.
        want: the oracle's values there.
    """
    graph = problem.given.graph
    _, _, width, heads = problem.packed.shape
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, Any] = {name: tensor.numpy() for name, tensor in want.items()}
    with path.open("wb") as file:  # numpy would add a suffix to a name
        np.savez(
            file,
            rowptr=graph.rowptr.numpy(),
            col=graph.col.numpy(),
            perm=problem.given.order.perm.numpy(),
            heads=heads,
            width=width,
            seed=INPUT_SEED,
            rows=rows.numpy(),
            **arrays,
        )


class DglProvider:
    """The process; a context manager that ends it.

    Args:
        python: interpreter of the environment with dgl.
        case: file of :func:`save_case`.

    Raises:
        InputError: no such interpreter, or the script is not here.
        CheckFailedError: its values are off, or it could not start.
    """

    name = "dgl"

    def __init__(self, python: str, case: Path) -> None:
        if not SCRIPT.is_file():
            raise InputError(f"--dgl needs {SCRIPT}; start from the root of the source tree")
        command = [python, str(SCRIPT), str(case), "--serve", "--threads", str(torch.get_num_threads())]
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        except OSError as error:
            raise InputError(f"--dgl {python}: {error.strerror}; give the path of a python with dgl") from error
        answer = self._read()
        if answer != _READY:
            self._process.kill()
            self._process.communicate()
            raise CheckFailedError(f"dgl: {answer.removeprefix(_WRONG).strip() or 'its process did not start'}")

    def __enter__(self) -> "DglProvider":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # End of file on its stdin is the order to stop.
        self._process.communicate()

    def run(self) -> Seconds:
        """One forward, one forward and backward."""
        return {"fwd": self._ask("fwd"), "both": self._ask("both")}

    def _ask(self, mode: str) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write(f"run {mode}\n")
        self._process.stdin.flush()
        answer = self._read()
        if not answer:
            raise CheckFailedError("dgl: its process ended in the middle of the run")
        return float(answer)

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()
