"""The same situations for kubedra's scheduler and for a real kube-scheduler, on two servers: the same verdicts, texts,
claims and statuses. Runs where a kube-scheduler of 1.36 is on PATH.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from controllers.runtime.client import Client
from controllers.runtime.http import HttpTransport
from controllers.runtime.kinds import (
    DEVICE_CLASSES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Kind,
    key_of,
)
from controllers.runtime.kubeconfig import load_kubeconfig
from tests.scheduler.situations import (
    OTHERS,
    Situation,
    devices_and_resources,
    priorities_and_budgets,
    spread_by_default,
)
from tests.scheduler.world import scheduled
from tests.support.patience import ended, patience
from tests.support.wire import Child

Json = dict[str, Any]
KUBE_SCHEDULER = shutil.which("kube-scheduler")
CONTROLLERS = "resourceclaim-controller,namespace-controller,garbage-collector-controller"
ROUNDS = int(os.environ.get("KUBEDRA_SITUATIONS", "12"))
#: Defects of kube-scheduler 1.36.2 that are not copied (docs/fidelity.md).
DEFECTS = ("nil or empty request mappings, no update of pod",)

pytestmark = [
    pytest.mark.skipif(KUBE_SCHEDULER is None, reason="no kube-scheduler on PATH"),
    pytest.mark.timeout(600),
]


@asynccontextmanager
async def ours(directory: Path, configuration: Json | None = None) -> AsyncIterator[Client]:
    flags = [f"--controllers=scheduler,{CONTROLLERS}", f"--kubeconfig={directory}/ours.conf"]
    if configuration is not None:
        (directory / "ours.yaml").write_text(yaml.safe_dump(configuration))
        flags.append(f"--config={directory}/ours.yaml")
    with Child(directory / "ours", *flags):
        async with client_of(directory / "ours.conf") as client:
            yield client


@asynccontextmanager
async def theirs(directory: Path, configuration: Json | None = None) -> AsyncIterator[Client]:
    assert KUBE_SCHEDULER is not None
    config = directory / "theirs.conf"
    with (
        Child(directory / "theirs", f"--controllers={CONTROLLERS}", f"--kubeconfig={config}"),
        (directory / "kube-scheduler.log").open("w") as log,
    ):
        flags = ["--leader-elect=false", "--kube-api-qps=5000", "--kube-api-burst=5000", f"--kubeconfig={config}"]
        if configuration is not None:
            connection = {"kubeconfig": str(config), "qps": 5000, "burst": 5000}
            whole = {**configuration, "clientConnection": connection, "leaderElection": {"leaderElect": False}}
            (directory / "theirs.yaml").write_text(yaml.safe_dump(whole))
            flags = [f"--config={directory}/theirs.yaml"]
        command = [KUBE_SCHEDULER, "--secure-port=0", *flags]
        process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: ASYNC220 - it does not wait
        try:
            async with client_of(config) as client:
                yield client
        finally:
            process.terminate()
            ended(process)


@asynccontextmanager
async def client_of(kubeconfig: Path) -> AsyncIterator[Client]:
    client = Client(HttpTransport(load_kubeconfig(kubeconfig)), user_agent="test")
    try:
        yield client
    finally:
        await client.close()


def bare(obj: Json) -> Json:
    metadata = {k: v for k, v in obj["metadata"].items() if k not in ("uid", "resourceVersion", "generation")}
    return {**obj, "metadata": metadata}


async def prepare(client: Client, situation: Situation) -> dict[str, str]:
    """Creates everything but the pods; gives the uids of workload objects by name."""
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})
    for kind, objects in (
        (DEVICE_CLASSES, situation.classes),
        (RESOURCE_SLICES, situation.slices),
        (RESOURCE_CLAIMS, situation.claims),
    ):
        for obj in objects:
            await client.create(kind, bare(obj))
    for node in situation.nodes:
        made = await client.create(NODES, bare(node))
        made = await client.update(NODES, {**made, "spec": {**made.get("spec", {}), "taints": node["spec"]["taints"]}})
        await client.update_status(NODES, {**made, "status": node["status"]})
    uids = {}
    for obj in situation.others:
        kind = next(kind for kind in OTHERS if kind.kind == obj["kind"])
        made = await client.create(kind, obj)
        uids[made["metadata"]["name"]] = made["metadata"]["uid"]
        if "status" in obj:
            await client.update_status(kind, {**made, "status": obj["status"]})
    return uids


async def verdict(client: Client, pod: str) -> Json:
    """The pod once it is bound, or rejected and not about to be bound."""
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
    """The pods that there are: preemption takes some away."""
    return sorted(pod["metadata"]["name"] for pod in await items(client, PODS, "ns"))


def told(pod: Json) -> Json:
    """What is compared of a pod."""
    condition = scheduled(pod)
    extended = pod["status"].get("extendedResourceClaimStatus") or {}
    return {
        "node": pod["spec"].get("nodeName"),
        "nominated": pod["status"].get("nominatedNodeName"),
        "condition": {key: condition.get(key) for key in ("status", "reason", "message")},
        "mappings": extended.get("requestMappings"),
        "claim": extended.get("resourceClaimName", "")[:-5],
    }


def told_claim(claim: Json) -> Json:
    metadata, status = claim["metadata"], claim.get("status") or {}
    allocation = dict(status.get("allocation") or {})
    stamped = bool(allocation.pop("allocationTimestamp", None))
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


async def played(client: Client, situation: Situation) -> tuple[list[Json], list[Json]]:
    """What becomes of the pods, and of the claims. Everything is removed afterwards."""
    uids = await prepare(client, situation)
    verdicts = []
    for pod in situation.pods:
        made = bare(pod)
        owners = [{**owner, "uid": uids[owner["name"]]} for owner in made["metadata"].get("ownerReferences", ())]
        await client.create(PODS, {**made, "metadata": {**made["metadata"], "ownerReferences": owners}})
        seen = await verdict(client, pod["metadata"]["name"])
        if seen["spec"].get("nodeName"):
            started = f"2026-01-01T00:00:{len(verdicts):02}Z"
            status = {"status": {"phase": "Running", "startTime": started}}
            await client.patch(PODS, pod["metadata"]["name"], status, "ns", subresource="status")
        found = told(seen)
        verdicts.append({**found, "left": await left(client)})
    claims = [told_claim(claim) for claim in await items(client, RESOURCE_CLAIMS, "ns")]
    await client.request("POST", "/-/reset", "", None)
    return verdicts, sorted(claims, key=lambda claim: str(claim["name"]))


async def compare(directory: Path, situations: list[Situation], configuration: Json | None = None) -> None:
    """Where nodes are equally good the two may choose differently: from there on they cannot be compared."""
    compared = 0
    async with ours(directory, configuration) as mine, theirs(directory, configuration) as real:
        for number, situation in enumerate(situations):
            (verdicts, claims), (expected, expected_claims) = await asyncio.gather(
                played(mine, situation), played(real, situation)
            )
            for verdict_of_ours, other in zip(verdicts, expected, strict=True):
                if verdict_of_ours["node"] and other["node"] and verdict_of_ours["node"] != other["node"]:
                    break
                if any(defect in str(other["condition"]["message"]) for defect in DEFECTS):
                    break
                assert verdict_of_ours == other, f"situation {number}"
                compared += 1
            else:
                assert claims == expected_claims, f"situation {number}"
    total = sum(len(situation.pods) for situation in situations)
    assert compared >= total * 0.6, f"{compared} of {total}"


KINDS: list[Callable[[random.Random], Situation]] = [devices_and_resources, priorities_and_budgets, spread_by_default]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_both_schedulers_say_and_do_the_same(kind: Callable[[random.Random], Situation], tmp_path: Path) -> None:
    situations = [kind(random.Random(seed)) for seed in range(ROUNDS)]
    asyncio.run(compare(tmp_path, situations))


def test_both_schedulers_follow_a_configuration(tmp_path: Path) -> None:
    resources = [{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}]
    constraint = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    arguments = {
        "NodeResourcesFit": {"scoringStrategy": {"type": "MostAllocated", "resources": resources}},
        "PodTopologySpread": {"defaultingType": "List", "defaultConstraints": [constraint]},
        "InterPodAffinity": {"hardPodAffinityWeight": 5},
        "DynamicResources": {"filterTimeout": "5s", "bindingTimeout": "1m"},
    }
    plugins = {
        "multiPoint": {"disabled": [{"name": "ImageLocality"}]},
        "score": {"enabled": [{"name": "NodeResourcesFit", "weight": 9}], "disabled": [{"name": "TaintToleration"}]},
        "filter": {"enabled": [{"name": "NodeResourcesFit"}]},
    }
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": plugins,
        "pluginConfig": [{"name": name, "args": args} for name, args in arguments.items()],
    }
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100,
        "profiles": [profile],
    }
    situations = [
        kind(random.Random(seed)) for seed in range(ROUNDS) for kind in (devices_and_resources, spread_by_default)
    ]
    asyncio.run(compare(tmp_path, situations, configuration))
