"""`kubedra clusters create|list|delete`: many isolated control planes from one server, as forked processes."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kubedra.command.arguments import Parser
from kubedra.runtime.objects import Json

_EPILOG = """\
The server needs --forks and memory storage. A cluster is a copy of it: an address, a state, a clock and components of
its own. It begins with the state of the server, or of a snapshot, and ends with the server.

  kubedra up --detach --storage memory --forks
  kubedra clusters create one
  kubedra clusters create two --from two-nodes.kubedra
  kubectl --kubeconfig $(kubedra clusters list -o json | jq -r '.[0].kubeconfig') get nodes
"""


def main(args: Sequence[str]) -> int:
    """Run the command. Return 0; 2 for an error."""
    options = _parser().parse_args(args)
    from kubedra.archive.archive import ArchiveError
    from kubedra.client.client import ApiError

    try:
        return int(_RUN[options.command](options))
    except (ApiError, ArchiveError, ValueError, OSError) as error:
        return _fail(str(error))
    except Exception as error:
        import httpx

        if not isinstance(error, httpx.HTTPError):
            raise
        return _fail(f"{options.server or 'the server'}: {error}")


def _fail(message: str) -> int:
    print(f"kubedra clusters: {message}", file=sys.stderr)
    return 2


def _parser() -> Parser:
    parser = Parser(
        prog="kubedra clusters",
        description="Make isolated copies of a control plane.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    create = commands.add_parser("create", help="copy the control plane")
    create.add_argument("name", help="name of the copy, such as one")
    create.add_argument(
        "--from",
        dest="snapshot",
        default="",
        metavar="FILE|NAME",
        help="begin with a snapshot, not with the state now",
    )
    delete = commands.add_parser("delete", help="end a copy")
    delete.add_argument("name")
    listing = commands.add_parser("list", help="list the copies")
    for command in (create, listing):
        command.add_argument("-o", "--output", choices=("text", "json"), default="text", help="format (default text)")
    for command in (create, delete, listing):
        server = command.add_mutually_exclusive_group()
        server.add_argument("--server", metavar="URL", help="address of the API server")
        server.add_argument(
            "--kubeconfig", type=Path, metavar="FILE", help="kubeconfig (default: $KUBECONFIG, .kubedra/kubeconfig)"
        )
    return parser


def _connect(options: argparse.Namespace) -> Any:
    from kubedra.client.client import Client

    return Client(options.server) if options.server else Client.from_kubeconfig(options.kubeconfig)


def _create(options: argparse.Namespace) -> int:
    from kubedra.client.snapshots import delete, is_file, upload
    from kubedra.client.steps import walk

    with _connect(options) as client:
        snapshot, uploaded = options.snapshot, ""
        if snapshot and is_file(snapshot):
            uploaded = walk(upload(f"cluster-{options.name}", snapshot), client)["name"]
        try:
            made = client.request("POST", "/-/clusters", {"name": options.name, "snapshot": uploaded or snapshot})
        finally:
            if uploaded:
                walk(delete(uploaded), client)
    if options.output == "json":
        print(json.dumps(made, indent=2))
    else:
        print(f"api server  {made['url']}\nkubeconfig  {made['kubeconfig']}")
    return 0


def _delete(options: argparse.Namespace) -> int:
    from kubedra.client.paths import join_path

    with _connect(options) as client:
        client.request("DELETE", join_path("-", "clusters", options.name))
    print(f"deleted {options.name}")
    return 0


def _list(options: argparse.Namespace) -> int:
    with _connect(options) as client:
        found: list[Json] = client.request("GET", "/-/clusters")["value"]
    if options.output == "json":
        print(json.dumps(found, indent=2))
    for each in found if options.output == "text" else ():
        print(f"{each['name']:20}  {each['url']}  {each['kubeconfig']}")
    return 0


_RUN = {"create": _create, "delete": _delete, "list": _list}
