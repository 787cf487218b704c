"""Cost of a pod until it is bound, by placement of the components.

    python -m benchmarks.scheduling [--kind claims] [--nodes 100] [--pods 350] [--placements apart,real] [--writes]

Placements: kubedra's components in the server's process (`inside`), in a forked process (`apart`) or in a separate
process over HTTP (`outside`), or a `real` kube-scheduler and kube-controller-manager with the same server. Both real
programs must be on PATH.

Kinds: `plain` pods, pods with `claims` from a template, pods that request an `extended` resource of devices,
pods with a claim on a bound volume (`volumes`), in `gangs` of four, and pods that fit `nowhere`, each tried four times.

Prints pods per second from the first creation to the last binding, and for the server and its components milliseconds
of processor time per pod and MiB of memory. --writes adds the components' writes per pod. Compare only figures of one
run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from apiserver.api.objects import Json
from controllers.runtime.client import Client
from controllers.runtime.http import HttpTransport
from controllers.runtime.kinds import (
    DEVICE_CLASSES,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_SLICES,
    VOLUME_CLAIMS,
    VOLUMES,
)
from kubedra.kubeconfig.reader import read_kubeconfig
from tests.support.wire import Child, environment

NAMESPACE, DRIVER = "sched", "gpu.example.com"
COMPONENTS = "scheduler,resourceclaim-controller,persistentvolume-binder-controller"
REAL_CONTROLLERS = "resourceclaim-controller,persistentvolume-binder-controller"
GATES = "GenericWorkload=true,GangScheduling=true"
KINDS = ("plain", "claims", "extended", "volumes", "gangs", "nowhere")
GANG = 4
_PAUSE, _LITTLE = 15, 0.02
"""The sampling period in seconds, and the processor share that counts as idle."""
TRIES = 4
"""Scheduling attempts of a pod that fits nowhere: one more after each node that gets its label."""


def build_object(name: str, **more: Any) -> Json:
    return {"metadata": {"name": name, "namespace": NAMESPACE}, **more}


def device_class() -> Json:
    spec = {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}], "extendedResourceName": "ex.com/g"}
    return {"metadata": {"name": "gpu"}, "spec": spec}


def template() -> Json:
    capacity = f"device.capacity['{DRIVER}'].memory.compareTo(quantity('40Gi')) >= 0"
    wanted = f"device.attributes['{DRIVER}'].model == 'H200' && {capacity}"
    asked = {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": wanted}}]}
    return build_object("one", spec={"spec": {"devices": {"requests": [{"name": "r", "exactly": asked}]}}})


def node(number: int) -> Json:
    size = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    status = {"capacity": size, "allocatable": size, "conditions": [{"type": "Ready", "status": "True"}]}
    labels = {"kubernetes.io/hostname": f"node-{number}"}
    return {"metadata": {"name": f"node-{number}", "labels": labels}, "status": status}


def devices(number: int, count: int) -> Json:
    listed = [
        {
            "name": f"gpu-{index}",
            "attributes": {"model": {"string": "A100" if index % 2 else "H200"}, "index": {"int": index}},
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for index in range(count)
    ]
    where = f"node-{number}"
    pool = {"name": where, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": where, "pool": pool, "devices": listed}
    return {"metadata": {"name": f"slice-{number}"}, "spec": spec}


def volume(number: int) -> tuple[Json, Json]:
    """Build a volume and its bound claim."""
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    size = {"storage": "1Gi"}
    claim = build_object(f"v{number}", spec={**common, "resources": {"requests": size}, "volumeName": f"v{number}"})
    bound = {"namespace": NAMESPACE, "name": f"v{number}"}
    where = {"hostPath": {"path": "/v"}, "capacity": size, "claimRef": bound, **common}
    return {"metadata": {"name": f"v{number}"}, "spec": where}, claim


def pod(kind: str, number: int) -> Json:
    resources: Json = {"requests": {"cpu": "100m"}}
    spec: Json = {"tolerations": [{"operator": "Exists"}]}
    match kind:
        case "claims":
            spec["resourceClaims"] = [{"name": "g", "resourceClaimTemplateName": "one"}]
            resources["claims"] = [{"name": "g"}]
        case "extended":
            resources |= {"limits": {"ex.com/g": "1"}}
        case "volumes":
            spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": f"v{number}"}}]
        case "gangs":
            spec["schedulingGroup"] = {"podGroupName": f"gang-{number // GANG}"}
        case "nowhere":
            spec["nodeSelector"] = {"fits": "yes"}
            resources = {"requests": {"cpu": "1000"}}
    return build_object(
        f"p{number}", spec={**spec, "containers": [{"name": "c", "image": "x", "resources": resources}]}
    )


class Processes:
    """Processor time and memory of the server (the first process) and of its components."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._pids = list(pids)
        self._before = self._used()

    def _used(self) -> list[float]:
        """Return the processor time of each process in seconds."""
        ticks = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13] for pid in self._pids)
        return [sum(map(int, each)) / os.sysconf("SC_CLK_TCK") for each in ticks]

    def used(self) -> tuple[float, float]:
        """Return the seconds of the server and of the other processes since the beginning."""
        server, *others = (now - before for now, before in zip(self._used(), self._before, strict=True))
        return server, sum(others)

    def memory(self) -> tuple[float, float]:
        """Return the memory of the server and of the other processes in MiB."""
        page = os.sysconf("SC_PAGE_SIZE") / (1 << 20)
        server, *others = (int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * page for pid in self._pids)
        return server, sum(others)


