"""Claims made from templates, for pods and for groups of pods: found again, or created.

A generated claim is controlled by its owner and has the name of the owner's entry in an annotation. What this process
created is remembered until the informer shows it. Facts: upstream's pkg/controller/resourceclaim.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from apiserver.api.errors.status import StatusError
from controllers.resourceclaims.metrics import ClaimMetrics
from controllers.resourceclaims.pods import POD_CLAIM_NAME, controller_of
from controllers.runtime.client import Client
from controllers.runtime.controller import NotYetError
from controllers.runtime.informer import Informer
from controllers.runtime.kinds import RESOURCE_CLAIMS, Json, Kind
from controllers.runtime.transport import TransportError

__all__ = ["GeneratedClaims", "Remembered", "base_name", "generated_claim", "templates_of"]

#: A generated name leaves room for the server's five characters and a dash.
_LONGEST_BASE = 57


class Remembered(OrderedDict[str, Json]):
    """The last `size` objects that were put in, by key: what this process did and no informer shows yet, or no
    longer.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def put(self, key: str, obj: Json) -> None:
        self[key] = obj
        self.move_to_end(key)
        if len(self) > self.size:
            self.popitem(last=False)


def base_name(owner: str, entry: str) -> str:
    """generateName of a generated claim: `OWNER-ENTRY-`; where that is too long, both parts are cut in proportion, to a
    letter at least.
    """
    base = f"{owner}-{entry}-"
    if len(base) <= _LONGEST_BASE:
        return base

    def cut(part: str) -> str:
        return part[: max(1, len(part) * _LONGEST_BASE // len(base))]

    return f"{cut(owner)}-{cut(entry)}"


def generated_claim(owner: Json, kind: Kind, entry: str, template: Json) -> Json:
    """The claim that a template gives for one entry of a pod or a group."""
    meta, wanted = owner["metadata"], template["spec"]
    labels = wanted.get("metadata", {}).get("labels")
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": base_name(meta["name"], entry),
            "namespace": meta["namespace"],
            "annotations": {**(wanted.get("metadata", {}).get("annotations") or {}), POD_CLAIM_NAME: entry},
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
        "spec": wanted["spec"],
    }


def templates_of(owner: Json) -> Iterator[str]:
    """Keys of the templates that a pod or a group names."""
    for entry in owner["spec"].get("resourceClaims") or ():
        if entry.get("resourceClaimTemplateName"):
            yield f"{owner['metadata']['namespace']}/{entry['resourceClaimTemplateName']}"


class GeneratedClaims:
    """What owners have, and get. `features` answers `enabled(gate)`."""

    def __init__(
        self, client: Client, claims: Informer, templates: Informer, features: Any, counted: ClaimMetrics
    ) -> None:
        self._client, self._templates, self._features, self._counted = client, templates, features, counted
        self._claims = claims
        self._of_owner = claims.index(
            "controller uid", lambda claim: (ref["uid"],) if (ref := controller_of(claim)) else ()
        )
        self._created = Remembered(100)

    def seen(self, claim: Json) -> None:
        """The informer shows the claim, or its end: no need to remember it any longer."""
        self._created.pop(claim["metadata"]["uid"], None)

    def find(self, owner: Json, entry: str) -> str | None:
        """The name of the claim that was made for an entry; the first, should there be several."""
        uid = owner["metadata"]["uid"]
        remembered = (claim for claim in self._created.values() if (controller_of(claim) or {}).get("uid") == uid)
        for claim in (*self._of_owner.get(uid), *remembered):
            if claim["metadata"].get("annotations", {}).get(POD_CLAIM_NAME) == entry:
                return str(claim["metadata"]["name"])
        return None

    async def ensure(self, owner: Json, kind: Kind, entry: str, template_name: str) -> str:
        """The name of the claim for an entry, which is made if there is none. Raises with upstream's words."""
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
        wanted = generated_claim(owner, kind, entry, template)
        try:
            claim = await self._client.create(RESOURCE_CLAIMS, wanted)
        except (StatusError, TransportError) as error:
            self._counted.created(wanted, success=False)
            # Upstream names the claim, which has no name before the server gives it one.
            raise NotYetError(f"create ResourceClaim : {error}") from error
        self._counted.created(wanted, success=True)
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

    async def record(self, owner: Json, kind: Kind, named: dict[str, str]) -> None:
        """Writes names by entry to the owner's status."""
        meta = owner["metadata"]
        statuses = [{"name": entry, "resourceClaimName": name} for entry, name in named.items()]
        body = {"metadata": {"uid": meta["uid"]}, "status": {"resourceClaimStatuses": statuses}}
        await self._client.patch(kind, meta["name"], body, meta["namespace"], subresource="status", wanted=False)
