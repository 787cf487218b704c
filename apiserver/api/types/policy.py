"""Eviction of policy/v1, the body of pods/eviction."""

from __future__ import annotations

from apiserver.api.schema import Struct, field
from apiserver.api.types.meta import TYPE_META, DeleteOptions, ObjectMeta

Eviction = Struct("io.k8s.api.policy.v1.Eviction", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("deleteOptions", 2, DeleteOptions, pointer=True),
), gvk=("policy", "v1", "Eviction"))
