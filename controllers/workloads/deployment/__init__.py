"""Deployments: roll-outs of templates, with one ReplicaSet per template.

    component      queue; choice between pause, rollback, scaling and roll-out
    replicasets    the ReplicaSet of a template; revisions and other annotations
    arithmetic     sizes of ReplicaSets
    reconcile      one pass over one Deployment, with all its writes
    rollouts       the two strategies, scaling and rollback
    status         counts and conditions

Facts: upstream's pkg/controller/deployment.
"""

from controllers.workloads.deployment.component import NAME, build

__all__ = ["NAME", "build"]
