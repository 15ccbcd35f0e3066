"""Softmax of pairs' scores over each query's pairs."""

from longhop.ops.edge_softmax.op import edge_softmax

__all__ = ["edge_softmax"]
