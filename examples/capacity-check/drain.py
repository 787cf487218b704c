"""Report whether jobs fit, and running pods find another place, when nodes are drained.

python drain.py --profile 8xh100 --nodes 4 --drain 2 --running running.yaml --jobs jobs.yaml
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

import yaml

from kubedra import ApiError, ControlPlane
from kubedra.client.clock import Clock


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", default="8xh100", help="hardware of each node (kubedra profiles)")
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--slices", type=Path, help="hardware of a real cluster: kubectl get resourceslices -o yaml")
    parser.add_argument("--drain", type=int, default=2, help="number of nodes to drain, the busiest first")
    parser.add_argument("--running", type=Path, required=True, help="what runs today")
    parser.add_argument("--jobs", type=Path, required=True, help="what is to run during the maintenance")
    options = parser.parse_args(arguments)
    with ControlPlane(clock="virtual") as plane, plane.client() as cluster:
        clock = Clock(lambda: cluster)
        add_nodes(cluster, options)
        cluster.apply(options.running)
        clock.run_until_idle()
        drained = busiest(cluster)[: options.drain]
        blocked = drain(cluster, clock, drained)
        cluster.apply(options.jobs)
        clock.run_until_idle()
        waiting = report(cluster, drained, blocked)
    return 1 if waiting else 0


def add_nodes(cluster, options):
    """Create the nodes: those of the captured slices, else `--nodes` with the profile."""
    if options.slices is None:
        for number in range(1, options.nodes + 1):
            cluster.add_node(f"node-{number}", profile=options.profile)
        return
    slices = yaml.safe_load(options.slices.read_text())["items"]
    for name in sorted({item["spec"]["nodeName"] for item in slices if item["spec"].get("nodeName")}):
        cluster.add_node(name, slices=slices)


def busiest(cluster):
    """Return the names of the nodes, those with most pods first."""
    pods = Counter(pod["spec"].get("nodeName") for pod in cluster.list("pods", namespace=""))
    return sorted((node["metadata"]["name"] for node in cluster.list("nodes")), key=lambda name: (-pods[name], name))


def drain(cluster, clock, names):
    """Cordon nodes and evict their pods. Return the evictions that a budget refuses until the end."""
    for name in names:
        cluster.patch(f"node/{name}", {"spec": {"unschedulable": True}})
    blocked = {}
    for _ in range(60):  # as kubectl drain does, every 5 s
        blocked = {}
        for pod in cluster.list("pods", namespace=""):
            if pod["spec"].get("nodeName") in names and not evict(cluster, pod["metadata"]):
                blocked[pod["metadata"]["name"]] = pod["spec"]["nodeName"]
        clock.advance(seconds=5)
        if not blocked:
            break
    return blocked


def evict(cluster, meta):
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/eviction"
    identity = {"name": meta["name"], "namespace": meta["namespace"]}
    try:
        cluster.request("POST", path, {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": identity})
    except ApiError as error:
        if error.code != 429:  # 429: the budget is used up for now
            raise
        return False
    return True


def report(cluster, drained, blocked):
    """Print the report. Return the names of the waiting pods."""
    pods = [pod for pod in cluster.list("pods", namespace="") if "deletionTimestamp" not in pod["metadata"]]
    waiting = [pod["metadata"]["name"] for pod in pods if not pod["spec"].get("nodeName")]
    print(f"# Drain of {', '.join(drained)}\n")
    print(f"{len(pods) - len(waiting)} of {len(pods)} pods run, {len(waiting)} wait.\n")
    print("| node | devices in use | pods |\n|---|---|---|")
    claims = cluster.list("resourceclaims", namespace="")
    devices = Counter(result["pool"] for claim in claims for result in results(claim))
    placed = Counter(pod["spec"].get("nodeName") for pod in pods)
    for name in sorted(node["metadata"]["name"] for node in cluster.list("nodes")):
        print(f"| {name}{' (drained)' if name in drained else ''} | {devices[name]} | {placed[name]} |")
    for name, node in blocked.items():
        print(f"\n{name} stays on {node}: its disruption budget allows no eviction.")
    if waiting:
        print(f"\nWhy {waiting[0]} waits:\n\n```\n{cluster.explain(f'pod/{waiting[0]}')['report'].strip()}\n```")
    return waiting


def results(claim):
    return claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())


if __name__ == "__main__":
    sys.exit(main())
