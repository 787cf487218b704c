"""The flags of leader election: kube-controller-manager's."""

from __future__ import annotations

import argparse
import uuid
from collections.abc import Mapping, Sequence

from controllers.manager.manager import COMPONENTS
from controllers.options.command_line import FlagError, duration
from controllers.runtime.election import Election, ElectionError

_BOOLEANS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
_LEASE = "kubedra-controllers"
_TIMES = ("lease-duration", "renew-deadline", "retry-period")
_PREFIX = "leader-elect"
_DEFAULTS = {
    _PREFIX: "true",
    f"{_PREFIX}-lease-duration": "15s",
    f"{_PREFIX}-renew-deadline": "10s",
    f"{_PREFIX}-retry-period": "2s",
    f"{_PREFIX}-resource-lock": "leases",
    f"{_PREFIX}-resource-namespace": "kube-system",
}


def add_election(group: argparse._ArgumentGroup) -> None:
    """kube-controller-manager's."""
    add = group.add_argument
    add(
        "--leader-elect",
        nargs="?",
        const="true",
        metavar="BOOL",
        help="work only while holding the lease (default true)",
    )
    add(
        "--leader-elect-lease-duration",
        metavar="DURATION",
        help="after which others take over a lease that is not renewed (default 15s)",
    )
    add(
        "--leader-elect-renew-deadline",
        metavar="DURATION",
        help="after which a leader that cannot renew ends (default 10s)",
    )
    add(
        "--leader-elect-retry-period",
        metavar="DURATION",
        help="between attempts to take or renew (default 2s)",
    )
    add("--leader-elect-resource-lock", metavar="leases", help="the only kind there is")
    add(
        "--leader-elect-resource-name",
        metavar="NAME",
        help=f"the lease (default {_LEASE}; kubedra- and their names where some are chosen)",
    )
    add(
        "--leader-elect-resource-namespace",
        metavar="NAMESPACE",
        help="its namespace (default kube-system)",
    )


def read_election(
    given: argparse.Namespace, names: Sequence[str], host: str, file: Mapping[str, str] | None = None
) -> Election | None:
    """None where nothing is elected. Instances that run different components do not stand in each other's way: their
    leases differ. `file`: what the scheduler's configuration says, by flag; the flags count more. Raises FlagError.
    """
    default = (
        _LEASE
        if len(names) == len(COMPONENTS)
        else "-".join(("kubedra", *(name.removesuffix("-controller") for name in names)))
    )
    said = {**_DEFAULTS, f"{_PREFIX}-resource-name": default, **(file or {})}
    said = {flag: getattr(given, flag.replace("-", "_")) or value for flag, value in said.items()}
    if said[_PREFIX].lower() not in _BOOLEANS:
        raise FlagError(f'--leader-elect: "{said[_PREFIX]}" is not true or false')
    if said[f"{_PREFIX}-resource-lock"] != "leases":
        raise FlagError(f'--leader-elect-resource-lock: "{said[f"{_PREFIX}-resource-lock"]}" is not "leases"')
    elect = _BOOLEANS[said[_PREFIX].lower()]
    if file is not None and not elect:
        return None
    times = {name: duration(f"--{_PREFIX}-{name}", said[f"{_PREFIX}-{name}"]) for name in _TIMES}
    try:
        election = Election(
            name=said[f"{_PREFIX}-resource-name"],
            namespace=said[f"{_PREFIX}-resource-namespace"],
            identity=f"{host}_{uuid.uuid4()}",
            lease_duration=times["lease-duration"],
            renew_deadline=times["renew-deadline"],
            retry_period=times["retry-period"],
        )
    except ElectionError as error:
        raise FlagError(f"{error}{' (see leaderElection of --config)' if file else ''}") from error
    return election if elect else None
