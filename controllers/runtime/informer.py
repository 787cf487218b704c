"""A local, current copy of a collection: list and watch, resume, list again when the history is gone.

The first sync is one watch that starts with the present objects (`sendInitialEvents`); a server that refuses that gets
a list and a watch from its version. A broken watch resumes at the last version seen (bookmarks carry it forward); 410
means that the history is gone: the collection is read again and the difference is what handlers see.

Handlers are plain functions, called on the loop in the order of events: `added(obj)`, `updated(old, new)`,
`deleted(obj)`. Objects are shared: never change them. An index maps a value to the objects that have it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from datetime import timedelta

from apiserver.api.errors.status import StatusError
from apiserver.api.features.gates import Features
from apiserver.api.objects import Json
from apiserver.runtime import clock
from controllers.runtime.backoff import Backoff
from controllers.runtime.client import Batch, Client, WatchEvent
from controllers.runtime.index import Index
from controllers.runtime.kinds import Kind, key_of
from controllers.runtime.transport import TransportError

log = logging.getLogger(__name__)
_PAGE = 500
_PIECE = 0.003
"""Seconds of work before others on the loop get their turn."""
_SEVERAL = 32
_END_OF_INITIAL = "k8s.io/initial-events-end"


def _ignore(*_: Json) -> None: ...


class Handlers:
    """What to call for each change."""

    __slots__ = ("added", "deleted", "updated")

    def __init__(
        self, added: Callable[[Json], None], updated: Callable[[Json, Json], None], deleted: Callable[[Json], None]
    ) -> None:
        self.added, self.updated, self.deleted = added, updated, deleted


class Informer:
    """One collection. `run` keeps it current until cancelled."""

    def __init__(
        self,
        client: Client,
        kind: Kind,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        choice: random.Random | None = None,
    ) -> None:
        """`choice` spreads the requests of many clients over time."""
        self.kind = kind
        self._choice = choice or random.Random()  # noqa: S311 - no secret
        self._elapsed = clock.stopwatch()
        self.objects: Mapping[str, Json]
        self._objects: dict[str, Json] = {}
        self.objects = self._objects
        self._client = client
        self._namespace, self._label_selector, self._field_selector = namespace, label_selector, field_selector
        self._handlers: list[Handlers] = []
        self._indexes: dict[str, Index] = {}
        self._synced = asyncio.Event()
        self._answered = asyncio.Event()
        self._streaming = True
        self.resource_version = ""

    @property
    def synced(self) -> bool:
        return self._synced.is_set()

    def settle(self) -> None:
        """What is known now is what there is."""
        self._synced.set()
        self._answered.set()

    async def wait_synced(self) -> None:
        await self._synced.wait()

    async def wait_answered(self) -> None:
        """Until it has synced, or the server has said that it does not serve the collection. Who needs it then waits
        on.
        """
        await self._answered.wait()

    def get(self, key: str) -> Json | None:
        """By `namespace/name` or `name`."""
        return self._objects.get(key)

    def index(self, name: str, values: Callable[[Json], Iterable[str]]) -> Index:
        """The index of that name; made now if there is none."""
        if name not in self._indexes:
            index = self._indexes[name] = Index(values, self._objects)
            for key, obj in self._objects.items():
                index.replace(key, obj)
        return self._indexes[name]

    def on(
        self,
        added: Callable[[Json], None] = _ignore,
        updated: Callable[[Json, Json], None] = _ignore,
        deleted: Callable[[Json], None] = _ignore,
    ) -> None:
        """Adds handlers; objects already known are reported as added at once."""
        handlers = Handlers(added, updated, deleted)
        for obj in list(self._objects.values()):
            self._call(handlers.added, obj)
        self._handlers.append(handlers)

    async def run(self) -> None:
        """List, watch, and again; after a failure, and where the history is gone, not before a delay (`Backoff`)."""
        backoff = Backoff(self._choice.random)
        while True:
            progressed, delayed = False, clock.Timer.WORK
            try:
                progressed = await self._follow()
            except StatusError as error:
                if error.code == 410:
                    log.debug("%s: watch is too old, reading again: %s", self.kind, error)
                    self.resource_version = ""
                else:
                    log.warning("%s: cannot list or watch: %s", self.kind, error)
                if error.code == 404:
                    # The server does not serve the collection, and may never.
                    delayed = clock.Timer.UPKEEP
                    self._answered.set()
            except TransportError as error:
                log.log(logging.INFO if self.synced else logging.WARNING, "%s: no connection: %s", self.kind, error)
            except Exception:
                self.resource_version = ""
                log.exception("%s: cannot follow; reading again", self.kind)
            with clock.timers(delayed):
                await asyncio.sleep(0 if progressed else backoff.next())

    async def read(self) -> None:
        """Reads the collection once, without following it. Raises StatusError, TransportError."""
        await self._list()

    def imagine(self, key: str, obj: Json | None) -> Json | None:
        """Changes the copy of a collection that is not followed, and tells the handlers; what was there."""
        before = self._objects.get(key)
        self._set(key, obj, last=before)
        return before

    async def _follow(self) -> bool:
        """Follow one watch, after reading the collection if there is no version to resume from; return whether the copy
        advanced.
        """
        if self.resource_version:
            return await self._watch(initial=None)
        if self._streaming:
            try:
                return await self._watch(initial={})
            except StatusError as error:
                if error.code in (410, 429):
                    raise
                log.debug("%s: no streaming lists here: %s", self.kind, error)
                # A server whose etcd is too old for them says 500, as one that is in trouble for a moment does: that
                # one is asked again.
                self._streaming = error.code >= 500
        await self._list()
        return await self._watch(initial=None)

    async def _list(self) -> None:
        """All pages of the collection, then the difference."""
        found: dict[str, Json] = {}
        token = ""
        while True:
            page = await self._client.list(
                self.kind,
                self._namespace,
                label_selector=self._label_selector,
                field_selector=self._field_selector,
                limit=_PAGE,
                resource_version="" if token else "0",
                continue_token=token,
            )
            for number, item in enumerate(page.get("items") or ()):
                # Items of a list come without kind and apiVersion; those of a watch have them.
                found[key_of(item)] = {"kind": self.kind.kind, "apiVersion": self.kind.api_version, **item}
                if number % _SEVERAL == _SEVERAL - 1:
                    await asyncio.sleep(0)
            token = page["metadata"].get("continue", "")
            if not token:
                break
        await self._replace(found)
        self.resource_version = page["metadata"]["resourceVersion"]

    async def _watch(self, initial: dict[str, Json] | None) -> bool:
        """Follow one watch; return whether the copy advanced. `initial` collects the present objects until the bookmark
        that ends them.
        """
        came, handled = False, 0
        watch = self._client.watch(
            self.kind,
            self._namespace,
            resource_version=self.resource_version,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            initial_events=initial is not None,
            lasting=timedelta(minutes=self._choice.uniform(5, 10)),
        )
        async with aclosing(watch) as batches:
            async for batch in batches:
                came = True
                if initial is not None:
                    initial = await self._gather(batch, initial)
                else:
                    await self._apply_all(batch)
                handled += len(batch)
                if handled >= _SEVERAL:
                    # A stream in this process may go on without ever waiting.
                    handled = 0
                    await asyncio.sleep(0)
        # Initial events that break off are sent from the beginning again: a retry of them waits.
        return came and initial is None

    async def _apply_all(self, batch: Batch) -> None:
        pause = self._elapsed() + _PIECE
        for event in batch:
            self._apply(event)
            if self._elapsed() > pause:
                await asyncio.sleep(0)
                pause = self._elapsed() + _PIECE

    async def _gather(self, batch: Batch, initial: dict[str, Json]) -> dict[str, Json] | None:
        """Collect the present objects from initial events; replace the copy at the bookmark that ends them.

        A server may send changes of these objects in between, deletions too.

        Returns:
            The objects collected so far, None after the bookmark.
        """
        for number, event in enumerate(batch):
            if event.type == "BOOKMARK":
                metadata = event.object["metadata"]
                if metadata.get("annotations", {}).get(_END_OF_INITIAL) == "true":
                    await self._replace(initial)
                    self.resource_version = metadata["resourceVersion"]
                    await self._apply_all(batch[number + 1 :])
                    return None
            elif event.type == "DELETED":
                initial.pop(key_of(event.object), None)
            else:
                initial[key_of(event.object)] = event.object
        return initial

    async def _replace(self, found: dict[str, Json]) -> None:
        """Makes the copy equal to what was read, telling handlers the difference."""
        pause = self._elapsed() + _PIECE
        changes: list[tuple[str, Json | None]] = [(key, None) for key in self._objects if key not in found]
        changes += found.items()
        for key, obj in changes:
            old = self._objects.get(key)
            if obj is None or old is None or old["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
                self._set(key, obj)
            if self._elapsed() > pause:
                await asyncio.sleep(0)
                pause = self._elapsed() + _PIECE
        self.settle()

    def _apply(self, event: WatchEvent) -> None:
        obj = event.object
        self.resource_version = obj["metadata"]["resourceVersion"]
        if event.type == "BOOKMARK":
            return
        self._set(key_of(obj), None if event.type == "DELETED" else obj, last=obj)

    def _set(self, key: str, obj: Json | None, last: Json | None = None) -> None:
        """One change of the copy. `last` is the final state of a deleted object where it is known."""
        old = self._objects.get(key)
        if obj is None:
            if old is None:
                return
            del self._objects[key]
        else:
            self._objects[key] = obj
        for index in self._indexes.values():
            index.replace(key, obj)
        for handlers in self._handlers:
            if obj is None:
                self._call(handlers.deleted, last or old)
            elif old is None:
                self._call(handlers.added, obj)
            elif old["metadata"]["uid"] != obj["metadata"]["uid"]:
                # The name was taken by another object while no watch ran.
                self._call(handlers.deleted, old)
                self._call(handlers.added, obj)
            else:
                self._call(handlers.updated, old, obj)

    def _call(self, function: Callable[..., None], *objects: Json | None) -> None:
        """A handler that fails must not stop the others, nor the informer."""
        try:
            function(*objects)
        except Exception:
            log.exception("a handler of %s failed", self.kind)


class Informers:
    """Informers shared by all components of one process: each collection is watched and parsed once."""

    def __init__(self, client: Client, choice: random.Random | None = None) -> None:
        self._client, self._choice = client, choice
        self._informers: dict[tuple[str, str, str, str], Informer] = {}
        self._group: asyncio.TaskGroup | None = None
        self._running: dict[Informer, asyncio.Task[None]] = {}

    def of(self, kind: Kind, *, namespace: str = "", label_selector: str = "", field_selector: str = "") -> Informer:
        """The informer of a collection; it runs as soon as `run` does."""
        kind = self._client.at(kind)
        scope = (kind.path(namespace), namespace, label_selector, field_selector)
        if scope not in self._informers:
            self._informers[scope] = informer = Informer(
                self._client, kind, namespace=namespace, label_selector=label_selector,
                field_selector=field_selector, choice=self._choice,
            )  # fmt: skip
            if self._group is not None:
                self._running[informer] = self._group.create_task(informer.run(), name=f"informer of {kind}")
        return self._informers[scope]

    def forget(self, informer: Informer) -> None:
        """Ends an informer whose collection is not served any more; whoever asks for that collection gets a new one."""
        for scope, known in list(self._informers.items()):
            if known is informer:
                del self._informers[scope]
        task = self._running.pop(informer, None)
        if task is not None:
            task.cancel()

    def device_kind(self, kind: Kind, features: Features) -> Informer:
        """As `of`, for a kind that is there with dynamic resource allocation alone: without the gate it stays empty and
        is not waited for.
        """
        if features.enabled("DynamicResourceAllocation"):
            return self.of(kind)
        informer = Informer(self._client, kind)
        informer.settle()
        return informer

    async def read(self) -> dict[str, str]:
        """Reads all collections once instead of following them. What could not be read, and why; a collection that
        the server does not serve is empty. Raises TransportError.
        """
        unread = {}
        for informer in list(self._informers.values()):
            try:
                await informer.read()
            except StatusError as error:
                if error.code != 404:
                    unread[str(informer.kind)] = str(error)
                informer.settle()
        return unread

    async def run(self) -> None:
        """Runs all informers, present and future, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for informer in self._informers.values():
                self._running[informer] = group.create_task(informer.run(), name=f"informer of {informer.kind}")
            group.create_task(asyncio.Event().wait())

    async def wait_answered(self) -> None:
        """Until all have been read, but for those that the server does not serve."""
        for informer in list(self._informers.values()):
            await informer.wait_answered()
