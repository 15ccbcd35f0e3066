"""``longhop bench``."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro

from longhop.bench import (
    AttentionOptions,
    CheckFailedError,
    DenseOptions,
    EpochOptions,
    Report,
    SpmmOptions,
    attention,
    attention_sweeps,
    dense_ops,
    epoch,
    results,
    spmm,
)
from longhop.bench.cases import CommonOptions
from longhop.bench.child import ChildError
from longhop.cli import restart
from longhop.cli.arguments import parse
from longhop.train.allocator import description
from longhop.types import InputError

# glibc reads these when a process starts; mallopt, which takes an int, cannot go as far.
_KEEP = ("MALLOC_MMAP_THRESHOLD_=17179869184", "MALLOC_TRIM_THRESHOLD_=34359738368")

T = TypeVar("T", bound=CommonOptions)
Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]


@dataclass(frozen=True, kw_only=True)
class _Output:
    out: Path | None = None
    """CSV file at whose end to add the rows."""
    json: Flag = False
    """Print JSON."""


@dataclass(frozen=True, kw_only=True)
class AttentionArguments(AttentionOptions, _Output):
    """Graph attention against gather and scatter in torch, PyG and DGL, and against the gather bound."""

    star: Flag = False
    """A star of 10^6 leaves against a ring with as many pairs."""
    widths: Flag = False
    """Every number of heads with every width, by the time for each 64-byte line."""


@dataclass(frozen=True, kw_only=True)
class SpmmArguments(SpmmOptions, _Output):
    """Sums over neighbours against torch.sparse and PyG, and against the gather bound."""


@dataclass(frozen=True, kw_only=True)
class DenseArguments(DenseOptions, _Output):
    """Bias, GELU, dropout and residual in one op against torch's ops."""


@dataclass(frozen=True, kw_only=True)
class EpochArguments(EpochOptions, _Output):
    """One training epoch of a model against the same model from PyG's layers."""


BENCHMARKS: dict[str, type] = {
    "attention": AttentionArguments,
    "spmm": SpmmArguments,
    "dense-ops": DenseArguments,
    "epoch": EpochArguments,
}


def main(words: list[str]) -> int:
    """Run the command; the exit code is 1 when a check failed, and then no figure is printed."""
    if not words or words[0] in ("-h", "--help"):
        print(_usage())
        return 0 if words else 2
    if words[0] not in BENCHMARKS:
        raise InputError(f"bench {words[0]}: choose from {', '.join(BENCHMARKS)}")
    arguments: Any = parse(BENCHMARKS[words[0]], words[1:], prog=f"longhop bench {words[0]}")
    if arguments.malloc == "keep" and description().startswith("glibc"):
        return _start_keeping_memory(words)
    try:
        report = _run(arguments)
    except (CheckFailedError, ChildError) as error:
        print(f"longhop: {error}", file=sys.stderr)
        return 1
    if arguments.out is not None:
        results.append(arguments.out, report.rows)
    print(results.as_json(report) if arguments.json else results.as_text(report))
    return 0


def _start_keeping_memory(words: list[str]) -> int:
    """The same command in a process whose allocator keeps what is freed."""
    again = [sys.executable, "-m", "longhop.cli.app", "bench", *words, "--malloc", "kept"]
    code = subprocess.call(["env", *_KEEP, *restart.settings(), *again])
    return code if code >= 0 else 128 - code


def _run(arguments: Any) -> Report:
    match arguments:
        case AttentionArguments(star=True, widths=True):
            raise InputError("--star contradicts --widths; run one after the other")
        case AttentionArguments(star=True):
            return attention_sweeps.star(_options(arguments, AttentionOptions))
        case AttentionArguments(widths=True):
            return attention_sweeps.widths(_options(arguments, AttentionOptions))
        case AttentionArguments():
            return attention.run(_options(arguments, AttentionOptions))
        case SpmmArguments():
            return spmm.run(_options(arguments, SpmmOptions))
        case DenseArguments():
            return dense_ops.run(_options(arguments, DenseOptions))
    return epoch.run(_options(arguments, EpochOptions))


def _options(arguments: Any, kind: Callable[..., T]) -> T:
    """The options proper, without where results go."""
    return kind(**{f.name: getattr(arguments, f.name) for f in fields(kind)})  # type: ignore[arg-type]


def _usage() -> str:
    summaries = [f"  {name:<10} {(kind.__doc__ or '').splitlines()[0]}" for name, kind in BENCHMARKS.items()]
    head = [
        "usage: longhop bench BENCHMARK [--option value ...] [--out FILE.csv] [--json]",
        "",
        "benchmarks:",
    ]
    return "\n".join([*head, *summaries, "", "`longhop bench BENCHMARK --help` lists the options of one."])
