"""``journal.jsonl``: one JSON line an epoch."""

import json
import math
import os
from pathlib import Path
from typing import Any


def plain(value: Any) -> Any:
    """``value`` with what JSON cannot say (nan, infinities) turned into null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def write_atomic(path: Path, text: str) -> None:
    """Write a text file so that a reader sees the old one or the new one, never a part."""
    partial = path.with_name(path.name + ".tmp")
    with partial.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def read(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a journal; a last line that a killed process left unfinished is dropped."""
    if not path.is_file():
        return []
    lines: list[dict[str, Any]] = []
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            break
    return lines


class Journal:
    """Appends to a journal. A full disk delays lines, it does not stop the run."""

    def __init__(self, path: Path, *, keep_epochs: int = 0) -> None:
        """Open ``path`` and drop what it holds of epochs after ``keep_epochs``."""
        self.path = path
        self.lines = [line for line in read(path) if line["epoch"] <= keep_epochs]
        text = "".join(json.dumps(line) + "\n" for line in self.lines)
        write_atomic(path, text)
        self._size = len(text.encode())
        self._unwritten = b""

    def append(self, line: dict[str, Any]) -> OSError | None:
        """Add an epoch; returns what kept it (and lines before it) off the disk, None when all is written."""
        clean = plain(line)
        self.lines.append(clean)
        self._unwritten += json.dumps(clean).encode() + b"\n"
        try:
            with self.path.open("r+b") as file:
                file.truncate(self._size)  # a failed write may have left a part of a line
                file.seek(self._size)
                file.write(self._unwritten)
        except OSError as error:
            return error
        self._size += len(self._unwritten)
        self._unwritten = b""
        return None
