"""Run one function of this package in a process of its own, so that its peak memory is its own."""

import importlib
import json
import subprocess
import sys
from typing import Any

_PACKAGE = "longhop.bench."


class ChildError(RuntimeError):
    """The process ended without an answer."""


def call(function: str, argument: dict[str, Any]) -> Any:
    """Call ``module:name`` of this package in a new process.

    Args:
        function: a function from one dictionary to something that JSON can say.
        argument: JSON too.

    Returns:
        What the function returned.

    Raises:
        ChildError: it died; what it wrote to stderr went to ours.
    """
    done = subprocess.run(
        [sys.executable, "-c", "from longhop.bench.child import main; main()", function],
        input=json.dumps(argument, default=str),
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        cause = "was killed, perhaps for want of memory" if done.returncode == -9 else "failed"
        raise ChildError(f"the process of {function} {cause} (exit code {done.returncode})")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """The other side of :func:`call`: argument on stdin, result as the last line on stdout."""
    module, _, name = sys.argv[1].partition(":")
    if not module.startswith(_PACKAGE):
        raise ValueError(f"{module} is no module of {_PACKAGE}*")
    result = getattr(importlib.import_module(module), name)(json.load(sys.stdin))
    print(json.dumps(result), flush=True)
