"""Devices and nodes recomputed from the log after every record.

No device is allocated twice, no device in use is given away, and the scheduler's own book agrees.
"""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from apiserver.api.helpers.pod_requests import pod_requests
from apiserver.api.objects import Json
from apiserver.storage.log.types import Record
from controllers.allocator import AllocatedState
from controllers.allocator.devices import DeviceID
from controllers.resourceclaims.pods import FINALIZER
from controllers.scheduler.dra.claims import ClaimCache

_OVER = ("Succeeded", "Failed")


def devices_of(claim: Json) -> list[DeviceID]:
    """Return the devices that a claim holds exclusively."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or ()
    return [
        (result["driver"], result["pool"], result["device"])
        for result in results
        if not result.get("adminAccess") and not result.get("shareID")
    ]


def claims_of(pod: Json) -> list[str]:
    """Return the names of the claims that a bound pod must have."""
    status = pod.get("status") or {}
    made = {each["name"]: each.get("resourceClaimName") for each in status.get("resourceClaimStatuses") or ()}
    found = [
        each.get("resourceClaimName") or made.get(each["name"]) for each in pod["spec"].get("resourceClaims") or ()
    ]
    found.append((status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName"))
    return [name for name in found if name]


def is_running(pod: Json | None) -> bool:
    """Return whether a pod is bound and not finished."""
    return pod is not None and "nodeName" in pod["spec"] and (pod.get("status") or {}).get("phase") not in _OVER


def users(claim: Json) -> set[str]:
    """Return the uids of the pods that a claim is reserved for."""
    return {user["uid"] for user in (claim.get("status") or {}).get("reservedFor") or ()}


def is_protected(claim: Json) -> bool:
    """Return whether a claim has its finalizer."""
    return FINALIZER in (claim["metadata"].get("finalizers") or ())


class Books:
    """Checks the records of a log and collects problems."""

    def __init__(self) -> None:
        self._claims: dict[str, Json] = {}
        self._pods: dict[str, Json] = {}
        self._nodes: dict[str, Json] = {}
        self._kept = AllocatedState()
        self._cache = ClaimCache(self._kept)
        self.checked = 0
        self.problems: list[str] = []

    def read(self, records: Iterable[Record]) -> None:
        """Check the next records."""
        for record in records:
            kind, _, key = record.key.removeprefix("/registry/").partition("/")
            obj = orjson.loads(record.value)
            obj["metadata"]["resourceVersion"] = str(record.revision)
            problems: list[str] = []
            match kind:
                case "minions":
                    _set(self._nodes, key, obj, record)
                case "pods":
                    problems = self._pod(key, obj, record)
                case "resourceclaims":
                    problems = self._claim(key, obj, record)
                case _:
                    continue
            self.checked += 1
            self.problems += [f"revision {record.revision}, {kind} {key}: {text}" for text in problems]

    def _pod(self, key: str, pod: Json, record: Record) -> list[str]:
        before = self._pods.get(key)
        _set(self._pods, key, pod, record)
        if record.deleted or not is_running(pod) or is_running(before):
            return []
        uid, namespace = pod["metadata"]["uid"], pod["metadata"]["namespace"]
        problems = []
        for name in claims_of(pod):
            claim = self._claims.get(f"{namespace}/{name}")
            if claim is None or uid not in users(claim) or not is_protected(claim):
                problems.append(f"bound without claim {name}")
        return problems + self._room(pod["spec"]["nodeName"])

    def _room(self, name: str) -> list[str]:
        node = self._nodes.get(name)
        if node is None:
            return [f"node {name} is not there"]
        held = [pod for pod in self._pods.values() if is_running(pod) and pod["spec"]["nodeName"] == name]
        used = sum(pod_requests(pod).get("cpu", 0) for pod in held)
        room = pod_requests({"spec": {"containers": [{"resources": {"requests": node["status"]["allocatable"]}}]}})
        problems = [f"node {name} has {room['cpu']}m of cpu, and {used}m are in use"] if used > room["cpu"] else []
        return problems + ([f"node {name} has {len(held)} pods"] if len(held) > room["pods"] else [])

    def _claim(self, key: str, claim: Json, record: Record) -> list[str]:
        before = self._claims.get(key)
        _set(self._claims, key, claim, record)
        problems = self._given_away(claim["metadata"]["namespace"], before, None if record.deleted else claim)
        if record.deleted:
            self._cache.deleted(claim)
        else:
            self._cache.added(claim)
            mine = users(claim)
            if not is_protected(claim) and any(
                is_running(pod) and pod["metadata"]["uid"] in mine for pod in self._pods.values()
            ):
                problems.append("in use, and without its finalizer")
        held: dict[DeviceID, list[str]] = {}
        for other, each in self._claims.items():
            for device in devices_of(each):
                held.setdefault(device, []).append(other)
        problems += [
            f"device {'/'.join(device)} is held by {whose}" for device, whose in held.items() if len(whose) > 1
        ]
        kept = set(self._kept.exclusive)
        if kept != set(held):
            problems.append(f"the book has {sorted(kept)}, the claims hold {sorted(held)}")
        return problems

    def _given_away(self, namespace: str, before: Json | None, now: Json | None) -> list[str]:
        """Return problems of running pods that lost a claim."""
        if before is None or not (lost := users(before) - (users(now) if now and devices_of(now) else set())):
            return []
        mine = {pod["metadata"]["uid"]: pod for key, pod in self._pods.items() if key.startswith(f"{namespace}/")}
        return [
            f"taken from pod {mine[uid]['metadata']['name']}, which runs" for uid in lost if is_running(mine.get(uid))
        ]

    def leaks(self) -> list[str]:
        """Return problems at the end, when all pods have been deleted."""
        found = [f"pod {key} is still there" for key in self._pods]
        for key, claim in self._claims.items():
            status = claim.get("status") or {}
            left = [name for name in ("allocation", "reservedFor", "devices") if status.get(name)]
            if left or claim["metadata"].get("deletionTimestamp"):
                # A free claim with nothing but a finalizer comes from a scheduler that was killed before its next write.
                # As upstream, the next allocation or the deletion of the claim removes it.
                left += claim["metadata"].get("finalizers") or []
            if claim["metadata"].get("ownerReferences"):
                left.append("itself, without its pod")
            found += [f"claim {key} still has {', '.join(left)}"] if left else []
        return found


def _set(objects: dict[str, Json], key: str, obj: Json, record: Record) -> None:
    if record.deleted:
        objects.pop(key, None)
    else:
        objects[key] = obj