async def for_each(count: int, make: Callable[[int], Awaitable[object]], at_once: int = 8) -> None:
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            await make(number)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(work())


async def prepare(client: Client, kind: str, nodes: int, pods: int) -> None:
    """Create all objects except the pods."""
    await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    await client.create(DEVICE_CLASSES, device_class())
    await client.create(RESOURCE_CLAIM_TEMPLATES, template())
    await for_each(nodes, lambda number: client.create(NODES, node(number)))
    await for_each(nodes, lambda number: client.create(RESOURCE_SLICES, devices(number, 8)))
    if kind == "volumes":
        for number in range(pods):
            stored, claim = volume(number)
            await client.create(VOLUMES, stored)
            await client.create(VOLUME_CLAIMS, claim)
        await wait_until(lambda: are_volumes_bound(client))
    if kind == "gangs":
        policy = {"schedulingPolicy": {"gang": {"minCount": GANG}}}
        await for_each(
            pods // GANG, lambda number: client.create(POD_GROUPS, build_object(f"gang-{number}", spec=policy))
        )


async def wait_until(holds: Callable[[], Awaitable[bool]]) -> None:
    while not await holds():  # noqa: ASYNC110 - a watch would be work for the server
        await asyncio.sleep(0.25)


async def are_volumes_bound(client: Client) -> bool:
    return all(item["status"].get("phase") == "Bound" for item in (await client.list(VOLUME_CLAIMS))["items"])


async def are_pods_decided(client: Client, kind: str) -> bool:
    """Return whether all pods are bound, or, if they fit nowhere, have a condition."""
    if kind == "nowhere":
        pods = (await client.list(PODS, NAMESPACE))["items"]
        return all(item["status"].get("conditions") for item in pods)
    return not (await client.list(PODS, NAMESPACE, field_selector="spec.nodeName=", limit=1))["items"]


async def create_pods(client: Client, kind: str, pods: int) -> None:
    """Create the pods and wait until each is bound or was tried."""
    await for_each(pods, lambda number: client.create(PODS, pod(kind, number)))
    await wait_until(lambda: are_pods_decided(client, kind))
    if kind == "nowhere":
        for number in range(1, TRIES):
            await asyncio.sleep(2**number)
            await client.patch(NODES, f"node-{number}", {"metadata": {"labels": {"fits": "yes"}}}, type="merge")
        await asyncio.sleep(8)


@asynccontextmanager
async def run_scheduler(placement: str, config: Path, log: Path, gates: str) -> AsyncIterator[list[int]]:
    """Run the components beside the server. Yield their process ids."""
    address = f"--kubeconfig={config}"
    quick = ["--kube-api-qps=5000", "--kube-api-burst=5000", "--leader-elect=false", "--secure-port=0"]
    args = [f"--feature-gates={gates}"] if gates else []
    commands: dict[str, list[list[str]]] = {
        "inside": [],
        "apart": [],
        "outside": [[sys.executable, "-P", "-m", "controllers", address, f"--controllers={COMPONENTS}", *args]],
        "real": [
            ["kube-scheduler", address, *quick, *args],
            ["kube-controller-manager", address, f"--controllers={REAL_CONTROLLERS}", *quick, *args],
        ],
    }
    with log.open("w") as file:
        started = [subprocess.Popen(each, stdout=file, stderr=file, env=environment()) for each in commands[placement]]  # noqa: ASYNC220
        try:
            yield [process.pid for process in started]
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.wait()


