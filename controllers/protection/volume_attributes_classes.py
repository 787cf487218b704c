"""VolumeAttributesClass protection: a deleted class stays while a volume or a claim names it.

Facts: upstream's pkg/controller/volume/vacprotection.
"""

from __future__ import annotations

from collections.abc import Iterator

from apiserver.api.objects import Json
from controllers.options.options import Options
from controllers.protection.protection import Protection
from controllers.runtime.client import Client
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import VOLUME_ATTRIBUTES_CLASSES, VOLUME_CLAIMS, VOLUMES

NAME = "volumeattributesclass-protection-controller"
FINALIZER = "kubernetes.io/vac-protection"
#: First release with the kind in storage.k8s.io/v1.
_SINCE = (1, 34)


def build(client: Client, informers: Informers, options: Options) -> VolumeAttributesClassProtection:
    """Build the component for the manager."""
    return VolumeAttributesClassProtection(client, informers, options)


class VolumeAttributesClassProtection(Protection):
    """The protection controller. Adds the finalizer to classes created without it."""

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        features = options.features
        enabled = features.release >= _SINCE and features.enabled("VolumeAttributesClass")
        super().__init__(
            NAME, VOLUME_ATTRIBUTES_CLASSES, FINALIZER, client, informers, queue="vacprotection", enabled=enabled,
            adds=True,
        )  # fmt: skip
        if not enabled:
            return
        self._users = []
        for informer in (informers.of(VOLUMES), informers.of(VOLUME_CLAIMS)):
            self._controller.require(informer)
            self._users.append(informer.index("attributes class", _classes))
            informer.on(updated=lambda before, _: self._enqueue_classes(before), deleted=self._enqueue_classes)

    def _enqueue_classes(self, obj: Json) -> None:
        for name in _classes(obj):
            self._controller.queue.add(name)

    async def is_in_use(self, key: str, obj: Json) -> bool:
        return any(users.get(key) for users in self._users)


def _classes(obj: Json) -> Iterator[str]:
    """Yield the current, requested and target classes of a volume or claim."""
    status = obj.get("status") or {}
    names = {
        obj["spec"].get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    }
    return iter(sorted(name for name in names if name))
