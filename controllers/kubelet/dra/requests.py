"""From a pod and its containers to the claims, and the requests in them, that they use.

All raise ClaimReferenceError (a ValueError) where a reference cannot be followed.
"""

from __future__ import annotations

from apiserver.api.helpers.pod_requests import is_extended
from apiserver.api.values.quantity import Quantity
from controllers.resourceclaims.pods import claim_reference
from controllers.runtime.kinds import Json

#: Every DeviceClass is an extended resource of this prefix and its own name.
_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"


def _extended_status(pod: Json) -> Json | None:
    status: Json | None = (pod.get("status") or {}).get("extendedResourceClaimStatus")
    return status


def pod_claims(pod: Json, extended: bool) -> list[Json]:
    """Entries as in `spec.resourceClaims`, the claim for extended resources among them."""
    entries = list(pod["spec"].get("resourceClaims") or ())
    status = _extended_status(pod) if extended else None
    if status is not None:
        entries.append({"name": "", "resourceClaimName": status["resourceClaimName"]})
    return entries


def claim_names(pod: Json, extended: bool) -> list[str]:
    """Names of the pod's claims, without those that it turned out not to need."""
    names = (claim_reference(pod, entry).name for entry in pod_claims(pod, extended))
    return [name for name in names if name is not None]


def container_requests(pod: Json, container: Json, extended: bool) -> dict[str, list[str]]:
    """By claim the requests that the container names, "" for all of a claim's."""
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
    """Names of the claims of `spec.resourceClaims` that a container uses."""
    used = {entry["name"] for entry in container.get("resources", {}).get("claims") or ()}
    entries = (entry for entry in pod["spec"].get("resourceClaims") or () if entry["name"] in used)
    names = (claim_reference(pod, entry).name for entry in entries)
    return [name for name in names if name is not None]


def extended_claim_of(pod: Json, container: Json) -> str | None:
    """The name of the claim for extended resources, where one of them is the container's."""
    status = _extended_status(pod)
    mappings = () if status is None else status.get("requestMappings") or ()
    if status is None or all(mapping["containerName"] != container["name"] for mapping in mappings):
        return None
    name: str = status["resourceClaimName"]
    return name


def _is_device(name: str) -> bool:
    return name.startswith(_CLASS_PREFIX) or is_extended(name)
