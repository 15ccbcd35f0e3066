"""Layers for use in any PyTorch loop: each takes features and a :class:`GraphStructure`."""

from longhop.nn.attention import GraphSelfAttention, append_tokens
from longhop.nn.blocks import ConvBlock, NodeBatchNorm, PostNormBlock, PreNormBlock, RowDropout
from longhop.nn.convolution import GCNConv, SAGEConv, gcn_structure
from longhop.nn.encoders import DegreeEmbedding, HopBias
from longhop.nn.heads import MLPHead, NormLinearHead
from longhop.nn.structure import GraphStructure

__all__ = [
    "ConvBlock",
    "DegreeEmbedding",
    "GCNConv",
    "GraphSelfAttention",
    "GraphStructure",
    "HopBias",
    "MLPHead",
    "NodeBatchNorm",
    "NormLinearHead",
    "PostNormBlock",
    "PreNormBlock",
    "RowDropout",
    "SAGEConv",
    "append_tokens",
    "gcn_structure",
]
