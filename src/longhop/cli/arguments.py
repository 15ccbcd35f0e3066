"""tyro, with its errors as one sentence."""

import contextlib
import dataclasses
import io
import re
import typing
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import tyro

from longhop.train.config_io import unknown_key
from longhop.types import InputError

T = TypeVar("T")


def parse(kind: type[T], words: Sequence[str], *, prog: str, default: T | None = None) -> T:
    """Read a dataclass from the command line; ``--help`` prints and exits.

    Args:
        kind: the dataclass; its nested dataclasses become ``--section.key``.
        words: the arguments.
        prog: how the command is called.
        default: what is not given.

    Returns:
        The dataclass.

    Raises:
        InputError: an unknown option, with the nearest known one, or a wrong value.
    """
    _check_options(kind, default, words)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed):
            parsed = tyro.cli(
                kind,
                args=_capital_booleans(kind, default, words),
                prog=prog,
                default=default,
                config=(tyro.conf.AvoidSubcommands,),
                use_underscores=True,
            )
        return typing.cast(T, parsed)
    except SystemExit as exit:
        if not exit.code:
            raise
        raise InputError(f"{_sentence(printed.getvalue())}; see {prog} --help") from None


def _check_options(kind: type, default: Any, words: Sequence[str]) -> None:
    known = [*(name for name, _ in options(kind, default)), "help"]
    for word in words:
        option = word[2:].split("=")[0].replace("-", "_")
        if word.startswith("--") and option and option not in known:
            error = unknown_key(option, known)
            raise InputError(str(error).replace("key ", "option --", 1).replace(" is ", " is --"))


def _capital_booleans(kind: type, default: Any, words: Sequence[str]) -> list[str]:
    """``true`` and ``false`` as in YAML, where tyro wants True and False."""
    booleans = {name for name, hint in options(kind, default) if hint is bool or bool in typing.get_args(hint)}
    changed, option = [], ""
    for word in words:
        head, equals, value = word.rpartition("=") if word.startswith("--") else ("", "", word)
        if (head or option)[2:].replace("-", "_") in booleans and value in ("true", "false"):
            word = f"{head}{equals}{value.capitalize()}"
        changed.append(word)
        option = word if word.startswith("--") else ""
    return changed


def options(kind: type, default: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and types of the options that tyro makes of a dataclass."""
    for name, hint in typing.get_type_hints(kind).items():
        value = getattr(default, name, None)
        nested = type(value) if dataclasses.is_dataclass(value) else hint
        if dataclasses.is_dataclass(nested):
            yield from options(typing.cast(type, nested), value, f"{prefix}{name}.")
        else:
            yield prefix + name, hint


def _sentence(box: str) -> str:
    """The first paragraph of tyro's framed message, on one line."""
    lines: list[str] = []
    for line in box.splitlines():
        text = line.strip("│╭╮╰╯ ")
        if text.startswith("───") and lines:
            break
        if line.startswith("│"):
            lines.append(text)
    message = " ".join(lines) or " ".join(box.split())
    return re.sub(r"^Error parsing (--)?", r"\1", message).rstrip(".")
