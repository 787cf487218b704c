"""The resource claim controller with an make_informers world, and the pods, claims, templates and groups of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.options.options import Options
from controllers.resourceclaims.controller import ResourceClaims
from controllers.resourceclaims.pods import FINALIZER, POD_CLAIM_NAME
from controllers.runtime.client import Client
from controllers.runtime.controller import NotYetError
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import POD_GROUPS, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Kind, key_of
from controllers.runtime.transport import NoTransport
from tests.support.recording import FakeRecorder, RecordingClient
from tests.support.virtual import run

GROUPS: dict[str, Any] = {"DRAWorkloadResourceClaims": True, "GenericWorkload": True, "GangScheduling": True}
FROM_TEMPLATE = {"name": "gpu", "resourceClaimTemplateName": "t"}
BY_NAME = {"name": "gpu", "resourceClaimName": "c"}
UNKNOWN = {"resource": "jobs", "apiGroup": "batch", "name": "j", "uid": "j"}
ALLOCATED: dict[str, Any] = {"allocation": {"devices": {"results": []}}}


class World:
    """The controller with make_informers pods, claims, templates and groups; what it queued, wrote and said."""

    def __init__(self, release: tuple[int, int] = (1, 36), **gates: bool) -> None:
        self.client, self.told = RecordingClient({"ResourceClaim": self._made}), FakeRecorder()
        self.informers = Informers(Client(NoTransport()))
        options = Options(emulated_version=release, gates=gates)
        self.part = ResourceClaims(self.client, self.informers, options)  # type: ignore[arg-type]
        self.part._recorder = self.told  # type: ignore[assignment]
        if self.part._groups is not None:
            self.part._groups._recorder = self.told  # type: ignore[assignment]

    def _made(self, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        metadata = {"name": "made", "uid": "made", "resourceVersion": "7", **body["metadata"]}
        return {**body, "metadata": metadata}

    def put(self, kind: Kind, obj: Json, *, gone: bool = False) -> list[str]:
        """An object comes, changes or goes; the keys that are queued for it."""
        self.informers.of(kind).set_object(key_of(obj), None if gone else obj)
        return self.queued()

    def has(self, *objects: Json) -> World:
        """These are there, and looked at already."""
        kinds = {kind.kind: kind for kind in (PODS, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES, POD_GROUPS)}
        for obj in objects:
            self.put(kinds[obj["kind"]], obj)
        return self

    def queued(self) -> list[str]:
        queue = self.part._controller.queue
        keys = sorted(queue._order)
        queue._order.clear()
        queue._dirty.clear()
        return keys

    async def look(self, key: str) -> list[tuple[str, str, Any]]:
        self.client.writes = []
        await self.part.reconcile(key)
        return self.client.writes

    async def refused(self, key: str, text: str) -> None:
        with pytest.raises((NotYetError, StatusError), match=text):
            await self.look(key)


def played(scenario: Callable[[], Awaitable[None]]) -> None:
    async def play() -> None:
        await scenario()

    run(play)


def pod(*entries: Json, name: str = "p", uid: str = "", group: str = "", **status: Any) -> Json:
    """`on`: its node; `going`: it is being deleted; `named`: the names of its claims by entry."""
    spec: Json = {"resourceClaims": list(entries)} if entries else {}
    spec |= {"nodeName": status.pop("on")} if "on" in status else {}
    spec |= {"schedulingGroup": {"podGroupName": group}} if group else {}
    metadata = {"name": name, "namespace": "ns", "uid": uid or f"{name}-uid"}
    metadata |= {"deletionTimestamp": "x"} if status.pop("going", False) else {}
    if "named" in status:
        named = status.pop("named").items()
        status["resourceClaimStatuses"] = [
            {"name": entry, **({} if claim is None else {"resourceClaimName": claim})} for entry, claim in named
        ]
    if "extended" in status:
        status["extendedResourceClaimStatus"] = {"resourceClaimName": status.pop("extended")}
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def claim(name: str = "c", owner: Json | None = None, entry: str = "gpu", **more: Any) -> Json:
    """`users`: pods that it is reserved for; `going`: it is being deleted; `ours`: with the finalizer."""
    metadata: Json = {"name": name, "namespace": "ns", "uid": f"{name}-uid", "annotations": {POD_CLAIM_NAME: entry}}
    if owner is not None:
        of = {"Pod": "v1", "PodGroup": "scheduling.k8s.io/v1alpha2"}[owner["kind"]]
        reference = {"apiVersion": of, "kind": owner["kind"], "controller": True}
        metadata["ownerReferences"] = [
            {**reference, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        ]
    metadata |= {"finalizers": ["other", FINALIZER]} if more.pop("ours", False) else {}
    metadata |= {"deletionTimestamp": "x"} if more.pop("going", False) else {}
    users = more.pop("users", None)
    status = {**more, **({"reservedFor": [user(each) for each in users]} if users is not None else {})}
    return {"kind": "ResourceClaim", "metadata": metadata, "spec": {}, "status": status}


def user(each: Json) -> Json:
    if "kind" not in each:
        return each
    reference = {"name": each["metadata"]["name"], "uid": each["metadata"]["uid"]}
    if each["kind"] == "Pod":
        return {"resource": "pods", **reference}
    return {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", **reference}


def template(name: str = "t", **spec: Any) -> Json:
    metadata = {"name": name, "namespace": "ns", "uid": f"{name}-uid"}
    return {"kind": "ResourceClaimTemplate", "metadata": metadata, "spec": {"spec": spec}}


def group(*entries: Json, name: str = "g", going: bool = False, **status: Any) -> Json:
    named = status.get("named", {}).items()
    metadata = {"name": name, "namespace": "ns", "uid": f"{name}-uid"} | ({"deletionTimestamp": "x"} if going else {})
    return {
        "kind": "PodGroup", "metadata": metadata, "spec": {"resourceClaims": list(entries)} if entries else {},
        "status": {"resourceClaimStatuses": [{"name": entry, "resourceClaimName": claim} for entry, claim in named]},
    }  # fmt: skip


P = pod()
