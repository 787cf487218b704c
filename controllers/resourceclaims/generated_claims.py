"""Claims generated from templates for pods and pod groups.

A generated claim is controlled by its owner and names the owner's entry in an annotation. Claims created by this
process are cached until the informer has them. Facts: upstream's pkg/controller/resourceclaim.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.resourceclaims.metrics import ClaimMetrics
from controllers.resourceclaims.pods import POD_CLAIM_NAME, controller_of
from controllers.runtime.client import Client
from controllers.runtime.controller import NotYetError
from controllers.runtime.informer import Informer
from controllers.runtime.kinds import RESOURCE_CLAIMS, Kind
from controllers.runtime.transport import TransportError

__all__ = ["GeneratedClaims", "RecentObjects", "base_name", "generated_claim", "templates_of"]

#: Maximum length of generateName: the server appends five characters, and a dash may precede them.
_LONGEST_BASE = 57
#: The field manager of statuses (upstream: pkg/controller/resourceclaim).
FIELD_MANAGER = "ResourceClaimController"


class RecentObjects(OrderedDict[str, Json]):
    """The last `size` objects by key. Bridges the time until an informer has them, or after it lost them."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def put(self, key: str, obj: Json) -> None:
        self[key] = obj
        self.move_to_end(key)
        if len(self) > self.size:
            self.popitem(last=False)


def base_name(owner: str, entry: str) -> str:
    """Return the generateName of a claim: `OWNER-ENTRY-`. If too long, truncate both parts proportionally."""
    base = f"{owner}-{entry}-"
    if len(base) <= _LONGEST_BASE:
        return base

    def cut(part: str) -> str:
        return part[: max(1, len(part) * _LONGEST_BASE // len(base))]

    return f"{cut(owner)}-{cut(entry)}"


def generated_claim(owner: Json, kind: Kind, entry: str, template: Json) -> Json:
    """Return the claim of a template for one entry of a pod or group."""
    meta, spec = owner["metadata"], template["spec"]
    labels = spec.get("metadata", {}).get("labels")
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": base_name(meta["name"], entry),
            "namespace": meta["namespace"],
            "annotations": {**(spec.get("metadata", {}).get("annotations") or {}), POD_CLAIM_NAME: entry},
            **({"labels": labels} if labels else {}),
            "ownerReferences": [
                {
                    "apiVersion": kind.api_version,
                    "kind": kind.kind,
                    "name": meta["name"],
                    "uid": meta["uid"],
                    "controller": True,
                }
            ],
        },
        "spec": spec["spec"],
    }


def templates_of(owner: Json) -> Iterator[str]:
    """Yield the keys of the templates referenced by a pod or group."""
    for entry in owner["spec"].get("resourceClaims") or ():
        if entry.get("resourceClaimTemplateName"):
            yield f"{owner['metadata']['namespace']}/{entry['resourceClaimTemplateName']}"


class GeneratedClaims:
    """Finds and creates the claims of owners. `features` has `enabled(gate)`."""

    def __init__(
        self, client: Client, claims: Informer, templates: Informer, features: Any, metrics: ClaimMetrics
    ) -> None:
        self._client, self._templates, self._features, self._metrics = client, templates, features, metrics
        self._claims = claims
        self._of_owner = claims.index(
            "controller uid", lambda claim: (ref["uid"],) if (ref := controller_of(claim)) else ()
        )
        self._created = RecentObjects(100)

    def confirm(self, claim: Json) -> None:
        """Drop a claim from the cache after the informer reported it or its deletion."""
        self._created.pop(claim["metadata"]["uid"], None)

    def find(self, owner: Json, entry: str) -> str | None:
        """Return the name of the first claim generated for an entry."""
        uid = owner["metadata"]["uid"]
        cached = (claim for claim in self._created.values() if (controller_of(claim) or {}).get("uid") == uid)
        for claim in (*self._of_owner.get(uid), *cached):
            if claim["metadata"].get("annotations", {}).get(POD_CLAIM_NAME) == entry:
                return str(claim["metadata"]["name"])
        return None

    async def ensure(self, owner: Json, kind: Kind, entry: str, template_name: str) -> str:
        """Return the name of an entry's claim; create it if missing. Raise NotYetError with upstream's message."""
        found = self.find(owner, entry)
        if found is not None:
            return found
        template = self._templates.get(f"{owner['metadata']['namespace']}/{template_name}")
        if template is None:
            raise NotYetError(
                f'resource claim template "{template_name}": resourceclaimtemplate.resource.k8s.io "{template_name}"'
                " not found"
            )
        self._check_gates(template)
        body = generated_claim(owner, kind, entry, template)
        try:
            claim = await self._client.create(RESOURCE_CLAIMS, body)
        except (StatusError, TransportError) as error:
            self._metrics.count_create(body, success=False)
            # Upstream prints the name of the claim, empty before the server has generated one.
            raise NotYetError(f"create ResourceClaim : {error}") from error
        self._metrics.count_create(body, success=True)
        if int(self._claims.resource_version or 0) < int(claim["metadata"]["resourceVersion"]):
            self._created.put(claim["metadata"]["uid"], claim)
        return str(claim["metadata"]["name"])

    def _check_gates(self, template: Json) -> None:
        requests = template["spec"]["spec"].get("devices", {}).get("requests") or ()
        if not self._features.enabled("DRAAdminAccess") and any(
            r.get("exactly", {}).get("adminAccess") for r in requests
        ):
            raise NotYetError("admin access is requested, but the feature is disabled")
        if not self._features.enabled("DRAPrioritizedList") and any(r.get("firstAvailable") for r in requests):
            raise NotYetError("template includes a prioritized list of subrequests, but the feature is disabled")

    async def record(self, owner: Json, kind: Kind, names: dict[str, str]) -> None:
        """Apply claim names by entry to the owner's status.

        Recorded names are applied again: an apply without them would remove them.
        """
        meta = owner["metadata"]
        recorded = (owner.get("status") or {}).get("resourceClaimStatuses") or ()
        statuses = [each for each in recorded if each["name"] not in names]
        statuses += [{"name": entry, "resourceClaimName": name} for entry, name in names.items()]
        body = {
            "apiVersion": self._client.at(kind).api_version,
            "kind": kind.kind,
            "metadata": {"name": meta["name"], "uid": meta["uid"]},
            "status": {"resourceClaimStatuses": statuses},
        }
        await self._client.patch(
            kind,
            meta["name"],
            body,
            meta["namespace"],
            type="apply",
            subresource="status",
            field_manager=FIELD_MANAGER,
            force=True,
            parse=False,
        )
