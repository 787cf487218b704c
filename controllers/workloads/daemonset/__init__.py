"""DaemonSets: one pod on each eligible node.

    component      queue, pods and status of DaemonSets
    nodes          eligible nodes, and the pod for a node
    revisions      former templates
    reconcile      one pass over one DaemonSet: missing and surplus pods
    updating       rolling updates, by deletion or by surge

Facts: upstream's pkg/controller/daemon.
"""

from controllers.workloads.daemonset.component import NAME, build

__all__ = ["NAME", "build"]
