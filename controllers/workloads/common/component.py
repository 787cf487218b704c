"""What the components of this family have in common: a queue of owners, events in their name, statuses that they write.

What was written is seen in an informer only later; until then the owner is not looked at again, because what would be
decided on the older state would be refused, or done twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import timedelta

from apiserver.runtime.metrics import Counter, Family
from controllers.options.options import Options
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
        self,
        name: str,
        client: Client,
        informers: Informers,
        options: Options,
        kind: Kind,
        *,
        source: str,
        queue: str,
        skips: str = "",
    ) -> None:
        """`skips`: what upstream's metric of looks that came too early begins with, where it has one."""
        self.name, self.kind = name, kind
        self.client = client.named(name)
        self.recorder = CoreEventRecorder(client, source)
        self._controller = Controller(name, self.reconcile, workers=options.workers(name), queue=queue)
        self._needed: dict[Kind, Informer] = {}
        self._written: dict[str, dict[Kind, int]] = {}
        self._skips: Counter | None = None
        if skips:
            text = "Looks that had to wait until the informers show what was written."
            self._skips = Counter(f"{skips}_stale_sync_skips_total", text, ("group", "resource"))
        self.owners = self.need(informers.of(kind))
        self.owners.on(self._owner_changed, self.owner_updated, self._owner_gone)
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

    def _owner_gone(self, owner: Json) -> None:
        self._controller.queue.drop(key_of(owner))
        self._owner_changed(owner)

    def owner_updated(self, before: Json, owner: Json) -> None:
        """An owner has changed, by somebody else's hand or by ours."""
        self.queue(key_of(owner))

    @property
    def metrics(self) -> Sequence[Family]:
        return (*super().metrics, *([self._skips] if self._skips is not None else ()))

    async def reconcile(self, key: str) -> timedelta | None:
        if behind := self._behind(key):
            self.too_early(behind)
            return _BEHIND
        owner = self.owners.get(key)
        if owner is None:
            self.gone(key)
            return None
        return await self.sync(key, owner)

    def too_early(self, behind: Kind) -> None:
        """An owner was not looked at, because the informer of a kind does not show yet what was written."""
        if self._skips is not None:
            self._skips.inc(behind.group, behind.plural)

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

    def _behind(self, key: str) -> Kind | None:
        """A kind of which the informer does not show yet what was written."""
        written = self._written.get(key)
        if written is None:
            return None
        for kind, version in written.items():
            if _number(self._needed[kind].resource_version) < version:
                return kind
        del self._written[key]
        return None

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
