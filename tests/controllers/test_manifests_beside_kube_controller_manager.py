"""Manifests of vendors have the same results with kubedra's controllers and with a real kube-controller-manager.

Pods, claims and events are compared. Runs where a kube-controller-manager of 1.36 is on PATH and the manifests exist.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.runtime.client import Client
from controllers.runtime.kinds import (
    CORE_EVENTS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    REPLICA_SETS,
    RESOURCE_CLAIMS,
    Kind,
)
from tests.controllers.beside import KUBE_CONTROLLER_MANAGER, both, comparable, differences
from tests.node.test_published_manifests import CASES, CLUSTER, FOLDER, GATES, Case, kind_of
from tests.support.patience import Deadline

COMPARED = [
    f"{name}-controller"
    for name in (
        "resourceclaim", "device-taint-eviction", "podgroup-protection", "deployment", "replicaset", "daemonset", "job",
        "namespace", "garbage-collector", "taint-eviction", "pod-garbage-collector",
    )
]  # fmt: skip
OTHERS = ["scheduler", "node-agent", "serviceaccount-controller", "node-lifecycle-controller"]
KINDS = (PODS, RESOURCE_CLAIMS, REPLICA_SETS, POD_GROUPS)
#: kubedra's on both servers: the order of their events is random.
ALIKE = ("kubelet", "default-scheduler", "node-controller")

_NODE, _DEVICE = re.compile(r"\bnode-\d+\b"), re.compile(r'"device": "[^"]*"')

#: Seconds that a step has at least, and those that one of them may be behind.
_LEAST, _SLOWER = 3, 15
#: Seconds until nothing is left of a case.
_LONGEST_END = 120

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(KUBE_CONTROLLER_MANAGER is None, reason="no kube-controller-manager on PATH"),
    pytest.mark.skipif(not FOLDER.is_dir(), reason="the folder of published manifests is not there"),
    pytest.mark.timeout(1500),
]


async def begin(client: Client, case: Case, namespace: str) -> None:
    marks = {"kubedra.dev/emulated": "true", "kubedra.dev/profile": case.profile}
    for number in range(case.nodes):
        await client.create(NODES, {"metadata": {"name": f"node-{number}", "annotations": marks}})
    await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    while not await _are_ready(client, case.nodes):
        await asyncio.sleep(0.2)


async def _are_ready(client: Client, nodes: int) -> bool:
    """Return whether the nodes exist with their devices."""
    found = (await client.list(NODES))["items"]
    return len(found) == nodes and not any(node["spec"].get("taints") for node in found)


async def apply(client: Client, file: str, namespace: str) -> list[tuple[Kind, str, str]]:
    """Apply a file, and return the objects to delete afterwards."""
    made = []
    for obj in yaml.safe_load_all((FOLDER / file).read_text()):
        if not obj:
            continue
        obj.setdefault("apiVersion", "v1")
        kind = kind_of(obj)
        if obj["kind"] not in CLUSTER:
            obj["metadata"].setdefault("namespace", namespace)
        try:
            await client.create(kind, obj)
        except StatusError as error:
            if error.reason != "AlreadyExists":  # from a file before
                raise
        if obj["kind"] in CLUSTER:
            made.append((kind, obj["metadata"]["name"], ""))
    return made


async def state(client: Client) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"devices": []}
    for kind in KINDS:
        items = (await client.list(kind))["items"]
        found[kind.kind] = sorted(json.dumps(comparable(_shown(item)), sort_keys=True) for item in items)
        found["devices"] += (_devices(item) for item in items if kind == RESOURCE_CLAIMS)
    found["devices"].sort()
    events = (await client.list(CORE_EVENTS))["items"]
    found["events"] = sorted(
        {
            json.dumps(
                comparable([event["source"], event["involvedObject"]["kind"], event["reason"], event["message"]])
            )
            for event in events
            if (event["source"].get("component") or event.get("reportingComponent")) not in ALIKE
        }
    )
    return found


def _shown(item: Json) -> Json:
    """Return an object without the random choices of the schedulers between equal nodes and devices."""
    status = item.get("status") or {}
    if "allocation" in status:
        text = _DEVICE.sub(r'"device": "*"', _NODE.sub("node-*", json.dumps(item)))
        return dict(json.loads(text))
    if "containers" in item["spec"]:
        return {"metadata": item["metadata"], "spec": _pod_spec(item["spec"]), "phase": status.get("phase"),
                "claims": status.get("resourceClaimStatuses")}  # fmt: skip
    return item


def _devices(claim: Json) -> str:
    """Return the allocated devices of a claim."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or ()
    return " ".join(sorted(f"{each['request']} {each['driver']} {each['device']}" for each in results))


def _pod_spec(spec: Json) -> Json:
    return {name: value for name, value in spec.items() if name != "volumes"}


async def end(client: Client, made: Sequence[tuple[Kind, str, str]], namespace: str) -> None:
    """Nothing is left of a case."""
    for kind, name, where in [*made, (NAMESPACES, namespace, "")]:
        with suppress(StatusError):  # another took it away
            await client.delete(kind, name, where)
    patience = Deadline(_LONGEST_END)
    while await _is_left(client, namespace, [name for kind, name, _ in made if kind == NAMESPACES]):
        assert not patience.passed, f"{namespace}: not everything goes"
        await asyncio.sleep(0.2)
    for node in (await client.list(NODES))["items"]:
        await client.delete(NODES, node["metadata"]["name"])
    await asyncio.sleep(1)


async def _is_left(client: Client, namespace: str, made: Sequence[str]) -> bool:
    """Whether anything of a case is there: what comes next may have namespaces of the same names."""
    if any([(await client.list(kind))["items"] for kind in (PODS, RESOURCE_CLAIMS)]):
        return True
    found = {item["metadata"]["name"] for item in (await client.list(NAMESPACES))["items"]}
    return bool(found & {namespace, *made})


async def settled(clients: Sequence[Client]) -> list[str]:
    """Return the final differences. One side may be slower."""
    patience = Deadline(_SLOWER)
    while True:
        await asyncio.sleep(_LEAST)
        ours, theirs = [await state(client) for client in clients]
        different = differences(ours, theirs)
        if not different or patience.passed:
            return different


async def compare(directory: Path) -> list[str]:
    lines = []
    gates = f"--feature-gates={GATES}"
    servers = [gates, "--runtime-config=api/all=true"]
    async with both(directory, COMPARED, OTHERS, nodes=0, flags=[gates], servers=servers) as clients:
        for number, case in enumerate(CASES):
            namespace = f"n{number}"
            await asyncio.gather(*(begin(client, case, namespace) for client in clients))
            made: set[tuple[Kind, str, str]] = set()
            for file in case.files:
                for found in await asyncio.gather(*(apply(client, file, namespace) for client in clients)):
                    made.update(found)
                different = await settled(clients)
            lines += [f"{case.name}: {line}" for line in different]
            print(f"{case.name}: {len(different)} differences", *different, sep="\n", flush=True)
            await asyncio.gather(*(end(client, sorted(made, key=str), namespace) for client in clients))
    return lines


def test_published_manifests_end_in_the_same_objects(tmp_path: Path) -> None:
    lines = asyncio.run(compare(tmp_path))
    assert lines == [], "\n".join(lines[:40])
