"""Duration of a Job (a tenth of its pods in parallel), a Deployment of as many pods, and a roll-out of half of it.

    python -m benchmarks.workloads [--pods 1000] [--kube-controller-manager PATH]
        [--other KUBECONFIG --other-pids 12,13,14,15]

Measures kubedra's controllers in the server's process, a real kube-controller-manager with the same server, or another
control plane on this machine. Both managers use kubedra's scheduler and nodes. The other control plane has its own
scheduler and controllers; `--other-pids` are its processes (such as etcd, kube-apiserver, kube-controller-manager and
kube-scheduler). All runs have the same emulated nodes, and the node agent is included. Figures are seconds of real time
and of processor time of all processes. Compare only figures of one run.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from apiserver.api.objects import Json
from controllers.runtime.client import Client
from controllers.runtime.http import HttpTransport
from controllers.runtime.kinds import DEPLOYMENTS, JOBS, NODES, Kind
from kubedra.kubeconfig.reader import read_kubeconfig
from tests.support.wire import Child

#: The name of a measurement, and its seconds of real and of processor time.
Found = tuple[str, float, float]
OURS = ["deployment-controller", "replicaset-controller", "job-controller"]
OTHERS = ["scheduler", "node-agent", "node-lifecycle-controller", "garbage-collector-controller"]
PODS_OF_NODE = 100


def deployment(name: str, replicas: int) -> Json:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def states(client: Client, kind: Kind, name: str) -> AsyncGenerator[Json, None]:
    """Yield an object as it is, and again after each change."""
    found = await client.list(kind, "default", field_selector=f"metadata.name={name}")
    for obj in found["items"]:
        yield obj
    version = found["metadata"]["resourceVersion"]
    selector = f"metadata.name={name}"
    async for batch in client.watch(kind, "default", resource_version=version, field_selector=selector):
        for event in batch:
            yield event.object


async def wait_available(client: Client, name: str, replicas: int, generation: int) -> None:
    """Wait until all pods are of the present template and available."""
    wanted = {"replicas": replicas, "updatedReplicas": replicas, "availableReplicas": replicas}
    async with aclosing(states(client, DEPLOYMENTS, name)) as found:
        async for obj in found:
            status = obj.get("status") or {}
            if status.get("observedGeneration", 0) >= generation and wanted.items() <= status.items():
                return


class Stopwatch:
    """Real time, and the processor time of some processes."""

    def __init__(self, *pids: int) -> None:
        self._pids = pids
        self._before = self._now()

    def _now(self) -> tuple[float, float]:
        ticks = 0
        for pid in self._pids:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return time.perf_counter(), ticks / os.sysconf("SC_CLK_TCK")

    def passed(self) -> tuple[float, float]:
        """Return both since the previous call."""
        before, self._before = self._before, self._now()
        return self._before[0] - before[0], self._before[1] - before[1]


def job(completions: int) -> Json:
    template = {
        "metadata": {"annotations": {"kubedra.dev/exit-after": "0s"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"completions": completions, "parallelism": max(1, completions // 10), "template": template}
    return {"metadata": {"name": "job", "namespace": "default"}, "spec": spec}


async def wait_complete(client: Client) -> None:
    """Wait until the Job is complete."""
    async with aclosing(states(client, JOBS, "job")) as found:
        async for obj in found:
            if (obj.get("status") or {}).get("completionTime"):
                return


async def measure(client: Client, pods: int, clocks: Stopwatch) -> list[Found]:
    clocks.passed()
    await client.create(JOBS, job(pods))
    await wait_complete(client)
    found: list[Found] = [(f"Job of {pods} completions", *clocks.passed())]
    for name, count in (("large", pods), ("rolled", pods // 2)):
        clocks.passed()
        await client.create(DEPLOYMENTS, deployment(name, count))
        await wait_available(client, name, count, 1)
        found.append((f"{count} pods to available", *clocks.passed()))
    change = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}}}
    await client.patch(DEPLOYMENTS, "rolled", change, "default")
    await wait_available(client, "rolled", pods // 2, 2)
    found.append((f"roll-out of {pods // 2}", *clocks.passed()))
    return found


def node(number: int) -> Json:
    annotations = {"kubedra.dev/emulated": "true"}
    return {"metadata": {"name": f"node-{number}", "annotations": annotations}}


async def run_other(pods: int, kubeconfig: Path, pids: list[int]) -> list[Found]:
    """Measure a running control plane. Its emulated nodes are created here and not removed."""
    client = Client(HttpTransport(read_kubeconfig(kubeconfig)), user_agent="benchmark")
    flags = [f"--kubeconfig={kubeconfig}", "--controllers=node-agent"]
    agent = subprocess.Popen([sys.executable, "-m", "controllers", *flags])  # noqa: ASYNC220
    try:
        for number in range(pods * 2 // PODS_OF_NODE + 1):
            await client.create(NODES, node(number))
        await asyncio.sleep(10)
        return await measure(client, pods, Stopwatch(agent.pid, *pids))
    finally:
        await client.close()
        agent.terminate()
        agent.wait()


async def run(pods: int, manager: str, directory: Path) -> list[Found]:
    config = directory / "kubeconfig"
    nodes = pods * 2 // PODS_OF_NODE + 1
    names = OTHERS if manager else [*OURS, *OTHERS]
    flags = [f"--controllers={','.join(names)}", f"--nodes={nodes}", "--devices=none", f"--kubeconfig={config}"]
    with Child(directory / "server", *flags) as server:
        client = Client(HttpTransport(read_kubeconfig(config)), user_agent="benchmark")
        process = None
        if manager:
            flags = ["--kube-api-qps=5000", "--kube-api-burst=5000", "--leader-elect=false", "--secure-port=0"]
            command = [manager, f"--kubeconfig={config}", f"--controllers={','.join(OURS)}", *flags]
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: ASYNC220
        try:
            pids = [server.process.pid, *([process.pid] if process else [])]
            return await measure(client, pods, Stopwatch(*pids))
        finally:
            await client.close()
            if process is not None:
                process.terminate()
                process.wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--kube-controller-manager", default="", metavar="PATH")
    parser.add_argument("--other", type=Path, metavar="KUBECONFIG")
    parser.add_argument("--other-pids", default="", metavar="PID,…")
    args = parser.parse_args()
    for manager in ("", *((args.kube_controller_manager,) if args.kube_controller_manager else ())):
        with tempfile.TemporaryDirectory() as directory:
            program = "kube-controller-manager" if manager else "kubedra"
            print_results(program, asyncio.run(run(args.pods, manager, Path(directory))))
    if args.other:
        pids = [int(pid) for pid in args.other_pids.split(",") if pid]
        print_results("the other control plane", asyncio.run(run_other(args.pods, args.other, pids)))


def print_results(program: str, found: list[Found]) -> None:
    for what, real, processor in found:
        print(f"{program:24} {what:28} {real:7.2f} s {processor:7.2f} s of CPU time", flush=True)


if __name__ == "__main__":
    main()
