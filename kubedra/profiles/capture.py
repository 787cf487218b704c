"""A profile of what drivers publish on a node of a live cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]


def profile_of(node: str, slices: Iterable[Json], classes: Iterable[Json]) -> Json:
    """The content of a profile file: the node's own pools, each slice a group, and the classes. What belongs to no
    single node is left out. Raises ValueError where there is nothing.
    """
    drivers: dict[str, list[Json]] = {}
    for item in sorted(slices, key=lambda item: str(item["metadata"]["name"])):
        spec = item["spec"]
        if spec.get("nodeName") != node:
            continue
        group = {"counters": spec.get("sharedCounters"), "devices": [_device(d) for d in spec.get("devices") or ()]}
        made = {key: _worded(value, node) for key, value in group.items() if value}
        if made:
            drivers.setdefault(spec["driver"], []).append(made)
    if not drivers:
        raise ValueError(f"no ResourceSlice of node {node}: nothing to capture")
    number = sum(len(group.get("devices") or ()) for groups in drivers.values() for group in groups)
    return {
        "description": f"{number} devices of {', '.join(drivers)}, captured from {node}",
        "classes": {item["metadata"]["name"]: item.get("spec") or {} for item in classes},
        "drivers": drivers,
    }


def _device(device: Json) -> Json:
    """A device without what belongs to one moment: taints come and go. One of v1beta1 has its fields in `basic`."""
    flat = {**device, **(device.get("basic") or {})}
    return {key: value for key, value in flat.items() if key not in ("taints", "basic")}


def _worded(value: Any, node: str) -> Any:
    """As `profiles` reads it: braces are doubled, the node's name is `{node}`."""
    if isinstance(value, dict):
        return {key: _worded(item, node) for key, item in value.items()}
    if isinstance(value, list):
        return [_worded(item, node) for item in value]
    if isinstance(value, str):
        return value.replace("{", "{{").replace("}", "}}").replace(node, "{node}")
    return value
