"""The status of a claim: allocation, reservations, what drivers report (api.md 4.3, 5.1, 5.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from apiserver.api.fielderrors import (
    FieldError,
    Named,
    Path,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from apiserver.api.times import holds_truncated
from apiserver.api.types.resource.v1 import TYPES
from apiserver.resources.conditions import validate_conditions
from apiserver.resources.devices import names
from apiserver.resources.devices.access import (
    admin_access_of_results,
    authorize_binding,
    authorize_devices,
    device_identity,
)
from apiserver.resources.devices.bindingconditions import validate_binding_conditions
from apiserver.resources.devices.claimvalidation import (
    CONFIG_LIMIT,
    REQUESTS_LIMIT,
    RequestNames,
    consumer,
    raw_object,
    references,
    request_names,
    request_reference,
    validate_configuration,
)
from apiserver.resources.devices.lists import bounded_list, bounded_set
from apiserver.resources.equality import semantic_equal
from apiserver.resources.internal import internal
from apiserver.resources.networks import canonical_interface
from apiserver.resources.nodeselectors import validate_node_selector

if TYPE_CHECKING:
    from apiserver.api.features import Features
    from apiserver.registry.context import Context

__all__ = ["authorize", "drop_deallocated_devices", "validate"]

Json = dict[str, Any]

_STATUS: Final = Path("status")
RESERVED_FOR_LIMIT: Final = 256
CONDITIONS_LIMIT: Final = 8
DATA_LIMIT: Final = 10240
IPS_LIMIT: Final = 16
INTERFACE_NAME_LIMIT: Final = 256
HARDWARE_ADDRESS_LIMIT: Final = 128


def _results(status: Json) -> list[Json]:
    return ((status.get("allocation") or {}).get("devices") or {}).get("results") or []


def drop_deallocated_devices(features: Features, status: Json, before: Json) -> None:
    """What drivers reported about a device goes when its allocation goes. Changes `status` in place."""
    if not features.enabled("DRAResourceClaimDeviceStatus") and not before.get("devices"):
        return
    if not status.get("devices"):
        return
    gone = set(map(device_identity, _results(before))) - set(map(device_identity, _results(status)))
    kept = [device for device in status["devices"] if device_identity(device) not in gone]
    if kept:
        status["devices"] = kept
    else:
        del status["devices"]


def authorize(ctx: Context, obj: Json, old: Json) -> list[FieldError]:
    """Admin access, then the permissions that parts of the status need."""
    status, before = obj["status"], old.get("status") or {}
    errors = admin_access_of_results(ctx, _results(status), _results(before), obj["metadata"].get("namespace", ""))
    if ctx.features.enabled("DRAResourceClaimGranularStatusAuthorization"):
        errors += authorize_binding(ctx, status, before)
        if status.get("allocation") is not None and ctx.features.enabled("DRAResourceClaimDeviceStatus"):
            errors += authorize_devices(ctx, status, before)
    return errors


def validate(obj: Json, old: Json) -> list[FieldError]:
    status, before = obj["status"], old.get("status") or {}
    errors = bounded_set(
        _STATUS / "reservedFor",
        status.get("reservedFor"),
        RESERVED_FOR_LIMIT,
        consumer,
        lambda entry: entry.get("uid", ""),
        lambda entry: Named(entry.get("uid", "")),
    )
    allocation = status.get("allocation")
    if status.get("devices"):
        allocated = set(map(device_identity, _results(status)))
        errors += bounded_set(
            _STATUS / "devices",
            status["devices"],
            -1,
            lambda path, device: _device(path, device, allocated),
            device_identity,
            _shown_identity,
        )
    errors += _reservations(status, before, "deletionTimestamp" in obj["metadata"])
    if allocation is not None:
        if before.get("allocation") is None:
            errors += _allocation(_STATUS / "allocation", allocation, request_names(obj["spec"]))
        elif not semantic_equal(TYPES.AllocationResult, allocation, before["allocation"]) or holds_truncated(
            allocation.get("allocationTimestamp")
        ):
            errors.append(
                invalid(_STATUS / "allocation", internal(TYPES.AllocationResult, allocation), "field is immutable")
            )
    return errors


def _reservations(status: Json, before: Json, deleted: bool) -> list[FieldError]:
    reserved = status.get("reservedFor")
    if not reserved:
        return []
    path = _STATUS / "reservedFor"
    if status.get("allocation") is None:
        return [forbidden(path, "may not be specified when `allocated` is not set")]
    known = before.get("reservedFor") or []
    if deleted and any(entry not in known for entry in reserved):
        return [
            forbidden(path, "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set")
        ]
    return []


def _shown_identity(device: Json) -> Json:
    driver, pool, name, share = device_identity(device)
    return {"Driver": driver, "Pool": pool, "Device": name, "ShareID": share}


def _device(path: Path, device: Json, allocated: set[tuple[str, str, str, str]]) -> list[FieldError]:
    """What a driver reports about one device."""
    errors = names.driver_name(path / "driver", device.get("driver", ""))
    errors += names.pool_name(path / "pool", device.get("pool", ""))
    errors += names.label(path / "device", device.get("device", ""))
    if device.get("shareID") is not None:
        errors += names.uid(path / "shareID", device["shareID"])
    if device_identity(device) not in allocated:
        errors.append(invalid(path, _shown_identity(device), "must be an allocated device in the claim"))
    conditions = device.get("conditions") or []
    if len(conditions) > CONDITIONS_LIMIT:
        errors.append(too_many(path / "conditions", len(conditions), CONDITIONS_LIMIT))
    errors += validate_conditions(path / "conditions", conditions)
    if device.get("data") is not None:
        errors += raw_object(path / "data", device["data"], DATA_LIMIT)
    if device.get("networkData") is not None:
        errors += _network(path / "networkData", device["networkData"])
    return errors


def _network(path: Path, data: Json) -> list[FieldError]:
    errors = [
        too_long(path / field, limit)
        for field, limit in (("interfaceName", INTERFACE_NAME_LIMIT), ("hardwareAddress", HARDWARE_ADDRESS_LIMIT))
        if len(data.get(field, "").encode()) > limit
    ]
    return errors + bounded_set(path / "ips", data.get("ips"), IPS_LIMIT, canonical_interface, lambda address: address)


def _allocation(path: Path, allocation: Json, known: RequestNames) -> list[FieldError]:
    devices = allocation.get("devices") or {}
    at = path / "devices"
    errors = bounded_list(
        at / "results", devices.get("results"), REQUESTS_LIMIT, lambda p, result: _result(p, result, known)
    )
    errors += bounded_list(
        at / "config", devices.get("config"), 2 * CONFIG_LIMIT, lambda p, config: _configuration(p, config, known)
    )
    if allocation.get("nodeSelector") is not None:
        errors += validate_node_selector(path / "nodeSelector", allocation["nodeSelector"])
    return errors


def _result(path: Path, result: Json, known: RequestNames) -> list[FieldError]:
    errors = request_reference(path / "request", result.get("request", ""), known)
    errors += names.driver_name(path / "driver", result.get("driver", ""))
    errors += names.pool_name(path / "pool", result.get("pool", ""))
    errors += names.label(path / "device", result.get("device", ""))
    errors += validate_binding_conditions(path, result)
    if result.get("shareID") is not None:
        errors += names.uid(path / "shareID", result["shareID"])
    return errors


def _configuration(path: Path, config: Json, known: RequestNames) -> list[FieldError]:
    source = config.get("source", "")
    errors: list[FieldError] = []
    if not source:
        errors.append(required(path / "source"))
    elif source not in ("FromClaim", "FromClass"):
        errors.append(not_supported(path / "source", Named(source), ("FromClaim", "FromClass")))
    return errors + references(path / "requests", config.get("requests"), known) + validate_configuration(path, config)