def count_writes(log: Path, since: int) -> Counter[str]:
    """Count the components' writes in the request log from an offset on."""
    found: Counter[str] = Counter()
    for line in log.read_bytes()[since:].splitlines():
        entry = json.loads(line)
        if entry["verb"] in ("get", "list", "watch") or entry["userAgent"] == "benchmark":
            continue
        resource = "/".join(filter(None, (entry["resource"], entry.get("subresource", ""))))
        if resource != "leases":
            refused = f" ({entry['code']})" if entry["code"] >= 400 else ""
            found[f"{entry['verb']} {resource}{refused}"] += 1
    return found


def child_pids(pid: int) -> list[int]:
    """Return the processes that another has forked."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def measure(placement: str, args: argparse.Namespace, directory: Path) -> None:
    config, requests = directory / "kubeconfig", directory / "requests"
    gates = GATES if args.kind == "gangs" else ""
    flags = [f"--kubeconfig={config}", f"--storage={args.storage}"]
    flags += [f"--controllers={COMPONENTS}"] if placement in ("inside", "apart") else []
    flags += ["--components-apart"] if placement == "apart" else []
    flags += [f"--feature-gates={gates}", "--runtime-config=api/all=true"] if gates else []
    flags += [f"--request-log={requests}"] if args.writes else []
    with Child(directory / "server", *flags) as server:
        client = Client(HttpTransport(read_kubeconfig(config)), user_agent="benchmark")
        async with run_scheduler(placement, config, directory / "components.log", gates) as others:
            others += child_pids(server.process.pid)
            await prepare(client, args.kind, args.nodes, args.pods)
            await wait_volumes(client)
            since = requests.stat().st_size if args.writes else 0
            used, began = Processes([server.process.pid, *others]), time.perf_counter()
            await create_pods(client, args.kind, args.pods)
            seconds = time.perf_counter() - began
            figures = zip(used.used(), used.memory(), strict=True)
            (mine, memory), (theirs, more) = figures
            print(
                f"{args.kind} {args.nodes} nodes {args.pods} pods  {placement:8}{args.pods / seconds:7.1f} pods/s  "
                f"server {mine / args.pods * 1000:6.2f} ms {memory:5.0f} MiB  "
                f"components {theirs / args.pods * 1000:6.2f} ms {more:5.0f} MiB",
                flush=True,
            )
            if args.writes:
                await asyncio.sleep(1.5)
                for what, count in sorted(count_writes(requests, since).items()):
                    print(f"    {count / args.pods:6.2f} {what}")
            if args.rest:
                await wait_idle([server.process.pid, *others])
                used = Processes([server.process.pid, *others])
                await asyncio.sleep(args.rest)
                print(f"    idle {[round(part / args.rest * 1000, 2) for part in used.used()]} ms per second")
        await client.close()


async def wait_idle(pids: list[int]) -> None:
    """Wait until pending work is done: backoffs end, events are written."""

    async def idle() -> bool:
        used = Processes(pids)
        await asyncio.sleep(_PAUSE)
        return sum(used.used()) < _LITTLE * _PAUSE

    await wait_until(idle)


async def wait_volumes(client: Client) -> None:
    """Wait until the components bind pods. One pod is tried."""
    probe = {**pod("plain", 0), "metadata": {"name": "probe", "namespace": "default"}}
    await client.create(PODS, probe)

    async def bound() -> bool:
        return bool((await client.get(PODS, "probe", "default"))["spec"].get("nodeName"))

    await wait_until(bound)
    await client.delete(PODS, "probe", "default", grace_period=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kind", choices=KINDS, default="claims")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--pods", type=int, default=350)
    parser.add_argument("--placements", default="inside,apart,outside,real")
    parser.add_argument("--storage", default="sqlite", choices=("sqlite", "memory"))
    parser.add_argument("--writes", action="store_true", help="count the writes (slows the server down)")
    parser.add_argument(
        "--rest", type=float, default=0, metavar="SECONDS", help="then measure idle processes this long"
    )
    args = parser.parse_args()
    for placement in args.placements.split(","):
        if placement == "real" and not (shutil.which("kube-scheduler") and shutil.which("kube-controller-manager")):
            print("real: no kube-scheduler and kube-controller-manager on PATH")
            continue
        with tempfile.TemporaryDirectory() as directory:
            asyncio.run(measure(placement, args, Path(directory)))


if __name__ == "__main__":
    main()
