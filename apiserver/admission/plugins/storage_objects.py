"""StorageObjectInUseProtection: a finalizer for volumes, claims and volume attributes classes.

A controller removes it when the object is unused.

Facts: plugin/pkg/admission/storage/storageobjectinuseprotection.
"""

from __future__ import annotations

from typing import Final

from apiserver.registry.definition.resource import Resource
from apiserver.registry.store.admission import Attributes, Plugin

__all__ = ["StorageObjectInUseProtection"]

_FINALIZERS: Final = {
    ("", "persistentvolumes"): "kubernetes.io/pv-protection",
    ("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
    ("storage.k8s.io", "volumeattributesclasses"): "kubernetes.io/vac-protection",
}


class StorageObjectInUseProtection(Plugin):
    name = "StorageObjectInUseProtection"
    operations = frozenset({"CREATE"})

    def handles(self, resource: Resource) -> bool:
        return (resource.group, resource.plural) in _FINALIZERS

    def admit(self, attributes: Attributes) -> None:
        if attributes.subresource or attributes.obj is None:
            return
        resource = attributes.resource
        if resource.plural == "volumeattributesclasses" and not attributes.ctx.features.enabled(
            "VolumeAttributesClass"
        ):
            return
        finalizer = _FINALIZERS[resource.group, resource.plural]
        finalizers = attributes.obj.setdefault("metadata", {}).setdefault("finalizers", [])
        if finalizer not in finalizers:
            finalizers.append(finalizer)
