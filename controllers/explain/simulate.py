"""`kubedra simulate -f pods.yaml --slices slices.yaml | --kubeconfig FILE`: check whether and where pods would fit.

Exit codes: 0 if all pods fit, 1 if some do not, 2 for invalid input or an unreachable cluster.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from apiserver.api.errors.status import StatusError
from apiserver.api.features.gates import RELEASES
from apiserver.api.objects import Json
from controllers.explain.__main__ import add_scheduler, options_of, read_world
from controllers.explain.hypothetical import UNLIMITED, Hypothetical, bare_node, numbered_copy
from controllers.explain.podgroups import group_of
from controllers.explain.simulation import Simulation, SimulationResult, has_node, node_names, plot, table, text
from controllers.explain.world import World
from controllers.options.command_line import FlagError, OneLineParser, add_cluster, read_release
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
    key_of,
)
from controllers.runtime.transport import TransportError
from kubedra import profiles
from kubedra.command.arguments import program
from kubedra.kubeconfig.reader import KubeconfigError, default_files
from kubedra.runtime.failures import IS_IT_RUNNING
from kubedra.runtime.user_settings import source_of

#: Kinds that files may add besides pods, in this order.
_KINDS: Final = (
    NODES, DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES, PRIORITY_CLASSES, STORAGE_CLASSES, CSI_DRIVERS,
    CSI_NODES, STORAGE_CAPACITIES, VOLUMES, VOLUME_CLAIMS, DISRUPTION_BUDGETS, POD_GROUPS,
)  # fmt: skip
#: Maximum number of pods for `--fill`.
_MAX_PODS: Final = 10_000


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog=program("python -m controllers.explain.simulate"),
        description="Check whether and where pods would fit, and how full the nodes get. Creates nothing.",
        epilog="Without --kubeconfig, --slices, --more-nodes and nodes in the files, the cluster of $KUBECONFIG or"
        " .kubedra/kubeconfig is read. Without a cluster, the slices define the nodes. Nodes without a Node object have"
        " unlimited cpu and memory.",
    )
    add = parser.add_argument
    files = (
        "YAML or JSON file or directory with pods, workloads and what they use: claims, templates, classes, groups,"
        " volumes, nodes (repeatable)"
    )
    add("-f", "--filename", action="append", required=True, metavar="FILE", help=files)
    slices = "ResourceSlices, as printed by `kubectl get resourceslices -o yaml`"
    add("--slices", nargs="+", default=[], metavar="FILE", help=slices)
    add("--profile", default="", metavar="NAME", help="hardware of the added nodes (see `kubedra profiles`)")
    add("--more-nodes", type=int, default=0, metavar="N", help="add N nodes with the hardware of --profile")
    add("--replicas", type=int, metavar="N", help="simulate N replicas of each pod and workload")
    add("--fill", action="store_true", help="add one of each until one does not fit, to count how many do")
    add("--preempt", action="store_true", help="let pods preempt pods of lower priority")
    add(
        "-o", "--output", choices=("text", "table", "plot", "json"), default="text", help="output format (default text)"
    )
    add_cluster(parser, required=False)
    add_scheduler(parser)
    return parser


async def _world(args: argparse.Namespace, manifests: Hypothetical) -> World:
    if _reads_cluster(args, manifests):
        return await read_world(args, more_kinds=(RESOURCE_CLAIM_TEMPLATES, PRIORITY_CLASSES))
    version = read_release(args.emulated_version) if args.emulated_version else RELEASES[-1]
    return World.empty(options_of(args, version))


def _reads_cluster(args: argparse.Namespace, manifests: Hypothetical) -> bool:
    """Return whether to read a cluster: that of the flags, or kubectl's if nothing else defines nodes."""
    if args.server or args.kubeconfig:
        return True
    if args.slices or args.more_nodes or any(manifests.of("Node")) or any(manifests.of("ResourceSlice")):
        return False
    return any(path.is_file() for path in default_files())


