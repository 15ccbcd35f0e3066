"""Attention layouts and the two ops that run over them."""

from longhop.layout.attention import graph_attention, graph_attention_qkvpacked
from longhop.layout.layout import NUM_HOP_CLASSES, AttentionLayout, LayoutReport
from longhop.layout.spmm import spmm

__all__ = ["NUM_HOP_CLASSES", "AttentionLayout", "LayoutReport", "graph_attention", "graph_attention_qkvpacked", "spmm"]
