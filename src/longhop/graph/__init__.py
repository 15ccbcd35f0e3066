"""Graphs: the CSR, its builders, orders of its nodes, and generators."""

from longhop.graph.build import (
    BuildReport,
    add_self_loops,
    content_hash,
    from_coo,
    from_pyg,
    from_scipy,
    induced,
    permute,
    remove_self_loops,
    skeleton,
    symmetrize,
)
from longhop.graph.csr import CSRGraph, Transpose, index_dtype
from longhop.graph.order import Order, bfs_order, degree_order, natural_order, rcm_order

__all__ = [
    "BuildReport",
    "CSRGraph",
    "Order",
    "Transpose",
    "add_self_loops",
    "bfs_order",
    "content_hash",
    "degree_order",
    "from_coo",
    "from_pyg",
    "from_scipy",
    "index_dtype",
    "induced",
    "natural_order",
    "permute",
    "rcm_order",
    "remove_self_loops",
    "skeleton",
    "symmetrize",
]
