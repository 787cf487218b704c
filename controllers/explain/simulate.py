"""`kubedra simulate -f pods.yaml --slices slices.yaml | --kubeconfig FILE`: would these pods fit, and where?

Exit codes: 0, all of them fit; 1, some do not; 2 for a mistake, or a cluster that does not answer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from apiserver.api.errors.status import StatusError
from apiserver.api.features.gates import RELEASES
from controllers.explain.__main__ import add_scheduler, options_of, read_world
from controllers.explain.hypothetical import UNLIMITED, Hypothetical, bare_node, numbered
from controllers.explain.podgroups import group_of
from controllers.explain.simulation import Simulated, Simulation, has_node, nodes_named, plot, table
from controllers.explain.world import World
from controllers.options.command_line import FlagError, OneLineParser, add_cluster, release
from controllers.runtime.kinds import (
    CSI_DRIVERS,
    CSI_NODES,
    DEVICE_CLASSES,
    DISRUPTION_BUDGETS,
    NODES,
    POD_GROUPS,
    PRIORITY_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_CAPACITIES,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    Json,
    key_of,
)
from controllers.runtime.transport import TransportError
from kubedra import profiles
from kubedra.kubeconfig.reader import KubeconfigError

#: What files may add to the world beside pods, in this order.
_KINDS: Final = (
    NODES, DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES, PRIORITY_CLASSES, STORAGE_CLASSES, CSI_DRIVERS,
    CSI_NODES, STORAGE_CAPACITIES, VOLUMES, VOLUME_CLAIMS, DISRUPTION_BUDGETS, POD_GROUPS,
)  # fmt: skip
#: Pods after which `--fill` ends although more would fit.
_MOST: Final = 10_000


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog=os.environ.get("KUBEDRA_PROG", "python -m controllers.explain.simulate"),
        description="Would these pods fit, where, and how full do nodes get? Reads only; nothing is created.",
        epilog="Without a cluster the nodes are those that the slices name; their cpu and memory are unlimited where no"
        " Node is given.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    files = (
        "pods and workloads, with their claims, templates, classes, groups and volumes; nodes, too: YAML or JSON, a"
        " file or a directory; may be repeated"
    )
    add("-f", "--filename", action="append", required=True, metavar="FILE", help=files)
    slices = "ResourceSlices, as `kubectl get resourceslices -o yaml` writes them"
    add("--slices", nargs="+", default=[], metavar="FILE", help=slices)
    add("--profile", default="", metavar="NAME", help="hardware that `kubedra profiles` lists, for --more-nodes")
    add("--more-nodes", type=int, default=0, metavar="N", help="so many nodes more with the hardware of --profile")
    add("--replicas", type=int, metavar="N", help="so many of each pod and workload, whatever it says itself")
    add("--fill", action="store_true", help="how many more fit: all of them again and again until one does not")
    add("--preempt", action="store_true", help="pods of lower priority end for those that fit nowhere")
    add("-o", "--output", choices=("table", "plot", "json"), default="table")
    add_cluster(parser, required=False)
    add_scheduler(parser)
    return parser


async def _world(given: argparse.Namespace) -> World:
    if given.server or given.kubeconfig:
        return await read_world(given, also=(RESOURCE_CLAIM_TEMPLATES, PRIORITY_CLASSES))
    version = release(given.emulated_version) if given.emulated_version else RELEASES[-1]
    return World.empty(options_of(given, version))


def _imagine(world: World, wanted: Hypothetical, slices: Sequence[Json]) -> None:
    """Nodes, slices, classes, claims and templates come into the world."""
    for kind in _KINDS:
        for obj in wanted.of(kind.kind):
            world.set(kind, key_of(obj), obj)
    for name in nodes_named(slices):
        if not has_node(world, name):
            world.set(NODES, name, bare_node(name, UNLIMITED))
    for obj in slices:
        world.set(RESOURCE_SLICES, key_of(obj), obj)


async def _simulate(given: argparse.Namespace) -> Simulated:
    wanted = Hypothetical(Path(name) for name in given.filename)
    captured = Hypothetical(Path(name) for name in given.slices)
    pods = list(wanted.pods(given.replicas))
    if not pods:
        raise FlagError(f"-f {', '.join(given.filename)}: no pod, and nothing that makes pods")
    world = await _world(given)
    _imagine(world, wanted, [*wanted.of("ResourceSlice"), *captured.of("ResourceSlice")])
    _more_nodes(world, given)
    simulation = Simulation(world, preempt=given.preempt)
    if not given.fill:
        simulation.place_all(pods)
        return simulation.result(wanted.left_out)
    one_of_each = [pod for pod, _ in wanted.each()]
    for round_ in range(_MOST // len(one_of_each)):
        if not simulation.place_all([_numbered(world, pod, round_) for pod in one_of_each]):
            break
    return simulation.result(wanted.left_out, filled=True)


def _numbered(world: World, pod: Json, number: int) -> Json:
    """The pod of a round; its group has one for each round as well."""
    made = numbered(pod, number)
    group = group_of(world, pod)
    if group is not None:
        copy = numbered(group, number)
        world.set(POD_GROUPS, key_of(copy), {**group, "metadata": copy["metadata"]})
        made["spec"] = {**made["spec"], "schedulingGroup": {"podGroupName": copy["metadata"]["name"]}}
    return made


def _more_nodes(world: World, given: argparse.Namespace) -> None:
    """Nodes with the hardware of a profile. Raises ValueError where there is no such profile."""
    if bool(given.profile) is not bool(given.more_nodes):
        raise FlagError("--profile and --more-nodes belong together")
    if not given.more_nodes:
        return
    profile = profiles.load(profiles.named(given.profile))
    for item in profile.classes():
        name = item["metadata"]["name"]
        if world.of(DEVICE_CLASSES).get(name) is None:
            meta = {**item["metadata"], "uid": name, "resourceVersion": "0"}
            world.set(DEVICE_CLASSES, name, {**item, "metadata": meta})
    for number in range(1, given.more_nodes + 1):
        node = f"more-{number}"
        world.set(NODES, node, bare_node(node, UNLIMITED))
        for driver, pool in profile.pools(node).items():
            for index, part in enumerate(pool.slices):
                named = f"{node}-{driver}-{index}"
                whole = {"name": node, "generation": 1, "resourceSliceCount": len(pool.slices)}
                spec = {"driver": driver, "nodeName": node, "pool": whole, **part}
                meta = {"name": named, "uid": named, "resourceVersion": "0"}
                world.set(RESOURCE_SLICES, named, {"metadata": meta, "spec": spec})


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    try:
        given = parser.parse_args(arguments)
        if given.replicas is not None and given.replicas < 1:
            raise FlagError(f"--replicas {given.replicas}: at least 1")
        found = asyncio.run(_simulate(given))
    except (FlagError, KubeconfigError, TransportError, StatusError, ValueError, OSError) as error:
        sys.stderr.write(f"{parser.prog}: {' '.join(str(error).split())}\n")
        return 2
    shown = {"table": table, "plot": plot}
    print(json.dumps(found.as_json(), indent=1) if given.output == "json" else shown[given.output](found))
    return 0 if given.fill or found.fitting == len(found.pods) else 1


if __name__ == "__main__":
    sys.exit(main())
