"""Candidate changes of devices and of claims on them."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from copy import deepcopy
from typing import Any, Final

from apiserver.api.objects import Json
from apiserver.api.values.quantity import Quantity
from apiserver.cel.environments.selector_synthesis import SynthesizedDevice, synthesize_device
from controllers.allocator.amounts import UNIT, nanos
from controllers.allocator.explain import Explanation
from controllers.explain.details import taint_text
from controllers.explain.findings import plural
from controllers.explain.nodechanges import Change
from controllers.explain.taintrules import delete_rules, tainted_nodes
from controllers.explain.world import Edit, Trial, World
from controllers.resourceclaims import claim_names
from controllers.runtime.kinds import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES, key_of

__all__ = ["DeviceChanges"]

#: Fields copied to another device of the same kind.
_COPIED: Final = ("attributes", "capacity", "allowMultipleAllocations")
#: Reasons for which a device does not match a request at all, as opposed to being in use.
_REFUSED: Final = frozenset(("class-selector", "conditions", "constraint", "node", "selector", "selector-error"))
#: Amounts of a capacity to try.
_AMOUNTS: Final = 8
#: Placeholder for an arbitrary driver, and for an attribute value shared by devices.
_ANY: Final = "any"


class DeviceChanges:
    """Candidate changes for one trial. `explained` holds the allocator's explanation per node."""

    def __init__(self, world: World, trial: Trial, explained: Mapping[str, Explanation]) -> None:
        self._world, self._trial, self._explained = world, trial, explained
        self._devices: dict[tuple[str, str, str], Json] | None = None

    # Claims that hold devices

    def free_claims(self) -> Iterator[Change]:
        """Free each claim that holds devices usable by the pod, those with the most devices first."""
        held: dict[str, int] = {}
        for explanation in self._explained.values():
            for request in explanation.requests:
                for reason in request.reasons:
                    for claim, count in reason.claims.items():
                        held[claim] = held.get(claim, 0) + count
            if explanation.nearest_miss is not None:
                for reason in explanation.nearest_miss.reasons:
                    for claim in reason.claims:
                        held.setdefault(claim, 0)
        for claim in sorted(held, key=lambda name: (-held[name], name)):
            obj = self._world.of(RESOURCE_CLAIMS).get(claim)
            if obj is not None:
                yield Change(
                    "free",
                    _free_text(claim, obj, self._world.gone),
                    ((RESOURCE_CLAIMS, claim, without_allocation(obj)),),
                )

    # Taints of devices

    def add_tolerations(self) -> Iterator[Change]:
        """Tolerate each device taint in the pod's pending claims, and all taints of a device together."""
        claims = self._pending_claims()
        for taints in self._device_taints() if claims else ():
            tolerations = [
                {"key": key, "operator": "Equal", "value": value, "effect": effect} for key, value, effect in taints
            ]
            edits = tuple((RESOURCE_CLAIMS, key_of(claim), with_tolerations(claim, tolerations)) for claim in claims)
            names = ", ".join(claim["metadata"]["name"] for claim in claims)
            text = " and ".join(taint_text(toleration) for toleration in tolerations)
            text = f"tolerate device taint{'s' * (len(taints) != 1)} {text} in claim {names}"
            yield Change("tolerate", text, edits)

    def _pending_claims(self) -> list[Json]:
        namespace = self._trial.pod.namespace
        found = (
            self._world.of(RESOURCE_CLAIMS).get(f"{namespace}/{name}") for name in claim_names(self._trial.pod.pod)
        )
        return [claim for claim in found if claim is not None and not (claim.get("status") or {}).get("allocation")]

    def _device_taints(self) -> list[tuple[tuple[str, str, str], ...]]:
        """List each taint separately, then the full set of each device."""
        tainted = tainted_nodes(self._explained)
        inventory = self._world.scheduler.allocator.inventory
        together = {
            tuple(sorted(tuple(taint) for taint in device.taints))
            for node in tainted
            for device in inventory.view(self._world.scheduler.cache.nodes[node].node or {}).devices
        }
        alone = {(taint,) for taints in together for taint in taints}
        return sorted(alone | (together - {()}), key=lambda taints: (len(taints), taints))

    def delete_rules(self) -> Iterator[Change]:
        """Delete each rule that taints devices."""
        yield from delete_rules(self._world, tainted_nodes(self._explained))

    # Classes

    def create_classes(self) -> Iterator[Change]:
        """Create each device class that a pending claim names and that does not exist."""
        there = self._world.of(DEVICE_CLASSES)
        requests = [
            each
            for claim in self._pending_claims()
            for request in claim["spec"].get("devices", {}).get("requests") or ()
            for each in (request.get("exactly") or {}, *(request.get("firstAvailable") or ()))
        ]
        for name in sorted({each["deviceClassName"] for each in requests if each.get("deviceClassName")}):
            if there.get(name) is None:
                device_class = {"metadata": {"name": name, "uid": name, "resourceVersion": "0"}, "spec": {}}
                yield Change("class", f"create device class {name}", ((DEVICE_CLASSES, name, device_class),))

    # Claims that request less

    def lower_requests(self) -> Iterator[Change]:
        """Lower the count of each request, and remove each of its selectors."""
        for claim in self._pending_claims():
            for number, request in enumerate(claim["spec"].get("devices", {}).get("requests") or ()):
                exactly = request.get("exactly") or {}
                where = f"request {request['name']} of claim {claim['metadata']['name']}"
                most = exactly.get("count", 1) if exactly.get("allocationMode", "ExactCount") == "ExactCount" else 1
                for fewer in range(most - 1, 0, -1):
                    text = f"lower the count from {most} to {fewer} in {where}"
                    edit = _with_request(claim, number, count=fewer)
                    yield Change("less", text, (edit,), answers=("count", where), position=fewer)
                yield from self._lower_capacity(claim, number, exactly, where)
                for selector in exactly.get("selectors") or ():
                    others = [other for other in exactly["selectors"] if other is not selector]
                    expression = " ".join(selector["cel"]["expression"].split())
                    edit = _with_request(claim, number, selectors=others)
                    yield Change("less", f"remove selector {expression} from {where}", (edit,))

    def _lower_capacity(self, claim: Json, number: int, exactly: Json, where: str) -> Iterator[Change]:
        """Lower each requested capacity to what devices have left, the largest amount first."""
        requests = (exactly.get("capacity") or {}).get("requests") or {}
        for name, amount in requests.items():
            wanted = nanos(str(amount))
            left = {each // UNIT for each in self._amounts_left(name) if UNIT <= each < wanted}
            for position, units in enumerate(sorted(left, reverse=True)[:_AMOUNTS]):
                text = str(Quantity.of(units, Quantity.parse(str(amount)).format))
                edit = _with_request(claim, number, capacity={"requests": {**requests, name: text}})
                what = f"lower capacity {name} from {amount} to {text} in {where}"
                yield Change("less", what, (edit,), answers=("capacity", name, where), position=position)

    def _amounts_left(self, name: str) -> set[int]:
        """Return the distinct amounts of a capacity, in nano-units, that devices have left."""
        nodes, allocator = self._world.scheduler.cache.nodes, self._world.scheduler.allocator
        return {
            nanos(str(device.capacity[name].get("value", "0")))
            - allocator.allocated.capacity.get(device.id, {}).get(name, 0)
            for node in self._explained
            for device in allocator.inventory.view(nodes[node].node or {}).devices
            if name in device.capacity
        }

    # More devices

    def add_devices(self, count: int) -> Iterator[Change]:
        """Add `count` devices of each kind that a request asks for."""
        yield from self._add_similar(count)
        yield from self._add_new(count)

    def _add_similar(self, count: int) -> Iterator[Change]:
        """Add devices like one that the selectors accept, on the first node that has each kind."""
        seen: set[tuple[str, str]] = set()
        for node, explanation in self._explained.items():
            for driver, pool, name in _matching_devices(explanation):
                device, kind = self._device(driver, pool, name)
                if device is None or (driver, kind) in seen:
                    continue
                seen.add((driver, kind))
                text = f"add {count} more device{'s' * (count != 1)} like {name} ({kind}) of driver {driver}"
                yield self._add_to(node, driver, [device] * count, text)

    def _add_new(self, count: int) -> Iterator[Change]:
        """Add devices of kinds that no node has, derived from the selectors, on the first node."""
        node = next(iter(self._explained), None)
        if node is None or self._trial.allocator is None:
            return
        plan = self._trial.allocator.plan
        seen: set[str] = set()
        for alternative in (each for request in plan.requests for each in request.alternatives):
            if self._exists(plan.claims[alternative.claim].name, alternative.result_name):
                continue
            found = synthesize_device(alternative.chain.expressions)
            amounts = (alternative.raw.get("capacity") or {}).get("requests") or {}
            found.capacity = {name: {"value": amount} for name, amount in amounts.items()} | found.capacity
            for constraint in plan.claims[alternative.claim].constraints:
                if constraint.applies(alternative) and not constraint.distinct:
                    domain, _, name = constraint.attribute.rpartition("/")
                    found.attributes.setdefault(
                        name if domain == found.driver else constraint.attribute, {"string": _ANY}
                    )
            kind = f"of class {alternative.raw.get('deviceClassName')}{_describe(found)}"
            kind += f" of driver {found.driver}" if found.driver else " of any driver"
            if kind not in seen:
                seen.add(kind)
                text = f"add {plural(count, 'device')} {kind}"
                yield self._add_to(node, found.driver or _ANY, [found.as_device()] * count, text)

    def _exists(self, claim: str, request: str) -> bool:
        """Return whether a node has a device that the selectors of a request accept."""
        return any(
            each.usable or any(reason.kind not in _REFUSED for reason in each.reasons)
            for explanation in self._explained.values()
            for each in explanation.requests
            if (each.claim, each.request) == (claim, request)
        )

    def _add_to(self, node: str, driver: str, devices: list[Json], text: str) -> Change:
        pool = self._new_pool(node)
        new_slice = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": pool, "uid": pool, "resourceVersion": "0"},
            "spec": {
                "driver": driver,
                "nodeName": node,
                "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
                "devices": [{**device, "name": f"more-{number}"} for number, device in enumerate(devices)],
            },
        }
        return Change("device", f"{text} to node {node}", ((RESOURCE_SLICES, pool, new_slice),))

    def _new_pool(self, node: str) -> str:
        """Return an unused slice name; earlier changes may have added slices."""
        slices, name = self._world.of(RESOURCE_SLICES), f"more-on-{node}"
        while slices.get(name) is not None:
            name += "-too"
        return name

    def _device(self, driver: str, pool: str, name: str) -> tuple[Json | None, str]:
        """Copy a device and describe its kind. Return None for devices that consume counters of their pool."""
        if self._devices is None:
            self._devices = {
                (slice_["spec"]["driver"], slice_["spec"]["pool"]["name"], device["name"]): device
                for slice_ in self._world.objects(RESOURCE_SLICES)
                for device in slice_["spec"].get("devices") or ()
            }
        device = self._devices.get((driver, pool, name))
        if device is None or device.get("consumesCounters"):
            return None, ""
        return {field: device[field] for field in _COPIED if field in device}, _kind(device)


