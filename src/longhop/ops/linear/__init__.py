"""Linears over very many rows."""

from longhop.ops.linear.op import LayerNorm, linear

__all__ = ["LayerNorm", "linear"]
