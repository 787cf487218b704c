"""ReplicationControllers: ReplicaSets of the older kind. Facts: upstream's pkg/controller/replication."""

from __future__ import annotations

from controllers.options.options import Options
from controllers.runtime.client import Client
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import REPLICATION_CONTROLLERS
from controllers.workloads.replicaset.replicaset import ReplicaSets

NAME = "replicationcontroller-controller"


def build(client: Client, informers: Informers, options: Options) -> ReplicaSets:
    """Build the component for the manager."""
    kind, source = REPLICATION_CONTROLLERS, "replication-controller"
    return ReplicaSets(NAME, client, informers, options, kind, source=source, queue="replicationmanager")
