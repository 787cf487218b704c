"""endpoints-controller: the Endpoints of services with a selector, for clients that do not read slices."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.endpoints.services import HEADLESS, TRIGGER, ServicePods, TriggerTimes, has_address, selector_of
from controllers.endpoints.subsets import CAPACITY, count, repack, subsets_of, truncate
from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import ENDPOINTS, PODS, SERVICES, key_of, split_key
from controllers.workloads.common.component import Workload
from controllers.workloads.common.pod_control import in_terminating_namespace

NAME = "endpoints-controller"
MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
MANAGER: Final = "endpoint-controller"
_OVER_CAPACITY: Final = "endpoints.kubernetes.io/over-capacity"
#: Annotation of Endpoints used for leader election.
_LEADER: Final = "control-plane.alpha.kubernetes.io/leader"


def build(client: Client, informers: Informers, options: Options) -> LegacyEndpoints:
    """Build the component for the manager."""
    return LegacyEndpoints(client, informers, options)


class LegacyEndpoints(Workload):
    """The Endpoints controller. Keys are those of services."""

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        super().__init__(NAME, client, informers, options, SERVICES, source="endpoint-controller", queue="endpoint")
        self._endpoints = self.need(informers.of(ENDPOINTS))
        self._pods = ServicePods(self.owners, self.need(informers.of(PODS)), self.queue)
        self._triggers = TriggerTimes()
        self._endpoints.on(self._enqueue_leftover, deleted=lambda each: self.queue(key_of(each)))

    def _enqueue_leftover(self, each: Json) -> None:
        """Enqueue Endpoints present at the start: their service may be gone."""
        if _LEADER not in (each["metadata"].get("annotations") or {}) and self._is_ours(each):
            self.queue(key_of(each))

    @staticmethod
    def _is_ours(each: Json) -> bool:
        return (each["metadata"].get("labels") or {}).get(MANAGED_BY) == MANAGER

    async def reconcile(self, key: str) -> timedelta | None:
        if self.owners.get(key) is None:
            self._triggers.remove(key)
            await self._delete(key)
        return await super().reconcile(key)

    async def _delete(self, key: str) -> None:
        """Delete the Endpoints of a deleted service."""
        if self._endpoints.get(key) is None:
            return
        namespace, name = split_key(key)
        try:
            await self.client.delete(ENDPOINTS, name, namespace)
        except Exception as error:
            if not is_reason(error, "NotFound"):
                raise

    async def sync(self, key: str, owner: Json) -> timedelta | None:
        if selector_of(owner) is None:
            return None
        pods = self._pods.of(owner)
        trigger, subsets = self._triggers.of(owner, pods), subsets_of(owner, pods)
        current = self._endpoints.get(key)
        if current is not None and _is_current(current, owner, subsets):
            return None
        wanted = _build(current, owner, subsets, trigger)
        try:
            if current is None:
                written = await self.client.create(ENDPOINTS, wanted)
            else:
                written = await self.client.update(ENDPOINTS, wanted)
        except StatusError as error:
            if in_terminating_namespace(error):
                return None
            what = "create endpoint for service" if current is None else "update endpoint"
            reason = "FailedToCreateEndpoint" if current is None else "FailedToUpdateEndpoint"
            self.recorder.record(wanted, "Warning", reason, f"Failed to {what} {key}: {error}")
            raise
        self.record_write(owner, ENDPOINTS, written)
        return None


def _is_current(current: Json, service: Json, subsets: list[Json]) -> bool:
    metadata = current["metadata"]
    found = current.get("subsets") or []
    over = _OVER_CAPACITY in (metadata.get("annotations") or {})
    same = repack(found) == subsets and not over and count(found) <= CAPACITY
    return same and (metadata.get("labels") or {}) == _labels(service)


def _labels(service: Json) -> dict[str, str]:
    labels = {name: text for name, text in (service["metadata"].get("labels") or {}).items() if name != HEADLESS}
    return {**labels, **({} if has_address(service) else {HEADLESS: ""}), MANAGED_BY: MANAGER}


def _build(current: Json | None, service: Json, subsets: list[Json], trigger: str) -> Json:
    metadata = service["metadata"]
    made: Json = {"name": metadata["name"], "namespace": metadata["namespace"]}
    made = dict(current["metadata"]) if current is not None else made
    ours = (TRIGGER, _OVER_CAPACITY)
    annotations = {name: text for name, text in (made.get("annotations") or {}).items() if name not in ours}
    if trigger:
        annotations[TRIGGER] = trigger
    if count(subsets) > CAPACITY:
        annotations[_OVER_CAPACITY] = "truncated"
        subsets = truncate(subsets)
    made |= {"labels": _labels(service), "annotations": annotations or None}
    kind = {"apiVersion": ENDPOINTS.api_version, "kind": ENDPOINTS.kind}
    return {**kind, "metadata": made, "subsets": subsets}
