"""The stored form of a result."""

import csv
import dataclasses
import json
from pathlib import Path

import pytest

from longhop.bench.cases import CommonOptions
from longhop.bench.results import Report, Row, append, as_json, as_text, circumstances
from longhop.types import InputError


def _row(**changes: object) -> Row:
    given = {
        "kernel_name": "op",
        "kernel_provider": "native",
        "kernel_operation_mode": "fwd",
        "x_value": "tiny natural",
        "y_value_50": 2.0,
        "y_value_20": 1.0,
        "y_value_80": 3.0,
        "ratio": 1.0,
        "bytes_bound": 1 << 30,
        "num_nodes": 12_345,
    }
    return Row(**(circumstances(CommonOptions(malloc="default")) | given | changes))  # type: ignore[arg-type]


def test_rows_are_added_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "new" / "rows.csv"
    append(file, [_row()])
    append(file, [_row(kernel_provider="torch", ratio=None)])
    with file.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["kernel_provider"] for row in rows] == ["native", "torch"]
    assert (rows[0]["ratio"], rows[1]["ratio"]) == ("1.0", "")
    assert json.loads(rows[0]["extra_benchmark_config_str"])["malloc"] == "default"
    # Tools that read Liger's tables find their columns.
    assert list(rows[0])[:3] == ["kernel_name", "kernel_provider", "kernel_operation_mode"]
    assert {"metric_name", "metric_unit", "x_name", "x_label", "extra_benchmark_config_str"} <= set(rows[0])


def test_other_columns_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.csv"
    file.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=r"other\.csv has other columns"):
        append(file, [_row()])
    assert file.read_text() == "a,b\n1,2\n"


def test_printed_forms() -> None:
    report = Report([_row()], ["a note"])
    text = as_text(report)
    assert "500.0" in text  # GiB/s
    assert "12,345 nodes" in text
    assert text.endswith("a note")
    found = json.loads(as_json(report))
    assert found == {"rows": [dataclasses.asdict(report.rows[0])], "notes": ["a note"]}
