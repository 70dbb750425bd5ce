"""Teachers on other machines, by engines that run there already."""

from dpensemble.clusters.base import Cluster, active_cluster, on_cluster, refuse_cluster

__all__ = ["Cluster", "active_cluster", "on_cluster", "refuse_cluster"]
