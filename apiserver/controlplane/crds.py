"""Reconcile the stored CustomResourceDefinitions: accept their names, establish them and serve their resources.

    custom = CustomResources(registry, catalog)
    await custom.start()        the stored definitions are served when this returns
    await custom.stop()

Where several servers share a database each of them serves the stored definitions; the first one writes the status.
Facts: apiextensions-apiserver, pkg/controller and customresource_handler.go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from apiserver.api.credentials.certificates import bundle_problem
from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Hub, Shared
from apiserver.api.values.times import timestamp
from apiserver.registry.body.convert import read
from apiserver.registry.catalog.catalog import Catalog, CatalogError
from apiserver.registry.definition.options import DeleteOptions
from apiserver.registry.store.store import Registry, Store
from apiserver.registry.verbs.delete import delete_object
from apiserver.registry.verbs.update import update_object
from apiserver.request.messages import User
from apiserver.resources.customresources.conversion_rules import conversion_bundle
from apiserver.resources.customresources.definitions import CLEANUP
from apiserver.resources.customresources.kinds import resource_of
from apiserver.resources.customresources.names import (
    accepted,
    approval,
    condition,
    established,
    is_protected,
    is_true,
    set_condition,
)
from apiserver.storage.log.types import Expired
from apiserver.storage.watchcache.window import Cursor
from apiserver.webhooks.client import Webhooks

__all__ = ["CustomResources"]


_GROUP: Final = "apiextensions.k8s.io"
_PLURAL: Final = "customresourcedefinitions"
_LOG: Final = logging.getLogger(__name__)
#: Seconds between two checks for remaining objects of a deleted definition.
_POLL_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 1.0
_WRONG_BUNDLE: Final = ("False", "InvalidCABundle", "The conversion webhook CABundle is invalid")


class _Served(NamedTuple):
    """The served form of a definition: its uid, the inputs of its resource, and its names."""

    uid: str
    form: tuple[Any, ...]
    group: str
    plural: str


class CustomResources:
    """Reconciles the catalog and statuses with the stored definitions."""

    def __init__(self, registry: Registry, catalog: Catalog, webhooks: Webhooks, user: User) -> None:
        self._registry, self._catalog, self._webhooks, self._user = registry, catalog, webhooks, user
        self._served: dict[str, _Served] = {}
        #: definitions whose objects are being deleted. Their resources stay unchanged, so that watches see the
        #: deletions.
        self._terminating: set[str] = set()
        self._task: asyncio.Task[None] | None = None
        self._cleaning: dict[str, asyncio.Task[None]] = {}
        self._cursor: Cursor | None = None
        self._reconciling, self._reconciled = False, asyncio.Event()

    @property
    def _store(self) -> Store:
        return self._registry.stores[_GROUP, _PLURAL]

    async def start(self) -> None:
        """Serve the stored definitions, then follow changes."""
        since = self._store.cache.revision
        for definition in self._all():
            await self._serve(definition)
        self._task = asyncio.create_task(self._follow(since))

    async def stop(self) -> None:
        tasks = [task for task in (self._task, *self._cleaning.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _all(self) -> list[Shared]:
        return self._registry.all_of(_GROUP, _PLURAL)

    def _get(self, name: str) -> Hub | None:
        entry = self._store.cache.get(self._store.key("", name))
        return None if entry is None else read(entry)

    async def _follow(self, since: int) -> None:
        names = [definition["metadata"]["name"] for definition in self._all()]
        while True:
            await self._reconcile_changed(names)
            cursor = self._cursor = self._store.cache.cursor(since)
            try:
                while not cursor.closed:
                    if await cursor.wait(3600.0):
                        events = cursor.next_batch(1000)
                        since = cursor.revision
                        await self._reconcile_changed([event.key.rpartition("/")[2] for event in events])
            except Expired:
                since = self._store.cache.revision
            names = sorted({*(item["metadata"]["name"] for item in self._all()), *self._served})
            if cursor.closed and self._store.cache.closed:
                return

    async def wait_served(self) -> None:
        """Wait until all changes of definitions so far are reconciled."""
        while self._cursor is None or self._reconciling or self._cursor.pending:
            self._reconciled.clear()
            await self._reconciled.wait()

    async def _reconcile_changed(self, names: list[str]) -> None:
        self._reconciling = True
        try:
            await self._reconcile_all(names)
        finally:
            self._reconciling = False
            self._reconciled.set()

    async def _reconcile_all(self, names: list[str]) -> None:
        """Reconcile these definitions, and others of their groups once names become free."""
        todo = dict.fromkeys(names)
        while todo:
            name = next(iter(todo))
            del todo[name]
            try:
                if await self._sync(name):
                    group = name.partition(".")[2]
                    todo |= dict.fromkeys(
                        item["metadata"]["name"]
                        for item in self._all()
                        if item["spec"]["group"] == group and item["metadata"]["name"] != name
                    )
            except (StatusError, CatalogError) as error:
                _LOG.warning("custom resource definition %s: %s", name, error)
                asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._retry, name)
            except Exception:  # noqa: BLE001
                # One failing definition must not block the others.
                _LOG.exception("custom resource definition %s", name)

    def _retry(self, name: str) -> None:
        task = asyncio.ensure_future(self._reconcile_all([name]))
        self._cleaning[f"again/{name}"] = task
        task.add_done_callback(lambda _: self._cleaning.pop(f"again/{name}", None))

    async def _sync(self, name: str) -> bool:
        """Run all steps for a definition. Return whether names may have become free."""
        definition = self._get(name)
        if definition is None:
            self._withdraw(name)
            return True
        freed = await self._name(name, definition)
        definition = self._get(name) or definition
        if is_protected(definition["spec"]["group"]):
            await self._approve(name, definition)
        if is_true(definition, "NamesAccepted") and not is_true(definition, "Established"):
            await self._establish(name, definition)
        definition = self._get(name)
        if definition is not None:
            await self._serve(definition)
            if CLEANUP in (definition["metadata"].get("finalizers") or ()) and _is_deleting(definition):
                self._clean(name, definition["metadata"]["uid"])
        return freed

    async def _name(self, name: str, definition: Hub) -> bool:
        """Accept the names of a definition. Return whether its status changed."""
        spec = definition["spec"]
        if spec["names"] == definition["status"].get("acceptedNames"):
            return False
        others = [
            item for item in self._all() if item["spec"]["group"] == spec["group"] and item["metadata"]["name"] != name
        ]
        names, (status, reason, message) = accepted(definition, others)
        known = condition(definition, "NamesAccepted")
        previous = known is not None and (known["status"], known.get("reason"), known.get("message"))
        if names == definition["status"].get("acceptedNames") and previous == (status, reason, message):
            return False

        def change(obj: Hub, now: str) -> None:
            obj["status"]["acceptedNames"] = names
            set_condition(obj, "NamesAccepted", status, reason, message, now)
            set_condition(obj, "Established", *established(obj, status == "True"), now)

        return await self._write(name, change)

    async def _establish(self, name: str, definition: Hub) -> None:
        """Mark a definition as established, unless the CA bundle of its webhook is invalid."""
        if not bundle_problem(conversion_bundle(definition["spec"])):
            await self._serve(definition)
            await self._write(name, _establish)
        elif (condition(definition, "Established") or {}).get("reason") != _WRONG_BUNDLE[1]:
            await self._write(name, lambda obj, now: set_condition(obj, "Established", *_WRONG_BUNDLE, now))

    async def _approve(self, name: str, definition: Hub) -> None:
        wanted = approval(definition)
        known = condition(definition, "KubernetesAPIApprovalPolicyConformant")
        if known is None or (known["status"], known.get("reason"), known.get("message")) != wanted:
            await self._write(
                name, lambda obj, now: set_condition(obj, "KubernetesAPIApprovalPolicyConformant", *wanted, now)
            )

    async def _write(self, name: str, change: Callable[[Hub, str], None]) -> bool:
        """Change the status of a definition. Return whether the definition still exists."""
        ctx = self._store.context(user=self._user, version="v1", verb="update", name=name, subresource="status")
        ctx.manager = "kube-apiserver"

        def func(old: Hub) -> Hub:
            change(old, timestamp(ctx.now))
            return old

        try:
            await update_object(self._store, ctx, func)
        except StatusError as error:
            if error.code != 404:
                raise
            return False
        return True

    async def _serve(self, definition: Any) -> None:
        """Add a definition's resource to the catalog, in its present form."""
        name, spec = definition["metadata"]["name"], definition["spec"]
        if not (is_true(definition, "NamesAccepted") or is_true(definition, "Established")):
            return
        status = definition["status"]
        form = (spec, status.get("acceptedNames"), (status.get("storedVersions") or [""])[0])
        known = self._served.get(name)
        if known is not None and known.uid != definition["metadata"]["uid"]:
            self._withdraw(name)
            known = None
        if is_true(definition, "Terminating"):
            self._terminating.add(name)
        if known is not None and known.form == form:
            return
        revision = self._store.cache.revision
        resource = resource_of(
            definition,
            self._webhooks,
            since=revision,
            shared=self._registry.shared,
            terminating=lambda: name in self._terminating,
        )
        # Built-in versions of a group win: no definition adds to them.
        catalog = self._catalog.served()
        own = {version.name for each, version in catalog if each.group == resource.group and not each.custom}
        served = [each["name"] for each in spec["versions"] if each.get("served") and each["name"] not in own]
        if known is None:
            await self._catalog.add(resource, served)
        else:
            self._catalog.replace(resource, served)
        self._served[name] = _Served(definition["metadata"]["uid"], form, resource.group, resource.plural)

    def _withdraw(self, name: str) -> None:
        self._terminating.discard(name)
        known = self._served.pop(name, None)
        if known is not None:
            self._catalog.remove(known.group, known.plural)

    def _clean(self, name: str, uid: str) -> None:
        """Delete a definition's objects in a task of its own: their finalizers may take long."""
        if name not in self._cleaning:
            task = self._cleaning[name] = asyncio.create_task(self._finalize(name, uid))
            task.add_done_callback(lambda _: self._cleaning.pop(name, None))

    async def _finalize(self, name: str, uid: str) -> None:
        def begin(obj: Hub, now: str) -> None:
            set_condition(
                obj, "Terminating", "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress", now
            )

        await self._write(name, begin)
        definition = self._get(name)
        if definition is None or definition["metadata"]["uid"] != uid:
            return
        if is_true(definition, "Established"):
            outcome = ("False", "InstanceDeletionCompleted", "removed all instances")
            if not await self._delete_objects(name):
                return  # the server is stopping; the next server on the database continues
        else:
            outcome = ("False", "NeverEstablished", "resource was never established")

        def end(obj: Hub, now: str) -> None:
            set_condition(obj, "Terminating", *outcome, now)
            obj["metadata"]["finalizers"] = [
                item for item in obj["metadata"].get("finalizers") or () if item != CLEANUP
            ]

        await self._write(name, end)

    async def _delete_objects(self, name: str) -> bool:
        """Delete a definition's objects. Return True once there are none, False if the server stops first."""
        asked: set[str] = set()
        while (known := self._served.get(name)) is not None:
            store = self._registry.stores[known.group, known.plural]
            left = store.cache.list().entries
            if not left:
                return True
            for entry in left:
                metadata = entry.obj["metadata"]
                if metadata["uid"] in asked:
                    continue
                asked.add(metadata["uid"])
                ctx = store.context(
                    user=self._user,
                    version=store.resource.versions[0].name,
                    verb="delete",
                    namespace=metadata.get("namespace", ""),
                    name=metadata["name"],
                )
                with suppress(StatusError):
                    await delete_object(store, ctx, DeleteOptions())
            if store.cache.list(limit=1).entries:
                cursor = store.cache.cursor(store.cache.revision)
                await cursor.wait(_POLL_SECONDS)
                if store.cache.closed:
                    return False
        return True


def _is_deleting(definition: Hub) -> bool:
    return "deletionTimestamp" in definition["metadata"]


def _establish(obj: Hub, now: str) -> None:
    set_condition(obj, "Established", "True", "InitialNamesAccepted", "the initial names have been accepted", now)