def _add_objects(world: World, manifests: Hypothetical, slices: Sequence[Json]) -> None:
    """Add all objects except pods to the world, and nodes for slices without a Node."""
    for kind in _KINDS:
        for obj in manifests.of(kind.kind):
            world.set(kind, key_of(obj), obj)
    for name in node_names(slices):
        if not has_node(world, name):
            world.set(NODES, name, bare_node(name, UNLIMITED))
    for obj in slices:
        world.set(RESOURCE_SLICES, key_of(obj), obj)


async def _simulate(args: argparse.Namespace) -> SimulationResult:
    manifests = Hypothetical(Path(name) for name in args.filename)
    captured = Hypothetical(Path(name) for name in args.slices)
    pods = list(manifests.pods(args.replicas))
    if not pods:
        raise FlagError(f"-f {', '.join(args.filename)}: found no pods and no workloads")
    world = await _world(args, manifests)
    _add_objects(world, manifests, [*manifests.of("ResourceSlice"), *captured.of("ResourceSlice")])
    _add_nodes(world, args)
    simulation = Simulation(world, preempt=args.preempt)
    if not args.fill:
        simulation.place_all(pods)
        return simulation.result(manifests.ignored)
    one_of_each = [pod for pod, _ in manifests.pods_with_counts()]
    for round_ in range(_MAX_PODS // len(one_of_each)):
        if not simulation.place_all([_copy(world, pod, round_) for pod in one_of_each]):
            break
    return simulation.result(manifests.ignored, filled=True)


def _copy(world: World, pod: Json, number: int) -> Json:
    """Return a numbered copy of a pod, in an equally numbered copy of its group."""
    copied = numbered_copy(pod, number)
    group = group_of(world, pod)
    if group is not None:
        metadata = numbered_copy(group, number)["metadata"]
        copied_group = {**group, "metadata": metadata}
        world.set(POD_GROUPS, key_of(copied_group), copied_group)
        copied["spec"] = {**copied["spec"], "schedulingGroup": {"podGroupName": metadata["name"]}}
    return copied


def _add_nodes(world: World, args: argparse.Namespace) -> None:
    """Add nodes with the hardware of a profile. Raise ValueError for an unknown profile."""
    if bool(args.profile) is not bool(args.more_nodes):
        raise FlagError("--profile and --more-nodes must be given together")
    if not args.more_nodes:
        return
    profile = profiles.load(profiles.annotation_value(args.profile))
    for item in profile.classes():
        name = item["metadata"]["name"]
        if world.of(DEVICE_CLASSES).get(name) is None:
            meta = {**item["metadata"], "uid": name, "resourceVersion": "0"}
            world.set(DEVICE_CLASSES, name, {**item, "metadata": meta})
    for number in range(1, args.more_nodes + 1):
        node = f"more-{number}"
        world.set(NODES, node, bare_node(node, UNLIMITED))
        for driver, pool in profile.pools(node).items():
            for index, part in enumerate(pool.slices):
                slice_name = f"{node}-{driver}-{index}"
                whole = {"name": node, "generation": 1, "resourceSliceCount": len(pool.slices)}
                spec = {"driver": driver, "nodeName": node, "pool": whole, **part}
                meta = {"name": slice_name, "uid": slice_name, "resourceVersion": "0"}
                world.set(RESOURCE_SLICES, slice_name, {"metadata": meta, "spec": spec})


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    try:
        args = parser.parse_args(arguments)
        if args.replicas is not None and args.replicas < 1:
            raise FlagError(f"--replicas {args.replicas}: must be at least 1")
        found = asyncio.run(_simulate(args))
    except (FlagError, KubeconfigError, TransportError, StatusError, ValueError, OSError) as error:
        hint = f"; {IS_IT_RUNNING}" if isinstance(error, TransportError) else ""
        sys.stderr.write(f"{parser.prog}: {source_of(' '.join(str(error).split()))}{hint}\n")
        return 2
    render = {"text": text, "table": table, "plot": plot}
    print(json.dumps(found.as_json(), indent=1) if args.output == "json" else render[args.output](found))
    return 0 if args.fill or found.fitting == len(found.pods) else 1


if __name__ == "__main__":
    sys.exit(main())
