"""Runs the same steps with kubedra's controllers and with a real kube-controller-manager, and compares the results."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from apiserver.api.objects import Json
from controllers.runtime.client import Client
from controllers.runtime.http import HttpTransport
from controllers.runtime.kinds import (
    CONTROLLER_REVISIONS,
    CORE_EVENTS,
    DAEMON_SETS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    VOLUME_CLAIMS,
    Kind,
)
from kubedra.kubeconfig.reader import read_kubeconfig
from tests.support.patience import Deadline, ended
from tests.support.wire import Child

KUBE_CONTROLLER_MANAGER = shutil.which("kube-controller-manager")
COMPARED: tuple[Kind, ...] = (
    DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, REPLICATION_CONTROLLERS, CONTROLLER_REVISIONS, VOLUME_CLAIMS,
    PODS,
)  # fmt: skip
#: What stands in objects and differs from run to run.
_CHANCE = frozenset(
    [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "managedFields",
        "allocationTimestamp",
        "shareID",
        "timeAdded",
        "lastTransitionTime",
        "lastUpdateTime",
        "startTime",
        "startedAt",
        "finishedAt",
        "lastProbeTime",
        "podIP",
        "podIPs",
        "hostIP",
        "hostIPs",
        "containerID",
        "clusterIP",
        "clusterIPs",
        "nodeName",
        "completionTime",
        "controller-uid",
        "batch.kubernetes.io/controller-uid",
        "endpoints.kubernetes.io/last-change-trigger-time",
        "ip",
        "addresses",
    ]
)
_RANDOM = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b")
_QUIET = 2.0
"""Seconds without a change after which nothing more is expected."""


@asynccontextmanager
async def both(
    directory: Path,
    controllers: Sequence[str],
    others: Sequence[str],
    nodes: int = 3,
    flags: Sequence[str] = (),
    only_theirs: Sequence[str] = (),
    servers: Sequence[str] = (),
) -> AsyncIterator[tuple[Client, Client]]:
    """Yield the clients of a server with our controllers and of one with theirs.

    `controllers` are run by kubedra for the first server and by kube-controller-manager for the second, with the same
    `flags`; `only_theirs` are flags that kubedra does not have. `others` are run by kubedra on both servers, which have
    the further flags `servers`.
    """
    assert KUBE_CONTROLLER_MANAGER is not None
    ours, theirs = directory / "ours.conf", directory / "theirs.conf"
    shared = [f"--nodes={nodes}", "--devices=none", f"--controllers={','.join(others)}", *servers]
    with (
        Child(directory / "ours", f"--kubeconfig={ours}", *shared),
        Child(directory / "theirs", f"--kubeconfig={theirs}", *shared),
        (directory / "kubedra.log").open("w") as our_log,
        (directory / "kube-controller-manager.log").open("w") as their_log,
    ):
        flags = ["--leader-elect=false", f"--controllers={','.join(controllers)}", *flags]
        limits = ["--secure-port=0", "--kube-api-qps=5000", "--kube-api-burst=5000", *only_theirs]
        commands = (
            ([sys.executable, "-m", "controllers", f"--kubeconfig={ours}", *flags], our_log),
            ([KUBE_CONTROLLER_MANAGER, f"--kubeconfig={theirs}", *flags, *limits], their_log),
        )
        processes = [subprocess.Popen(command, stdout=log, stderr=log) for command, log in commands]  # noqa: ASYNC220
        clients = [Client(HttpTransport(read_kubeconfig(path)), user_agent="test") for path in (ours, theirs)]
        try:
            yield clients[0], clients[1]
        finally:
            for client in clients:
                await client.close()
            for process in processes:
                process.terminate()
                ended(process)


async def wait_idle(client: Client, kinds: Iterable[Kind] = COMPARED) -> None:
    """Wait until nothing changes any more."""
    before, quiet = "", Deadline(_QUIET)
    while not quiet.passed:
        found = [await client.list(kind) for kind in kinds]
        versions = json.dumps([[item["metadata"]["resourceVersion"] for item in page["items"]] for page in found])
        if versions != before:
            before, quiet = versions, Deadline(_QUIET)
        await asyncio.sleep(0.2)


def comparable(value: Any) -> Any:
    """Return an object without its random parts."""
    if isinstance(value, dict):
        return {key: comparable(item) for key, item in sorted(value.items()) if key not in _CHANCE}
    if isinstance(value, list):
        items = [comparable(item) for item in value]
        # The order of conditions tells in which order they came to be so, which is chance.
        return sorted(items, key=lambda item: item["type"]) if items and _are_conditions(items) else items
    return _RANDOM.sub("-*", value) if isinstance(value, str) else value


def _are_conditions(items: list[Any]) -> bool:
    return all(isinstance(item, dict) and {"type", "status"} <= item.keys() for item in items)


async def state(client: Client, namespace: str, kinds: Iterable[Kind] = COMPARED) -> dict[str, list[str]]:
    """Return the objects of a namespace by kind, and the reasons of events by the kind of their object."""
    found: dict[str, list[str]] = {}
    for kind in kinds:
        page = await client.list(kind, namespace)
        texts = [json.dumps(comparable(comparable_part(kind, item)), sort_keys=True) for item in page["items"]]
        found[kind.kind] = sorted(texts)
    events = (await client.list(CORE_EVENTS, namespace))["items"]
    own = Counter(
        f"{event['source'].get('component')} {event['involvedObject']['kind']} {event['type']} {event['reason']}"
        for event in events
        # The loser of a race between writers retries and emits an event. That is random.
        if event["involvedObject"]["kind"] != "Pod" and event["reason"] != "FailedUpdate"
    )
    found["events"] = sorted(own)
    return found


def comparable_part(kind: Kind, item: Json) -> Json:
    """Return the comparable part of an object.

    The status of a pod belongs to its node. The endpoints of a slice may have any order.
    """
    if kind == ENDPOINT_SLICES:
        endpoints = [{**each, "addresses": None} for each in item.get("endpoints") or ()]
        texts = sorted(json.dumps(comparable(each), sort_keys=True) for each in endpoints)
        metadata = {key: value for key, value in item["metadata"].items() if key not in ("generation", "annotations")}
        return {**item, "metadata": metadata, "endpoints": texts}
    if kind == ENDPOINTS:
        return {key: value for key, value in item.items() if key != "metadata"}
    if kind != PODS:
        return item
    phase = item["status"].get("phase")
    spec = {name: value for name, value in item["spec"].items() if name != "volumes"}
    return {"metadata": item["metadata"], "spec": spec, "status": {"phase": phase}}


def differences(ours: dict[str, list[str]], theirs: dict[str, list[str]]) -> list[str]:
    """Lines that tell what only one of them has."""
    lines = []
    for kind in theirs:
        mine, others = Counter(ours[kind]), Counter(theirs[kind])
        lines += [f"ours only, {kind}: {text}" for text in (mine - others).elements()]
        lines += [f"theirs only, {kind}: {text}" for text in (others - mine).elements()]
    return lines
