"""The command line: ``longhop COMMAND ...``. What is heavy is imported by the command that needs it."""

import importlib
import os
import signal
import sys
from collections.abc import Callable, Sequence

from longhop.cli import restart

COMMANDS = {
    "inspect": "say what a data set holds",
    "train": "train a recipe or a YAML file",
    "evaluate": "metrics of a run folder on the three splits",
    "predict": "predictions of a run folder as CSV, under the original ids",
    "bench": "measure kernels and epochs against other providers",
    "doctor": "say what this installation can do",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: the words after ``longhop``; None = those of the process.

    Returns:
        Exit code: 0, 2 for a mistake of the user (one sentence on stderr), 1 for a failure, 128 + signal.
    """
    try:
        code = _run(argv)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has left (``longhop ... | head``); what is flushed at exit must go somewhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    return code


def _run(argv: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help"):
        print(_usage())
        return 0 if words else 2
    if words[0] == "--version":
        from longhop import __version__

        print(f"longhop {__version__}")
        return 0
    if words[0] not in COMMANDS:
        import difflib

        nearest = difflib.get_close_matches(words[0], list(COMMANDS), n=1, cutoff=0.0)[0]
        print(f"longhop: unknown command {words[0]}; the nearest known one is {nearest}", file=sys.stderr)
        return 2
    if argv is None and words[0] == "train":
        # Before torch is imported: a caller who passes words keeps the process that it has.
        restart.with_tunables(words)
    return _guarded(importlib.import_module(f"longhop.cli.{words[0]}").main, words[1:])


def _guarded(command: Callable[[list[str]], int], words: list[str]) -> int:
    """Turn the errors that a user can act on into one sentence and an exit code."""
    from longhop.train.loop import TrainingFailedError
    from longhop.train.signals import StoppedError
    from longhop.types import InputError

    try:
        return command(words)
    except InputError as error:
        return _complain(error, 2)
    except StoppedError as error:
        return _complain(error, 128 + error.signum)
    except BrokenPipeError:
        raise
    except (TrainingFailedError, OSError, MemoryError) as error:
        return _complain(error, 1)
    except KeyboardInterrupt:
        return _complain("stopped; nothing was being trained", 130)


def _complain(error: object, code: int) -> int:
    print(f"longhop: {error}", file=sys.stderr)
    return code


def _usage() -> str:
    lines = [f"  {name:<9} {summary}" for name, summary in COMMANDS.items()]
    head = ["usage: longhop COMMAND ...", "", "commands:"]
    return "\n".join([*head, *lines, "", "`longhop COMMAND --help` describes one."])


if __name__ == "__main__":
    sys.exit(main())
