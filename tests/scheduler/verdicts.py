"""Verdicts of a scheduler about a situation: recorded on a server, kept in verdicts.json, and compared."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import NamedTuple

from apiserver.api.objects import Json
from controllers.runtime.client import Client
from controllers.runtime.kinds import (
    NAMESPACES,
    PODS,
    RESOURCE_CLAIMS,
    VOLUME_CLAIMS,
    VOLUMES,
    Kind,
    key_of,
)
from controllers.scheduler.dra.claim_state import results_of
from tests.scheduler.situations import Situation
from tests.scheduler.world import bare, create_node, kind_of, scheduled
from tests.support.patience import patience

#: Verdicts of kube-scheduler 1.36.2 by kind of situation. The seed of a situation is its position.
FILE = Path(__file__).with_name("verdicts.json")
#: Defects of kube-scheduler 1.36.2 that are not copied (docs/data/fidelity/differences.md).
DEFECTS = ("nil or empty request mappings, no update of pod",)


class Verdicts(NamedTuple):
    """Results for the pods of a situation in their order, and for the claims."""

    pods: list[Json]
    claims: list[Json]


def read_verdicts() -> dict[str, list[Verdicts]]:
    """Return the recorded verdicts by the name of the kind of situation."""
    found = json.loads(FILE.read_text())
    return {kind: [Verdicts(*each) for each in verdicts] for kind, verdicts in found.items()}


def record(kind: Callable[[random.Random], Situation], verdicts: list[Verdicts]) -> None:
    """Write verdicts of kube-scheduler to the file."""
    kept = {**(read_verdicts() if FILE.exists() else {}), kind.__name__: verdicts}
    lines = (
        f'"{name}": [\n' + ",\n".join(json.dumps(each, separators=(",", ":")) for each in found) + "\n]"
        for name, found in sorted(kept.items())
    )
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def same(found: Verdicts, expected: Verdicts, what: str) -> int:
    """Compare verdicts and return their number. Raise AssertionError if they differ.

    Schedulers may choose differently among equally good nodes. The comparison ends there.
    """
    compared = 0
    for ours, other in zip(found.pods, expected.pods, strict=True):
        if ours["node"] and other["node"] and ours["node"] != other["node"]:
            return compared
        if any(defect in str(other["condition"]["message"]) for defect in DEFECTS):
            return compared
        assert ours == other, f"{what}: {ours} instead of {other}"
        compared += 1
    assert found.claims == expected.claims, f"{what}: {found.claims} instead of {expected.claims}"
    return compared


async def prepare(client: Client, situation: Situation) -> dict[str, str]:
    """Create everything but the pods. Return the uids of workload objects by name."""
    labels = {"resource.kubernetes.io/admin-access": "true"}
    await client.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns", "labels": labels}}
    )
    for obj in (*situation.classes, *situation.slices, *situation.claims):
        await client.create(kind_of(obj), bare(obj))
    for node in situation.nodes:
        await create_node(client, node)
    uids = {}
    for obj in situation.others:
        made = await client.create(kind_of(obj), bare(obj))
        uids[made["metadata"]["name"]] = made["metadata"]["uid"]
        if "status" in obj:
            await client.update_status(kind_of(obj), {**made, "status": obj["status"]})
    await wait_for_storage(client)
    return uids


async def wait_for_storage(client: Client) -> None:
    """Wait until volumes are available or bound, and claims that name a volume are bound."""
    for kind, phase in ((VOLUMES, ("Available", "Bound")), (VOLUME_CLAIMS, ("Bound",))):
        for obj in await items(client, kind):
            if kind == VOLUMES or obj["spec"].get("volumeName"):
                await wait_for_phase(client, kind, obj, phase)


async def wait_for_phase(client: Client, kind: Kind, obj: Json, phases: tuple[str, ...]) -> None:
    namespace = obj["metadata"].get("namespace", "")
    async with patience(30), aclosing(client.watch(kind, namespace, initial_events=True)) as batches:
        async for batch in batches:
            for event in batch:
                same = event.type != "BOOKMARK" and key_of(event.object) == key_of(obj)
                if same and (event.object.get("status") or {}).get("phase") in phases:
                    return


async def verdict(client: Client, pod: str) -> Json:
    """Return the pod once it is bound, or rejected and not nominated."""
    async with patience(30), aclosing(client.watch(PODS, "ns", initial_events=True)) as batches:
        async for batch in batches:
            for event in batch:
                if event.type in ("ADDED", "MODIFIED") and key_of(event.object) == f"ns/{pod}":
                    found = event.object
                    rejected = scheduled(found).get("status") == "False" and scheduled(found).get("message")
                    if found["spec"].get("nodeName") or (rejected and not found["status"].get("nominatedNodeName")):
                        return found
    raise AssertionError("the watch ended")


async def items(client: Client, kind: Kind, namespace: str = "") -> list[Json]:
    found: list[Json] = (await client.list(kind, namespace))["items"]
    return found


async def left(client: Client) -> list[str]:
    """Return the names of the pods that preemption left."""
    return sorted(pod["metadata"]["name"] for pod in await items(client, PODS, "ns"))


def pod_verdict(pod: Json) -> Json:
    """Return the compared fields of a pod."""
    condition = scheduled(pod)
    extended = pod["status"].get("extendedResourceClaimStatus") or {}
    return {
        "node": pod["spec"].get("nodeName"),
        "nominated": pod["status"].get("nominatedNodeName"),
        "condition": {key: condition.get(key) for key in ("status", "reason", "message")},
        "mappings": extended.get("requestMappings"),
        "claim": extended.get("resourceClaimName", "")[:-5],
    }


def claim_verdict(claim: Json) -> Json:
    metadata, status = claim["metadata"], claim.get("status") or {}
    allocation = dict(status.get("allocation") or {})
    stamped = bool(allocation.pop("allocationTimestamp", None))
    if any("shareID" in result for result in results_of(allocation)):
        shown = [{**result, **({"shareID": ""} if "shareID" in result else {})} for result in results_of(allocation)]
        allocation["devices"] = {**allocation["devices"], "results": shown}
    return {
        "name": metadata.get("generateName") or metadata["name"],
        "annotations": metadata.get("annotations"),
        "finalizers": metadata.get("finalizers"),
        "owners": [owner["name"] for owner in metadata.get("ownerReferences") or ()],
        "spec": claim["spec"],
        "allocation": allocation,
        "stamped": stamped,
        "reserved": [(user["resource"], user["name"]) for user in status.get("reservedFor") or ()],
    }


def volume_claim_verdict(claim: Json) -> Json:
    """Return the compared fields. Names of provisioned volumes differ, as they contain a uid."""
    volume = claim["spec"].get("volumeName", "")
    annotations = claim["metadata"].get("annotations") or {}
    return {
        "name": f"volume {claim['metadata']['name']}",
        "volume": "made" if volume.startswith("pvc-") else volume,
        "phase": claim["status"]["phase"],
        "node": annotations.get("volume.kubernetes.io/selected-node"),
    }


async def play(client: Client, situation: Situation) -> Verdicts:
    """Create the objects of a situation on an empty server and return the verdicts."""
    uids = await prepare(client, situation)
    verdicts: list[Json] = []
    for pod in situation.pods:
        made = bare(pod)
        owners = [{**owner, "uid": uids[owner["name"]]} for owner in made["metadata"].get("ownerReferences", ())]
        await client.create(PODS, {**made, "metadata": {**made["metadata"], "ownerReferences": owners}})
        seen = await verdict(client, pod["metadata"]["name"])
        if seen["spec"].get("nodeName"):
            started = f"2026-01-01T00:00:{len(verdicts):02}Z"
            status = {"status": {"phase": "Running", "startTime": started}}
            await client.patch(PODS, pod["metadata"]["name"], status, "ns", subresource="status")
        verdicts.append({**pod_verdict(seen), "left": await left(client)})
    claims = [claim_verdict(claim) for claim in await items(client, RESOURCE_CLAIMS, "ns")]
    claims += [volume_claim_verdict(claim) for claim in await items(client, VOLUME_CLAIMS, "ns")]
    return Verdicts(verdicts, sorted(claims, key=lambda claim: str(claim["name"])))
