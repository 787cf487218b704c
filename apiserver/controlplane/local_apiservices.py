"""An APIService for each group and version that this server serves, custom ones included.

Facts: pkg/controlplane/apiserver (aggregator.go), kube-aggregator/pkg/controllers/autoregister.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.authentication.authenticator import ADMIN
from apiserver.http.documents.priorities import builtin, group_priority, version_priority
from apiserver.registry.store.changes import set_on_change
from apiserver.registry.verbs.server_writes import create_own, delete_own
from apiserver.registry.verbs.update import update_object

if TYPE_CHECKING:
    from apiserver.api.objects import Hub
    from apiserver.registry.definition.resource import Resource, Version
    from apiserver.registry.store.store import Registry

__all__ = ["LocalApis"]


_SERVICES: Final = ("apiregistration.k8s.io", "apiservices")
_MANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"
#: The label's value on APIServices of custom groups, which are reconciled.
_CUSTOM: Final = "true"

Served = Sequence[tuple["Resource", "Version"]]


class LocalApis:
    """The APIServices of one server; `served` returns the served resources."""

    def __init__(self, registry: Registry, served: Callable[[], Served]) -> None:
        self._registry, self._served = registry, served
        self._changed = asyncio.Event()

    def request_reconciliation(self) -> None:
        """Request a reconciliation after a change of the served resources."""
        self._changed.set()

    async def follow(self) -> None:
        """Reconcile until cancelled. APIServices of built-in groups are created only at the start."""
        cache = self._registry.stores[_SERVICES].cache
        wakes = asyncio.create_task(set_on_change(cache, self._changed))
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                try:
                    await self.ensure(starting=False)
                except StatusError:  # database unavailable: retried at the next change or start
                    continue
        finally:
            wakes.cancel()

    def get_initial_keys(self) -> list[str]:
        """Return the keys of the APIServices that stay as long as the server runs."""
        store = self._registry.stores[_SERVICES]
        return [
            store.key("", item["metadata"]["name"])
            for item in self._registry.all_of(*_SERVICES)
            if _get_manager(item) == "onstart"
        ]

    async def ensure(self, *, starting: bool = True) -> None:
        """Create missing APIServices and delete those of unserved groups.

        Changes to APIServices of custom groups are reverted.
        """
        wanted = self._build_services()
        there = {item["metadata"]["name"]: item for item in self._registry.all_of(*_SERVICES)}
        steps: list[Awaitable[Any]] = []
        for name, obj in wanted.items():
            item, custom = there.get(name), obj["metadata"]["labels"][_MANAGED] == _CUSTOM
            if item is None:
                if starting or custom:
                    steps.append(create_own(self._registry, ADMIN, *_SERVICES, obj))
            elif _get_manager(item) == _CUSTOM and item["spec"] != obj["spec"]:
                steps.append(self._restore(name, obj["spec"]))
        for name, item in there.items():
            if _get_manager(item) and name not in wanted:
                steps.append(delete_own(self._registry, ADMIN, *_SERVICES, "", name))
        await asyncio.gather(*steps)

    async def _restore(self, name: str, spec: Json) -> None:
        store = self._registry.stores[_SERVICES]
        ctx = store.context(user=ADMIN, version="v1", verb="update", name=name)
        ctx.manager = "kube-apiserver"

        def func(old: Hub) -> Hub:
            if _get_manager(old) == _CUSTOM:
                old["spec"] = spec
            return old

        try:
            await update_object(store, ctx, func)
        except StatusError as error:
            if error.reason != "NotFound":
                raise

    def _build_services(self) -> dict[str, Json]:
        wanted = {}
        for resource, version in self._served():
            group, name = resource.group, f"{version.name}.{resource.group}"
            if not resource.custom and not builtin(group, version.name):
                continue
            spec: Json = {"version": version.name} | ({"group": group} if group else {})
            spec["groupPriorityMinimum"] = group_priority(group)
            spec["versionPriority"] = version_priority(group, version.name)
            labels = {_MANAGED: _CUSTOM if resource.custom else "onstart"}
            wanted[name] = {"metadata": {"name": name, "labels": labels}, "spec": spec}
        return wanted


def _get_manager(item: Any) -> str:
    """Return the manager of an APIService; "" if the server does not manage it."""
    found: str = (item["metadata"].get("labels") or {}).get(_MANAGED, "")
    return found
