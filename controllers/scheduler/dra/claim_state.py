"""A claim's status: readiness of its devices, and deallocation by an update."""

from __future__ import annotations

from apiserver.api.objects import Json


def is_deallocation(old: Json, new: Json) -> bool:
    """Return whether the update freed devices."""
    before = (old.get("status") or {}).get("allocation")
    return before is not None and (new.get("status") or {}).get("allocation") is None


def readiness(claim: Json) -> tuple[bool, str]:
    """Return whether the claim's devices are ready by their binding conditions, and the text of a failure."""
    status = claim.get("status") or {}
    allocation = status.get("allocation")
    if allocation is None:
        return False, ""
    devices = {(d["driver"], d["pool"], d["device"]): d for d in status.get("devices") or ()}
    for result in results_of(allocation):
        if not result.get("bindingConditions"):
            continue
        device = devices.get((result["driver"], result["pool"], result["device"]))
        if device is None:
            return False, ""
        conditions = {condition["type"]: condition for condition in device.get("conditions") or ()}
        for failure in result.get("bindingFailureConditions") or ():
            condition = conditions.get(failure)
            if condition is not None and condition["status"] == "True":
                name, reason, message = (
                    claim["metadata"]["name"],
                    condition.get("reason", ""),
                    condition.get("message", ""),
                )
                return False, f'device binding failed: claim={name}, reason={reason}, message="{message}"'
        if any(conditions.get(kind, {}).get("status") != "True" for kind in result["bindingConditions"]):
            return False, ""
    return True, ""


def has_binding_conditions(claim: Json) -> bool:
    allocation = (claim.get("status") or {}).get("allocation")
    return allocation is not None and any(result.get("bindingConditions") for result in results_of(allocation))


def results_of(allocation: Json) -> list[Json]:
    return (allocation.get("devices") or {}).get("results") or []
