"""A registry on a real log in memory, with a few kinds that have the tests' own rules."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import orjson
import pytest

from apiserver.admission.plugins.registered import build
from apiserver.api.errors.status import StatusError
from apiserver.api.features.gates import Features
from apiserver.api.objects import Json
from apiserver.api.types.coordination import Lease
from apiserver.api.types.core.configuration import ConfigMap
from apiserver.api.types.core.namespaces import Namespace
from apiserver.api.types.core.pods import Pod
from apiserver.api.types.resource.v1 import ResourceClaim
from apiserver.registry.catalog.catalog import Catalog
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Resource, Subresource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.registry.store.results import DeleteResult, Listing, Result, WatchEvent
from apiserver.registry.store.store import Registry, Store
from apiserver.registry.verbs.create import create
from apiserver.registry.verbs.delete import delete
from apiserver.registry.verbs.deletecollection import delete_collection
from apiserver.registry.verbs.get import get
from apiserver.registry.verbs.list import list_
from apiserver.registry.verbs.patch import patch
from apiserver.registry.verbs.update import update
from apiserver.registry.verbs.watch import watch
from apiserver.request.messages import Request, User
from apiserver.storage import open_log
from apiserver.storage.watchcache.cache import Entry
from apiserver.storage.watchcache.watchcache import WatchCache

ADMIN = User("admin", groups=("system:masters",))


class PodRules(Strategy):
    """Pods on a node have a grace period of 30 seconds."""

    reset_fields = ("status",)

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj["status"] = {"phase": "Pending"}
        obj["metadata"]["generation"] = 1

    def deletion_grace(self, ctx: Context, obj: Json, requested: int | None) -> int | None:
        if not obj["spec"].get("nodeName"):
            return 0
        return 30 if requested is None else requested


class ClaimRules(Strategy):
    reset_fields = ("status",)

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj["status"] = {}

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["status"] = old["status"]

    def prepare_for_status_update(self, ctx: Context, obj: Json, old: Json) -> None:
        managed = obj["metadata"].get("managedFields")
        obj["spec"], obj["metadata"] = old["spec"], dict(old["metadata"])
        obj["metadata"].pop("managedFields", None)
        if managed is not None:
            obj["metadata"]["managedFields"] = managed


class LeaseRules(Strategy):
    checks_finalizer_names = False


class NamespaceRules(Strategy):
    name_rule = "label"

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj["spec"], obj["status"] = {"finalizers": ["kubernetes"]}, {"phase": "Active"}

    def starts_deletion(self, ctx: Context, obj: Json, options: Any) -> bool:
        if "deletionTimestamp" in obj["metadata"]:
            return False
        obj["metadata"]["deletionTimestamp"] = ctx.now.strftime("%Y-%m-%dT%H:%M:%SZ")
        obj["status"]["phase"] = "Terminating"
        return True

    def may_remove(self, obj: Json) -> bool:
        return not obj["spec"].get("finalizers")


def _resource(
    kind: str, plural: str, schema: Any, strategy: Strategy, *, group: str = "", namespaced: bool = True, **more: Any
) -> Resource:
    return Resource(
        group=group, kind=kind, plural=plural, singular=kind.lower(), namespaced=namespaced, strategy=strategy,
        versions=(Version(name="v1", schema=schema),), columns=(), storage_prefix=plural, **more,
    )  # fmt: skip


STATUS = (Subresource(name="status"),)
CATALOG = (
    _resource(
        "Namespace",
        "namespaces",
        Namespace,
        NamespaceRules(),
        namespaced=False,
        delete_returns_object=True,
        subresources=(Subresource(name="finalize", verbs=("update",)),),
    ),
    _resource("ConfigMap", "configmaps", ConfigMap, Strategy()),
    _resource(
        "Pod",
        "pods",
        Pod,
        PodRules(),
        delete_returns_object=True,
        subresources=STATUS,
        field_labels={"spec.nodeName": lambda obj: obj["spec"].get("nodeName", "")},
    ),
    _resource(
        "ResourceClaim",
        "resourceclaims",
        ResourceClaim,
        ClaimRules(),
        group="resource.k8s.io",
        delete_returns_object=True,
        subresources=STATUS,
    ),
    _resource(
        "Lease",
        "leases",
        Lease,
        LeaseRules(),
        group="coordination.k8s.io",
        create_on_update=True,
        unconditional_update=False,
    ),
)


@dataclass
class Clock:
    """A clock that the test advances."""

    now: datetime = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def pass_seconds(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@dataclass
class World:
    """A client of the registry without HTTP. Answers are objects as clients see them; errors are StatusErrors."""

    registry: Registry
    clock: Clock
    warnings: list[str] = field(default_factory=list)

    def store(self, plural: str) -> Store:
        return next(store for store in self.registry.stores.values() if store.resource.plural == plural)

    def _request(self, method: str, plural: str, query: str, body: Any, content_type: str, agent: str) -> Request:
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        headers = {"user-agent": agent}
        if content_type:
            headers["content-type"] = content_type
        return Request(method, "/", query, headers, raw, ADMIN)

    def _context(self, plural: str, verb: str, name: str, namespace: str, subresource: str) -> Context:
        store = self.store(plural)
        return store.context(
            user=ADMIN,
            version="v1",
            verb=verb,
            namespace=namespace if store.resource.namespaced else "",
            name=name,
            subresource=subresource,
        )

    async def call(
        self,
        verb: str,
        plural: str,
        name: str = "",
        body: Any = None,
        query: str = "",
        *,
        namespace: str = "default",
        subresource: str = "",
        content_type: str = "application/json",
        agent: str = "test/1",
    ) -> Any:
        functions: dict[str, Callable[..., Any]] = {
            "get": get, "list": list_, "create": create, "update": update, "patch": patch, "delete": delete,
            "deletecollection": delete_collection, "watch": watch,
        }  # fmt: skip
        ctx = self._context(plural, verb, name, namespace, subresource)
        request = self._request("", plural, query, body, content_type, agent)
        try:
            made = functions[verb](self.store(plural), ctx, request)
            return await made if isinstance(made, Coroutine | Awaitable) else made
        finally:
            self.warnings = ctx.warnings

    async def get(self, plural: str, name: str, **more: Any) -> Json:
        return shown(await self.call("get", plural, name, **more))

    async def list(self, plural: str, query: str = "", **more: Any) -> Listing:
        listing: Listing = await self.call("list", plural, query=query, **more)
        return listing

    async def create(self, plural: str, body: Any, query: str = "", **more: Any) -> Json:
        result: Result = await self.call("create", plural, body=body, query=query, **more)
        assert result.created
        assert result.entry is not None
        return shown(result.entry)

    async def update(self, plural: str, name: str, body: Any, query: str = "", **more: Any) -> Json:
        result: Result = await self.call("update", plural, name, body, query, **more)
        assert result.entry is not None
        return shown(result.entry)

    async def merge(self, plural: str, name: str, body: Any, query: str = "", **more: Any) -> Json:
        result: Result = await self.call(
            "patch", plural, name, body, query, content_type="application/merge-patch+json", **more
        )
        assert result.entry is not None
        return shown(result.entry)

    async def delete(self, plural: str, name: str, body: Any = None, query: str = "", **more: Any) -> DeleteResult:
        result: DeleteResult = await self.call("delete", plural, name, body, query, **more)
        return result

    async def forget_history(self, plural: str) -> None:
        """Compact the log and load the current state, as after a restart: the history is gone."""
        log, cache = self.registry.log, self.store(plural).cache
        await log.compact(log.revision)
        cache.load((await log.state(cache.prefix)).records, log.revision)

    async def watch(self, plural: str, query: str = "", **more: Any) -> Watch:
        return Watch(await self.call("watch", plural, query=query, **more))


class Watch:
    """Reads a watch event by event."""

    def __init__(self, batches: AsyncIterator[list[WatchEvent]]) -> None:
        self._batches = batches
        self._events: list[WatchEvent] = []

    async def next(self) -> WatchEvent:
        while not self._events:
            self._events = list(await anext(self._batches))
        return self._events.pop(0)

    async def next_change(self) -> tuple[str, Entry]:
        """Return the type and the entry of the next event."""
        event = await self.next()
        assert event.entry is not None
        return event.type, event.entry

    async def next_error(self) -> Json:
        """Return the status of the next event, an ERROR."""
        event = await self.next()
        assert event.type == "ERROR"
        assert event.status is not None
        return event.status

    async def take(self, count: int) -> list[tuple[str, str]]:
        """Return types and names of the next events."""
        events = [await self.next() for _ in range(count)]
        return [(event.type, event.entry.obj["metadata"]["name"] if event.entry else "") for event in events]

    async def close(self) -> None:
        await self._batches.aclose()  # type: ignore[attr-defined]


def shown(entry: Entry) -> Json:
    obj: Json = orjson.loads(b'{"metadata":{' + entry.tail)
    return obj


@asynccontextmanager
async def open_world(
    target: str = "memory:",
    *,
    shared: bool = False,
    name: str = "uid",
    features: Features | None = None,
    reservations: Mapping[tuple[str, str], Any] | None = None,
) -> AsyncIterator[World]:
    """Open a registry on a log; uids begin with `name`."""
    log = await open_log(target, poll_interval=30.0)
    cache = WatchCache(log, orjson.loads)
    clock = Clock()
    numbers = itertools.count(1)
    registry = Registry(
        log,
        cache,
        admission=partial(build, disable=("ServiceAccount",)),  # no controller creates accounts for pods here
        features=features or Features(),
        clock=clock,
        shared=shared,
    )
    registry.new_uid = lambda: f"{name}-{next(numbers)}"
    registry.new_suffix = lambda: f"x{next(numbers):04}"
    Catalog(registry, reservations=reservations).open(CATALOG)
    await cache.start()
    world = World(registry, clock)
    try:
        with contextlib.suppress(StatusError):
            await world.create("namespaces", {"metadata": {"name": "default"}})
        yield world
    finally:
        cache.close()
        await log.close()


@pytest.fixture
def world() -> AbstractAsyncContextManager[World]:
    """Return a world, which the hook for coroutine tests opens on the test's loop."""
    return open_world()
