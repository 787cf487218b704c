"""endpointslice-mirroring-controller: the slices of Endpoints of services without a selector."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, Final

from apiserver.api.objects import Json
from apiserver.runtime import clock
from apiserver.runtime.metrics import Family
from controllers.endpoints.metrics import MirrorMetrics
from controllers.endpoints.services import TRIGGER
from controllers.endpoints.slices import (
    MANAGED_BY,
    SERVICE,
    Endpoints,
    Plan,
    PortsKey,
    in_stored_order,
    is_same_endpoint,
    key_of_endpoint,
    key_of_ports,
)
from controllers.endpoints.slicewrites import SliceWriter
from controllers.endpoints.subsets import repack
from controllers.options.options import Options
from controllers.runtime.client import Client
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import ENDPOINT_SLICES, ENDPOINTS, SERVICES, key_of
from controllers.runtime.workqueue import RetryDelays
from controllers.workloads.common.component import Workload
from controllers.workloads.common.references import controller_reference
from controllers.workloads.common.templates import pod_prefix

NAME = "endpointslice-mirroring-controller"
_RETRY_DELAYS: Final = RetryDelays(timedelta(seconds=1), timedelta(seconds=100))
MANAGER: Final = "endpointslicemirroring-controller.k8s.io"
#: Maximum number of mirrored addresses per subset.
MOST: Final = 1000
_SKIP: Final = "endpointslice.kubernetes.io/skip-mirror"
_LEADER: Final = "control-plane.alpha.kubernetes.io/leader"
_NOT_COPIED: Final = frozenset({TRIGGER, "kubectl.kubernetes.io/last-applied-configuration"})

Key = tuple[str, PortsKey]


def build(client: Client, informers: Informers, options: Options) -> Mirroring:
    """Build the component for the manager."""
    return Mirroring(client, informers, options)


class Mirroring(Workload):
    """The mirroring controller. Keys are those of Endpoints and of their services."""

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        super().__init__(
            NAME, client, informers, options, ENDPOINTS,
            source="endpoint-slice-mirroring-controller", queue="endpoint_slice_mirroring", retry_delays=_RETRY_DELAYS,
        )  # fmt: skip
        self._services = self.need(informers.of(SERVICES))
        self._slices = self.need(informers.of(ENDPOINT_SLICES))
        self._mirrored = self._slices.index("mirrored service", _mirrored_service)
        self._writer = SliceWriter(self.client, "endpoint_slice_mirroring_controller")
        self._metrics = MirrorMetrics(MOST)
        self._services.on(self._service, lambda _, service: self._service(service), self._service)
        self._slices.on(self._slice, lambda _, each: self._slice(each), self._slice)

    @property
    def metrics(self) -> Sequence[Family]:
        return (*super().metrics, self._writer.changes, *self._metrics.families)

    def _service(self, service: Json) -> None:
        if self.owners.get(key_of(service)) is not None or self._mirrored.keys(key_of(service)):
            self.queue(key_of(service))

    def _slice(self, each: Json) -> None:
        for key in _mirrored_service(each):
            self.queue(key)

    async def reconcile(self, key: str) -> timedelta | None:
        elapsed = clock.stopwatch()
        began = elapsed()
        try:
            return await self._reconcile(key)
        finally:
            self._metrics.duration.observe(elapsed() - began)

    async def _reconcile(self, key: str) -> timedelta | None:
        if self.owners.get(key) is None:
            self._metrics.remove(key)
            await self._writer.write(Plan(delete=self._mirrored.get(key)), f"Endpoints {key}", lambda _: None)
        return await super().reconcile(key)

    async def sync(self, key: str, owner: Json) -> timedelta | None:
        service, existing = self._services.get(key), self._mirrored.get(key)
        metadata = owner["metadata"]
        if (
            service is None
            or service["spec"].get("selector")
            or (metadata.get("labels") or {}).get(_SKIP) == "true"
            or _LEADER in (metadata.get("annotations") or {})
        ):
            plan = Plan(delete=existing)
            self._metrics.remove(key)
        else:
            plan = self._plan(key, owner, existing)
            plan.recycle()

        def record_write(each: Json) -> Any:
            return self.record_write(owner, ENDPOINT_SLICES, each)

        await self._writer.write(plan, f"Endpoints {key}", record_write, create=not metadata.get("deletionTimestamp"))
        return None

    def _plan(self, owner: str, endpoints: Json, existing: list[Json]) -> Plan:
        groups: dict[Key, list[Json]] = {}
        for each in existing:
            groups.setdefault((each["addressType"], key_of_ports(each.get("ports"))), []).append(each)
        plan, changed, numbers, slices = Plan(), 0, list[int](), 0
        for key, (ports, desired) in self._desired(endpoints).items():
            known = groups.pop(key, [])
            before = {key_of_endpoint(each): each for each in (known[0].get("endpoints") or () if known else ())}
            plan.added += len(desired.keys() - before.keys())
            plan.removed += len(before.keys() - desired.keys())
            changed += sum(not is_same_endpoint(desired[one], each) for one, each in before.items() if one in desired)
            numbers.append(len(desired))
            slices += 1
            made = _slice_of(endpoints, key[0], ports, list(desired.values()))
            plan.delete += known[1:]
            if not known:
                plan.create.append(made)
            elif not _is_current(known[0], made, desired):
                name = known[0]["metadata"]["name"]
                fields = {field: value for field, value in made["metadata"].items() if field != "generateName"}
                plan.update.append({**made, "metadata": {**fields, "name": name}})
        for left in groups.values():
            plan.delete += left
        self._metrics.set_slices(owner, "", slices, numbers)
        self._metrics.added.observe(plan.added)
        self._metrics.updated.observe(changed)
        self._metrics.removed.observe(plan.removed)
        return plan

    def _desired(self, endpoints: Json) -> dict[Key, tuple[list[Json], Endpoints]]:
        found: dict[Key, tuple[list[Json], Endpoints]] = {}
        invalid = skipped = 0
        for subset in repack(endpoints.get("subsets") or ()):
            ports, added = in_stored_order(subset.get("ports") or []), 0
            for address, ready in _addresses(subset):
                if added >= MOST:
                    skipped += 1
                    continue
                endpoint = _endpoint(address, ready)
                if endpoint is None:
                    invalid += 1
                    continue
                added += 1
                key = ("IPv6" if ":" in endpoint["addresses"][0] else "IPv4", key_of_ports(ports))
                found.setdefault(key, (ports, {}))[1][key_of_endpoint(endpoint)] = endpoint
        self._metrics.skipped.observe(invalid + skipped)
        if invalid:
            text = f"Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices"
            self.recorder.record(endpoints, "Warning", "InvalidIPAddress", text)
        if skipped:
            text = (
                f"A max of {MOST} addresses can be mirrored to EndpointSlices per Endpoints subset."
                f" {skipped + invalid} addresses were skipped"
            )
            self.recorder.record(endpoints, "Warning", "TooManyAddressesToMirror", text)
        return found


def _mirrored_service(each: Json) -> Sequence[str]:
    labels = each["metadata"].get("labels") or {}
    service = labels.get(SERVICE) if labels.get(MANAGED_BY) == MANAGER else ""
    return (f"{each['metadata']['namespace']}/{service}",) if service else ()


def _addresses(subset: Json) -> Iterator[tuple[Json, bool]]:
    for field, ready in (("addresses", True), ("notReadyAddresses", False)):
        for address in subset.get(field) or ():
            yield address, ready


def _endpoint(address: Json, ready: bool) -> Json | None:
    """Build an endpoint; None if the address is invalid."""
    try:
        ip = str(ipaddress.ip_address(address["ip"]))
    except ValueError:
        return None
    more = {name: address.get(name) for name in ("hostname", "nodeName", "targetRef")}
    made: Json = {"addresses": [ip], "conditions": {"ready": ready}}
    return made | {name: value for name, value in more.items() if value}


def _copy_annotations(annotations: Json | None) -> dict[str, str]:
    return {name: text for name, text in (annotations or {}).items() if name not in _NOT_COPIED}


def _slice_of(endpoints: Json, family: str, ports: list[Json], held: list[Json]) -> Json:
    metadata = endpoints["metadata"]
    labels = {**(metadata.get("labels") or {}), SERVICE: metadata["name"], MANAGED_BY: MANAGER}
    made = {
        "generateName": pod_prefix(metadata["name"]),
        "namespace": metadata["namespace"],
        "labels": labels,
        "ownerReferences": [controller_reference(endpoints, ENDPOINTS)],
    }
    if annotations := _copy_annotations(metadata.get("annotations")):
        made["annotations"] = annotations
    kind = {"apiVersion": ENDPOINT_SLICES.api_version, "kind": ENDPOINT_SLICES.kind}
    named = [{"name": "", "protocol": "TCP", **port} for port in ports]
    return {**kind, "metadata": made, "addressType": family, "ports": named, "endpoints": held}


def _is_current(known: Json, made: Json, desired: Endpoints) -> bool:
    """Return whether the slice needs no update."""
    held = known.get("endpoints") or []
    same = len(held) == len(desired) and all(
        (other := desired.get(key_of_endpoint(each))) is not None and is_same_endpoint(each, other) for each in held
    )
    old, new = known["metadata"], made["metadata"]
    uids = [owner["uid"] for owner in old.get("ownerReferences") or ()]
    return (
        same
        and (old.get("labels") or {}) == new["labels"]
        and (old.get("annotations") or {}) == new.get("annotations", {})
        and uids == [owner["uid"] for owner in new["ownerReferences"]]
    )
