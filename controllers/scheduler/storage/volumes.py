"""The scheduler's view of volumes: the watched objects, and decisions for pods that are being bound.

A chosen volume, and a claim to provision on a node, count as assumed from the decision on. That ends when the watch
shows a newer version or the decision is undone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from apiserver.api.helpers.storage_classes import class_of
from apiserver.api.objects import Json
from controllers.runtime.client import Client
from controllers.runtime.informer import Informer, Informers
from controllers.runtime.kinds import (
    CSI_DRIVERS,
    CSI_NODES,
    STORAGE_CAPACITIES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    VOLUME_CLAIMS,
    VOLUMES,
    key_of,
)
from controllers.runtime.transport import NoTransport
from controllers.scheduler.framework.events import ClusterEvent, Event

#: The events for waiting pods by kind: added, changed, deleted; None if no pod waits for it.
_EVENTS = {
    VOLUME_CLAIMS: (ClusterEvent.VOLUME_CLAIM_ADD, ClusterEvent.VOLUME_CLAIM_UPDATE, None),
    VOLUMES: (ClusterEvent.VOLUME_ADD, ClusterEvent.VOLUME_UPDATE, None),
    STORAGE_CLASSES: (ClusterEvent.STORAGE_CLASS_ADD, ClusterEvent.STORAGE_CLASS_UPDATE, None),
    CSI_NODES: (ClusterEvent.CSI_NODE_ADD, ClusterEvent.CSI_NODE_UPDATE, None),
    CSI_DRIVERS: (None, ClusterEvent.CSI_DRIVER_UPDATE, None),
    STORAGE_CAPACITIES: (ClusterEvent.STORAGE_CAPACITY_ADD, ClusterEvent.STORAGE_CAPACITY_UPDATE, None),
    VOLUME_ATTACHMENTS: (None, None, ClusterEvent.VOLUME_ATTACHMENT_DELETE),
}


class AssumeCache:
    """One collection with the assumed objects on top of it."""

    def __init__(self, informer: Informer) -> None:
        self.informer = informer
        self._assumed: dict[str, Json] = {}

    def get(self, key: str) -> Json | None:
        """Return the object of a key, `namespace/name` or `name`."""
        assumed = self._assumed.get(key)
        if assumed is None:
            return self.informer.get(key)
        observed = self.informer.get(key)
        if observed is None or _version(observed) > _version(assumed):
            del self._assumed[key]
            return observed
        return assumed

    def assume(self, obj: Json) -> None:
        """Let the object count in this version from now on."""
        self._assumed[key_of(obj)] = obj

    def restore(self, obj: Json) -> None:
        """Drop the assumed version."""
        self._assumed.pop(key_of(obj), None)


class VolumeCache:
    """All objects about volumes."""

    def __init__(self, informers: Informers) -> None:
        self._informers = {kind: informers.of(kind) for kind in _EVENTS}
        self.claims = AssumeCache(self._informers[VOLUME_CLAIMS])
        self.volumes = AssumeCache(self._informers[VOLUMES])
        self._of_class = self.volumes.informer.index("class", lambda volume: (class_of(volume) or "",))
        self._attached = self._informers[VOLUME_ATTACHMENTS].index("node", lambda item: (item["spec"]["nodeName"],))
        self._waiting: list[asyncio.Future[None]] = []

    @classmethod
    def empty(cls) -> VolumeCache:
        """Return the cache of a cluster without volumes."""
        return cls(Informers(Client(NoTransport())))

    def follow(self, notify: Callable[[Event], None]) -> None:
        """Call `notify` for changes, with the kind of event for waiting pods."""
        for kind, (added, updated, deleted) in _EVENTS.items():
            self._informers[kind].on(
                self._handler(notify, added, lambda obj: (None, obj)),
                self._update_handler(notify, updated),
                self._handler(notify, deleted, lambda obj: (obj, None)),
            )

    def _handler(
        self,
        notify: Callable[[Event], None],
        kind: ClusterEvent | None,
        sides: Callable[[Json], tuple[Json | None, Json | None]],
    ) -> Callable[[Json], None]:
        def handle(obj: Json) -> None:
            if kind is not None:
                notify(Event(kind, *sides(obj)))
            self._wake()

        return handle

    def _update_handler(
        self, notify: Callable[[Event], None], kind: ClusterEvent | None
    ) -> Callable[[Json, Json], None]:
        def handle(old: Json, new: Json) -> None:
            if kind is not None:
                notify(Event(kind, old, new))
            self._wake()

        return handle

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    async def change(self) -> None:
        """Wait for the next change of any of these objects."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future

    async def wait_read(self) -> None:
        """Wait until the collections have synced or are known not to be served."""
        for informer in self._informers.values():
            await informer.wait_answered()

    def of_class(self, name: str) -> list[Json]:
        """Return the volumes of a storage class."""
        volumes = (self.volumes.get(key_of(volume)) for volume in self._of_class.get(name))
        return [volume for volume in volumes if volume is not None]

    def storage_class(self, name: str) -> Json | None:
        return self._informers[STORAGE_CLASSES].get(name)

    def csi_node(self, name: str) -> Json | None:
        return self._informers[CSI_NODES].get(name)

    def csi_driver(self, name: str) -> Json | None:
        return self._informers[CSI_DRIVERS].get(name)

    def capacities(self) -> Iterable[Json]:
        """Return the storage capacities that drivers publish."""
        return self._informers[STORAGE_CAPACITIES].objects.values()

    def attachments(self, node: str) -> list[Json]:
        """Return the attachments to a node, including pending ones."""
        return self._attached.get(node)


def _version(obj: Json) -> int:
    return int(obj["metadata"]["resourceVersion"])
