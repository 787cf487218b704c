"""ConfigMap, Secret and ServiceAccount of core/v1."""

from __future__ import annotations

from apiserver.api.schema.language import BOOL, BYTES, STRING, ListOf, MapOf, Struct, field, string
from apiserver.api.schema.limits import FIXED, Limits
from apiserver.api.types.core.references import LocalObjectReference, ObjectReference
from apiserver.api.types.meta import TYPE_META, ObjectMeta, list_of

SecretType = string("v1.SecretType")

ConfigMap = Struct("io.k8s.api.core.v1.ConfigMap", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("immutable", 4, BOOL, pointer=True,
        doc="True to forbid any further change of data and binaryData; it cannot be taken back."),
    field("data", 2, MapOf(STRING),
        doc="Values as text, by key. Keys have letters, digits, `-`, `_` and `.`; all values together at most 1 MiB."),
    field("binaryData", 3, MapOf(BYTES),
        doc="Values as base64 of any bytes, by key; a key of data must not appear here again."),
), gvk=("", "v1", "ConfigMap"), doc="ConfigMap holds configuration as keys and values.")
Secret = Struct("io.k8s.api.core.v1.Secret", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("immutable", 5, BOOL, pointer=True,
        doc="True to forbid any further change of the values; it cannot be taken back."),
    field("data", 2, MapOf(BYTES),
        doc="Values as base64, by key. Keys have letters, digits, `-`, `_` and `.`; all values together at most 1 "
            "MiB."),
    field("stringData", 4, MapOf(STRING),
        doc="Values as plain text, to write only: they are encoded into data and take the place of keys there."),
    field("type", 3, SecretType, limits=Limits(immutable=FIXED),
        doc="What the Secret is for, such as kubernetes.io/tls; Opaque when not set. It decides which keys are "
            "required, and it is fixed."),
), gvk=("", "v1", "Secret"), doc="Secret holds confidential values by key.")
ServiceAccount = Struct("io.k8s.api.core.v1.ServiceAccount", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("secrets", 2, ListOf(ObjectReference, "map", ("name",), merge_key="name"),
        doc="Secrets that pods of the account may mount; enforced only with the annotation "
            "kubernetes.io/enforce-mountable-secrets."),
    field("imagePullSecrets", 3, ListOf(LocalObjectReference),
        doc="Secrets for registries of images; they are added to pods of the account that name none."),
    field("automountServiceAccountToken", 4, BOOL, pointer=True,
        doc="Whether pods of the account get a token mounted; true when not set. A pod may say otherwise."),
), gvk=("", "v1", "ServiceAccount"), doc="ServiceAccount is the identity under which pods use the API.")

ConfigMapList = list_of(ConfigMap)
SecretList = list_of(Secret)
ServiceAccountList = list_of(ServiceAccount)
