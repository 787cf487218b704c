"""Validate the spec of a ResourceSlice: node selection, pool, counters. `devicevalidation` validates devices.

Facts: pkg/apis/resource/validation.
"""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path, invalid, too_many
from apiserver.api.objects import Json
from apiserver.api.schema.markers import Invalid, equals
from apiserver.api.types.core.scheduling import NodeSelectorTerm
from apiserver.api.types.resource.device_types import ADVANCED_DEVICES
from apiserver.api.types.resource.v1 import TYPES
from apiserver.api.validation.compile import At, unchanged
from apiserver.api.validation.internal_values import internal
from apiserver.resources.devices.devicevalidation import (
    RULES,
    UNSET_OR_TRUE,
    Env,
    exactly_one,
    has_list_attributes,
    node_name,
    node_selector,
)

__all__ = ["validate_slice_spec"]


_SPEC: Final = Path("spec")
_SELECTION: Final = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_FLAGS: Final = ("allNodes", "perDeviceNodeSelection")


def validate_slice_spec(spec: Json, old: Json | None) -> list[FieldError]:
    env = Env(per_device=bool(spec.get("perDeviceNodeSelection")))
    return RULES.of(TYPES.ResourceSliceSpec).errors(_SPEC, spec, env, old)


def _one_sort(at: At) -> list[FieldError]:
    if at.value.get("sharedCounters") is None or at.value.get("devices") is None:
        return []
    return [invalid(at.path, "", "only one of `sharedCounters` or `devices` is allowed")]


def _devices(at: At) -> list[FieldError]:
    """Limit the number of devices. The limit is lower if a device has taints, counters or lists."""
    devices = at.value.get("devices") or ()
    advanced = len(devices) > ADVANCED_DEVICES and any(
        device.get("taints") or device.get("consumesCounters") or has_list_attributes(device) for device in devices
    )
    if advanced:
        return [too_many(at.path / "devices", len(devices), ADVANCED_DEVICES)]
    return at.field("devices")


def _one_term(at: At) -> list[FieldError]:
    """Require exactly one term in the node selector of a slice."""
    terms = at.value["nodeSelector"].get("nodeSelectorTerms")
    if len(terms or ()) == 1:
        return []
    shown = None if terms is None else [internal(NodeSelectorTerm, term) for term in terms]
    return [invalid(at.path / "nodeSelector" / "nodeSelectorTerms", shown, "must have exactly one node selector term")]


RULES.set(TYPES.ResourcePool, "name", "resourceSliceCount", "generation")
RULES.set(
    TYPES.ResourceSliceSpec,
    "driver", "pool", unchanged(TYPES.ResourceSliceSpec, "pool.name", "driver", "nodeName"),
    node_name("must be either unset or set to a non-empty string"),
    ("nodeSelector", node_selector), ("nodeSelector", _one_term),
    *(Invalid(name, UNSET_OR_TRUE, when=equals(name, False)) for name in _FLAGS),
    exactly_one("nodeName", "nodeSelector", *_FLAGS, words=_SELECTION, more=", but multiple fields are set"),
    _one_sort, _devices, "sharedCounters",
    by_rules=("devices",),
)  # fmt: skip