def _free_text(key: str, claim: Json, gone: Container[str]) -> str:
    users = [
        f"{user['resource']}/{user['name']}, which does not exist" if user["uid"] in gone else user["name"]
        for user in (claim.get("status") or {}).get("reservedFor") or ()
    ]
    return f"free claim {key}" + (f" (used by {', '.join(users)})" if users else "")


def without_allocation(claim: Json) -> Json:
    """Return the claim without its allocation and users."""
    status = {
        key: value for key, value in (claim.get("status") or {}).items() if key not in ("allocation", "reservedFor")
    }
    return {**claim, "status": status}


def with_tolerations(claim: Json, tolerations: list[Json]) -> Json:
    """Return the claim with additional tolerations in every request."""
    changed: Json = {**claim, "spec": deepcopy(claim["spec"])}
    for request in changed["spec"].get("devices", {}).get("requests") or ():
        for alternative in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if alternative is not None:
                alternative["tolerations"] = [*(alternative.get("tolerations") or ()), *tolerations]
    return changed


def _with_request(claim: Json, number: int, **fields: object) -> Edit:
    """Return the claim with fields of one request replaced."""
    changed: Json = {**claim, "spec": deepcopy(claim["spec"])}
    changed["spec"]["devices"]["requests"][number]["exactly"].update(fields)
    return RESOURCE_CLAIMS, key_of(claim), changed


