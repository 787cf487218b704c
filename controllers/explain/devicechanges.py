"""What could be changed of devices, and of the claims on them, where they keep a pod waiting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, Final

from apiserver.cel.environments.selector_synthesis import Sought, sought
from controllers.allocator.explain import Explanation
from controllers.explain.details import taint_text
from controllers.explain.findings import plural
from controllers.explain.nodechanges import Change
from controllers.explain.world import Edit, Trial, World
from controllers.resourceclaims import claim_names
from controllers.runtime.kinds import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES, Json, key_of

__all__ = ["DeviceChanges"]

#: What makes another device one like it.
_COPIED: Final = ("attributes", "capacity", "allowMultipleAllocations")
#: Kinds of reasons for which a device is none of those that a request asks for.
_REFUSED: Final = frozenset(("class-selector", "conditions", "constraint", "node", "selector", "selector-error"))
#: Stands for the driver of a device that may have any, and for the value that devices have in common.
_ANY: Final = "any"


class DeviceChanges:
    """Of one trial. `explained`: what the allocator says of the nodes."""

    def __init__(self, world: World, trial: Trial, explained: Mapping[str, Explanation]) -> None:
        self._world, self._trial, self._explained = world, trial, explained
        self._devices: dict[tuple[str, str, str], Json] | None = None

    # Claims that hold devices

    def frees(self) -> Iterator[Change]:
        """Claims that hold devices that the pod could use; those with the most first."""
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
                yield Change("free", self._freed(claim, obj), ((RESOURCE_CLAIMS, claim, without_allocation(obj)),))

    def _freed(self, key: str, claim: Json) -> str:
        users = [user["name"] for user in (claim.get("status") or {}).get("reservedFor") or ()]
        return f"free claim {key}" + (f" (used by {', '.join(users)})" if users else "")

    # Taints of devices

    def tolerations(self) -> Iterator[Change]:
        """Tolerations in the pod's own claims for each taint that keeps it from devices, and for all of a device."""
        claims = self._pending_claims()
        for taints in self._device_taints() if claims else ():
            tolerations = [
                {"key": key, "operator": "Equal", "value": value, "effect": effect} for key, value, effect in taints
            ]
            edits = tuple((RESOURCE_CLAIMS, key_of(claim), with_tolerations(claim, tolerations)) for claim in claims)
            names = ", ".join(claim["metadata"]["name"] for claim in claims)
            said = " and ".join(taint_text(toleration) for toleration in tolerations)
            what = f"device taint{'s' * (len(taints) != 1)} {said}"
            yield Change("tolerate", f"tolerate the {what} in claim {names}", edits)

    def _pending_claims(self) -> list[Json]:
        namespace = self._trial.pod.namespace
        found = (
            self._world.of(RESOURCE_CLAIMS).get(f"{namespace}/{name}") for name in claim_names(self._trial.pod.pod)
        )
        return [claim for claim in found if claim is not None and not (claim.get("status") or {}).get("allocation")]

    def _device_taints(self) -> list[tuple[tuple[str, str, str], ...]]:
        """Each by itself, then those that a device has together."""
        kept_off = [
            node
            for node, explanation in self._explained.items()
            if any(reason.kind == "taint" for request in explanation.requests for reason in request.reasons)
        ]
        inventory = self._world.scheduler.allocator.inventory
        together = {
            tuple(sorted(tuple(taint) for taint in device.taints))
            for node in kept_off
            for device in inventory.view(self._world.scheduler.cache.nodes[node].node or {}).devices
        }
        alone = {(taint,) for taints in together for taint in taints}
        return sorted(alone | (together - {()}), key=lambda taints: (len(taints), taints))

    # Classes

    def classes(self) -> Iterator[Change]:
        """Those that a claim names and that are not there."""
        there = self._world.of(DEVICE_CLASSES)
        asked = [
            each
            for claim in self._pending_claims()
            for request in claim["spec"].get("devices", {}).get("requests") or ()
            for each in (request.get("exactly") or {}, *(request.get("firstAvailable") or ()))
        ]
        for name in sorted({each["deviceClassName"] for each in asked if each.get("deviceClassName")}):
            if there.get(name) is None:
                made = {"metadata": {"name": name, "uid": name, "resourceVersion": "0"}, "spec": {}}
                yield Change("class", f"create device class {name}", ((DEVICE_CLASSES, name, made),))

    # Claims that ask for less

    def asking_less(self) -> Iterator[Change]:
        """Each request for several devices with fewer of them, and each without one of its selectors."""
        for claim in self._pending_claims():
            for number, request in enumerate(claim["spec"].get("devices", {}).get("requests") or ()):
                asked = request.get("exactly") or {}
                where = f"in request {request['name']} of claim {claim['metadata']['name']}"
                most = asked.get("count", 1) if asked.get("allocationMode", "ExactCount") == "ExactCount" else 1
                for fewer in range(most - 1, 0, -1):
                    text = f"ask for {plural(fewer, 'device')} instead of {most} {where}"
                    edit = _asking(claim, number, count=fewer)
                    yield Change("less", text, (edit,), answers=("count", where), position=fewer)
                for selector in asked.get("selectors") or ():
                    others = [other for other in asked["selectors"] if other is not selector]
                    expression = " ".join(selector["cel"]["expression"].split())
                    edit = _asking(claim, number, selectors=others)
                    yield Change("less", f"ask without the selector {expression} {where}", (edit,))

    # More devices

    def more(self, count: int) -> Iterator[Change]:
        """So many devices more of each kind that a request asks for."""
        yield from self._like(count)
        yield from self._unseen(count)

    def _like(self, count: int) -> Iterator[Change]:
        """Devices like one that the selectors accept, on the first node of each kind that has such."""
        seen: set[tuple[str, str]] = set()
        for node, explanation in self._explained.items():
            for driver, pool, name in _accepted(explanation):
                device, kind = self._device(driver, pool, name)
                if device is None or (driver, kind) in seen:
                    continue
                seen.add((driver, kind))
                more = f"{plural(count, 'device')} more like {name} ({kind})"
                yield self._added(node, driver, [device] * count, f"{more} of driver {driver}")

    def _unseen(self, count: int) -> Iterator[Change]:
        """Devices of kinds of which no node has one, made of what the selectors compare, on the first node."""
        node = next(iter(self._explained), None)
        if node is None or self._trial.allocator is None:
            return
        plan = self._trial.allocator.plan
        seen: set[str] = set()
        for alternative in (each for request in plan.requests for each in request.alternatives):
            if self._is_seen(plan.claims[alternative.claim].name, alternative.result_name):
                continue
            found = sought(alternative.chain.expressions)
            asked = (alternative.raw.get("capacity") or {}).get("requests") or {}
            found.capacity = {name: {"value": amount} for name, amount in asked.items()} | found.capacity
            for constraint in plan.claims[alternative.claim].constraints:
                if constraint.applies(alternative) and not constraint.distinct:
                    domain, _, name = constraint.attribute.rpartition("/")
                    found.attributes.setdefault(
                        name if domain == found.driver else constraint.attribute, {"string": _ANY}
                    )
            said = f"of class {alternative.raw.get('deviceClassName')}{_described(found)}"
            said += f" of driver {found.driver}" if found.driver else " of any driver"
            if said not in seen:
                seen.add(said)
                text = f"{plural(count, 'device')} {said}"
                yield self._added(node, found.driver or _ANY, [found.as_device()] * count, text)

    def _is_seen(self, claim: str, request: str) -> bool:
        """Whether a node has a device that the selectors of a request accept."""
        return any(
            each.usable or any(reason.kind not in _REFUSED for reason in each.reasons)
            for explanation in self._explained.values()
            for each in explanation.requests
            if (each.claim, each.request) == (claim, request)
        )

    def _added(self, node: str, driver: str, devices: list[Json], text: str) -> Change:
        pool = self._new_pool(node)
        made = {
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
        return Change("device", f"{text} on node {node}", ((RESOURCE_SLICES, pool, made),))

    def _new_pool(self, node: str) -> str:
        """A name that no slice has, also where devices more are imagined already."""
        slices, name = self._world.of(RESOURCE_SLICES), f"more-on-{node}"
        while slices.get(name) is not None:
            name += "-too"
        return name

    def _device(self, driver: str, pool: str, name: str) -> tuple[Json | None, str]:
        """A copy that depends on nothing else of its pool, and what kind of device it is."""
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


def without_allocation(claim: Json) -> Json:
    """The claim with nothing allocated."""
    status = {
        key: value for key, value in (claim.get("status") or {}).items() if key not in ("allocation", "reservedFor")
    }
    return {**claim, "status": status}


def with_tolerations(claim: Json, tolerations: list[Json]) -> Json:
    """The claim with these tolerations, too, in every request."""
    changed: Json = {**claim, "spec": deepcopy(claim["spec"])}
    for request in changed["spec"].get("devices", {}).get("requests") or ():
        for asked in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if asked is not None:
                asked["tolerations"] = [*(asked.get("tolerations") or ()), *tolerations]
    return changed


def _asking(claim: Json, number: int, **fields: object) -> Edit:
    """The claim with other fields of one of its requests."""
    changed: Json = {**claim, "spec": deepcopy(claim["spec"])}
    changed["spec"]["devices"]["requests"][number]["exactly"].update(fields)
    return RESOURCE_CLAIMS, key_of(claim), changed


def _accepted(explanation: Explanation) -> Iterator[tuple[str, str, str]]:
    """Devices that the selectors of a request accept."""
    for request in explanation.requests:
        names = [name for r in request.reasons if r.kind in ("allocated", "capacity", "taint") for name in r.examples]
        if explanation.nearest_miss is not None:
            names += [placed.partition(" -> ")[2] for placed in explanation.nearest_miss.placed]
            names += [name for reason in explanation.nearest_miss.reasons for name in reason.examples]
        for name in [*request.chosen, *names]:
            driver, _, rest = name.partition("/")
            pool, _, device = rest.rpartition("/")
            yield driver, pool, device


def _described(found: Sought) -> str:
    """What a device has to be, in brackets; "" where nothing is asked of it."""
    said = [f"{name}={_text(next(iter(value.values())))}" for name, value in found.attributes.items()]
    said += [f"{name}={value['value']}" for name, value in found.capacity.items()]
    return f" ({', '.join(said)})" if said else ""


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _kind(device: Json) -> str:
    """What tells a device from others to people: its texts, but for what is its own."""

    def said(name: str, value: Any) -> str:
        return f"{name}={next(iter(value.values()))}"

    attributes = device.get("attributes") or {}
    own = ("uuid", "index", "serial", "minor", "pci", "id")
    telling = [
        said(name, value)
        for name, value in sorted(attributes.items())
        if ("string" in value or "version" in value) and not any(part in name.lower() for part in own)
    ]
    return ", ".join(telling[:3]) or "no attributes"
