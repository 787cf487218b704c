"""The garbage collector: deletes objects whose owners are gone, and carries out orphaning and foreground deletion.

A graph by uid stores the dependents of each object. The events of every served kind update it. Discovery is polled for
new and removed kinds, sooner after a change of their definitions. An owner missing in the graph is read from the server
before anything is deleted. Keys are uids.
Facts: upstream's pkg/controller/garbagecollector.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime import clock
from apiserver.runtime.metrics import Counter, Family
from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.discovery import ServedKinds
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.informer import Informer, Informers
from controllers.runtime.kinds import Kind
from controllers.runtime.transport import TransportError

NAME = "garbage-collector-controller"
#: Poll interval of discovery, as upstream's.
RESYNC = timedelta(seconds=30)
#: Interval until the next poll after a change: a server may list new kinds later than their definition.
_AFTER_CHANGE = timedelta(seconds=5)
#: The kinds whose objects add and remove kinds.
_DEFINITIONS = frozenset(
    {("apiextensions.k8s.io", "customresourcedefinitions"), ("apiregistration.k8s.io", "apiservices")}
)
#: Maximum wait for unreadable kinds at the start: they must not block the collection of all others.
PATIENCE = timedelta(seconds=30)
log = logging.getLogger(__name__)
_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"
#: Events have no owners and no dependents, but the most traffic.
_IGNORED = frozenset({("", "events"), ("events.k8s.io", "events")})


def build(client: Client, informers: Informers, options: Options) -> GarbageCollector:
    """Build the component for the manager."""
    return GarbageCollector(client, informers, options)


class _NamespacedOwnerError(Exception):
    """A cluster-scoped object names an owner of a namespaced kind, which cannot be located."""


@dataclass(slots=True)
class Node:
    """An object in the graph: its last known state, and the uids of its dependents."""

    kind: Kind | None = None
    obj: Json | None = None
    dependents: set[str] = field(default_factory=set)


class GarbageCollector(ControllerComponent):
    """The garbage collector."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        self._client = client.for_controller("generic-garbage-collector")
        self._informers = informers
        self._served = ServedKinds(self._client, verbs=("list", "watch", "delete"))
        #: Whether definitions have changed since the last poll of discovery.
        self._definitions_changed = asyncio.Event()
        self._graph: dict[str, Node] = {}
        self._kinds: dict[tuple[str, str], Kind] = {}
        #: Uids of objects with an owner of an unserved kind, by that kind.
        self._waiting_for_kind: dict[tuple[str, str], set[str]] = {}
        self._controller = Controller(NAME, self.reconcile, workers=options.workers(NAME))
        self._recorder = CoreEventRecorder(self._client, NAME)
        self._controller.alongside(self._recorder.run)
        self._discovery_errors = Counter(
            "garbagecollector_controller_resources_sync_error_total", "Failed reads of the served kinds."
        )

    @property
    def metrics(self) -> Sequence[Family]:
        return (*super().metrics, self._discovery_errors)

    async def run(self) -> None:
        informers = [self._follow(kind) for kind in await self._list_served_kinds()]
        try:
            with clock.timers(clock.Timer.UPKEEP):
                async with asyncio.timeout(PATIENCE.total_seconds()):
                    for informer in informers:
                        await informer.wait_synced()
        except TimeoutError:
            unread = ", ".join(informer.kind.plural for informer in informers if not informer.synced)
            log.warning("%s: cannot read %s; continuing without", NAME, unread)
        self._controller.alongside(self._follow_discovery)
        await self._controller.run()

    async def _list_served_kinds(self) -> list[Kind]:
        kinds = await self._served.read()
        return [kind for kind in kinds if (kind.group, kind.plural) not in _IGNORED]

    async def _follow_discovery(self) -> None:
        """Start to watch new kinds, and stop to watch removed ones."""
        lasting, changed, known = set(self._kinds.values()), False, list[Kind]()
        while True:
            with clock.timers(clock.Timer.UPKEEP), suppress(TimeoutError):
                async with asyncio.timeout((_AFTER_CHANGE if changed else RESYNC).total_seconds()):
                    await self._definitions_changed.wait()
            changed = self._definitions_changed.is_set()
            self._definitions_changed.clear()
            try:
                listed = await self._served.read()
            except (StatusError, TransportError) as error:
                self._discovery_errors.inc()
                log.info("%s: cannot read the served kinds: %s", NAME, error)
                continue
            if listed is known:
                continue
            known = listed
            served = {kind for kind in listed if (kind.group, kind.plural) not in _IGNORED}
            for kind in set(self._kinds.values()) - served - lasting:
                self._unfollow(kind)
            for kind in served - set(self._kinds.values()):
                self._follow(kind)

    def _follow(self, kind: Kind) -> Informer:
        self._kinds[kind.group, kind.kind] = kind
        for uid in self._waiting_for_kind.pop((kind.group, kind.kind), ()):
            self._controller.queue.add(uid)
        informer = self._informers.of(kind)
        informer.on(
            lambda obj: self._update_node(kind, obj),
            lambda old, obj: self._update_node(kind, obj, old),
            self._remove_node,
        )
        if (kind.group, kind.plural) in _DEFINITIONS:

            def changed(*_: Json) -> None:
                self._definitions_changed.set()

            informer.on(changed, changed, changed)
        return informer

    def _unfollow(self, kind: Kind) -> None:
        """Stop to watch a removed kind. Its objects leave the graph; their dependents stay."""
        del self._kinds[kind.group, kind.kind]
        informer = self._informers.of(kind)
        self._informers.forget(informer)
        for obj in list(informer.objects.values()):
            self._remove_node(obj)

    def _update_node(self, kind: Kind, obj: Json, old: Json | None = None) -> None:
        meta = obj["metadata"]
        node = self._graph.get(meta["uid"])
        if old is not None and node is not None and _is_unchanged(old["metadata"], meta):
            node.obj = obj
            return
        before, after = _owners(old) if old else {}, _owners(obj)
        if node is None:
            node = self._graph[meta["uid"]] = Node()
        node.kind, node.obj = kind, obj
        if old is not None and old["metadata"]["uid"] != meta["uid"]:
            self._remove_node(old)
        for uid in before.keys() - after.keys():
            self._unlink(uid, meta["uid"])
        for uid, ref in after.items():
            self._graph.setdefault(uid, Node()).dependents.add(meta["uid"])
            if before.get(uid, {}).get("blockOwnerDeletion") and not ref.get("blockOwnerDeletion"):
                self._controller.queue.add(uid)
        if after and old is None:
            self._controller.queue.add(meta["uid"])
        if meta.get("deletionTimestamp") and _has_own_finalizer(obj):
            for uid in (meta["uid"], *node.dependents):
                self._controller.queue.add(uid)

    def _unlink(self, owner: str, dependent: str) -> None:
        node = self._graph.get(owner)
        if node is None:
            return
        node.dependents.discard(dependent)
        if node.obj is None and not node.dependents:
            del self._graph[owner]
        elif node.obj is not None and _has_own_finalizer(node.obj):
            self._controller.queue.add(owner)

    def _remove_node(self, obj: Json) -> None:
        uid = obj["metadata"]["uid"]
        node = self._graph.get(uid)
        if node is None:
            return
        for owner in _owners(obj):
            self._unlink(owner, uid)
        node.obj = None
        for dependent in node.dependents:
            self._controller.queue.add(dependent)
        if not node.dependents:
            del self._graph[uid]

    async def reconcile(self, uid: str) -> timedelta | None:
        node = self._graph.get(uid)
        if node is None or node.obj is None or node.kind is None:
            return None
        if node.obj["metadata"].get("deletionTimestamp") and _has_own_finalizer(node.obj):
            await self._finish_owner(node.kind, node.obj, node.dependents)
            return None
        if _owners(node.obj):
            await self._collect(node.kind, node.obj)
        return None

    async def _collect(self, kind: Kind, obj: Json) -> None:
        """Delete an object without a living owner, or drop its references to deleted owners.

        Does nothing while the kind of an owner is not served, because the owner's state is then unknown.
        """
        meta, dangling, solid, waiting = obj["metadata"], [], [], []
        references = meta.get("ownerReferences") or ()
        if unknown := {_kind_key(ref) for ref in references} - self._kinds.keys():
            for kind_key in unknown:
                self._waiting_for_kind.setdefault(kind_key, set()).add(meta["uid"])
            return
        for ref in references:
            try:
                owner = await self._find_owner(ref, obj)
            except _NamespacedOwnerError:
                return
            if owner is None:
                dangling.append(ref)
            elif owner["metadata"].get("deletionTimestamp") and _FOREGROUND in (
                owner["metadata"].get("finalizers") or ()
            ):
                waiting.append(ref)
            else:
                solid.append(ref)
        if solid:
            if dangling or waiting:
                await self._drop_references(kind, obj, {ref["uid"] for ref in (*dangling, *waiting)})
        elif not meta.get("deletionTimestamp"):
            dependents = self._graph[meta["uid"]].dependents if waiting else ()
            if any(self._is_emptying(uid) for uid in dependents):
                await self._unblock(kind, obj)
            await self._delete(kind, obj, foreground=bool(dependents))

    def _is_emptying(self, uid: str) -> bool:
        """Return whether an object waits for its dependents.

        A dependent of a waiting object that itself waits may be part of a cycle.
        """
        node = self._graph.get(uid)
        meta = node.obj["metadata"] if node is not None and node.obj is not None else {}
        return bool(meta.get("deletionTimestamp")) and _FOREGROUND in (meta.get("finalizers") or ())

    async def _unblock(self, kind: Kind, obj: Json) -> None:
        """Clear blockOwnerDeletion in an object's references, so that its owners need not wait for it."""
        references = obj["metadata"].get("ownerReferences") or ()
        if any(ref.get("blockOwnerDeletion") for ref in references):
            freed = [{**ref, "blockOwnerDeletion": False} for ref in references]
            await self._patch_metadata(kind, obj, {"ownerReferences": freed})

    async def _find_owner(self, ref: Json, dependent: Json) -> Json | None:
        """Return the current owner, or None if no object has the reference's kind, namespace, name and uid.

        Raise _NamespacedOwnerError for a namespaced owner of a cluster-scoped object.
        """
        namespace = dependent["metadata"].get("namespace", "")
        kind = self._kinds[_kind_key(ref)]
        node = self._graph.get(ref["uid"])
        if node is not None and node.obj is not None and node.kind is not None:
            if node.kind.namespaced and node.obj["metadata"]["namespace"] != namespace:
                self._record_invalid_namespace(ref, dependent)
            elif node.kind == kind and node.obj["metadata"]["name"] == ref["name"]:
                return node.obj
        if kind.namespaced and not namespace:
            raise _NamespacedOwnerError
        try:
            owner = await self._client.get(kind, ref["name"], namespace if kind.namespaced else "")
        except Exception as error:
            if is_reason(error, "NotFound"):
                return None
            raise
        return owner if owner["metadata"]["uid"] == ref["uid"] else None

    def _record_invalid_namespace(self, ref: Json, dependent: Json) -> None:
        namespace = dependent["metadata"].get("namespace", "")
        place = f"{ref['apiVersion']}/{ref['kind']}, namespace: {namespace}, name: {ref['name']}, uid: {ref['uid']}"
        text = f'ownerRef [{place}] does not exist in namespace "{namespace}"'
        self._recorder.record(dependent, "Warning", "OwnerRefInvalidNamespace", text)

    async def _delete(self, kind: Kind, obj: Json, *, foreground: bool) -> None:
        meta = obj["metadata"]
        finalizers = meta.get("finalizers") or ()
        policy: Literal["Orphan", "Foreground", "Background"] = (
            "Orphan"
            if _ORPHAN in finalizers
            else "Foreground"
            if foreground or _FOREGROUND in finalizers
            else "Background"
        )
        try:
            await self._client.delete(
                kind, meta["name"], meta.get("namespace", ""), uid=meta["uid"], propagation=policy
            )
        except Exception as error:
            if not is_reason(error, "NotFound", "Conflict"):
                raise

    async def _finish_owner(self, kind: Kind, obj: Json, dependents: set[str]) -> None:
        """Remove an owner's finalizer: after orphaning its dependents, or once none blocks it (foreground)."""
        uid = obj["metadata"]["uid"]
        if _ORPHAN in (obj["metadata"].get("finalizers") or ()):
            for dependent in [self._graph[key] for key in dependents if key in self._graph]:
                if dependent.obj is not None and dependent.kind is not None:
                    await self._drop_references(dependent.kind, dependent.obj, {uid})
            await self._drop_finalizer(kind, obj, _ORPHAN)
            return
        blocking = [
            key
            for key in dependents
            if (node := self._graph.get(key)) and node.obj and _owners(node.obj)[uid].get("blockOwnerDeletion")
        ]
        if not blocking:
            await self._drop_finalizer(kind, obj, _FOREGROUND)

    async def _drop_references(self, kind: Kind, obj: Json, uids: set[str]) -> None:
        meta = obj["metadata"]
        kept = [ref for ref in meta.get("ownerReferences") or () if ref["uid"] not in uids]
        await self._patch_metadata(kind, obj, {"ownerReferences": kept or None})

    async def _drop_finalizer(self, kind: Kind, obj: Json, finalizer: str) -> None:
        kept = [name for name in obj["metadata"].get("finalizers") or () if name != finalizer]
        await self._patch_metadata(kind, obj, {"finalizers": kept or None})

    async def _patch_metadata(self, kind: Kind, obj: Json, change: Json) -> None:
        """Patch metadata with the known resourceVersion. Raise Conflict if the object has changed."""
        meta = obj["metadata"]
        body = {"metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"], **change}}
        try:
            await self._client.patch(kind, meta["name"], body, meta.get("namespace", ""), type="merge")
        except Exception as error:
            if not is_reason(error, "NotFound"):
                raise


def _kind_key(ref: Json) -> tuple[str, str]:
    return ref["apiVersion"].rpartition("/")[0], ref["kind"]


def _is_unchanged(before: Json, after: Json) -> bool:
    """Return whether nothing relevant to the graph has changed, as in nearly all updates."""
    return (
        before["uid"] == after["uid"]
        and "deletionTimestamp" not in after
        and before.get("ownerReferences") == after.get("ownerReferences")
    )


def _owners(obj: Json) -> dict[str, Json]:
    return {ref["uid"]: ref for ref in obj["metadata"].get("ownerReferences") or ()}


def _has_own_finalizer(obj: Json) -> bool:
    """Return whether the object has a finalizer of this controller."""
    finalizers = obj["metadata"].get("finalizers") or ()
    return _ORPHAN in finalizers or _FOREGROUND in finalizers
