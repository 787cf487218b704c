"""Capture of a profile from a node of a live cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kubedra.profiles.node_names import replace_node_name
from kubedra.runtime.objects import Json

#: Fields of quantities and versions, whose digits are never the name of a node.
_NUMERIC: Final = frozenset(("value", "version", "versions"))


def profile_of(node: str, slices: Iterable[Json], classes: Iterable[Json]) -> Json:
    """Return the content of a profile file: the node's own pools, each slice a group, and the classes.

    Devices that belong to no single node are omitted. Raises ValueError if the node has no slices.
    """
    drivers: dict[str, list[Json]] = {}
    for item in sorted(slices, key=lambda item: str(item["metadata"]["name"])):
        spec = item["spec"]
        if spec.get("nodeName") != node:
            continue
        counters = _escape(spec.get("sharedCounters") or [], node)
        group = {"counters": counters, "devices": [_device(device, node) for device in spec.get("devices") or ()]}
        if any(group.values()):
            drivers.setdefault(spec["driver"], []).append({key: value for key, value in group.items() if value})
    if not drivers:
        raise ValueError(f"no ResourceSlice of node {node}: nothing to capture")
    number = sum(len(group.get("devices") or ()) for groups in drivers.values() for group in groups)
    return {
        "description": f"{number} devices of {', '.join(drivers)}, captured from {node}",
        "classes": {item["metadata"]["name"]: item.get("spec") or {} for item in classes},
        "drivers": drivers,
    }


def _device(device: Json, node: str) -> Json:
    """Return a device with escaped texts and without taints, which are transient. v1beta1 has its fields in `basic`."""
    flat = {**device, **(device.get("basic") or {})}
    return {
        key: value if key == "capacity" else _escape(value, node)
        for key, value in flat.items()
        if key not in ("taints", "basic")
    }


def _escape(value: Any, node: str) -> Any:
    """Return a value with texts as `profiles` reads them: braces doubled, and `{node}` in place of the node's name."""
    if isinstance(value, dict):
        # A numeric field is never an object, but an attribute can have the same name.
        return {
            key: _escape(item, node) if key not in _NUMERIC or isinstance(item, dict) else item
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_escape(item, node) for item in value]
    if isinstance(value, str):
        return replace_node_name(value.replace("{", "{{").replace("}", "}}"), node, "{node}")
    return value
