"""Run one function of this package in a process of its own, so that its peak memory is its own."""

import contextlib
import importlib
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

_PACKAGE = "longhop.bench."
_ANSWER = "longhop answers "


class ChildError(RuntimeError):
    """The process ended without an answer."""


class Worker:
    """A generator of this package in a process of its own, which waits until it is asked for its next value.

    Args:
        function: ``module:name`` of a function from one dictionary to something that JSON can say, or to an
            iterator over that.
        argument: JSON too.
    """

    def __init__(self, function: str, argument: dict[str, Any]) -> None:
        self._function = function
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from longhop.bench.child import main; main()", function],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._write(json.dumps(argument, default=str))

    def answer(self) -> Any:
        """The next value.

        Raises:
            ChildError: the process died; what it wrote to stderr went to ours.
        """
        assert self._process.stdout is not None
        self._write("next")
        for line in self._process.stdout:  # others may print too
            if line.startswith(_ANSWER):
                return json.loads(line.removeprefix(_ANSWER))
        code = self._process.wait()
        cause = "was killed, perhaps for want of memory" if code == -9 else "failed"
        raise ChildError(f"the process of {self._function} {cause} (exit code {code})")

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate(timeout=60)

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # answer() says why
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()


def call(function: str, argument: dict[str, Any]) -> Any:
    """Call ``module:name`` of this package in a new process; see :class:`Worker`.

    Raises:
        ChildError: it died; what it wrote to stderr went to ours.
    """
    worker = Worker(function, argument)
    try:
        return worker.answer()
    finally:
        worker.close()


def main() -> None:
    """The other side of :class:`Worker`: argument, then requests as lines on stdin, answers as lines on stdout."""
    module, _, name = sys.argv[1].partition(":")
    if not module.startswith(_PACKAGE):
        raise ValueError(f"{module} is no module of {_PACKAGE}*")
    argument = json.loads(sys.stdin.readline())
    result = getattr(importlib.import_module(module), name)(argument)
    values: Iterator[Any] = result if inspect.isgenerator(result) else iter([result])
    for _ in sys.stdin:
        print(f"{_ANSWER}{json.dumps(next(values))}", flush=True)
