"""Softmax attention over the pairs of a graph and its global tokens."""

from longhop.ops.sparse_attention.op import EDGES, sparse_attention

__all__ = ["EDGES", "sparse_attention"]
