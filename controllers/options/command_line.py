"""What the command lines of controllers, of a node and of `kubedra explain` have in common. Every mistake is a
FlagError in one line.
"""

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
from kubedra.kubeconfig.credentials import Credentials
from kubedra.kubeconfig.reader import Cluster, read_kubeconfig


class FlagError(ValueError):
    """A flag that cannot be followed, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the process is told."""

    cluster: Cluster
    options: Options
    names: tuple[str, ...]
    election: Election | None
    pace: tuple[float, int] | None = None
    """Requests per second and how many at once; None: as many as there are."""

    health: tuple[str, int] | None
    verbosity: int


class OneLineParser(argparse.ArgumentParser):
    """argparse whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        raise FlagError(message)


def add_cluster(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """The flags that say which server it is, and as whom."""
    where = parser.add_argument_group("where")
    either = where.add_mutually_exclusive_group(required=required)
    either.add_argument("--server", metavar="URL", help="the API server")
    either.add_argument("--kubeconfig", metavar="FILE", type=Path, help="server and credentials of its current context")
    where.add_argument("--token", default="", help="bearer token, with --server")
    where.add_argument("--certificate-authority", metavar="FILE", type=Path, help="PEM, with --server https://…")
    where.add_argument("--insecure-skip-tls-verify", action="store_true", help="accept any certificate, with --server")


def cluster(given: argparse.Namespace) -> Cluster:
    """The server that the flags of `add_cluster` mean. Raises FlagError, KubeconfigError, OSError."""
    if not given.server:
        found = read_kubeconfig(given.kubeconfig)
    else:
        authority = given.certificate_authority.read_bytes() if given.certificate_authority else b""
        shown = Credentials(token=given.token, insecure=given.insecure_skip_tls_verify)
        found = Cluster(server=given.server.rstrip("/"), authority=authority, credentials=shown)
    source = "--server" if given.server else given.kubeconfig or "the kubeconfig"
    if not found.server.startswith(("http://", "https://")):
        raise FlagError(f"{source}: {found.server} is not an http:// or https:// address")
    try:
        found.tls_context()
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise FlagError(f"{given.certificate_authority}: not a usable certificate: {error}") from error
    return found


def gates(text: str) -> dict[str, bool]:
    """`NAME=true,…`. Raises FlagError."""
    given: dict[str, bool] = {}
    for item in filter(None, text.split(",")):
        name, _, value = item.partition("=")
        if value.lower() not in ("true", "false"):
            raise FlagError(f'--feature-gates: "{item}" is not NAME=true or NAME=false')
        given[name.strip()] = value.lower() == "true"
    return given


def release(text: str) -> tuple[int, int]:
    """`1.36`. Raises FlagError."""
    try:
        return parse_release(text)
    except ReleaseError as error:
        raise FlagError(f"--emulated-version: {error}") from error


def duration(flag: str, text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError:
        raise FlagError(f'{flag}: "{text}" is not a duration such as 15s or 1m30s') from None


def address(text: str) -> tuple[str, int] | None:
    """`IP:PORT` of --healthz-bind-address, None where it is empty. Raises FlagError."""
    if not text:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise FlagError(f'--healthz-bind-address: "{text}" is not IP:PORT')
    return host.strip("[]"), int(port)
