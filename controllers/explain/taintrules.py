"""DeviceTaintRules behind the taints of devices, and rules without effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from apiserver.api.objects import Json
from controllers.allocator.explain import Explanation
from controllers.explain.details import taint_text
from controllers.explain.findings import plural
from controllers.explain.nodechanges import Change
from controllers.explain.world import World
from controllers.resourceclaims.taints import rule_matches
from controllers.runtime.kinds import DEVICE_TAINT_RULES

#: Rules printed.
_MOST: Final = 4
_GATE: Final = "DRADeviceTaintRules"


def tainted_nodes(explained: Mapping[str, Explanation]) -> list[str]:
    """Return the nodes on which taints rule devices out."""
    return [
        node
        for node, explanation in explained.items()
        if any(reason.kind == "taint" for request in explanation.requests for reason in request.reasons)
    ]


def rule_lines(world: World, explained: Mapping[str, Explanation]) -> list[str]:
    """Return a line for each rule that rules devices out by its taint, or that has no effect."""
    nodes = tainted_nodes(explained) if world.options.features.enabled(_GATE) else list(explained)
    return rule_lines_of(world, nodes)


def rule_lines_of(world: World, nodes: Iterable[str]) -> list[str]:
    """Return a line for each rule that selects devices of these nodes."""
    counts = _count_devices(world, nodes)
    rules = [(rule, counts[rule["metadata"]["name"]]) for rule in _rules(world) if rule["metadata"]["name"] in counts]
    return [_line(world, rule, count) for rule, count in rules[:_MOST]] + ["…"] * (len(rules) > _MOST)


def delete_rules(world: World, nodes: Iterable[str]) -> Iterator[Change]:
    """Yield the deletion of each rule that taints devices of these nodes."""
    if not world.options.features.enabled(_GATE):
        return
    counts = _count_devices(world, nodes)
    for rule in _rules(world):
        name = rule["metadata"]["name"]
        if name in counts:
            yield Change("rule", f"delete DeviceTaintRule {name}", ((DEVICE_TAINT_RULES, name, None),))


def _rules(world: World) -> list[Json]:
    return sorted(world.objects(DEVICE_TAINT_RULES), key=lambda rule: str(rule["metadata"]["name"]))


def _count_devices(world: World, nodes: Iterable[str]) -> Counter[str]:
    """Return the number of selected devices by rule."""
    rules = _rules(world)
    if not rules:
        return Counter()
    infos = world.scheduler.cache.nodes
    inventory = world.scheduler.allocator.inventory
    devices = {device.id for node in nodes for device in inventory.view(infos[node].node or {}).devices}
    return Counter(rule["metadata"]["name"] for rule in rules for device in devices if rule_matches(rule, *device))


def _line(world: World, rule: Json, count: int) -> str:
    name, taint = rule["metadata"]["name"], taint_text(rule["spec"]["taint"])
    if not world.options.features.enabled(_GATE):
        return f"DeviceTaintRule {name} ({taint}) has no effect: the feature gate {_GATE} is off"
    return f"DeviceTaintRule {name} taints {plural(count, 'device')} with {taint}"
