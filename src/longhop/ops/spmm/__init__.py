"""Sums, means and maxima of neighbours' features over a graph."""

from longhop.ops.spmm.op import spmm

__all__ = ["spmm"]
