"""StatefulSets: pods with stable numbers, names and volumes.

    component    queue and revisions of StatefulSets
    identity     numbers and names of pods; new pods
    claims       volume claims of pods and their owners
    reconcile    one pass over one StatefulSet: missing, surplus and outdated pods

Facts: upstream's pkg/controller/statefulset.
"""

from controllers.workloads.statefulset.component import NAME, build

__all__ = ["NAME", "build"]
