"""RuntimeClass of node.k8s.io/v1."""

from __future__ import annotations

from apiserver.api.schema.language import STRING, ListOf, MapOf, Struct, field
from apiserver.api.schema.limits import FIXED, Limits
from apiserver.api.types.core.resources import ResourceList
from apiserver.api.types.core.scheduling import Toleration
from apiserver.api.types.meta import TYPE_META, ObjectMeta, list_of

Overhead = Struct("io.k8s.api.node.v1.Overhead", lambda: (
    field("podFixed", 1, ResourceList, doc="Amounts that are added to each pod."),
), doc="Overhead has the resources of a pod in addition to its containers.")
Scheduling = Struct("io.k8s.api.node.v1.Scheduling", lambda: (
    field("nodeSelector", 1, MapOf(STRING, atomic=True),
        doc="Labels of the nodes; they are added to the pod's node selector, and the pod is refused if it contradicts "
            "them."),
    field("tolerations", 2, ListOf(Toleration), doc="Tolerations that are added to the pods."),
), doc="Scheduling selects the nodes that support a RuntimeClass.")
RuntimeClass = Struct("io.k8s.api.node.v1.RuntimeClass", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("handler", 2, STRING, omit=False, required=True,
        limits=Limits(required=True, format="dns-label", immutable=FIXED),
        doc="Name of the configuration at the node's container runtime: a DNS label, fixed."),
    field("overhead", 3, Overhead, pointer=True, doc="Resources of a pod in addition to its containers."),
    field("scheduling", 4, Scheduling, pointer=True, doc="Nodes that support the class; all when not set."),
), gvk=("node.k8s.io", "v1", "RuntimeClass"),
    doc="RuntimeClass names a configuration of the container runtime that pods may choose.")

RuntimeClassList = list_of(RuntimeClass)
