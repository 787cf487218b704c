"""Validate a device of a slice: attributes, capacity, taints, counters, node selection.

Facts: pkg/apis/resource/validation.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from apiserver.api.errors.field_errors import FieldError, Named, Path, invalid, required, too_long
from apiserver.api.objects import Json
from apiserver.api.schema.equality import semantic_equal
from apiserver.api.schema.markers import If, Invalid, equals, is_any_set, knows
from apiserver.api.types.resource.device_types import ATTRIBUTE_VALUES, PROPERTIES
from apiserver.api.types.resource.v1 import TYPES
from apiserver.api.validation.compile import At, Rule, Rules, most_bytes
from apiserver.api.validation.formats import FORMATS
from apiserver.api.validation.internal_values import internal
from apiserver.api.values.semver import is_attribute_version
from apiserver.resources.common.node_selectors import validate_node_selector
from apiserver.resources.common.resource_names import is_native
from apiserver.resources.devices.bindingconditions import BINDING_CONDITIONS
from apiserver.resources.devices.capacitypolicy import validate_capacity

__all__ = [
    "RULES",
    "UNSET_OR_TRUE",
    "Env",
    "effect_of_taint",
    "exactly_one",
    "has_list_attributes",
    "node_name",
    "node_selector",
]


#: Checks of slices and of device taint rules.
RULES: Final = Rules()

_VERSION: Final = "must be a string compatible with semver.org spec 2.0.0"
_SCALARS: Final = ("bool", "int", "string", "version")
_LISTS: Final = ("bools", "ints", "strings", "versions")
_LIST_NAMES: Final = frozenset(_LISTS)
_PLAIN_FIELDS: Final = frozenset({"name", "attributes", "capacity"})
_NO_LISTS: Final = _LIST_NAMES.isdisjoint
_NO_POLICY: Final = frozenset({"requestPolicy"}).isdisjoint
UNSET_OR_TRUE: Final = "must be either unset or set to true"
_SELECTION: Final = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true"
    " in the ResourceSlice spec"
)
_NO_SELECTION: Final = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the"
    " ResourceSlice spec"
)


class Env(NamedTuple):
    """Context of the rules.

    `per_device`: each device of the slice selects its nodes. `shared`: several claims may share the device.
    """

    per_device: bool = False
    shared: bool = False


def has_list_attributes(device: Json) -> bool:
    return any(not _LIST_NAMES.isdisjoint(attribute) for attribute in (device.get("attributes") or {}).values())


def _values(attribute: Json) -> int:
    """Return the number of values of an attribute: the length of a list, otherwise one."""
    return sum(len(attribute[name]) for name in _LISTS if attribute.get(name)) or 1


def _is_plain(device: Json) -> bool:
    """Return whether a device is trivially valid, as most are: only a name and valid properties.

    This fast path needs no error paths.
    """
    if not device.keys() <= _PLAIN_FIELDS:
        return False
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    return (
        len(attributes) + len(capacity) <= PROPERTIES
        and all(map(_is_plain_attribute, attributes.values()))
        and all(map(_is_name, attributes))
        and all(map(_is_name, capacity))
        and all(map(_NO_POLICY, capacity.values()))
        and _is_label(device["name"])
    )


def _sizes(at: At) -> list[FieldError]:
    """Limit the total number of properties, and of attribute values."""
    attributes, capacity = at.value.get("attributes") or {}, at.value.get("capacity") or {}
    errors: list[FieldError] = []
    if len(attributes) + len(capacity) > PROPERTIES:
        detail = f"the total number of attributes and capacities must not exceed {PROPERTIES}"
        errors.append(invalid(at.path, len(attributes) + len(capacity), detail))
    scalar = all(map(_NO_LISTS, attributes.values()))
    values = len(attributes) if scalar else sum(map(_values, attributes.values()))
    if values > ATTRIBUTE_VALUES:
        detail = f"the total number of attribute values must not exceed {ATTRIBUTE_VALUES}"
        errors.append(invalid(at.path, values, detail))
    return errors


def _capacity(at: At) -> list[FieldError]:
    return at.field("capacity", Env(at.env.per_device, bool(at.value.get("allowMultipleAllocations"))))


def _taints(at: At) -> list[FieldError]:
    """Validate the taints. Unchanged taints were accepted before."""
    kind, taints = TYPES.Device.fields["taints"].type, at.value.get("taints")
    same = at.old is not None and semantic_equal(kind, taints, at.old.get("taints"))
    return [] if same else at.field("taints")


# --- attributes
# ----------------------------------------------------------------------------------------------------------------------


_is_name: Final = FORMATS["qualified-name"].fits
_is_label: Final = FORMATS["dns-label"].fits
_is_key: Final = FORMATS["label-key"].fits
_is_value: Final = FORMATS["label-value"].fits
_MOST_TEXT: Final = most_bytes(TYPES.DeviceAttribute, "string")


def _text(path: Path, value: str) -> list[FieldError]:
    return [too_long(path, _MOST_TEXT)] if len(value.encode()) > _MOST_TEXT else []


def _version(path: Path, value: str) -> list[FieldError]:
    errors = [] if is_attribute_version(value) else [invalid(path, value, _VERSION)]
    return errors + _text(path, value)


def _is_plain_attribute(attribute: Json) -> bool:
    """Return whether an attribute is trivially valid: one scalar value of valid form."""
    if len(attribute) != 1:
        return False
    ((name, value),) = attribute.items()
    if name == "string" or name == "version":
        return len(value) <= _MOST_TEXT and value.isascii() and (name == "string" or is_attribute_version(value))
    return name in ("int", "bool")


def _attribute(at: At) -> list[FieldError]:
    """Require exactly one value, a scalar or a list."""
    attribute, errors = at.value, at.field("string")
    if attribute.get("version") is not None:
        errors += _version(at.path / "version", attribute["version"])
    for name in _LISTS:
        listed = attribute.get(name)
        if listed is None:
            continue
        if not listed:
            errors.append(invalid(at.path / name, listed, "must not be empty if specified"))
        if name in ("strings", "versions"):
            check = _text if name == "strings" else _version
            for index, value in enumerate(listed):
                errors += check((at.path / name)[index], value)
    members = sum(attribute.get(name) is not None for name in _SCALARS + _LISTS)
    if members != 1:
        shown = internal(TYPES.DeviceAttribute, attribute) if members else ""
        errors.append(invalid(at.path, shown, "exactly one value must be specified"))
    return errors


def _is_plain_taint(taint: Json) -> bool:
    """Return whether a taint is trivially valid."""
    return (
        _is_key(taint.get("key", ""))
        and taint.get("effect", "") in TYPES.DeviceTaintEffect.enum
        and _is_value(taint.get("value", ""))
    )


def effect_of_taint(at: At) -> list[FieldError]:
    """Validate a taint's effect. An unchanged effect is not validated again."""
    known = at.old is not None and at.old.get("effect", "") == at.value.get("effect", "")
    return [] if known else at.field("effect")


