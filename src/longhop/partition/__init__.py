"""Parts and clusters of a graph: METIS with a fallback, cluster orders, their cache, their quality."""

from longhop.partition.api import Partition, partition
from longhop.partition.cache import OrderKind, cached_order
from longhop.partition.cluster import cluster_order, default_num_clusters
from longhop.partition.quality import PartitionReport

__all__ = [
    "OrderKind",
    "Partition",
    "PartitionReport",
    "cached_order",
    "cluster_order",
    "default_num_clusters",
    "partition",
]
