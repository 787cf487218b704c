"""Resolve the claims and requests used by a pod and its containers.

All functions raise ClaimReferenceError (a ValueError) for a reference that cannot be resolved.
"""

from __future__ import annotations

from apiserver.api.helpers.pod_requests import is_extended
from apiserver.api.objects import Json
from apiserver.api.values.quantity import Quantity
from controllers.resourceclaims.pods import claim_reference

#: Prefix of the implicit extended resource of every DeviceClass.
_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"


def _extended_status(pod: Json) -> Json | None:
    status: Json | None = (pod.get("status") or {}).get("extendedResourceClaimStatus")
    return status


def pod_claims(pod: Json, extended: bool) -> list[Json]:
    """Return the entries of `spec.resourceClaims` plus the claim for extended resources."""
    entries = list(pod["spec"].get("resourceClaims") or ())
    status = _extended_status(pod) if extended else None
    if status is not None:
        entries.append({"name": "", "resourceClaimName": status["resourceClaimName"]})
    return entries


def claim_names(pod: Json, extended: bool) -> list[str]:
    """Return the names of the pod's claims, without templates that turned out to need no claim."""
    names = (claim_reference(pod, entry).name for entry in pod_claims(pod, extended))
    return [name for name in names if name is not None]


def container_requests(pod: Json, container: Json, extended: bool) -> dict[str, list[str]]:
    """Return the container's requests by claim; "" means all of the claim's requests."""
    wanted: dict[str, list[str]] = {}
    for entry in container.get("resources", {}).get("claims") or ():
        wanted.setdefault(entry["name"], []).append(entry.get("request") or "")
    found: dict[str, list[str]] = {}
    for entry in pod["spec"].get("resourceClaims") or ():
        if entry["name"] not in wanted:
            continue
        name = claim_reference(pod, entry).name
        if name is not None:
            found.setdefault(name, []).extend(wanted[entry["name"]])
    status = _extended_status(pod) if extended else None
    if status is not None:
        amounts = container.get("resources", {}).get("requests") or {}
        asked = {name for name, amount in amounts.items() if _is_device(name) and Quantity.parse(str(amount)).sign}
        for mapping in status.get("requestMappings") or ():
            if mapping["containerName"] == container["name"] and mapping["resourceName"] in asked:
                found.setdefault(status["resourceClaimName"], []).append(mapping["requestName"])
    return found


def container_claim_names(pod: Json, container: Json) -> list[str]:
    """Return the names of the claims in `spec.resourceClaims` that a container uses."""
    used = {entry["name"] for entry in container.get("resources", {}).get("claims") or ()}
    entries = (entry for entry in pod["spec"].get("resourceClaims") or () if entry["name"] in used)
    names = (claim_reference(pod, entry).name for entry in entries)
    return [name for name in names if name is not None]


def extended_claim_of(pod: Json, container: Json) -> str | None:
    """Return the name of the claim for extended resources if the container uses it."""
    status = _extended_status(pod)
    mappings = () if status is None else status.get("requestMappings") or ()
    if status is None or all(mapping["containerName"] != container["name"] for mapping in mappings):
        return None
    name: str = status["resourceClaimName"]
    return name


def _is_device(name: str) -> bool:
    return name.startswith(_CLASS_PREFIX) or is_extended(name)
