"""What the components of this family have in common: a queue of owners, events in their name, statuses that they write.

What was written is seen in an informer only later; until then the owner is not looked at again, because what would be
decided on the older state would be refused, or done twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta

from controllers.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.informer import Informer, Informers
from controllers.runtime.kinds import Json, Kind, key_of
from controllers.runtime.workqueue import Resync

#: The event of what was written queues its owner; this is for a watch that had to begin anew meanwhile.
_BEHIND = Resync(seconds=1)


class Workload(ControllerComponent, ABC):
    """A component whose keys are those of the objects of one kind. `source` is what its events call it, `queue` what
    metrics call its queue.
    """

    def __init__(
        self, name: str, client: Client, informers: Informers, options: Options, kind: Kind, *, source: str, queue: str
    ) -> None:
        self.name, self.kind = name, kind
        self.client = client.named(name)
        self.recorder = CoreEventRecorder(client, source)
        self._controller = Controller(name, self.reconcile, workers=options.workers(name), queue=queue)
        self._needed: dict[Kind, Informer] = {}
        self._written: dict[str, dict[Kind, int]] = {}
        self.owners = self.need(informers.of(kind))
        self.owners.on(self._owner_changed, self.owner_updated, self._owner_changed)
        self._controller.alongside(self.recorder.run)

    def need(self, informer: Informer) -> Informer:
        """Work starts when this informer has synced, too."""
        self._controller.require(informer)
        return self.follow(informer)

    def follow(self, informer: Informer) -> Informer:
        """After something of its kind was written (`wrote`), the owner waits until this informer shows it."""
        self._needed[informer.kind] = informer
        return informer

    def queue(self, key: str) -> None:
        """Looks at an owner soon."""
        self._controller.queue.add(key)

    def _owner_changed(self, owner: Json) -> None:
        self.queue(key_of(owner))

    def owner_updated(self, before: Json, owner: Json) -> None:
        """An owner has changed, by somebody else's hand or by ours."""
        self.queue(key_of(owner))

    async def reconcile(self, key: str) -> timedelta | None:
        if self._is_behind(key):
            return _BEHIND
        owner = self.owners.get(key)
        if owner is None:
            self.gone(key)
            return None
        return await self.sync(key, owner)

    @abstractmethod
    async def sync(self, key: str, owner: Json) -> timedelta | None:
        """Brings the world of one owner to what it should be; as `reconcile` of a controller."""

    def gone(self, key: str) -> None:
        """The owner is gone: nothing about it has to be remembered."""

    def wrote(self, owner: Json, kind: Kind | None = None, obj: Json | None = None) -> Json:
        """Remembers that an object was written for an owner (the owner itself, if no other is given), as the server
        has answered; gives it back.
        """
        obj = owner if obj is None else obj
        written, kind = self._written.setdefault(key_of(owner), {}), kind or self.kind
        written[kind] = max(written.get(kind, 0), _version(obj["metadata"]))
        return obj

    def _is_behind(self, key: str) -> bool:
        written = self._written.get(key)
        if written is None:
            return False
        if any(_number(self._needed[kind].resource_version) < version for kind, version in written.items()):
            return True
        del self._written[key]
        return False

    async def write_status(self, owner: Json, status: Json) -> Json:
        """Writes a status; once more on top of what the owner has become, where somebody else was faster.

        Raises StatusError, also where it is gone (NotFound).
        """
        try:
            written = await self.client.update_status(self.kind, {**owner, "status": status})
        except Exception as error:
            if not is_reason(error, "Conflict"):
                raise
            metadata = owner["metadata"]
            fresh = await self.client.get(self.kind, metadata["name"], metadata["namespace"])
            if fresh["metadata"]["uid"] != metadata["uid"]:
                raise
            written = await self.client.update_status(self.kind, {**fresh, "status": status})
        return self.wrote(written)


def _version(metadata: Json) -> int:
    return _number(metadata.get("resourceVersion", ""))


def _number(version: str) -> int:
    """A resourceVersion as a number; 0 where a server has them in another form, which turns the waiting off."""
    return int(version) if version.isdecimal() else 0
