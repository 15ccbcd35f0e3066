"""Data sets: readers of published formats, generators, intake checks, inspection."""

from longhop.data.arrays import from_arrays
from longhop.data.config import DataConfig
from longhop.data.dataset import IntakeReport, NodeDataset, Splits
from longhop.data.inspect import inspect_dataset
from longhop.data.load import load

__all__ = [
    "DataConfig",
    "IntakeReport",
    "NodeDataset",
    "Splits",
    "from_arrays",
    "inspect_dataset",
    "load",
]
