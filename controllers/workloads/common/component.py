"""The base of workload components: a queue of owners, events, status writes.

An owner is not reconciled before the informers have the last written objects. Otherwise actions would be based on stale
state, and be rejected or repeated.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import timedelta

from apiserver.api.objects import Json
from apiserver.runtime.metrics import Counter, Family
from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.informer import Informer, Informers
from controllers.runtime.kinds import Kind, key_of
from controllers.runtime.workqueue import DEFAULT, Resync, RetryDelays

#: Retry interval of a stale owner. Usually the watch event of the write enqueues it earlier.
_BEHIND = Resync(seconds=1)


class Workload(ControllerComponent, ABC):
    """A component whose keys are those of one kind's objects.

    `source` names it in events, `queue` names its queue in metrics.
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
        retry_delays: RetryDelays = DEFAULT,
    ) -> None:
        """Create the component. `skips` is the prefix of upstream's stale-skip metric, if any."""
        self.name, self.kind = name, kind
        self.client = client.for_controller(name)
        self.recorder = CoreEventRecorder(client, source)
        self._controller = Controller(
            name, self.reconcile, workers=options.workers(name), queue=queue, retry_delays=retry_delays
        )
        self._needed: dict[Kind, Informer] = {}
        self._written: dict[str, dict[Kind, int]] = {}
        self._skips: Counter | None = None
        if skips:
            text = "Syncs skipped because an informer was stale."
            self._skips = Counter(f"{skips}_stale_sync_skips_total", text, ("group", "resource"))
        self.owners = self.need(informers.of(kind))
        self.owners.on(self._owner_changed, self.owner_updated, self._owner_gone)
        self._controller.alongside(self.recorder.run)

    def need(self, informer: Informer) -> Informer:
        """Require the informer to be synced before work starts, and follow it."""
        self._controller.require(informer)
        return self.follow(informer)

    def follow(self, informer: Informer) -> Informer:
        """Make owners wait until this informer has the objects written for them (`record_write`)."""
        self._needed[informer.kind] = informer
        return informer

    def queue(self, key: str) -> None:
        """Enqueue an owner."""
        self._controller.queue.add(key)

    def _owner_changed(self, owner: Json) -> None:
        self.queue(key_of(owner))

    def _owner_gone(self, owner: Json) -> None:
        self._controller.queue.drop(key_of(owner))
        self._owner_changed(owner)

    def owner_updated(self, before: Json, owner: Json) -> None:
        """Handle an update of an owner, by this component or another client."""
        self.queue(key_of(owner))

    @property
    def metrics(self) -> Sequence[Family]:
        return (*super().metrics, *([self._skips] if self._skips is not None else ()))

    async def reconcile(self, key: str) -> timedelta | None:
        if behind := self._behind(key):
            self.count_skip(behind)
            return _BEHIND
        owner = self.owners.get(key)
        if owner is None:
            self.owner_deleted(key)
            return None
        return await self.sync(key, owner)

    def count_skip(self, behind: Kind) -> None:
        """Count a sync skipped because the informer of a kind is stale."""
        if self._skips is not None:
            self._skips.inc(behind.group, behind.plural)

    @abstractmethod
    async def sync(self, key: str, owner: Json) -> timedelta | None:
        """Reconcile one owner. Return the delay until the next pass, if any."""

    def owner_deleted(self, key: str) -> None:
        """Drop the state of a deleted owner."""

    def record_write(self, owner: Json, kind: Kind | None = None, obj: Json | None = None) -> Json:
        """Record an object written for an owner (by default the owner itself), and return it."""
        obj = owner if obj is None else obj
        written, kind = self._written.setdefault(key_of(owner), {}), kind or self.kind
        written[kind] = max(written.get(kind, 0), _version(obj["metadata"]))
        return obj

    def _behind(self, key: str) -> Kind | None:
        """Return a kind whose informer lacks a written object, or None."""
        written = self._written.get(key)
        if written is None:
            return None
        for kind, version in written.items():
            if _number(self._needed[kind].resource_version) < version:
                return kind
        del self._written[key]
        return None

    async def write_status(self, owner: Json, status: Json) -> Json:
        """Write a status; on a conflict once more on top of the current object.

        Raise StatusError, also if the object is gone (NotFound).
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
        return self.record_write(written)


def _version(metadata: Json) -> int:
    return _number(metadata.get("resourceVersion", ""))


def _number(version: str) -> int:
    """Return a resourceVersion as a number. 0 for another format disables the staleness check."""
    return int(version) if version.isdecimal() else 0
