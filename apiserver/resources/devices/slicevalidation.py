"""The spec of a ResourceSlice: where its devices can be used, its pool, its counters. Devices are in
`devicevalidation`. Facts: pkg/apis/resource/validation.
"""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.errors.field_errors import FieldError, Path, invalid, required, too_many
from apiserver.api.types.core.scheduling import NodeSelectorTerm
from apiserver.api.types.resource.device_types import ADVANCED_DEVICES
from apiserver.api.types.resource.v1 import TYPES
from apiserver.api.validation.compile import At, unchanged
from apiserver.api.validation.internal_values import internal
from apiserver.api.values.names import dns_subdomain
from apiserver.resources.common.node_selectors import validate_node_selector
from apiserver.resources.devices.devicevalidation import RULES, Env, has_list_attributes

__all__ = ["validate_slice_spec"]

Json = dict[str, Any]

_SPEC: Final = Path("spec")
_SELECTION: Final = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_UNSET_OR_TRUE: Final = "must be either unset or set to true"


def validate_slice_spec(spec: Json, old: Json | None) -> list[FieldError]:
    env = Env(per_device=bool(spec.get("perDeviceNodeSelection")))
    return RULES.of(TYPES.ResourceSliceSpec).errors(_SPEC, spec, env, old)


def _one_sort(at: At) -> list[FieldError]:
    if at.value.get("sharedCounters") is None or at.value.get("devices") is None:
        return []
    return [invalid(at.path, "", "only one of `sharedCounters` or `devices` is allowed")]


def _devices(at: At) -> list[FieldError]:
    """Fewer devices fit into a slice when one of them is more than a name with properties."""
    devices = at.value.get("devices") or ()
    advanced = len(devices) > ADVANCED_DEVICES and any(
        device.get("taints") or device.get("consumesCounters") or has_list_attributes(device) for device in devices
    )
    if advanced:
        return [too_many(at.path / "devices", len(devices), ADVANCED_DEVICES)]
    return at.field("devices")


def _node_selection(at: At) -> list[FieldError]:
    """Exactly one way to say where the devices can be used."""
    spec = at.value
    errors: list[FieldError] = []
    chosen = []
    name, selector = spec.get("nodeName"), spec.get("nodeSelector")
    if name:
        chosen.append("`nodeName`")
        errors += [invalid(_SPEC / "nodeName", name, text) for text in dns_subdomain(name)]
    elif name is not None:
        errors.append(invalid(_SPEC / "nodeName", name, "must be either unset or set to a non-empty string"))
    if selector is not None:
        chosen.append("`nodeSelector`")
        path = _SPEC / "nodeSelector"
        errors += validate_node_selector(path, selector)
        terms = selector.get("nodeSelectorTerms")
        if len(terms or ()) != 1:
            shown = None if terms is None else [internal(NodeSelectorTerm, term) for term in terms]
            errors.append(invalid(path / "nodeSelectorTerms", shown, "must have exactly one node selector term"))
    for field in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(field):
            chosen.append(f"`{field}`")
        elif spec.get(field) is not None:
            errors.append(invalid(_SPEC / field, False, _UNSET_OR_TRUE))
    if not chosen:
        errors.append(required(_SPEC, _SELECTION))
    elif len(chosen) > 1:
        errors.append(invalid(_SPEC, f"{{{', '.join(chosen)}}}", f"{_SELECTION}, but multiple fields are set"))
    return errors


RULES.set(TYPES.ResourcePool, "name", "resourceSliceCount", "generation")
RULES.set(
    TYPES.ResourceSliceSpec,
    "driver", "pool", unchanged(TYPES.ResourceSliceSpec, "pool.name", "driver", "nodeName"),
    _node_selection, _one_sort, _devices, "sharedCounters",
    by_rules=("nodeName", "nodeSelector", "devices"),
)  # fmt: skip
