"""One device of a slice: attributes, capacity, taints, counters, where it can be used (api.md 4.5)."""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.fielderrors import FieldError, Named, Path, invalid, not_found, not_supported, required, too_long
from apiserver.api.names import dns_label, dns_subdomain
from apiserver.api.quantity import Quantity
from apiserver.api.semver import is_attribute_version
from apiserver.api.types.resource.v1 import TYPES
from apiserver.resources.devices import names
from apiserver.resources.devices.bindingconditions import validate_binding_conditions
from apiserver.resources.devices.capacitypolicy import validate_capacity
from apiserver.resources.devices.lists import bounded_list, bounded_map, bounded_set
from apiserver.resources.equality import semantic_equal
from apiserver.resources.internal import internal
from apiserver.resources.nodeselectors import validate_node_selector
from apiserver.resources.resource_names import is_native

__all__ = ["has_list_attributes", "is_plain", "validate_counters", "validate_device", "validate_taint"]

Json = dict[str, Any]

PROPERTIES_LIMIT: Final = 32
VALUES_LIMIT: Final = 48
TEXT_LIMIT: Final = 64
TAINTS_LIMIT: Final = 16
CONSUMPTIONS_LIMIT: Final = 2
COUNTERS_LIMIT: Final = 32
#: domain, slash and identifier
_KEY_LIMIT: Final = 63 + 1 + 32
_LABEL_LIMIT: Final = 63
TAINT_EFFECTS: Final = ("NoExecute", "NoSchedule", "None")
_VERSION: Final = "must be a string compatible with semver.org spec 2.0.0"
_SCALARS: Final = ("bool", "int", "string", "version")
_LISTS: Final = ("bools", "ints", "strings", "versions")
_LIST_NAMES: Final = frozenset(_LISTS)
_PLAIN_FIELDS: Final = frozenset({"name", "attributes", "capacity"})
_NO_POLICY: Final = frozenset({"requestPolicy"}).isdisjoint
_SELECTION: Final = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true"
    " in the ResourceSlice spec"
)
_NO_SELECTION: Final = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the"
    " ResourceSlice spec"
)


def has_list_attributes(device: Json) -> bool:
    return any(not _LIST_NAMES.isdisjoint(attribute) for attribute in (device.get("attributes") or {}).values())


def _values(attribute: Json) -> int:
    """How many values an attribute counts as: a list its length, all else one."""
    return sum(len(attribute[name]) for name in _LISTS if attribute.get(name)) or 1


def is_plain(device: Json) -> bool:
    """A name and properties in which nothing can be wrong, as most devices have no more: that is told without a
    path.
    """
    if not device.keys() <= _PLAIN_FIELDS:
        return False
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    return (
        len(attributes) + len(capacity) <= PROPERTIES_LIMIT
        and _has_plain(attributes, capacity)
        and not dns_label(device["name"])
    )


def _has_plain(attributes: Json, capacity: Json) -> bool:
    return (
        all(map(_is_plain_attribute, attributes.values()))
        and all(map(names.is_qualified_name, attributes))
        and all(map(names.is_qualified_name, capacity))
        and all(map(_NO_POLICY, capacity.values()))
    )


def validate_device(path: Path, device: Json, old: Json | None, per_device: bool) -> list[FieldError]:
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    errors = names.label(path / "name", device.get("name", "")) if dns_label(device.get("name", "")) else []
    if len(attributes) + len(capacity) > PROPERTIES_LIMIT:
        detail = f"the total number of attributes and capacities must not exceed {PROPERTIES_LIMIT}"
        errors.append(invalid(path, len(attributes) + len(capacity), detail))
    values = sum(map(_values, attributes.values()))
    if values > VALUES_LIMIT:
        errors.append(invalid(path, values, f"the total number of attribute values must not exceed {VALUES_LIMIT}"))
    if not _has_plain(attributes, capacity):
        errors += bounded_map(path / "attributes", attributes, -1, _KEY_LIMIT, names.qualified_name, _attribute)
        shared = bool(device.get("allowMultipleAllocations"))
        errors += bounded_map(
            path / "capacity",
            capacity,
            -1,
            _KEY_LIMIT,
            names.qualified_name,
            lambda p, amount: validate_capacity(p, amount, shared),
        )
    taints = device.get("taints")
    if taints and (old is None or not semantic_equal(TYPES.Device.fields["taints"].type, taints, old.get("taints"))):
        errors += bounded_list(path / "taints", taints, TAINTS_LIMIT, validate_taint)
    if device.get("consumesCounters"):
        errors += bounded_set(
            path / "consumesCounters",
            device["consumesCounters"],
            CONSUMPTIONS_LIMIT,
            _consumption,
            lambda item: item.get("counterSet", ""),
        )
    errors += _node_selection(path, device, per_device)
    errors += validate_binding_conditions(path, device)
    if device.get("nodeAllocatableResourceMappings"):
        errors += _mappings(
            path / "nodeAllocatableResourceMappings", device["nodeAllocatableResourceMappings"], capacity
        )
    return errors


