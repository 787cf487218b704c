"""The client of the resource claim controller, and builders of its pods, claims, templates and groups."""

from __future__ import annotations

import re
from typing import Any

from apiserver.api.objects import Json
from controllers.resourceclaims.controller import ResourceClaims
from controllers.resourceclaims.pods import FINALIZER, POD_CLAIM_NAME
from tests.support.objects import make_claim, make_metadata, make_pod
from tests.support.recording import RecordingClient, build

GROUPS: dict[str, Any] = {"DRAWorkloadResourceClaims": True, "GenericWorkload": True, "GangScheduling": True}
FROM_TEMPLATE = {"name": "gpu", "resourceClaimTemplateName": "t"}
BY_NAME = {"name": "gpu", "resourceClaimName": "c"}
UNKNOWN = {"resource": "jobs", "apiGroup": "batch", "name": "j", "uid": "j"}
ALLOCATED: dict[str, Any] = {"allocation": {"devices": {"results": []}}}


class ClaimClient(RecordingClient):
    """The client of the resource claim controller over given pods, claims, templates and groups."""

    def __init__(self, release: tuple[int, int] = (1, 36), **gates: bool) -> None:
        super().__init__({"ResourceClaim": _answer})
        build(ResourceClaims, self, emulated_version=release, gates=gates)

    def has(self, *objects: Json) -> ClaimClient:
        """Let informers hold these objects, without a queued key."""
        self.set_objects(*objects).queued()
        return self

    def put(self, obj: Json) -> list[str]:
        """Add or change an object, and return the keys that are queued for it."""
        return self.set_objects(obj).queued()

    def drop(self, obj: Json) -> list[str]:
        """Remove an object, and return the keys that are queued for it."""
        return self.remove_objects(obj).queued()

    async def writes_of(self, key: str) -> list[tuple[str, str, Any]]:
        """Reconcile a key and return the writes."""
        self.writes = []
        assert (await self.reconcile(key)).error is None
        return self.writes

    async def verbs_of(self, key: str) -> list[str]:
        await self.writes_of(key)
        return self.verbs

    async def fails(self, key: str, text: str) -> None:
        """Reconcile a key, which fails with this text."""
        assert re.search(text, str((await self.reconcile(key)).error))


def _answer(body: Any) -> Any:
    if not isinstance(body, dict):
        return body
    return {**body, "metadata": {"name": "made", "uid": "made", "resourceVersion": "7", **body["metadata"]}}


def pod(*entries: Json, name: str = "p", uid: str = "", group: str = "", node: str = "", **status: Any) -> Json:
    """Build a pod with these entries. `claims`: the names of its claims by entry; `extended`: that of its extended one."""
    spec: Json = {"resourceClaims": list(entries)} if entries else {}
    spec |= {"schedulingGroup": {"podGroupName": group}} if group else {}
    deleted = status.pop("deleted", "")
    if "claims" in status:
        claims = status.pop("claims").items()
        status["resourceClaimStatuses"] = [
            {"name": entry, **({} if claim is None else {"resourceClaimName": claim})} for entry, claim in claims
        ]
    if "extended" in status:
        status["extendedResourceClaimStatus"] = {"resourceClaimName": status.pop("extended")}
    return make_pod(name, uid=uid or f"{name}-uid", node=node, deleted=deleted, status=status, **spec)


def claim(name: str = "c", owner: Json | None = None, entry: str = "gpu", **more: Any) -> Json:
    """Build a claim. `users`: the pods that it is reserved for; `ours`: with the finalizer."""
    users = more.pop("users", None)
    finalizers = ["other", FINALIZER] if more.pop("ours", False) else []
    if users is not None:
        more["reservedFor"] = [user(each) for each in users]
    made = make_claim(name, uid=f"{name}-uid", owner=owner, requests=[], **more)
    made["metadata"] |= {"annotations": {POD_CLAIM_NAME: entry}, "finalizers": finalizers}
    return {**made, "spec": {}}


def user(each: Json) -> Json:
    if "kind" not in each:
        return each
    reference = {"name": each["metadata"]["name"], "uid": each["metadata"]["uid"]}
    if each["kind"] == "Pod":
        return {"resource": "pods", **reference}
    return {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", **reference}


def template(name: str = "t", **spec: Any) -> Json:
    return {"kind": "ResourceClaimTemplate", "metadata": make_metadata(name, "ns"), "spec": {"spec": spec}}


def group(*entries: Json, name: str = "g", deleted: str = "", claims: Json | None = None) -> Json:
    """Build a PodGroup. `claims`: the names of its claims by entry."""
    statuses = [{"name": entry, "resourceClaimName": claim} for entry, claim in (claims or {}).items()]
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": make_metadata(name, "ns", f"{name}-uid", deletionTimestamp=deleted),
        "spec": {"resourceClaims": list(entries)} if entries else {}, "status": {"resourceClaimStatuses": statuses},
    }  # fmt: skip


P = pod()
