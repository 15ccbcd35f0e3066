"""What a measurement is, and how it is stored (CSV, append-only) and printed."""

import csv
import dataclasses
import datetime
import io
import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from longhop.graph.csr import CSRGraph
from longhop.train.machine import hardware, kernels, versions
from longhop.types import InputError


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure. Columns up to ``longhop_version`` have the names and meanings of Liger's tables.

    Attributes:
        kernel_name: what was measured.
        kernel_provider: whose code ran; ``native`` is ours, ``bound`` is what memory allows.
        kernel_operation_mode: fwd, bwd, or both.
        metric_name: ``time``, or another quantity.
        metric_unit: of the three values.
        x_name: what tells the points of a series apart.
        x_label: the same for a plot.
        x_value: this point.
        y_value_50: median.
        y_value_20: 20th percentile.
        y_value_80: 80th percentile.
        extra_benchmark_config_str: every option of the run but paths, JSON.
        ratio: median over the median of ``native`` in the same run; None without such a row.
        bytes_bound: bytes that must be read or moved, None where nobody has counted them.
        peak_bytes: memory above the inputs at the peak of one forward and backward; of a whole process for
            epochs.
        num_nodes: N.
        num_edges: E.
        max_degree: the longest row.
        threads: of torch and of the kernels.
        malloc: how the allocator was set up.
        load: load average of the last minute before the run, the machine's other work.
        device_name: processor.
        kernels: variant of the native library.
        git_sha: of the source tree, empty outside one.
        torch_version: of torch.
        python_version: of Python.
        longhop_version: of longhop.
        timestamp: UTC.
    """

    kernel_name: str
    kernel_provider: str
    kernel_operation_mode: str
    metric_name: str = "time"
    metric_unit: str = "ms"
    x_name: str = "graph"
    x_label: str = "graph"
    x_value: str
    y_value_50: float
    y_value_20: float
    y_value_80: float
    extra_benchmark_config_str: str
    device_name: str
    timestamp: str
    longhop_version: str
    ratio: float | None = None
    bytes_bound: int | None = None
    peak_bytes: int | None = None
    num_nodes: int = 0
    num_edges: int = 0
    max_degree: int = 0
    threads: int
    malloc: str
    load: float
    kernels: str
    git_sha: str
    torch_version: str
    python_version: str


@dataclass(frozen=True)
class Report:
    """Rows of one run and sentences for the reader."""

    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def graph_statistics(graph: CSRGraph) -> dict[str, int]:
    """The columns of a row that describe a graph."""
    longest = int(graph.degree().max()) if graph.num_nodes else 0
    return {"num_nodes": graph.num_nodes, "num_edges": graph.num_edges, "max_degree": longest}


def circumstances(options: Any) -> dict[str, Any]:
    """The columns of a row that are the same for a whole run.

    Args:
        options: the dataclass of the benchmark's options, with a field ``malloc``.
    """
    named = versions()
    # Where things lie on this machine says nothing about a result.
    chosen = {k: v for k, v in dataclasses.asdict(options).items() if k not in ("dgl", "save_graph", "out")}
    return {
        "extra_benchmark_config_str": json.dumps(chosen, default=str, sort_keys=True),
        "device_name": hardware()["processor"],
        "timestamp": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "longhop_version": named["longhop"],
        "torch_version": named["torch"],
        "python_version": named["python"],
        "threads": torch.get_num_threads(),
        "malloc": options.malloc,
        "load": round(os.getloadavg()[0], 2),
        "kernels": kernels(),
        "git_sha": _git_sha(),
    }


def append(path: Path, rows: list[Row]) -> None:
    """Add rows at the end of a CSV file, which is made with its header if there is none.

    Raises:
        InputError: the file has other columns.
    """
    names = [f.name for f in dataclasses.fields(Row)]
    if path.is_file() and path.stat().st_size:
        with path.open(newline="", encoding="utf-8") as file:
            found = next(csv.reader(file))
        if found != names:
            raise InputError(f"{path} has other columns than this version writes; give another file to --out")
        header = False
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        header = True
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        if header:
            writer.writeheader()
        writer.writerows(dataclasses.asdict(row) for row in rows)


def as_json(report: Report) -> str:
    """The report as one JSON object."""
    return json.dumps({"rows": [dataclasses.asdict(row) for row in report.rows], "notes": report.notes}, indent=2)


def as_text(report: Report) -> str:
    """The report as a table and its notes."""
    from rich.console import Console
    from rich.table import Table

    titles = ("kernel", "provider", "mode", "x", "median", "p20", "p80", "to ours", "GiB/s", "peak GiB")
    table = Table()
    for i, title in enumerate(titles):
        table.add_column(title, justify="left" if i < 4 else "right", overflow="fold")
    for row in report.rows:
        table.add_row(*_cells(row))
    text = io.StringIO()
    Console(file=text, width=140).print(table)
    return "\n".join([text.getvalue().rstrip(), *(_about(report.rows[0]) if report.rows else []), *report.notes])


def _cells(row: Row) -> list[str]:
    speed = "" if row.bytes_bound is None else f"{row.bytes_bound / row.y_value_50 * 1e3 / 2**30:.1f}"
    return [
        row.kernel_name,
        row.kernel_provider,
        row.kernel_operation_mode,
        row.x_value,
        f"{row.y_value_50:.4g} {row.metric_unit}",
        f"{row.y_value_20:.4g}",
        f"{row.y_value_80:.4g}",
        "" if row.ratio is None else f"{row.ratio:.3g}",
        speed,
        "" if row.peak_bytes is None else f"{row.peak_bytes / 2**30:.3f}",
    ]


def _about(row: Row) -> list[str]:
    lines = [
        f"{row.device_name}, {row.threads} threads, malloc {row.malloc}, load {row.load}, {row.kernels}, "
        f"torch {row.torch_version}, longhop {row.longhop_version} {_short(row.git_sha)}".rstrip(),
    ]
    if row.num_nodes:
        graph = f"{row.num_nodes:,} nodes, {row.num_edges:,} pairs, longest row {row.max_degree:,}"
        lines.insert(0, f"graph: {graph}")
    return lines


def _short(sha: str) -> str:
    return sha[:12] + "+" * sha.endswith("+")


def _git_sha() -> str:
    """Commit of the source tree that this package lies in, with ``+`` for uncommitted changes."""
    folder = Path(__file__).resolve().parent
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""
