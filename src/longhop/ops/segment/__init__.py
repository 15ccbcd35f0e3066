"""Reductions over consecutive rows."""

from longhop.ops.segment.op import segment

__all__ = ["segment"]
