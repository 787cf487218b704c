"""DaemonSets: one pod on each node that may have it.

    component      which DaemonSet is looked at, and its status
    nodes          which nodes may have a pod, and the pod for a node
    revisions      the templates that it has had
    round          one look at one DaemonSet: pods that are missing, or that should not be
    updating       a new template, with nodes that wait or that have two pods for a while

Facts: upstream's pkg/controller/daemon.
"""

from controllers.workloads.daemonset.component import NAME, build

__all__ = ["NAME", "build"]
