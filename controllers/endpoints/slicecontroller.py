"""endpointslice-controller: the slices of services with a selector."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime.metrics import Family
from controllers.endpoints.metrics import ServiceSliceMetrics
from controllers.endpoints.services import TRIGGER, ServicePods, TriggerTimes, has_endpoint, selector_of
from controllers.endpoints.slices import (
    MANAGED_BY,
    SERVICE,
    Endpoints,
    Plan,
    PortsKey,
    address_types,
    endpoint_of,
    key_of_endpoint,
    key_of_ports,
    plan_family,
    ports_of,
    set_hints,
)
from controllers.endpoints.slicewrites import SliceWriter
from controllers.endpoints.zonehints import ZONE, Event, ZoneHints, is_ready, shares_of
from controllers.options.options import Options
from controllers.runtime.client import Client
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import ENDPOINT_SLICES, NODES, PODS, SERVICES, Kind, key_of
from controllers.runtime.workqueue import RetryDelays
from controllers.workloads.common.component import Workload

NAME = "endpointslice-controller"
_RETRY_DELAYS: Final = RetryDelays(timedelta(seconds=1), timedelta(seconds=1000))
MANAGER: Final = "endpointslice-controller.k8s.io"
#: Delay that batches changes of slices.
_BATCH: Final = timedelta(seconds=1)
#: Annotations that enable hints by CPU share of zones; the first one present counts.
_TOPOLOGY_AWARE: Final = ("service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode")
_DISTRIBUTIONS: Final = frozenset({"PreferClose", "PreferSameZone", "PreferSameNode"})


def build(client: Client, informers: Informers, options: Options) -> EndpointSlices:
    """Build the component for the manager."""
    return EndpointSlices(client, informers, options)


class EndpointSlices(Workload):
    """The EndpointSlice controller. Keys are those of services."""

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        super().__init__(
            NAME, client, informers, options, SERVICES,
            source="endpoint-slice-controller", queue="endpoint_slice", retry_delays=_RETRY_DELAYS,
        )  # fmt: skip
        self._nodes = self.need(informers.of(NODES))
        self._slices = self.need(informers.of(ENDPOINT_SLICES))
        self._of_service = self._slices.index("service and manager", _service_and_manager)
        self._pods = ServicePods(self.owners, self.need(informers.of(PODS)), self.queue)
        self._writer = SliceWriter(self.client, "endpoint_slice_controller")
        self._triggers = TriggerTimes()
        self._metrics = ServiceSliceMetrics(options.max_endpoints_per_slice)
        self._most = options.max_endpoints_per_slice
        self._zones = ZoneHints()
        self._nodes.on(lambda _: self._nodes_changed(), self._node_updated, lambda _: self._nodes_changed())
        self._slices.on(self._slice_changed, lambda _, each: self._slice_changed(each), self._slice_changed)

    @property
    def metrics(self) -> Sequence[Family]:
        return (*super().metrics, self._writer.changes, *self._metrics.families)

    def _slice_changed(self, each: Json) -> None:
        """Enqueue the service of a managed slice, which another client may have changed."""
        labels = each["metadata"].get("labels") or {}
        if labels.get(MANAGED_BY) == MANAGER and labels.get(SERVICE):
            key = f"{each['metadata']['namespace']}/{labels[SERVICE]}"
            self._controller.queue.add_after(key, _BATCH)

    def _node_updated(self, old: Json, node: Json) -> None:
        if is_ready(old) != is_ready(node) or _zone(old) != _zone(node):
            self._nodes_changed()

    def _nodes_changed(self) -> None:
        for key in self._zones.find_overloaded(self._nodes.objects.values()):
            self.queue(key)

    def owner_deleted(self, key: str) -> None:
        self._zones.remove_service(key)
        self._triggers.remove(key)
        self._metrics.remove(key)

    def count_skip(self, behind: Kind) -> None:
        self._metrics.syncs.inc("stale")

    async def sync(self, key: str, owner: Json) -> timedelta | None:
        result = "error"
        try:
            await self._write_slices(key, owner)
            result = "success"
        finally:
            self._metrics.syncs.inc(result)
        return None

    async def _write_slices(self, key: str, owner: Json) -> None:
        """Write the slices of a service and its pods."""
        if selector_of(owner) is None:
            return
        pods = self._pods.of(owner)
        existing = [
            each for each in self._of_service.get(f"{key}/{MANAGER}") if not each["metadata"].get("deletionTimestamp")
        ]
        trigger = self._triggers.of(owner, pods)
        families = address_types(owner)
        others = Plan(delete=[each for each in existing if each["addressType"] not in families])
        try:
            for family in families:
                mine = [each for each in existing if each["addressType"] == family]
                plan = self._plan(owner, family, pods, mine)
                event = self._set_hints(owner, family, plan, mine)
                await self._write(owner, plan, trigger)
                if event is not None:
                    self.recorder.record(owner, *event)
            await self._write(owner, others, trigger)
        except StatusError as error:
            text = f"Error updating Endpoint Slices for Service {key}: {error}"
            self.recorder.record(owner, "Warning", "FailedToUpdateEndpointSlices", text)
            raise

    def _plan(self, service: Json, family: str, pods: list[Json], existing: list[Json]) -> Plan:
        desired: dict[PortsKey, tuple[list[Json], Endpoints]] = {}
        for pod in pods:
            if not has_endpoint(pod, terminating=True):
                continue
            node = self._nodes.get(pod["spec"].get("nodeName", ""))
            if node is None and not service["spec"].get("publishNotReadyAddresses"):
                continue
            given = ports_of(service, pod)
            _, endpoints = desired.setdefault(key_of_ports(given), (given, {}))
            endpoint = endpoint_of(service, pod, node, family)
            if endpoint is not None:
                endpoints[key_of_endpoint(endpoint)] = endpoint
        plan = plan_family(service, family, desired, existing, manager=MANAGER, most=self._most)
        self._metrics.added.observe(plan.added)
        self._metrics.removed.observe(plan.removed)
        slices, numbers = (
            len(existing) + len(plan.create) - len(plan.delete),
            [len(each) for _, each in desired.values()],
        )
        self._metrics.set_slices(key_of(service), family, slices, numbers)
        return plan

    def _set_hints(self, service: Json, family: str, plan: Plan, existing: list[Json]) -> Event | None:
        """Set the hints of endpoints. Return an event to record, if any."""
        if _is_topology_aware(service):
            shares = shares_of(self._nodes.objects.values())
            return self._zones.enable(key_of(service), family, plan, existing, shares)
        event = self._zones.disable(key_of(service), family)
        set_hints(plan, existing, _distribution(service))
        return event

    async def _write(self, service: Json, plan: Plan, trigger: str) -> None:
        plan.recycle()
        plan.create = [_with_trigger(each, trigger) for each in plan.create]
        plan.update = [_with_trigger(each, trigger) for each in plan.update]

        def record_write(each: Json) -> Any:
            return self.record_write(service, ENDPOINT_SLICES, each)

        alive = not service["metadata"].get("deletionTimestamp")
        await self._writer.write(plan, f"Service {key_of(service)}", record_write, create=alive)
        distribution = self._metrics.distributions[key_of(service)] = _distribution(service)
        number = len(plan.create) + len(plan.update) + len(plan.delete)
        self._metrics.changed.observe(number, "Auto" if _is_topology_aware(service) else "Disabled", distribution)


def _distribution(service: Json) -> str:
    """Return a service's supported traffic distribution; "" if hints are enabled by annotation."""
    given = service["spec"].get("trafficDistribution") or ""
    return given if given in _DISTRIBUTIONS and not _is_topology_aware(service) else ""


def _is_topology_aware(service: Json) -> bool:
    annotations = service["metadata"].get("annotations") or {}
    said = next((annotations[name] for name in _TOPOLOGY_AWARE if name in annotations), "")
    return said in ("Auto", "auto")


def _zone(node: Json) -> str:
    zone: str = (node["metadata"].get("labels") or {}).get(ZONE, "")
    return zone


def _service_and_manager(each: Json) -> Sequence[str]:
    labels = each["metadata"].get("labels") or {}
    service, manager = labels.get(SERVICE), labels.get(MANAGED_BY)
    return (f"{each['metadata']['namespace']}/{service}/{manager}",) if service and manager else ()


def _with_trigger(each: Json, trigger: str) -> Json:
    metadata = each["metadata"]
    kept = {name: text for name, text in (metadata.get("annotations") or {}).items() if name != TRIGGER}
    annotations = {**kept, **({TRIGGER: trigger} if trigger else {})}
    return {**each, "metadata": {**metadata, "annotations": annotations or None}}
