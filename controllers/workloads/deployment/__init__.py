"""Deployments: roll-outs of templates by ReplicaSets, one for each template.

    component      which Deployment is looked at, and which way it goes: paused, rolled back, scaled, rolled out
    replicasets    finding the ReplicaSet of a template; revisions and other annotations
    arithmetic     how many pods each may have
    round          one look at one Deployment, with all that it writes
    rollouts       the two strategies, and scaling in the middle of a roll-out
    status         counts and conditions

Facts: upstream's pkg/controller/deployment.
"""

from controllers.workloads.deployment.component import NAME, build

__all__ = ["NAME", "build"]
