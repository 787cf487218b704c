"""`kubedra explain pod|claim|node|podgroup NAME`: why a pod waits, and what would change that, of any cluster.

Exit codes: 0, also where the pod waits; 2 for a mistake, or a cluster that does not answer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from apiserver.api.errors.status import StatusError
from apiserver.api.features.gates import RELEASES
from controllers.explain.claim_details import NotThereError, explain
from controllers.explain.findings import columns
from controllers.explain.world import World
from controllers.options.command_line import FlagError, OneLineParser, add_cluster, cluster, gates, release
from controllers.options.options import Options
from controllers.runtime.client import Client
from controllers.runtime.http import HttpTransport
from controllers.runtime.kinds import Json, Kind
from controllers.runtime.transport import TransportError
from kubedra.client.paths import join_path
from kubedra.kubeconfig.reader import KubeconfigError

KINDS: Final = {
    "pod": "pod", "pods": "pod", "po": "pod",
    "claim": "claim", "claims": "claim", "resourceclaim": "claim", "resourceclaims": "claim",
    "node": "node", "nodes": "node", "no": "node",
    "podgroup": "podgroup", "podgroups": "podgroup",
}  # fmt: skip


def add_scheduler(parser: argparse.ArgumentParser) -> None:
    """The flags that say how the cluster's scheduler is set up, where that is not the default of its release."""
    what = parser.add_argument_group("the cluster's scheduler")
    what.add_argument("--feature-gates", default="", metavar="NAME=true,…", help="as kube-scheduler's")
    what.add_argument("--emulated-version", default="", metavar="X.Y", help="the release (default: the server's)")
    what.add_argument("--config", type=Path, metavar="FILE", help="its KubeSchedulerConfiguration")


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog=os.environ.get("KUBEDRA_PROG", "python -m controllers.explain"),
        description="Why a pod waits, what would change that, who holds devices. Reads only; any cluster will do.",
        allow_abbrev=False,
    )
    parser.add_argument("kind", metavar="pod|claim|node|podgroup")
    parser.add_argument("name", nargs="?", help="or KIND/NAME in one word")
    parser.add_argument("-n", "--namespace", default="default", help="of the pod, claim or podgroup (default: default)")
    parser.add_argument("-o", "--output", choices=("text", "table", "json"), default="text")
    add_cluster(parser, required=False)
    add_scheduler(parser)
    return parser


def options_of(given: argparse.Namespace, version: tuple[int, int]) -> Options:
    """Raises FlagError, ValueError, OSError."""
    from controllers.scheduler.cycle.profiles import load

    options = Options(emulated_version=version, gates=gates(given.feature_gates), seed=0)
    if given.config is not None:
        options = replace(options, scheduler=load(given.config, options.features.enabled))
    return options


async def read_world(given: argparse.Namespace, also: Iterable[Kind] = ()) -> World:
    """The cluster of the flags, read once, with other kinds than the scheduler needs. Raises FlagError, TransportError,
    StatusError.
    """
    transport = HttpTransport(cluster(given))
    try:
        version = release(given.emulated_version) if given.emulated_version else await _version(Client(transport))
        return await World.read(Client(transport, release=version), options_of(given, version), also)
    finally:
        await transport.close()


async def _version(client: Client) -> tuple[int, int]:
    """The server's release, or the nearest that is known here."""
    said = await client.request("GET", "/version")
    digits = "".join(letter for letter in said["minor"] if letter.isdigit())
    return min(max((int(said["major"]), int(digits)), RELEASES[0]), RELEASES[-1])


async def _explain(given: argparse.Namespace, kind: str) -> Json:
    """From the server itself where it is kubedra's, which knows its queue; else from what can be read."""
    if not (given.feature_gates or given.emulated_version or given.config):
        transport = HttpTransport(cluster(given))
        where = (given.name,) if kind == "node" else (given.namespace, given.name)
        try:
            return await Client(transport).request("GET", join_path("-", "explain", kind, *where))
        except StatusError as error:
            if missing := _missing(error):
                raise NotThereError(missing) from error
        finally:
            await transport.close()
    found: Json = explain(await read_world(given), kind, given.namespace, given.name).as_json()
    return found


def _missing(error: StatusError) -> str:
    """What a kubedra server says of an object that is not there; "" where it is another server that answers."""
    try:
        said = json.loads(error.message).get("detail", "") if error.code == 404 else ""
    except (ValueError, AttributeError):
        return ""
    return str(said) if "not found" in said else ""


def _thing(given: argparse.Namespace) -> str:
    """The kind that is meant, `KIND/NAME` taken apart. Raises FlagError."""
    if given.name is None:
        given.kind, _, given.name = given.kind.partition("/")
    kind = KINDS.get(given.kind.lower())
    if kind is None:
        raise FlagError(f"{given.kind}: explain knows pod, claim, node and podgroup")
    if not given.name:
        raise FlagError(f"which {kind}? Name it: {kind} NAME, or {kind}/NAME")
    return kind


def table(found: Json) -> str:
    """The devices of each request by nodes that say the same, or the parts of the cluster that a group was tried in;
    what else was found is in the text.
    """
    if found["kind"] == "PodGroup":
        return _placements(found)
    pods = [found] if found["kind"] == "Pod" else found.get("waiting") or ()
    rows = [("POD", "NODES", "FIRST", "CLAIM", "REQUEST", "DEVICES", "USABLE", "RULED OUT")]
    for pod in pods:
        for group in pod["nodes"]:
            place = (f"{pod['namespace']}/{pod['name']}", str(len(group["nodes"])), group["nodes"][0])
            if not group["requests"]:
                said = "; ".join([*group["reasons"], *group["details"]])
                rows.append((*place, "-", "-", "-", "-", said or "fits"))
            for request in group["requests"]:
                reasons = ", ".join(f"{reason['count']} {reason['kind']}" for reason in request["reasons"])
                counts = (str(request["devices"]), str(request["usable"]))
                rows.append((*place, request["claim"], request["request"], *counts, reasons or "-"))
    return "\n".join(columns(rows)) if len(rows) > 1 else str(found["report"])


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
    return "\n".join(columns(rows)) if len(rows) > 1 else str(found["report"])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    try:
        given = parser.parse_args(arguments)
        kind = _thing(given)
        found = asyncio.run(_explain(given, kind))
    except (FlagError, KubeconfigError, NotThereError, TransportError, StatusError, ValueError, OSError) as error:
        sys.stderr.write(f"{parser.prog}: {' '.join(str(error).split())}\n")
        return 2
    if given.output == "json":
        print(json.dumps(found, indent=1))
    else:
        print(table(found) if given.output == "table" else found["report"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
