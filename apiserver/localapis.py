"""An APIService for each group and version that this server serves, custom ones included.

Facts: pkg/controlplane/apiserver (aggregator.go), kube-aggregator/pkg/controllers/autoregister.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from apiserver.api.status import StatusError
from apiserver.http.handlers.authenticator import ADMIN
from apiserver.registry.own import create_own, delete_own

if TYPE_CHECKING:
    from apiserver.registry.resource import Resource, Version
    from apiserver.registry.store import Registry

__all__ = ["LocalApis"]

Json = dict[str, Any]

_SERVICES: Final = ("apiregistration.k8s.io", "apiservices")
_MANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"
#: Where groups and their versions stand in lists, the highest first.
_PRIORITIES: Final[dict[str, tuple[int, dict[str, int]]]] = {
    "": (18000, {"v1": 1}),
    "apps": (17800, {"v1": 15}),
    "events.k8s.io": (17750, {"v1": 15}),
    "authentication.k8s.io": (17700, {"v1": 15, "v1beta1": 9, "v1alpha1": 1}),
    "authorization.k8s.io": (17600, {"v1": 15}),
    "autoscaling": (17500, {"v1": 15, "v2": 30}),
    "batch": (17400, {"v1": 15}),
    "certificates.k8s.io": (17300, {"v1": 15, "v1beta1": 9, "v1alpha1": 1}),
    "networking.k8s.io": (17200, {"v1": 15, "v1beta1": 9}),
    "policy": (17100, {"v1": 15}),
    "rbac.authorization.k8s.io": (17000, {"v1": 15}),
    "storage.k8s.io": (16800, {"v1": 15, "v1beta1": 9, "v1alpha1": 1}),
    "apiextensions.k8s.io": (16700, {"v1": 15}),
    "admissionregistration.k8s.io": (16700, {"v1": 15, "v1beta1": 12, "v1alpha1": 9}),
    "scheduling.k8s.io": (16600, {"v1": 15, "v1alpha2": 2}),
    "coordination.k8s.io": (16500, {"v1": 15, "v1beta1": 13, "v1alpha2": 12}),
    "node.k8s.io": (16300, {"v1": 15}),
    "discovery.k8s.io": (16200, {"v1": 15}),
    "resource.k8s.io": (16200, {"v1": 21, "v1beta2": 15, "v1beta1": 9, "v1alpha3": 1}),
    "flowcontrol.apiserver.k8s.io": (16100, {"v1": 21}),
    "internal.apiserver.k8s.io": (16000, {"v1alpha1": 9}),
    "storagemigration.k8s.io": (15800, {"v1beta1": 9}),
}
_CUSTOM: Final = (1000, 100)

Served = Sequence[tuple["Resource", "Version"]]


class LocalApis:
    """The APIServices of one server; `served` says what it serves."""

    def __init__(self, registry: Registry, served: Callable[[], Served]) -> None:
        self._registry, self._served = registry, served
        self._changed = asyncio.Event()

    def changed(self) -> None:
        """What is served is different now."""
        self._changed.set()

    async def follow(self) -> None:
        """Keeps them up to date, for ever."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self.ensure()
            except StatusError:  # the database is away; the next change, or the next start, makes up for it
                continue

    def kept(self) -> list[str]:
        """The keys of those that are there as long as the server is."""
        resource = self._registry.stores[_SERVICES].resource
        return [
            resource.key("", item["metadata"]["name"])
            for item in self._registry.all_of(*_SERVICES)
            if _managed(item) == "onstart"
        ]

    async def ensure(self) -> None:
        """Makes those that are missing, and removes those of what is not served any more."""
        wanted = self._wanted()
        there = {item["metadata"]["name"]: _managed(item) for item in self._registry.all_of(*_SERVICES)}
        await asyncio.gather(
            *(create_own(self._registry, ADMIN, *_SERVICES, obj) for name, obj in wanted.items() if name not in there),
            *(
                delete_own(self._registry, ADMIN, *_SERVICES, "", name)
                for name, managed in there.items()
                if managed and name not in wanted
            ),
        )

    def _wanted(self) -> dict[str, Json]:
        wanted = {}
        for resource, version in self._served():
            group, name = resource.group, f"{version.name}.{resource.group}"
            known, versions = _PRIORITIES.get(group, (0, {}))
            if not resource.custom and version.name not in versions:
                continue
            first, second = _CUSTOM if resource.custom else (known, versions[version.name])
            spec: Json = {"version": version.name, "groupPriorityMinimum": first, "versionPriority": second}
            labels = {_MANAGED: "true" if resource.custom else "onstart"}
            wanted[name] = {
                "metadata": {"name": name, "labels": labels},
                "spec": spec | ({"group": group} if group else {}),
            }
        return wanted


def _managed(item: Any) -> str:
    """By whom an APIService is kept: "" where it is somebody else's."""
    found: str = (item["metadata"].get("labels") or {}).get(_MANAGED, "")
    return found
