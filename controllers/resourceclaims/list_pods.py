"""`kubedra claims list-pods`: replace workloads in status.reservedFor by their running pods, on any cluster.

Needed before components without the gate DRAReservedForWorkloads take over: they reject pods that are not listed.

Exit codes: 0 if every claim lists pods, 1 if a claim has more pods than fit, 2 for invalid input or an unreachable
cluster.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.options.command_line import FlagError, OneLineParser, add_cluster, read_cluster
from controllers.resourceclaims.pods import claim_names, is_done, is_reserved_for_pod, is_workload, pod_consumer
from controllers.runtime.client import Client
from controllers.runtime.http import HttpTransport
from controllers.runtime.kinds import PODS, RESOURCE_CLAIMS, key_of
from controllers.runtime.transport import TransportError
from kubedra.kubeconfig.reader import KubeconfigError

#: Limit of status.reservedFor in the API.
MOST: Final = 256
_TRIES: Final = 5


class Replacement(NamedTuple):
    """The consumers of one claim before and after."""

    claim: Json
    workloads: list[Json]
    users: list[Json]

    @property
    def fits(self) -> bool:
        return len(self.users) <= MOST

    def __str__(self) -> str:
        workloads = ", ".join(f"{ref['resource']}/{ref['name']}" for ref in self.workloads)
        change = f"{key_of(self.claim)}: {len(self.users)} consumers instead of {workloads}"
        return change if self.fits else f"{change}; unchanged: at most {MOST} fit, scale down first"


def replacement(claim: Json, pods: Sequence[Json]) -> Replacement | None:
    """Return the consumers that replace the workloads of a claim; None for a claim without workloads."""
    users = (claim.get("status") or {}).get("reservedFor") or ()
    workloads = [user for user in users if is_workload(user)]
    if not workloads:
        return None
    name = claim["metadata"]["name"]
    running = [
        pod_consumer(pod)
        for pod in pods
        if pod["metadata"]["namespace"] == claim["metadata"]["namespace"]
        and pod["spec"].get("nodeName")
        and not is_done(pod)
        and name in claim_names(pod)
        and not is_reserved_for_pod(pod, claim, workload_claims=True)
    ]
    return Replacement(claim, workloads, [*(user for user in users if not is_workload(user)), *running])


async def list_pods(client: Client, namespace: str = "", *, dry_run: bool = False) -> list[Replacement]:
    """Replace the workloads of all claims, except of those with too many pods. Return what changed or would change."""
    found: list[Replacement] = []
    for _ in range(_TRIES):
        # Pods are read after the claims, so that each pod of a claim that was just opened is seen.
        claims = (await client.list(RESOURCE_CLAIMS, namespace))["items"]
        pods = (await client.list(PODS, namespace))["items"]
        made = [each for claim in claims if (each := replacement(claim, pods)) is not None]
        conflicts = False
        for each in made:
            if each.fits and not dry_run:
                status = {**each.claim["status"], "reservedFor": each.users}
                try:
                    await client.update_status(RESOURCE_CLAIMS, {**each.claim, "status": status})
                except StatusError as error:
                    if error.code != 409:
                        raise
                    conflicts = True
                    continue
            found.append(each)
        if not conflicts:
            return found
    raise StatusError(409, "Conflict", "claims change while they are written; stop the workloads first")


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog=os.environ.get("KUBEDRA_PROG", "python -m controllers.resourceclaims.list_pods"),
        description="Change claims so that components of other settings or releases can use them.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="list-pods")
    text = (
        "replace workloads in status.reservedFor by their running pods (before DRAReservedForWorkloads is turned off)"
    )
    add = commands.add_parser("list-pods", help=text, description=f"{text[0].upper()}{text[1:]}.")
    add.add_argument("-n", "--namespace", default="", help="namespace (default: all)")
    add.add_argument("--dry-run", action="store_true", help="only print the changes")
    add_cluster(add, required=False)
    return parser


async def _run(args: argparse.Namespace) -> list[Replacement]:
    transport = HttpTransport(read_cluster(args))
    try:
        return await list_pods(Client(transport), args.namespace, dry_run=args.dry_run)
    finally:
        await transport.close()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    try:
        args = parser.parse_args(arguments)
        found = asyncio.run(_run(args))
    except (FlagError, KubeconfigError, TransportError, StatusError, ValueError, OSError) as error:
        sys.stderr.write(f"{parser.prog}: {' '.join(str(error).split())}\n")
        return 2
    for each in found:
        print(each)
    if not found:
        print("no claim is reserved for a workload")
    return 0 if all(each.fits for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
