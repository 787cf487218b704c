"""`kubedra explain pod|claim|node|podgroup NAME`: explain why a pod waits and what would help, on any cluster.

Exit codes: 0 if explained, even if the pod waits; 2 for invalid input or an unreachable cluster.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.explain.claim_details import NotThereError, explain
from controllers.explain.findings import columns
from controllers.explain.world import EXPLAINED_KINDS, World
from controllers.options.command_line import (
    FlagError,
    OneLineParser,
    add_cluster,
    read_cluster,
    read_gates,
    read_release,
)
from controllers.options.follow import follow_server
from controllers.options.options import Options
from controllers.runtime.client import Client
from controllers.runtime.http import HttpTransport
from controllers.runtime.kinds import Kind
from controllers.runtime.transport import TransportError
from kubedra.client.paths import join_path
from kubedra.command.arguments import program
from kubedra.kubeconfig.reader import KubeconfigError
from kubedra.runtime.failures import IS_IT_RUNNING
from kubedra.runtime.user_settings import source_of

KINDS: Final = {
    "pod": "pod", "pods": "pod", "po": "pod",
    "claim": "claim", "claims": "claim", "resourceclaim": "claim", "resourceclaims": "claim",
    "node": "node", "nodes": "node", "no": "node",
    "podgroup": "podgroup", "podgroups": "podgroup",
}  # fmt: skip


def add_scheduler(parser: argparse.ArgumentParser) -> None:
    """Add the flags for a scheduler that is not configured with the defaults of its release."""
    add = parser.add_argument_group("the cluster's scheduler").add_argument
    add("--feature-gates", default="", metavar="NAME=true,…", help="its feature gates (default: those of the release)")
    add("--emulated-version", default="", metavar="X.Y", help="its release (default: the server's)")
    add("--config", type=Path, metavar="FILE", help="its KubeSchedulerConfiguration file")


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog=program("python -m controllers.explain"),
        description="Explain why a pod waits and what would help, or which claims hold devices. Reads any cluster.",
    )
    parser.add_argument("kind", metavar="pod|claim|node|podgroup", help="kind of the object")
    parser.add_argument("name", nargs="?", help="name of the object; KIND/NAME also works")
    parser.add_argument("-n", "--namespace", default="default", help="namespace (default: default)")
    parser.add_argument(
        "-o", "--output", choices=("text", "table", "json"), default="text", help="output format (default text)"
    )
    add_cluster(parser, required=False)
    add_scheduler(parser)
    return parser


def options_of(args: argparse.Namespace, version: tuple[int, int], gates: Mapping[str, bool] | None = None) -> Options:
    """Return the scheduler options of the flags. Raise FlagError, ValueError or OSError.

    `gates` precede those of the flags, which they include.
    """
    from controllers.scheduler.cycle.profiles import load

    options = Options(emulated_version=version, gates=gates or read_gates(args.feature_gates), seed=0)
    if args.config is not None:
        options = replace(options, scheduler=load(args.config, options.features.enabled))
    return options


async def read_world(args: argparse.Namespace, more_kinds: Iterable[Kind] = (), *, namespace: str = "") -> World:
    """Read the cluster of the flags once, including the kinds in `more_kinds` and the warnings in `namespace`.

    Raises:
        FlagError: A flag is invalid.
        TransportError: The server is unreachable.
        StatusError: The server rejects a request.
    """
    transport = HttpTransport(read_cluster(args))
    try:
        given, explicit = read_release(args.emulated_version), bool(args.emulated_version)
        options = Options(emulated_version=given, gates=read_gates(args.feature_gates))
        client, options = await follow_server(Client(transport), options, is_release_set=explicit)
        options = options_of(args, client.release, options.gates)
        return await World.read(client, options, more_kinds, namespace=namespace)
    finally:
        await transport.close()


async def _explain(args: argparse.Namespace, kind: str) -> Json:
    """Request the explanation from a kubedra server, which includes its queue. Otherwise read the cluster."""
    if not (args.feature_gates or args.emulated_version or args.config):
        transport = HttpTransport(read_cluster(args))
        path = (args.name,) if kind == "node" else (args.namespace, args.name)
        try:
            return await Client(transport).request("GET", join_path("-", "explain", kind, *path))
        except StatusError as error:
            if missing := _not_found_message(error):
                raise NotThereError(missing) from error
        finally:
            await transport.close()
    world = await read_world(args, EXPLAINED_KINDS, namespace="" if kind == "node" else args.namespace)
    found: Json = explain(world, kind, args.namespace, args.name).as_json()
    return found


def _not_found_message(error: StatusError) -> str:
    """Return a kubedra server's message about a missing object; "" for other errors and servers."""
    try:
        detail = json.loads(error.message).get("detail", "") if error.code == 404 else ""
    except (ValueError, AttributeError):
        return ""
    return str(detail) if "not found" in detail else ""


def _parse_target(args: argparse.Namespace) -> str:
    """Split `KIND/NAME` and return the canonical kind. Raise FlagError."""
    if args.name is None:
        args.kind, _, args.name = args.kind.partition("/")
    kind = KINDS.get(args.kind.lower())
    if kind is None:
        raise FlagError(f"unknown kind {args.kind}: use pod, claim, node or podgroup")
    if not args.name:
        raise FlagError(f"missing name: use {kind} NAME or {kind}/NAME")
    return kind


def table(found: Json) -> str:
    """Render device counts per request and node group, or the placements of a pod group."""
    if found["kind"] == "PodGroup":
        return _placements(found)
    pods = [found] if found["kind"] == "Pod" else found.get("waiting") or ()
    rows = [("POD", "NODES", "FIRST", "CLAIM", "REQUEST", "DEVICES", "USABLE", "RULED OUT")]
    for pod in pods:
        for group in pod["nodes"]:
            place = (f"{pod['namespace']}/{pod['name']}", str(len(group["nodes"])), group["nodes"][0])
            if not group["requests"]:
                reasons = "; ".join([*group["reasons"], *group["details"]])
                rows.append((*place, "-", "-", "-", "-", reasons or "fits"))
            for request in group["requests"]:
                reasons = ", ".join(f"{reason['count']} {reason['kind']}" for reason in request["reasons"])
                counts = (str(request["devices"]), str(request["usable"]))
                rows.append((*place, request["claim"], request["request"], *counts, reasons or "-"))
    return "\n".join(columns(rows))


def _placements(found: Json) -> str:
    rows = [("GROUP", "PLACEMENT", "NODES", "PLACED", "OF", "VERDICT")]
    rows += [
        (
            f"{found['namespace']}/{found['name']}",
            each["name"] or "-",
            str(each["nodes"]),
            str(each["placed"]),
            str(each["tried"]),
            "fits" if each["fits"] else "; ".join(each["reasons"]) or found["text"],
        )
        for each in found["placements"]
    ]
    return "\n".join(columns(rows))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    try:
        args = parser.parse_intermixed_args(arguments)
        kind = _parse_target(args)
        found = asyncio.run(_explain(args, kind))
    except (FlagError, KubeconfigError, NotThereError, TransportError, StatusError, ValueError, OSError) as error:
        hint = f"; {IS_IT_RUNNING}" if isinstance(error, TransportError) else ""
        sys.stderr.write(f"{parser.prog}: {source_of(' '.join(str(error).split()))}{hint}\n")
        return 2
    if args.output == "json":
        print(json.dumps(found, indent=1))
    else:
        print(table(found) if args.output == "table" else found["report"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
