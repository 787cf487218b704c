"""The spec of a ResourceSlice: where its devices can be used, its pool, its counters (api.md 4.5). Devices are in
`devicevalidation`.
"""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.fielderrors import FieldError, Path, invalid, required
from apiserver.api.names import dns_subdomain
from apiserver.api.types.core.scheduling import NodeSelectorTerm
from apiserver.resources.devices import names
from apiserver.resources.devices.devicevalidation import (
    has_list_attributes,
    is_plain,
    validate_counters,
    validate_device,
)
from apiserver.resources.devices.lists import bounded_set
from apiserver.resources.internal import internal
from apiserver.resources.nodeselectors import validate_node_selector

__all__ = ["validate_slice_spec"]

Json = dict[str, Any]

_SPEC: Final = Path("spec")
DEVICES_LIMIT: Final = 128
#: With taints, counters or list attributes.
ADVANCED_DEVICES_LIMIT: Final = 64
COUNTER_SETS_LIMIT: Final = 8
_SELECTION: Final = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_UNSET_OR_TRUE: Final = "must be either unset or set to true"


def validate_slice_spec(spec: Json, old: Json | None) -> list[FieldError]:
    pool = spec.get("pool") or {}
    errors = names.driver_name(_SPEC / "driver", spec.get("driver", ""))
    errors += _pool(pool)
    if old is not None:
        errors += _immutable(spec, pool, old)
    errors += _node_selection(spec)
    if spec.get("sharedCounters") is not None and spec.get("devices") is not None:
        errors.append(invalid(_SPEC, "", "only one of `sharedCounters` or `devices` is allowed"))
    errors += _devices(
        spec.get("devices") or [], (old or {}).get("devices") or [], per_device=bool(spec.get("perDeviceNodeSelection"))
    )
    return errors + bounded_set(
        _SPEC / "sharedCounters",
        spec.get("sharedCounters"),
        COUNTER_SETS_LIMIT,
        _counter_set,
        lambda counters: counters.get("name", ""),
    )


def _devices(devices: list[Json], old: list[Json], *, per_device: bool) -> list[FieldError]:
    if (
        len(devices) <= DEVICES_LIMIT
        and not per_device
        and all(map(is_plain, devices))
        and len(set(map(_name, devices))) == len(devices)
    ):
        return []
    advanced = len(devices) > ADVANCED_DEVICES_LIMIT and any(
        device.get("taints") or device.get("consumesCounters") or has_list_attributes(device) for device in devices
    )
    before: dict[str, Json] = {}
    for device in old:
        before.setdefault(_name(device), device)
    return bounded_set(
        _SPEC / "devices", devices, ADVANCED_DEVICES_LIMIT if advanced else DEVICES_LIMIT,
        lambda path, device: validate_device(path, device, before.get(_name(device)), per_device), _name,
    )  # fmt: skip


def _name(device: Json) -> str:
    name: str = device.get("name", "")
    return name


def _pool(pool: Json) -> list[FieldError]:
    path = _SPEC / "pool"
    errors = names.pool_name(path / "name", pool.get("name", ""))
    count, generation = pool.get("resourceSliceCount", 0), pool.get("generation", 0)
    if count <= 0:
        errors.append(invalid(path / "resourceSliceCount", count, "must be greater than zero"))
    if generation < 0:
        errors.append(invalid(path / "generation", generation, "must be greater than or equal to zero"))
    return errors


def _immutable(spec: Json, pool: Json, old: Json) -> list[FieldError]:
    pairs = (
        (_SPEC / "pool" / "name", pool.get("name", ""), (old.get("pool") or {}).get("name", "")),
        (_SPEC / "driver", spec.get("driver", ""), old.get("driver", "")),
        (_SPEC / "nodeName", spec.get("nodeName"), old.get("nodeName")),
    )
    return [invalid(path, new, "field is immutable") for path, new, before in pairs if new != before]


def _node_selection(spec: Json) -> list[FieldError]:
    """Exactly one way to say where the devices can be used."""
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


def _counter_set(path: Path, counter_set: Json) -> list[FieldError]:
    name = counter_set.get("name", "")
    errors = names.label(path / "name", name) if name else [required(path / "name")]
    return errors + validate_counters(path / "counters", counter_set.get("counters"))
