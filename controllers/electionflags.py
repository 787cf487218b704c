"""The flags of leader election: kube-controller-manager's."""

from __future__ import annotations

import argparse
import uuid
from collections.abc import Sequence

from controllers.commandline import FlagError, duration
from controllers.manager import COMPONENTS
from controllers.runtime.election import Election, ElectionError

_BOOLEANS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
_LEASE = "kubedra-controllers"
_TIMES = ("lease-duration", "renew-deadline", "retry-period")


def add_election(group: argparse._ArgumentGroup) -> None:
    """kube-controller-manager's."""
    add = group.add_argument
    add(
        "--leader-elect",
        nargs="?",
        const="true",
        default="true",
        metavar="BOOL",
        help="work only while holding the lease (default true)",
    )
    add(
        "--leader-elect-lease-duration",
        default="15s",
        metavar="DURATION",
        help="after which others take over a lease that is not renewed (default 15s)",
    )
    add(
        "--leader-elect-renew-deadline",
        default="10s",
        metavar="DURATION",
        help="after which a leader that cannot renew ends (default 10s)",
    )
    add(
        "--leader-elect-retry-period",
        default="2s",
        metavar="DURATION",
        help="between attempts to take or renew (default 2s)",
    )
    add("--leader-elect-resource-lock", default="leases", metavar="leases", help="the only kind there is")
    add(
        "--leader-elect-resource-name",
        default="",
        metavar="NAME",
        help=f"the lease (default {_LEASE}; kubedra- and their names where some are chosen)",
    )
    add(
        "--leader-elect-resource-namespace",
        default="kube-system",
        metavar="NAMESPACE",
        help="its namespace (default kube-system)",
    )


def read_election(given: argparse.Namespace, names: Sequence[str], host: str) -> Election | None:
    """None where nothing is elected. Instances that run different components do not stand in each other's way: their
    leases differ. Raises FlagError.
    """
    if given.leader_elect.lower() not in _BOOLEANS:
        raise FlagError(f'--leader-elect: "{given.leader_elect}" is not true or false')
    if given.leader_elect_resource_lock != "leases":
        raise FlagError(f'--leader-elect-resource-lock: "{given.leader_elect_resource_lock}" is not "leases"')
    default = (
        _LEASE
        if len(names) == len(COMPONENTS)
        else "-".join(("kubedra", *(name.removesuffix("-controller") for name in names)))
    )
    times = {
        name: duration(f"--leader-elect-{name}", getattr(given, f"leader_elect_{name.replace('-', '_')}"))
        for name in _TIMES
    }
    try:
        election = Election(
            name=given.leader_elect_resource_name or default,
            namespace=given.leader_elect_resource_namespace,
            identity=f"{host}_{uuid.uuid4()}",
            lease_duration=times["lease-duration"],
            renew_deadline=times["renew-deadline"],
            retry_period=times["retry-period"],
        )
    except ElectionError as error:
        raise FlagError(str(error)) from error
    return election if _BOOLEANS[given.leader_elect.lower()] else None
