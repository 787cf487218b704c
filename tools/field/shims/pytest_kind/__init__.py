"""A stand-in for the package of that name: the cluster is the control plane of the run."""

from .cluster import KindCluster

__all__ = ["KindCluster"]
