"""Linears over very many rows."""

from longhop.ops.linear.op import linear

__all__ = ["linear"]
