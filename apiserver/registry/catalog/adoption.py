"""Store objects of another cluster as they are: with their uids, statuses, owners and managed fields.

Objects are decoded, defaulted and converted like those of requests, but neither admitted nor validated: another API
server has done so. Definitions of custom resources come first, because the other objects may need them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json, Stored
from apiserver.registry.body.convert import encode_stored, may_have_empty
from apiserver.registry.body.decode import decode_body
from apiserver.registry.catalog.catalog import Catalog, CatalogEvent
from apiserver.registry.store.conversion import add_mark, convert_to_stored
from apiserver.registry.store.store import Registry, Store, refusal_of
from apiserver.request.messages import Request, User
from apiserver.runtime.clock import Timer, timers
from apiserver.storage.log.types import StorageUnavailable, Write, WriteRefused

__all__ = ["Adopted", "Adoption", "Refusal"]

_DEFINITION: Final = ("apiextensions.k8s.io", "CustomResourceDefinition")
#: Seconds until the custom resources of new definitions must be served.
_SERVED_WITHIN: Final = 10.0
#: Attempts to store an object that others write at the same time.
_ATTEMPTS: Final = 5
_HEADERS: Final = {"content-type": "application/json"}


@dataclass(frozen=True, slots=True)
class Refusal:
    """An object that was not stored."""

    kind: str
    namespace: str
    name: str
    reason: str


@dataclass(slots=True)
class Adopted:
    """The result of an adoption. `warnings` counts equal warnings, such as unknown fields."""

    created: int = 0
    replaced: int = 0
    unchanged: int = 0
    refused: list[Refusal] = field(default_factory=list)
    warnings: Counter[str] = field(default_factory=Counter)
    revision: int = 0

    def as_json(self) -> Json:
        """Return the result as the route does."""
        refused = [
            {"kind": each.kind, "namespace": each.namespace, "name": each.name, "reason": each.reason}
            for each in self.refused
        ]
        counts = {"created": self.created, "replaced": self.replaced, "unchanged": self.unchanged}
        return {**counts, "refused": refused, "warnings": dict(self.warnings), "resourceVersion": str(self.revision)}


@dataclass(frozen=True, slots=True)
class _Sent:
    """One sent object and its parts that select its store."""

    obj: Json
    group: str
    version: str
    kind: str
    namespace: str
    name: str

    def refuse(self, reason: str) -> Refusal:
        return Refusal(self.kind, self.namespace, self.name, " ".join(reason.split()))


class Adoption:
    """Stores objects of other clusters. Only one copy at a time may arrive in parts.

    `hold` keeps the components from acting on a part of the objects.
    """

    def __init__(
        self,
        registry: Registry,
        catalog: Catalog,
        user: User,
        hold: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    ) -> None:
        self._registry, self._catalog, self._user, self._hold = registry, catalog, user, hold
        self._copy = ""
        self._parts: list[list[Any]] = []

    def stage(self, copy: str, part: bytes) -> int:
        """Keep a part of a copy, a list of objects in JSON. Return the number of parts so far. Raise ValueError."""
        if copy != self._copy:
            self._copy, self._parts = copy, []
        objects = orjson.loads(part)
        if not isinstance(objects, list):
            raise ValueError("the body is not a list of objects")
        self._parts.append(objects)
        return len(self._parts)

    async def store(self, copy: str, part: bytes, parts: int) -> Adopted:
        """Store a copy after its last part. Nothing is stored if a part is missing.

        Raises ValueError for a missing part or an item that is no object, and StatusError if the storage fails.
        """
        staged = self.stage(copy, part)
        objects = [each for part in self._parts for each in part]
        self._copy, self._parts = "", []
        if staged != parts:
            raise ValueError(f"the copy has {parts} parts, but {staged} arrived; send it again")
        sent = [_parse(each, number) for number, each in enumerate(objects, 1)]
        adopted = Adopted()
        definitions = [each for each in sent if (each.group, each.kind) == _DEFINITION]
        async with self._hold():
            await self._store_all(definitions, adopted)
            await self._wait_served(definitions)
            await self._store_all([each for each in sent if (each.group, each.kind) != _DEFINITION], adopted)
        adopted.revision = self._registry.log.revision
        return adopted

    async def _store_all(self, sent: Sequence[_Sent], adopted: Adopted) -> None:
        """Store objects. All of them are encoded before the first one is stored."""
        stores = {(store.resource.group, store.resource.kind): store for store in self._registry.stores.values()}
        encoded: list[tuple[_Sent, Store, str, Stored, str]] = []
        for each in sent:
            store = stores.get((each.group, each.kind))
            try:
                encoded.append((each, *await self._encode(store, each, adopted.warnings)))
            except (StatusError, ValueError) as error:
                adopted.refused.append(each.refuse(str(error)))
        try:
            await asyncio.gather(*(self._put(*item, adopted) for item in encoded))
        except StorageUnavailable as error:
            raise refusal_of(error) from error

    async def _encode(self, store: Store | None, sent: _Sent, warnings: Counter[str]) -> tuple[Store, str, Stored, str]:
        """Return the store, key, stored form and uid of an object. Raise StatusError, or ValueError with the reason."""
        if store is None:
            raise ValueError(f"kubedra has no kind {sent.kind} in group {sent.group or 'core'}")
        resource = store.resource
        if resource.compute_objects is not None or resource.create is not None:
            raise ValueError("objects of this kind are not stored")
        expected = store.bodies.get((sent.version, ""))
        if expected is None:
            raise ValueError(f"kubedra has no version {sent.version} of this kind")
        if bool(sent.namespace) is not resource.namespaced:
            raise ValueError(f"it must {'have a' if resource.namespaced else 'not have a'} namespace")
        if not sent.name or "/" in sent.name or "/" in sent.namespace:
            raise ValueError("its name is invalid")
        ctx = store.context(self._user, sent.version, "create", sent.namespace, sent.name)
        request = Request("POST", "", "", _HEADERS, orjson.dumps(sent.obj), self._user)
        obj = decode_body(ctx, expected, self._registry.kinds, request, "Warn")
        warnings.update(f"{sent.kind}: {warning}" for warning in ctx.warnings)
        metadata = obj["metadata"]
        for name in ("resourceVersion", "selfLink"):
            metadata.pop(name, None)
        uid = metadata.setdefault("uid", self._registry.new_uid())
        if store.canonicalize is not None:
            store.canonicalize(ctx, obj)
        if store.normalize is not None and may_have_empty(obj):
            store.normalize(obj)
        if store.before_storing is not None:
            store.before_storing(ctx, obj)
        if resource.conversion is not None:
            obj = await convert_to_stored(resource, ctx, obj)
        return store, store.key(sent.namespace, sent.name), add_mark(encode_stored(obj), resource.stored_mark), uid

    async def _put(self, sent: _Sent, store: Store, key: str, value: Stored, uid: str, adopted: Adopted) -> None:
        """Store one object. Another object of its name is deleted first, so that watchers see both."""
        for _ in range(_ATTEMPTS):
            entry = store.cache.get(key)
            try:
                if entry is None:
                    await self._registry.log.append(Write(key, value, 0))
                    adopted.created += 1
                    return
                present = store.cache.stored_value(key, entry)
                if present == value:
                    adopted.unchanged += 1
                    return
                expected = entry.revision
                if entry.obj["metadata"]["uid"] != uid:
                    deletion = self._registry.log.append(Write(key, entry.value, entry.revision, deleted=True))
                    expected = 0
                    creation = self._registry.log.append(Write(key, value, expected))
                    await asyncio.gather(deletion, creation)
                else:
                    await self._registry.log.append(Write(key, value, expected))
                adopted.replaced += 1
                return
            except WriteRefused as refused:
                await self._registry.catch_up(refused)
        adopted.refused.append(sent.refuse("others write it at the same time"))

    async def _wait_served(self, definitions: Iterable[_Sent]) -> None:
        """Wait until the established definitions are served."""
        missing = {
            (spec["group"], spec["names"]["plural"])
            for spec in map(_established_spec, definitions)
            if spec is not None and (spec["group"], spec["names"]["plural"]) not in self._registry.stores
        }
        served = asyncio.Event()

        def follow(event: CatalogEvent) -> None:
            missing.discard((event.resource.group, event.resource.plural))
            if not missing:
                served.set()

        if not missing:
            return
        unsubscribe = self._catalog.subscribe(follow)
        try:
            with timers(Timer.MACHINE):
                await asyncio.wait([asyncio.ensure_future(served.wait())], timeout=_SERVED_WITHIN)
        finally:
            unsubscribe()


def _established_spec(sent: _Sent) -> Json | None:
    """Return the spec of an established definition."""
    conditions = (sent.obj.get("status") or {}).get("conditions") or ()
    spec: Json = sent.obj["spec"]
    return spec if any(each["type"] == "Established" and each["status"] == "True" for each in conditions) else None


def _parse(obj: Any, number: int) -> _Sent:
    """Return the parts of an object that select its store. Raise ValueError without kind and metadata."""
    try:
        group, _, version = obj["apiVersion"].rpartition("/")
        metadata = obj["metadata"]
        return _Sent(obj, group, version, obj["kind"], metadata.get("namespace", ""), metadata.get("name", ""))
    except (KeyError, TypeError, AttributeError):
        raise ValueError(f"object {number}: not a Kubernetes object") from None
