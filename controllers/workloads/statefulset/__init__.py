"""StatefulSets: pods with a number, a name and volumes that stay theirs.

    component    which StatefulSet is looked at; its revisions
    identity     numbers, names and the making of pods
    claims       the volume claims of pods, and who owns them
    turn         one look at one StatefulSet: what is missing, what is too many, what is to be updated

Facts: upstream's pkg/controller/statefulset.
"""

from controllers.workloads.statefulset.component import NAME, build

__all__ = ["NAME", "build"]
