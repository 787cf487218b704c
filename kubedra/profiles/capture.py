"""A profile of what drivers publish on a node of a live cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kubedra.profiles.node_names import replace_node_name

Json = dict[str, Any]
#: Fields of quantities and versions. Digits in them are never the name of a node.
_NUMERIC: Final = frozenset(("value", "version", "versions"))


def profile_of(node: str, slices: Iterable[Json], classes: Iterable[Json]) -> Json:
    """The content of a profile file: the node's own pools, each slice a group, and the classes. What belongs to no
    single node is left out. Raises ValueError where there is nothing.
    """
    drivers: dict[str, list[Json]] = {}
    for item in sorted(slices, key=lambda item: str(item["metadata"]["name"])):
        spec = item["spec"]
        if spec.get("nodeName") != node:
            continue
        counters = _worded(spec.get("sharedCounters") or [], node)
        group = {"counters": counters, "devices": [_device(device, node) for device in spec.get("devices") or ()]}
        made = {key: value for key, value in group.items() if value}
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


def _device(device: Json, node: str) -> Json:
    """Return a device as `_worded` writes it, without taints, which come and go. v1beta1 has its fields in `basic`."""
    flat = {**device, **(device.get("basic") or {})}
    return {
        key: value if key == "capacity" else _worded(value, node)
        for key, value in flat.items()
        if key not in ("taints", "basic")
    }


def _worded(value: Any, node: str) -> Any:
    """Write texts as `profiles` reads them: with doubled braces, and `{node}` for the node's name as a word."""
    if isinstance(value, dict):
        # A field of a number is never an object; an attribute of that name is.
        return {
            key: _worded(item, node) if key not in _NUMERIC or isinstance(item, dict) else item
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_worded(item, node) for item in value]
    if isinstance(value, str):
        return replace_node_name(value.replace("{", "{{").replace("}", "}}"), node, "{node}")
    return value
