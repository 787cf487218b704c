"""Default storage classes of claims, and the expansion of claims.

A claim without a class gets the default class. A claim may grow only if its class allows it.

Facts: plugin/pkg/admission/storage/storageclass/setdefault, plugin/pkg/admission/storage/persistentvolume/resize.
"""

from __future__ import annotations

from typing import Final

from apiserver.api.helpers.storage_classes import class_of, is_default_class
from apiserver.api.objects import Json
from apiserver.api.values.quantity import Quantity
from apiserver.api.values.times import parse_time
from apiserver.registry.definition.resource import Resource
from apiserver.registry.store.admission import Attributes, Plugin, forbidden

__all__ = ["DefaultStorageClass", "PersistentVolumeClaimResize"]


_CLASSES: Final = ("storage.k8s.io", "storageclasses")


def _is_claim(resource: Resource) -> bool:
    return resource.plural == "persistentvolumeclaims" and not resource.group


class DefaultStorageClass(Plugin):
    """Plugin that sets the default class in a claim without one: the newest, then the first by name."""

    name = "DefaultStorageClass"
    operations = frozenset({"CREATE"})

    def handles(self, resource: Resource) -> bool:
        return _is_claim(resource)

    def admit(self, attributes: Attributes) -> None:
        if attributes.subresource or attributes.obj is None or class_of(attributes.obj) is not None:
            return
        classes = [item["metadata"] for item in attributes.ctx.all_of(*_CLASSES) if is_default_class(item)]
        if classes:
            first = min(
                classes, key=lambda metadata: (-parse_time(metadata["creationTimestamp"]).timestamp(), metadata["name"])
            )
            attributes.obj["spec"]["storageClassName"] = first["name"]


class PersistentVolumeClaimResize(Plugin):
    name = "PersistentVolumeClaimResize"
    operations = frozenset({"UPDATE"})

    def handles(self, resource: Resource) -> bool:
        return _is_claim(resource)

    def validate(self, attributes: Attributes) -> None:
        new, old = attributes.obj, attributes.old
        if attributes.subresource or new is None or old is None or not _size(old) < _size(new):
            return
        if (old.get("status") or {}).get("phase") != "Bound":
            raise forbidden(attributes, "Only bound persistent volume claims can be expanded")
        name = class_of(new)
        found = attributes.ctx.lookup(*_CLASSES, "", name) if name and name == class_of(old) else None
        if found is None or not found.get("allowVolumeExpansion"):
            raise forbidden(
                attributes,
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must"
                " support resize",
            )


def _size(claim: Json) -> Quantity:
    return Quantity.parse(((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage", "0"))