# --- nodes
# ----------------------------------------------------------------------------------------------------------------------


def exactly_one(*names: str, words: str, more: str = "") -> Rule:
    """Return the rule that exactly one of the fields is set: neither missing nor empty nor false."""

    def rule(at: At) -> list[FieldError]:
        chosen = [f"`{name}`" for name in names if at.value.get(name) not in (None, "", False)]
        if len(chosen) == 1:
            return []
        return [invalid(at.path, f"{{{', '.join(chosen)}}}", words + more)] if chosen else [required(at.path, words)]

    return rule


def node_name(empty: str) -> If:
    """Return the rule of a node's name. `empty` is the error text for an empty name."""
    return If(equals("nodeName", ""), (Invalid("nodeName", empty),), otherwise=("nodeName",))


def node_selector(at: At) -> list[FieldError]:
    return validate_node_selector(at.path / "nodeSelector", at.value["nodeSelector"])


_NODES: Final = ("nodeName", "nodeSelector", "allNodes")
_NODE_SELECTION: Final = If(
    knows(lambda env: env.per_device),
    (
        node_name("must not be empty"), ("nodeSelector", node_selector),
        Invalid("allNodes", UNSET_OR_TRUE, when=equals("allNodes", False)), exactly_one(*_NODES, words=_SELECTION),
    ),
    otherwise=(Invalid("", _NO_SELECTION, when=is_any_set(*_NODES), shown=None),),
)  # fmt: skip


def _mappings(device: At) -> list[FieldError]:
    """Validate the mappings of a device to allocatable resources of its node."""
    errors: list[FieldError] = []
    capacity = device.value.get("capacity") or {}
    checks = RULES.of(TYPES.NodeAllocatableResourceMapping)
    for name, mapping in device.value["nodeAllocatableResourceMappings"].items():
        at = (device.path / "nodeAllocatableResourceMappings").key(name)
        if not is_native(name):
            errors.append(invalid(at, Named(name), "must be a node allocatable resource name"))
        errors += checks.errors(at, mapping, capacity)
    return errors


RULES.set(
    TYPES.Device,
    "name", _sizes, "attributes", _capacity, _taints, "consumesCounters",
    _NODE_SELECTION, *BINDING_CONDITIONS, ("nodeAllocatableResourceMappings", _mappings),
    by_rules=("capacity", "taints"),
    fits=lambda env: None if env.per_device else _is_plain,
)  # fmt: skip
RULES.set(
    TYPES.DeviceAttribute, _attribute, by_rules=("string", "version", *_LISTS), fits=lambda env: _is_plain_attribute
)
RULES.set(TYPES.DeviceCapacity, validate_capacity, by_rules=("requestPolicy",), fits=lambda env: _NO_POLICY)
RULES.set(
    TYPES.DeviceTaint,
    "key", "value", effect_of_taint,
    by_rules=("effect",), fits=lambda env: _is_plain_taint,
)  # fmt: skip
