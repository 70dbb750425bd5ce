"""Teachers on other machines, by engines that already run there."""

from dpensemble.clusters.cluster import Cluster, on_cluster

__all__ = ["Cluster", "on_cluster"]
