"""Flags of leader election, named like kube-controller-manager's."""

from __future__ import annotations

import argparse
import uuid
from collections.abc import Mapping, Sequence

from controllers.manager.manager import COMPONENTS
from controllers.options.command_line import FlagError, read_duration
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
    """Add the flags of leader election."""
    add = group.add_argument
    add(
        "--leader-elect",
        nargs="?",
        const="true",
        metavar="BOOL",
        help="run the components only while holding the lease (default true)",
    )
    add(
        "--leader-elect-lease-duration",
        metavar="DURATION",
        help="time without renewal until another instance takes over (default 15s)",
    )
    add(
        "--leader-elect-renew-deadline",
        metavar="DURATION",
        help="time without renewal until the leader exits (default 10s)",
    )
    add(
        "--leader-elect-retry-period",
        metavar="DURATION",
        help="time between attempts to acquire or renew (default 2s)",
    )
    add("--leader-elect-resource-lock", metavar="leases", help="only leases are supported")
    add(
        "--leader-elect-resource-name",
        metavar="NAME",
        help=f"name of the lease (default {_LEASE}, or kubedra-NAMES for a part of the components)",
    )
    add(
        "--leader-elect-resource-namespace",
        metavar="NAMESPACE",
        help="namespace of the lease (default kube-system)",
    )


def read_election(
    args: argparse.Namespace, names: Sequence[str], host: str, file: Mapping[str, str] | None = None
) -> Election | None:
    """Return the election of the flags, or None if it is off.

    The default lease name depends on the components, so that instances with different components do not block each
    other.

    Args:
        args: The parsed flags.
        names: The chosen components.
        host: Prefix of the identity.
        file: Values of the scheduler's configuration, by flag. Flags override them.

    Raises:
        FlagError: A flag or value is invalid.
    """
    default = (
        _LEASE
        if len(names) == len(COMPONENTS)
        else "-".join(("kubedra", *(name.removesuffix("-controller") for name in names)))
    )
    values = {**_DEFAULTS, f"{_PREFIX}-resource-name": default, **(file or {})}
    values = {flag: getattr(args, flag.replace("-", "_")) or value for flag, value in values.items()}
    if values[_PREFIX].lower() not in _BOOLEANS:
        raise FlagError(f'--leader-elect: "{values[_PREFIX]}" is not true or false')
    if values[f"{_PREFIX}-resource-lock"] != "leases":
        raise FlagError(f'--leader-elect-resource-lock: "{values[f"{_PREFIX}-resource-lock"]}" is not "leases"')
    elect = _BOOLEANS[values[_PREFIX].lower()]
    if file is not None and not elect:
        return None
    times = {name: read_duration(f"--{_PREFIX}-{name}", values[f"{_PREFIX}-{name}"]) for name in _TIMES}
    try:
        election = Election(
            name=values[f"{_PREFIX}-resource-name"],
            namespace=values[f"{_PREFIX}-resource-namespace"],
            identity=f"{host}_{uuid.uuid4()}",
            lease_duration=times["lease-duration"],
            renew_deadline=times["renew-deadline"],
            retry_period=times["retry-period"],
        )
    except ElectionError as error:
        raise FlagError(f"{error}{' (see leaderElection of --config)' if file else ''}") from error
    return election if elect else None
