"""What the components of this family have in common: a queue of owners, events in their name, statuses that they write.

A status that was written is seen in the informer only later; until then the owner is not looked at again, because what
would be written next would be refused.
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
        self.owners: Informer = informers.of(kind)
        self._written: dict[str, int] = {}
        self._controller = Controller(name, self.reconcile, workers=options.workers(name), queue=queue)
        self._controller.follow(self.owners)
        self._controller.alongside(self.recorder.run)

    def queue(self, key: str) -> None:
        """Looks at an owner soon."""
        self._controller.queue.add(key)

    async def reconcile(self, key: str) -> timedelta | None:
        owner = self.owners.get(key)
        if owner is None:
            self._written.pop(key, None)
            self.gone(key)
            return None
        if _version(owner) < self._written.get(key, 0):
            return None  # The change that is still under way queues the key again.
        return await self.sync(key, owner)

    @abstractmethod
    async def sync(self, key: str, owner: Json) -> timedelta | None:
        """Brings the world of one owner to what it should be; as `reconcile` of a controller."""

    def gone(self, key: str) -> None:
        """The owner is gone: nothing about it has to be remembered."""

    def wrote(self, owner: Json) -> Json:
        """Remembers that the owner was written, as the server has answered."""
        self._written[key_of(owner)] = _version(owner)
        return owner

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


def _version(owner: Json) -> int:
    """The resourceVersion as a number; 0 where a server has them in another form, which turns the waiting off."""
    text = owner["metadata"].get("resourceVersion", "")
    return int(text) if text.isdecimal() else 0
