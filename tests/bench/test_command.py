"""``longhop bench``: options, exit codes, files."""

import csv
import json
from pathlib import Path

import pytest

from longhop.bench import peers
from longhop.cli.app import main

TINY = ["--graph", "tiny", "--repeat", "1", "--malloc", "default", "--providers", "torch"]


def test_rows_are_printed_and_stored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.csv"
    assert main(["bench", "attention", *TINY, "--out", str(file), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)["rows"]
    with file.open(newline="") as stream:
        stored = list(csv.DictReader(stream))
    assert len(stored) == len(printed) == 6
    assert [row["kernel_provider"] for row in stored] == ["native", "torch"] * 3


def test_a_failed_check_prints_no_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "gather_scatter_attention", lambda q, k, v, edges: q + k + v)
    file = tmp_path / "rows.csv"
    assert main(["bench", "attention", *TINY, "--out", str(file)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("longhop: torch on a small graph: out is off")
    assert not file.exists()


def test_memory_is_kept_by_a_process_of_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    words = ["dense-ops", "--rows", "50", "--repeat", "1", "--providers", "torch", "--malloc", "keep", "--json"]
    assert main(["bench", *words]) == 0
    rows = json.loads(capfd.readouterr().out)["rows"]
    assert {row["malloc"] for row in rows} == {"kept"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sort"], "choose from attention"),
        (["attention", "--graph", "huge"], "graph"),
        (["attention", "--head", "4"], "heads"),
        (["attention", *TINY, "--star"], "--star runs ours alone"),
        (["attention", "--malloc", "default", "--star", "--widths"], "contradicts"),
        (["attention", "--malloc", "default", "--graph", "arxiv", "--widths"], "--widths"),
        (["epoch", "--malloc", "default", "--nodes", "0"], "--nodes"),
    ],
)
def test_mistakes(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert printed.err.count("\n") == 1


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--help"]) == 0
    assert main(["bench"]) == 2
    assert "dense-ops" in capsys.readouterr().out
