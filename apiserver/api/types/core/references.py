"""References of core/v1: to objects, to keys of config maps and secrets, to fields."""

from __future__ import annotations

from apiserver.api.schema import BOOL, INT32, QUANTITY, STRING, Struct, field
from apiserver.api.types.meta import UID

ObjectReference = Struct("io.k8s.api.core.v1.ObjectReference", lambda: (
    field("kind", 1, STRING),
    field("namespace", 2, STRING),
    field("name", 3, STRING),
    field("uid", 4, UID),
    field("apiVersion", 5, STRING),
    field("resourceVersion", 6, STRING),
    field("fieldPath", 7, STRING),
), atomic=True)
LocalObjectReference = Struct("io.k8s.api.core.v1.LocalObjectReference", lambda: (
    field("name", 1, STRING, default=""),
), atomic=True)
TypedLocalObjectReference = Struct("io.k8s.api.core.v1.TypedLocalObjectReference", lambda: (
    field("apiGroup", 1, STRING, omit=False, pointer=True),
    field("kind", 2, STRING, omit=False, required=True),
    field("name", 3, STRING, omit=False, required=True),
), atomic=True)
TypedObjectReference = Struct("io.k8s.api.core.v1.TypedObjectReference", lambda: (
    field("apiGroup", 1, STRING, omit=False, pointer=True),
    field("kind", 2, STRING, omit=False, required=True),
    field("name", 3, STRING, omit=False, required=True),
    field("namespace", 4, STRING, pointer=True, gate="CrossNamespaceVolumeDataSource"),
))
ObjectFieldSelector = Struct("io.k8s.api.core.v1.ObjectFieldSelector", lambda: (
    field("apiVersion", 1, STRING),
    field("fieldPath", 2, STRING, omit=False, required=True),
), atomic=True)
ResourceFieldSelector = Struct("io.k8s.api.core.v1.ResourceFieldSelector", lambda: (
    field("containerName", 1, STRING),
    field("resource", 2, STRING, omit=False, required=True),
    field("divisor", 3, QUANTITY, omit=False),
), atomic=True)
ConfigMapKeySelector = Struct("io.k8s.api.core.v1.ConfigMapKeySelector", lambda: (
    field("", 1, LocalObjectReference, inline=True),
    field("key", 2, STRING, omit=False, required=True),
    field("optional", 3, BOOL, pointer=True),
), atomic=True)
SecretKeySelector = Struct("io.k8s.api.core.v1.SecretKeySelector", lambda: (
    field("", 1, LocalObjectReference, inline=True),
    field("key", 2, STRING, omit=False, required=True),
    field("optional", 3, BOOL, pointer=True),
), atomic=True)
FileKeySelector = Struct("io.k8s.api.core.v1.FileKeySelector", lambda: (
    field("volumeName", 1, STRING, omit=False, required=True),
    field("path", 2, STRING, omit=False, required=True),
    field("key", 3, STRING, omit=False, required=True),
    field("optional", 4, BOOL, pointer=True, default=False),
), atomic=True)
KeyToPath = Struct("io.k8s.api.core.v1.KeyToPath", lambda: (
    field("key", 1, STRING, omit=False, required=True),
    field("path", 2, STRING, omit=False, required=True),
    field("mode", 3, INT32, pointer=True),
))
