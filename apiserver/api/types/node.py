"""RuntimeClass of node.k8s.io/v1."""

from __future__ import annotations

from apiserver.api.schema import STRING, ListOf, MapOf, Struct, field
from apiserver.api.types.core.resources import ResourceList
from apiserver.api.types.core.scheduling import Toleration
from apiserver.api.types.meta import TYPE_META, ObjectMeta, list_of

Overhead = Struct("io.k8s.api.node.v1.Overhead", lambda: (
    field("podFixed", 1, ResourceList),
))
Scheduling = Struct("io.k8s.api.node.v1.Scheduling", lambda: (
    field("nodeSelector", 1, MapOf(STRING, atomic=True)),
    field("tolerations", 2, ListOf(Toleration)),
))
RuntimeClass = Struct("io.k8s.api.node.v1.RuntimeClass", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("handler", 2, STRING, omit=False, required=True),
    field("overhead", 3, Overhead, pointer=True),
    field("scheduling", 4, Scheduling, pointer=True),
), gvk=("node.k8s.io", "v1", "RuntimeClass"))

RuntimeClassList = list_of(RuntimeClass)
