"""Teachers on other machines, by engines that run there already."""

from dpensemble.clusters.base import Cluster, on_cluster

__all__ = ["Cluster", "on_cluster"]
