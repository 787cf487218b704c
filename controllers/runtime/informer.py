"""A local, current copy of a collection: list and watch, resume, list again when the history is gone.

The first sync is one watch that starts with the present objects (`sendInitialEvents`). A server that refuses it gets a
list and a watch from the list's version. A broken watch resumes at the last observed version; bookmarks advance it. 410
means that the history is gone: the informer lists again and calls the handlers for the differences.

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
"""Seconds of work before the informer yields the loop."""
_SEVERAL = 32
_END_OF_INITIAL = "k8s.io/initial-events-end"


def _ignore(*_: Json) -> None: ...


class Handlers:
    """The callbacks for each type of change."""

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
        """Create an informer. `choice` spreads the requests of many clients over time."""
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

    def mark_synced(self) -> None:
        """Mark the present copy as complete."""
        self._synced.set()
        self._answered.set()

    async def wait_synced(self) -> None:
        await self._synced.wait()

    async def wait_answered(self) -> None:
        """Wait until the informer has synced or the server has answered that it does not serve the collection."""
        await self._answered.wait()

    def get(self, key: str) -> Json | None:
        """Return the object of a key, `namespace/name` or `name`."""
        return self._objects.get(key)

    def index(self, name: str, values: Callable[[Json], Iterable[str]]) -> Index:
        """Return the index of that name; create it if there is none."""
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
        """Add handlers and call `added` immediately for every known object."""
        handlers = Handlers(added, updated, deleted)
        for obj in list(self._objects.values()):
            self._call(handlers.added, obj)
        self._handlers.append(handlers)

    async def run(self) -> None:
        """List and watch repeatedly; after a failure or lost history, wait for the next `Backoff` delay."""
        backoff = Backoff(self._choice.random)
        while True:
            progressed, delayed = False, clock.Timer.WORK
            try:
                progressed = await self._follow()
            except StatusError as error:
                if error.code == 410:
                    log.debug("%s: watch expired, listing again: %s", self.kind, error)
                    self.resource_version = ""
                else:
                    log.warning("%s: cannot list or watch: %s", self.kind, error)
                if error.code == 404:
                    # The server may never serve the collection.
                    delayed = clock.Timer.UPKEEP
                    self._answered.set()
            except TransportError as error:
                log.log(logging.INFO if self.synced else logging.WARNING, "%s: no connection: %s", self.kind, error)
            except Exception:
                self.resource_version = ""
                log.exception("%s: watching failed; listing again", self.kind)
            with clock.timers(delayed):
                await asyncio.sleep(0 if progressed else backoff.next())

    async def read(self) -> None:
        """Read the collection once, without following it. Raise StatusError or TransportError."""
        await self._list()

    def set_object(self, key: str, obj: Json | None) -> Json | None:
        """Change the copy of a collection that is not followed, call the handlers, and return the previous object."""
        before = self._objects.get(key)
        self._set(key, obj, last=before)
        return before

    async def _follow(self) -> bool:
        """Follow one watch, after reading the collection if there is no version to resume from.

        Returns:
            Whether the copy advanced.
        """
        if self.resource_version:
            return await self._watch(initial=None)
        if self._streaming:
            try:
                return await self._watch(initial={})
            except StatusError as error:
                if error.code in (410, 429):
                    raise
                log.debug("%s: the server does not support streaming lists: %s", self.kind, error)
                # A server whose etcd is too old answers 500, as does a server in passing trouble. So 5xx is tried
                # again.
                self._streaming = error.code >= 500
        await self._list()
        return await self._watch(initial=None)

    async def _list(self) -> None:
        """Read all pages of the collection and apply the differences."""
        objects: dict[str, Json] = {}
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
                # Items of a list lack kind and apiVersion; those of a watch have them.
                objects[key_of(item)] = {"kind": self.kind.kind, "apiVersion": self.kind.api_version, **item}
                if number % _SEVERAL == _SEVERAL - 1:
                    await asyncio.sleep(0)
            token = page["metadata"].get("continue", "")
            if not token:
                break
        await self._replace(objects)
        self.resource_version = page["metadata"]["resourceVersion"]

    async def _watch(self, initial: dict[str, Json] | None) -> bool:
        """Follow one watch.

        Args:
            initial: Collects the present objects until the bookmark that ends them; None if they are known already.

        Returns:
            Whether the copy advanced.
        """
        came, handled = False, 0
        watch = self._client.watch(
            self.kind,
            self._namespace,
            resource_version=self.resource_version,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            initial_events=initial is not None,
            duration=timedelta(minutes=self._choice.uniform(5, 10)),
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
                    # An in-process stream may go on without ever waiting.
                    handled = 0
                    await asyncio.sleep(0)
        # Interrupted initial events start from the beginning again, so a retry must wait.
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

    async def _replace(self, objects: dict[str, Json]) -> None:
        """Replace the copy and call the handlers for the differences."""
        pause = self._elapsed() + _PIECE
        changes: list[tuple[str, Json | None]] = [(key, None) for key in self._objects if key not in objects]
        changes += objects.items()
        for key, obj in changes:
            old = self._objects.get(key)
            if obj is None or old is None or old["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
                self._set(key, obj)
            if self._elapsed() > pause:
                await asyncio.sleep(0)
                pause = self._elapsed() + _PIECE
        self.mark_synced()

    def _apply(self, event: WatchEvent) -> None:
        obj = event.object
        self.resource_version = obj["metadata"]["resourceVersion"]
        if event.type == "BOOKMARK":
            return
        self._set(key_of(obj), None if event.type == "DELETED" else obj, last=obj)

    def _set(self, key: str, obj: Json | None, last: Json | None = None) -> None:
        """Apply one change to the copy. `last` is the final state of a deleted object, if known."""
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
        """Call one handler; log its exception so that the others and the informer go on."""
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
        """Return the informer of a collection; it runs as soon as `run` does."""
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
        """End the informer of a collection that is no longer served; a later `of` creates a new one."""
        for scope, known in list(self._informers.items()):
            if known is informer:
                del self._informers[scope]
        task = self._running.pop(informer, None)
        if task is not None:
            task.cancel()

    def device_kind(self, kind: Kind, features: Features) -> Informer:
        """Return the informer of a kind that depends on DynamicResourceAllocation.

        Without the gate the informer stays empty and counts as synced.
        """
        if features.enabled("DynamicResourceAllocation"):
            return self.of(kind)
        informer = Informer(self._client, kind)
        informer.mark_synced()
        return informer

    async def read(self) -> dict[str, str]:
        """Read all collections once instead of following them.

        Returns:
            The errors by kind. A collection that the server does not serve is empty and no error.

        Raises:
            TransportError: The server was not reached.
        """
        unread = {}
        for informer in list(self._informers.values()):
            try:
                await informer.read()
            except StatusError as error:
                if error.code != 404:
                    unread[str(informer.kind)] = str(error)
                informer.mark_synced()
        return unread

    async def run(self) -> None:
        """Run all informers, present and future, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for informer in self._informers.values():
                self._running[informer] = group.create_task(informer.run(), name=f"informer of {informer.kind}")
            group.create_task(asyncio.Event().wait())

    async def wait_answered(self) -> None:
        """Wait until every informer has synced or its collection is known not to be served."""
        for informer in list(self._informers.values()):
            await informer.wait_answered()
