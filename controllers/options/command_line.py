"""Flags shared by the command lines of controllers, nodes and `kubedra explain`. Errors are one-line FlagErrors."""

from __future__ import annotations

import argparse
import ssl
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

from apiserver.api.features.gates import ReleaseError, parse_release
from apiserver.api.values.durations import parse_duration
from controllers.options.options import Options
from controllers.runtime.election import Election
from kubedra.command.arguments import Parser
from kubedra.kubeconfig.credentials import Credentials
from kubedra.kubeconfig.reader import Cluster, read_kubeconfig


class FlagError(ValueError):
    """A flag is invalid; the message is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """The parsed flags of a process."""

    cluster: Cluster
    options: Options
    names: tuple[str, ...]
    election: Election | None
    rate_limit: tuple[float, int] | None = None
    """Client rate limit: requests per second and burst; None for no limit."""

    health: tuple[str, int] | None
    verbosity: int
    is_release_set: bool = False
    """False to take release and feature gates from the server."""

    scheduler_config: Path | None = None
    """Loaded again when the feature gates of the server are known."""


class OneLineParser(Parser):
    """An argparse parser that raises FlagError instead of printing usage."""

    def fail(self, message: str) -> NoReturn:
        raise FlagError(message)


def add_cluster(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add the flags for the API server and the credentials."""
    group = parser.add_argument_group("cluster")
    either = group.add_mutually_exclusive_group(required=required)
    either.add_argument("--server", metavar="URL", help="URL of the API server")
    either.add_argument("--kubeconfig", metavar="FILE", type=Path, help="use the current context of this kubeconfig")
    group.add_argument("--token", default="", help="bearer token for --server")
    authority = "CA certificates of --server https://… (PEM)"
    group.add_argument("--certificate-authority", metavar="FILE", type=Path, help=authority)
    group.add_argument("--insecure-skip-tls-verify", action="store_true", help="accept any certificate of --server")


def read_cluster(args: argparse.Namespace) -> Cluster:
    """Return the cluster of the flags of `add_cluster`. Raise FlagError, KubeconfigError or OSError."""
    if not args.server:
        found = read_kubeconfig(args.kubeconfig)
    else:
        authority = args.certificate_authority.read_bytes() if args.certificate_authority else b""
        credentials = Credentials(token=args.token, insecure=args.insecure_skip_tls_verify)
        found = Cluster(server=args.server.rstrip("/"), authority=authority, credentials=credentials)
    source = "--server" if args.server else args.kubeconfig or "the kubeconfig"
    if not found.server.startswith(("http://", "https://")):
        raise FlagError(f"{source}: {found.server} is not an http:// or https:// address")
    try:
        found.tls_context()
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise FlagError(f"{args.certificate_authority}: not a usable certificate: {error}") from error
    return found


def add_emulation(group: argparse._ActionsContainer) -> None:
    """Add the flags for the release and the feature gates, by default those of the server."""
    group.add_argument(
        "--feature-gates", default="", metavar="NAME=true,…", help="feature gates (default: those of the server)"
    )
    group.add_argument(
        "--emulated-version", default="", metavar="X.Y", help="Kubernetes release to emulate (default: the server's)"
    )


def read_gates(text: str) -> dict[str, bool]:
    """Parse `NAME=true,…`. Raise FlagError."""
    enabled: dict[str, bool] = {}
    for item in filter(None, text.split(",")):
        name, _, value = item.partition("=")
        if value.lower() not in ("true", "false"):
            raise FlagError(f'--feature-gates: "{item}" is not NAME=true or NAME=false')
        enabled[name.strip()] = value.lower() == "true"
    return enabled


def read_release(text: str) -> tuple[int, int]:
    """Parse a release such as `1.36`; "" is the newest. Raise FlagError."""
    try:
        return parse_release(text)
    except ReleaseError as error:
        raise FlagError(f"--emulated-version: {error}") from error


def read_duration(flag: str, text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError:
        raise FlagError(f'{flag}: "{text}" is not a duration such as 15s or 1m30s') from None


def add_jobs_exit_after(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--jobs-exit-after",
        default="",
        metavar="DURATION",
        help="end the emulated containers of Jobs this long after their start (default: never)",
    )


def read_jobs_exit_after(args: argparse.Namespace) -> timedelta | None:
    """Return the value of --jobs-exit-after; None for no limit. Raise FlagError."""
    text = args.jobs_exit_after
    return read_duration("--jobs-exit-after", text) if text else None


def read_address(text: str) -> tuple[str, int] | None:
    """Parse the `IP:PORT` of --healthz-bind-address; None for "". Raise FlagError."""
    if not text:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise FlagError(f'--healthz-bind-address: "{text}" is not IP:PORT')
    return host.strip("[]"), int(port)
