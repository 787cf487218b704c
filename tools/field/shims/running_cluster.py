"""A pytest plugin: cloudcoil's tests use the control plane of the run instead of a cluster of kind's."""

import os
from importlib import import_module
from pathlib import Path


class RunningCluster:
    """The cluster of `$KUBECONFIG`."""

    def __init__(self, *arguments: object) -> None:
        """Ignore names and versions."""

    def create_cluster(self) -> None:
        """Do nothing: it runs."""

    def get_kubeconfig(self) -> Path:
        return Path(os.environ["KUBECONFIG"])

    def remove_cluster(self) -> None:
        """Do nothing: the tool stops it."""


import_module("cloudcoil._testing.clusters").KindCluster = RunningCluster  # type: ignore[attr-defined]
