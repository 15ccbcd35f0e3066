"""Benchmarks: ours against what people use today, checked first, in turns, as ratios of one run."""

from longhop.bench.attention_case import AttentionOptions
from longhop.bench.checks import CheckFailedError
from longhop.bench.dense_ops import DenseOptions
from longhop.bench.epoch import EpochOptions
from longhop.bench.results import Report, Row
from longhop.bench.spmm import SpmmOptions

__all__ = [
    "AttentionOptions",
    "CheckFailedError",
    "DenseOptions",
    "EpochOptions",
    "Report",
    "Row",
    "SpmmOptions",
]
