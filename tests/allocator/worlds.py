"""Small random clusters for the allocator's property tests: slices, classes, claims and what is allocated.

Every feature can be switched on by itself; requests go from undemanding to demanding, so that taking the first
device often has to be reconsidered.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from controllers.allocator import Allocator, Features
from controllers.allocator.allocated import DeviceUse
from controllers.allocator.devices import Device
from controllers.allocator.selectors import Path, SelectorError, Verdict

FEATURES = (
    "admin", "prioritized", "counters", "taints", "conditions", "capacity", "lists", "match", "distinct",
    "everything", "nodes", "claims", "errors", "limit",
)  # fmt: skip

NODE = {"metadata": {"name": "node-1", "labels": {"zone": "a"}}}


class KindEvaluator:
    """A tiny expression language: `any`, `kind in ab` (false for other kinds), `broken`; `fails x` fails for kind x."""

    def compile(self, expression: str) -> Callable[[Device], Verdict] | SelectorError:
        """See controllers.allocator.selectors.Evaluator."""
        if expression == "broken":
            return SelectorError("compile", "cannot be understood")

        def judge(device: Device) -> Verdict:
            return verdict(expression, device.raw)

        return judge

    def reads(self, _expression: str) -> tuple[Path, ...] | None:
        """See controllers.allocator.selectors.Evaluator."""
        return (("attributes", "driver", "kind"),)


def verdict(expression: str, device: dict[str, Any]) -> Verdict:
    """Evaluate an expression for a device."""
    kind = device.get("attributes", {}).get("kind", {}).get("string", "")
    if expression == "broken":
        return SelectorError("compile", "cannot be understood")
    if expression.startswith("fails "):
        return SelectorError("runtime", f"no such key: {kind}") if kind in expression[6:] else True
    return expression == "any" or kind in expression.removeprefix("kind in ")


@dataclass
class World:
    """One input of the allocator."""

    features: Features
    slices: list[dict[str, Any]] = field(default_factory=list)
    classes: list[dict[str, Any]] = field(default_factory=list)
    claims: list[dict[str, Any]] = field(default_factory=list)
    uses: list[DeviceUse] = field(default_factory=list)

    def allocator(self) -> Allocator:
        """Build an allocator with this state."""
        allocator = Allocator(self.features, evaluator=KindEvaluator(), new_share_id=lambda: "share")
        for item in self.slices:
            allocator.inventory.upsert_slice(item)
        for item in self.classes:
            allocator.inventory.upsert_class(item)
        allocator.allocated.put("others", self.uses)
        return allocator


def make_world(rng: random.Random, features: frozenset[str]) -> World:
    """Build a random world with these features."""
    world = World(Features(list_type_attributes="lists" in features))
    world.classes = [
        {"metadata": {"name": "all"}, "spec": {"selectors": [{"cel": {"expression": "any"}}]}},
        {"metadata": {"name": "plain"}, "spec": {}},
    ]
    maker = _Maker(rng, features)
    devices = maker.devices()
    world.slices = maker.slices(devices)
    world.claims = maker.claims()
    for item in world.slices:
        pool = item["spec"]["pool"]["name"]
        for device in item["spec"].get("devices", ()):
            use = maker.use(("driver", pool, device["name"]), device)
            if use is not None:
                world.uses.append(use)
    return world


class _Maker:
    def __init__(self, rng: random.Random, features: frozenset[str]) -> None:
        self.rng = rng
        self.on = features.__contains__

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    # --- devices

    def devices(self) -> list[dict[str, Any]]:
        """Build devices. Many are equal or differ in one field."""
        devices: list[dict[str, Any]] = []
        for number in range(self.rng.randint(2, 7)):
            device = self._device(number)
            if devices and self.chance(0.6):
                model = copy.deepcopy(self.rng.choice(devices))
                trait = self.rng.choice(("", *(key for key in device if key != "name")))
                device = {**model, "name": device["name"], **({trait: device[trait]} if trait else {})}
            devices.append(device)
        return devices

    def _device(self, number: int) -> dict[str, Any]:
        rng = self.rng
        device: dict[str, Any] = {"name": f"d{number}"}
        attributes: dict[str, Any] = {"kind": {"string": rng.choice("aabc")}}
        if self.chance(0.9):
            attributes["numa"] = {"int": rng.randint(0, 1)} if self.chance(0.8) else {"string": rng.choice("01")}
        if self.on("lists") and self.chance(0.6):
            attributes["numa"] = {"ints": rng.sample(range(4), rng.randint(1, 2))}
        device["attributes"] = attributes
        if self.on("counters") and self.chance(0.8):
            counters = {name: {"value": str(rng.randint(0, 2))} for name in rng.sample("xy", rng.randint(1, 2))}
            device["consumesCounters"] = [{"counterSet": rng.choice("sst"), "counters": counters}]
        if self.on("taints") and self.chance(0.5):
            effect = rng.choice(("NoSchedule", "NoExecute", "None"))
            device["taints"] = [{"key": rng.choice("kl"), "value": "v", "effect": effect}]
        if self.on("conditions") and self.chance(0.4):
            device["bindingConditions"] = ["ready"]
        if self.on("capacity"):
            self._add_capacity(device)
        return device

    def _add_capacity(self, device: dict[str, Any]) -> None:
        rng = self.rng
        device["allowMultipleAllocations"] = self.chance(0.6)
        if self.chance(0.8):
            memory: dict[str, Any] = {"value": str(rng.randint(2, 6))}
            if self.chance(0.4):
                memory["requestPolicy"] = {"default": "1", "validRange": {"min": "1", "step": "2"}}
            elif self.chance(0.3):
                memory["requestPolicy"] = {"default": "2", "validValues": ["2", "4"]}
            device["capacity"] = {"memory": memory}

    def slices(self, devices: list[dict[str, Any]]) -> list[dict[str, Any]]:
        rng = self.rng
        result = []
        pools: dict[str, list[list[dict[str, Any]]]] = {}
        for device in devices:
            groups = pools.setdefault(rng.choice(("p1", "p2")), [[]])
            if self.chance(0.3):
                groups.append([])
            groups[-1].append(device)
        for pool, groups in pools.items():
            total = len(groups) + (1 if self.on("counters") else 0)
            for i, group in enumerate(groups):
                spec: dict[str, Any] = {"devices": group, **self._place(group)}
                result.append(_slice(pool, i, total, spec))
            if self.on("counters"):
                sets = [{"name": name, "counters": self._counters()} for name in ("s", "t")]
                result.append(_slice(pool, 99, total, {"sharedCounters": sets, "allNodes": True}))
        rng.shuffle(result)
        return result

    def _counters(self) -> dict[str, Any]:
        return {name: {"value": str(self.rng.randint(1, 3))} for name in "xy"}

    def _place(self, group: list[dict[str, Any]]) -> dict[str, Any]:
        if not self.on("nodes"):
            return {"nodeName": "node-1"}
        if self.chance(0.4):
            return {"allNodes": True}
        if self.chance(0.4):
            return {"nodeSelector": _zone(self.rng.choice("aab"))}
        for device in group:
            device.update({"allNodes": True} if self.chance(0.6) else {"nodeName": self.rng.choice(("node-1", "n2"))})
        return {"perDeviceNodeSelection": True}

    def use(self, device_id: tuple[str, str, str], device: dict[str, Any]) -> DeviceUse | None:
        if not self.chance(0.15):
            return None
        if device.get("allowMultipleAllocations") and "capacity" in device and self.chance(0.8):
            return DeviceUse(device_id, "s1", (("memory", self.rng.randint(0, 3) * 10**9),))
        return DeviceUse(device_id)

    # --- claims

    def claims(self) -> list[dict[str, Any]]:
        count = 2 if self.on("claims") else 1
        return [self._claim(i) for i in range(count)]

    def _claim(self, number: int) -> dict[str, Any]:
        rng = self.rng
        requests = [self._request(i) for i in range(rng.randint(1 if self.on("claims") else 2, 3))]
        constraints = []
        for feature in ("match", "distinct"):
            if self.on(feature) and self.chance(0.8):
                names = [request["name"] for request in requests]
                chosen = rng.sample(names, rng.randint(1, len(names))) if self.chance(0.5) else []
                constraints.append({f"{feature}Attribute": "driver/numa", "requests": chosen})
        devices = {"requests": requests, "constraints": constraints}
        return {"metadata": {"name": f"claim-{number}", "namespace": "ns"}, "spec": {"devices": devices}}

    def _request(self, number: int) -> dict[str, Any]:
        name = f"r{number}"
        if self.on("prioritized") and self.chance(0.6):
            choices = [{"name": f"s{i}", **self._exact(number + 1 - i)} for i in range(self.rng.randint(1, 3))]
            return {"name": name, "firstAvailable": choices}
        exact = self._exact(number)
        if self.on("admin") and self.chance(0.3):
            exact["adminAccess"] = self.chance(0.8)
        return {"name": name, "exactly": exact}

    def _exact(self, demanding: int) -> dict[str, Any]:
        rng = self.rng
        expression = "any" if demanding <= 0 and self.chance(0.7) else f"kind in {rng.choice(('a', 'a', 'ab', 'ac'))}"
        if self.on("errors") and self.chance(0.3):
            expression = rng.choice(("fails b", "fails c", "fails bc"))
        most = 4 if self.on("limit") else 2
        exact: dict[str, Any] = {
            "deviceClassName": rng.choice(("all", "plain")),
            "allocationMode": "ExactCount",
            "count": rng.choice((1, 1, rng.randint(1, most))),
            "selectors": [{"cel": {"expression": expression}}],
        }
        if self.on("everything") and self.chance(0.4):
            exact["allocationMode"] = "All"
            del exact["count"]
        if self.on("taints") and self.chance(0.6):
            exact["tolerations"] = [{"key": rng.choice("kl"), "operator": "Exists"}]
        if self.on("capacity") and self.chance(0.6):
            exact["capacity"] = {"requests": {"memory": str(rng.randint(1, 4))}}
        return exact


def _slice(pool: str, number: int, total: int, spec: dict[str, Any]) -> dict[str, Any]:
    place = {"driver": "driver", "pool": {"name": pool, "generation": 1, "resourceSliceCount": total}}
    return {"metadata": {"name": f"{pool}-{number}"}, "spec": {**place, **spec}}


def _zone(zone: str) -> dict[str, Any]:
    requirement = {"key": "zone", "operator": "In", "values": [zone]}
    return {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
