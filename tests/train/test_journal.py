from pathlib import Path

import pytest

from longhop.train.journal import Journal, plain, read


def test_lines_after_the_checkpoint_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    for epoch in (1, 2, 3):
        journal.append({"epoch": epoch, "loss": 0.1 * epoch})
    with path.open("a") as file:
        file.write('{"epoch": 4, "lo')  # a process was killed here
    assert [line["epoch"] for line in read(path)] == [1, 2, 3]
    resumed = Journal(path, keep_epochs=2)
    resumed.append({"epoch": 3, "loss": 0.5})
    assert read(path) == [{"epoch": 1, "loss": 0.1}, {"epoch": 2, "loss": 0.2}, {"epoch": 3, "loss": 0.5}]


def test_a_full_disk_delays_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    opened = Path.open

    def full(self: Path, *args: object, **kwargs: object) -> object:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    error = journal.append({"epoch": 1})
    assert error is not None
    assert error.errno == 28
    monkeypatch.setattr(Path, "open", opened)
    assert journal.append({"epoch": 2}) is None
    assert read(journal.path) == [{"epoch": 1}, {"epoch": 2}]


def test_what_json_cannot_say_becomes_null() -> None:
    assert plain({"a": float("nan"), "b": [float("inf"), 1.0], "c": (1,)}) == {"a": None, "b": [None, 1.0], "c": [1]}
