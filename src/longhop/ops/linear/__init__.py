"""Linears over many rows, through oneDNN."""

from longhop.ops.linear.op import linear

__all__ = ["linear"]
