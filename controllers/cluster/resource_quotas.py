"""The ResourceQuota controller: computes limits and usage into the status, which the API server enforces.

The server itself adds new objects before they exist. Usage is recomputed here after deletions, when pods end, when a
quota changes, and every five minutes. Facts: upstream's pkg/controller/resourcequota.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from apiserver.api.helpers.pod_requests import Quantities
from apiserver.api.helpers.quotas import matches_scopes, select_measured, usage
from apiserver.api.objects import Json
from apiserver.api.values.quantity import Quantity
from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.discovery import served_kinds
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import PODS, RESOURCE_QUOTAS, Kind, key_of
from controllers.runtime.workqueue import Resync

NAME = "resourcequota-controller"
_ENDED = ("Succeeded", "Failed")


def build(client: Client, informers: Informers, options: Options) -> ResourceQuotas:
    """Build the component for the manager."""
    return ResourceQuotas(client, informers, options)


class ResourceQuotas(ControllerComponent):
    """The quota controller. Keys are those of quotas."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        self._client = client.for_controller("resourcequota-controller")
        self._informers = informers
        self._quotas = informers.of(RESOURCE_QUOTAS)
        self._followed: set[Kind] = set()
        self._controller = Controller(
            NAME, self.reconcile, workers=options.workers(NAME), queue="resourcequota_primary"
        )
        self._controller.require(self._quotas)
        self._quotas.on(self._add, self._quota_updated, lambda _: None)

    def _add(self, quota: Json) -> None:
        self._controller.queue.add(key_of(quota))

    def _quota_updated(self, old: Json, quota: Json) -> None:
        """Enqueue a quota whose limits have changed. Usage is ignored: the server writes it, too."""
        if quota["spec"] != old["spec"] or _hard(quota) != (quota["spec"].get("hard") or {}):
            self._add(quota)

    def _enqueue_namespace(self, obj: Json) -> None:
        namespace = obj["metadata"].get("namespace", "")
        for quota in self._quotas.objects.values():
            if quota["metadata"]["namespace"] == namespace:
                self._add(quota)

    def _pod_updated(self, old: Json, pod: Json) -> None:
        if _phase(pod) in _ENDED and _phase(old) not in _ENDED:
            self._enqueue_namespace(pod)
        elif pod["spec"] != old["spec"]:
            self._object_updated((PODS.group, PODS.plural), old, pod)

    def _object_updated(self, key: tuple[str, str], old: Json, obj: Json) -> None:
        """Enqueue the quotas whose usage by the object has changed."""
        namespace = obj["metadata"].get("namespace", "")
        for quota in self._quotas.objects.values():
            spec = quota["spec"]
            if quota["metadata"]["namespace"] == namespace and _usage_of(key, spec, old) != _usage_of(key, spec, obj):
                self._add(quota)

    async def reconcile(self, key: str) -> timedelta | None:
        quota = self._quotas.get(key)
        if quota is None:
            return None
        hard = quota["spec"].get("hard") or {}
        used = {name: str(amount) for name, amount in (await self._compute_usage(quota, hard)).items()}
        status = {"hard": hard, "used": used}
        if (quota.get("status") or {}) != status:
            try:
                await self._client.update_status(RESOURCE_QUOTAS, {**quota, "status": status})
            except Exception as error:
                if not is_reason(error, "NotFound"):
                    raise
        return Resync(minutes=5)

    async def _compute_usage(self, quota: Json, hard: Json) -> Quantities:
        """Return the usage of each measured resource; others keep their last value, if they have one."""
        known = (quota.get("status") or {}).get("used") or {}
        used = {name: Quantity.parse(str(known[name])) for name in hard if name in known}
        namespace = quota["metadata"]["namespace"]
        for kind in await served_kinds(self._client, verbs=("list", "watch", "create")):
            names = select_measured((kind.group, kind.plural), hard) if kind.namespaced else []
            if names:
                self._follow(kind)
                used |= await self._count(kind, namespace, quota["spec"], names)
        return used

    async def _count(self, kind: Kind, namespace: str, spec: Json, names: list[str]) -> Quantities:
        key = (kind.group, kind.plural)
        total = {name: Quantity.of(0) for name in names}
        for obj in (await self._client.list(kind, namespace)).get("items") or ():
            if matches_scopes(key, spec, obj):
                for name, amount in usage(key, obj).items():
                    if name in total:
                        total[name] = total[name].add(amount)
        return total

    def _follow(self, kind: Kind) -> None:
        if kind not in self._followed:
            self._followed.add(kind)
            key = (kind.group, kind.plural)
            changed = self._pod_updated if key == (PODS.group, PODS.plural) else partial(self._object_updated, key)
            self._informers.of(kind).on(lambda _: None, changed, self._enqueue_namespace)


def _usage_of(key: tuple[str, str], spec: Json, obj: Json) -> Quantities:
    """Return an object's usage of a quota."""
    return usage(key, obj) if matches_scopes(key, spec, obj) else {}


def _hard(quota: Json) -> Json:
    found: Json = (quota.get("status") or {}).get("hard") or {}
    return found


def _phase(pod: Json) -> str:
    phase: str = (pod.get("status") or {}).get("phase", "")
    return phase