def _matching_devices(explanation: Explanation) -> Iterator[tuple[str, str, str]]:
    """Yield devices that the selectors of a request accept, as driver, pool and name."""
    for request in explanation.requests:
        names = [name for r in request.reasons if r.kind in ("allocated", "capacity", "taint") for name in r.examples]
        if explanation.nearest_miss is not None:
            names += [placed.partition(" -> ")[2] for placed in explanation.nearest_miss.placed]
            names += [name for reason in explanation.nearest_miss.reasons for name in reason.examples]
        for name in [*request.chosen, *names]:
            driver, _, rest = name.partition("/")
            pool, _, device = rest.rpartition("/")
            yield driver, pool, device


def _describe(found: SynthesizedDevice) -> str:
    """Format the required attributes and capacity in parentheses; "" for none."""
    parts = [f"{name}={_text(next(iter(value.values())))}" for name, value in found.attributes.items()]
    parts += [f"{name}={value['value']}" for name, value in found.capacity.items()]
    return f" ({', '.join(parts)})" if parts else ""


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _kind(device: Json) -> str:
    """Describe the kind of a device by its string attributes, except those unique to the device."""

    def text(name: str, value: Any) -> str:
        return f"{name}={next(iter(value.values()))}"

    attributes = device.get("attributes") or {}
    own = ("uuid", "index", "serial", "minor", "pci", "id")
    parts = [
        text(name, value)
        for name, value in sorted(attributes.items())
        if ("string" in value or "version" in value) and not any(part in name.lower() for part in own)
    ]
    return ", ".join(parts[:3]) or "no attributes"
