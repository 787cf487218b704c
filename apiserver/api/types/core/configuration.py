"""ConfigMap, Secret and ServiceAccount of core/v1."""

from __future__ import annotations

from apiserver.api.schema import BOOL, BYTES, STRING, ListOf, MapOf, Struct, field, string
from apiserver.api.types.core.references import LocalObjectReference, ObjectReference
from apiserver.api.types.meta import TYPE_META, ObjectMeta, list_of

SecretType = string("v1.SecretType")

ConfigMap = Struct("io.k8s.api.core.v1.ConfigMap", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("immutable", 4, BOOL, pointer=True),
    field("data", 2, MapOf(STRING)),
    field("binaryData", 3, MapOf(BYTES)),
), gvk=("", "v1", "ConfigMap"))
Secret = Struct("io.k8s.api.core.v1.Secret", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("immutable", 5, BOOL, pointer=True),
    field("data", 2, MapOf(BYTES)),
    field("stringData", 4, MapOf(STRING)),
    field("type", 3, SecretType),
), gvk=("", "v1", "Secret"))
ServiceAccount = Struct("io.k8s.api.core.v1.ServiceAccount", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("secrets", 2, ListOf(ObjectReference, "map", ("name",), merge_key="name")),
    field("imagePullSecrets", 3, ListOf(LocalObjectReference)),
    field("automountServiceAccountToken", 4, BOOL, pointer=True),
), gvk=("", "v1", "ServiceAccount"))

ConfigMapList = list_of(ConfigMap)
SecretList = list_of(Secret)
ServiceAccountList = list_of(ServiceAccount)