# --- attributes
# ----------------------------------------------------------------------------------------------------------------------


def _text(path: Path, value: str) -> list[FieldError]:
    return (
        [too_long(path, TEXT_LIMIT)]
        if len(value) > TEXT_LIMIT or (not value.isascii() and len(value.encode()) > TEXT_LIMIT)
        else []
    )


def _version(path: Path, value: str) -> list[FieldError]:
    errors = [] if is_attribute_version(value) else [invalid(path, value, _VERSION)]
    return errors + _text(path, value)


def _is_plain_attribute(attribute: Json) -> bool:
    """One value, that cannot be wrong."""
    if len(attribute) != 1:
        return False
    ((name, value),) = attribute.items()
    if name == "string" or name == "version":
        return len(value) <= TEXT_LIMIT and value.isascii() and (name == "string" or is_attribute_version(value))
    return name in ("int", "bool")


def _attribute(path: Path, attribute: Json) -> list[FieldError]:
    """Exactly one value, single or a list."""
    errors: list[FieldError] = []
    if attribute.get("string") is not None:
        errors += _text(path / "string", attribute["string"])
    if attribute.get("version") is not None:
        errors += _version(path / "version", attribute["version"])
    for name in _LISTS:
        listed = attribute.get(name)
        if listed is None:
            continue
        if not listed:
            errors.append(invalid(path / name, listed, "must not be empty if specified"))
        if name in ("strings", "versions"):
            check = _text if name == "strings" else _version
            for index, value in enumerate(listed):
                errors += check((path / name)[index], value)
    members = sum(attribute.get(name) is not None for name in _SCALARS + _LISTS)
    if members != 1:
        shown = internal(TYPES.DeviceAttribute, attribute) if members else ""
        errors.append(invalid(path, shown, "exactly one value must be specified"))
    return errors


# --- taints and counters
# -------------------------------------------------------------------------------------------------------------------


def validate_taint(path: Path, taint: Json, old: Json | None = None) -> list[FieldError]:
    """A device taint. An effect that was there before is not looked at again."""
    value, effect = taint.get("value", ""), taint.get("effect", "")
    errors = names.label_key(path / "key", taint.get("key", ""))
    if value:
        errors += names.label_value(path / "value", value)
    if old is not None and old.get("effect", "") == effect:
        return errors
    if not effect:
        errors.append(required(path / "effect"))
    elif effect not in TAINT_EFFECTS:
        errors.append(not_supported(path / "effect", Named(effect), TAINT_EFFECTS))
    return errors


def validate_counters(path: Path, counters: Json | None) -> list[FieldError]:
    return (
        bounded_map(path, counters, COUNTERS_LIMIT, _LABEL_LIMIT, names.label, None) if counters else [required(path)]
    )


def _consumption(path: Path, consumption: Json) -> list[FieldError]:
    name = consumption.get("counterSet", "")
    errors = names.label(path / "counterSet", name) if name else [required(path / "counterSet")]
    return errors + validate_counters(path / "counters", consumption.get("counters"))


# --- nodes
# ----------------------------------------------------------------------------------------------------------------------


def _node_selection(path: Path, device: Json, per_device: bool) -> list[FieldError]:
    name, selector, everywhere = device.get("nodeName"), device.get("nodeSelector"), device.get("allNodes")
    if not per_device:
        chosen_anyway = name is not None or selector is not None or everywhere is not None
        return [invalid(path, None, _NO_SELECTION)] if chosen_anyway else []
    errors: list[FieldError] = []
    chosen = []
    if name:
        chosen.append("`nodeName`")
        errors += [invalid(path / "nodeName", name, text) for text in dns_subdomain(name)]
    elif name is not None:
        errors.append(invalid(path / "nodeName", name, "must not be empty"))
    if selector is not None:
        chosen.append("`nodeSelector`")
        errors += validate_node_selector(path / "nodeSelector", selector)
    if everywhere:
        chosen.append("`allNodes`")
    elif everywhere is not None:
        errors.append(invalid(path / "allNodes", False, "must be either unset or set to true"))
    if not chosen:
        errors.append(required(path, _SELECTION))
    elif len(chosen) > 1:
        errors.append(invalid(path, f"{{{', '.join(chosen)}}}", _SELECTION))
    return errors


def _mappings(path: Path, mappings: Json, capacity: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, mapping in mappings.items():
        at = path.key(name)
        if not is_native(name):
            errors.append(invalid(at, Named(name), "must be a node allocatable resource name"))
        multiplier, key = mapping.get("allocationMultiplier"), mapping.get("capacityKey")
        if multiplier is None and key is None:
            errors.append(invalid(at, "", "at least one of allocationMultiplier or capacityKey must be set"))
        if multiplier is not None and Quantity.parse(multiplier).sign <= 0:
            errors.append(invalid(at / "allocationMultiplier", multiplier, "must be positive"))
        if key == "":
            errors.append(invalid(at / "capacityKey", "", "capacityKey must not be an empty string"))
        elif key is not None and key not in capacity:
            errors.append(not_found(at / "capacityKey", Named(key)))
    return errors
