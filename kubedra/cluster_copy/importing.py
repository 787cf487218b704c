"""`kubedra import`: copy a live cluster to a file or into a running server."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from kubedra.archive.archive import ArchiveError
from kubedra.client.client import ApiError, Client
from kubedra.cluster_copy.anonymize import anonymize
from kubedra.cluster_copy.collect import Copy, Selection, collect
from kubedra.cluster_copy.kinds import KindFilter
from kubedra.cluster_copy.progress import Progress
from kubedra.cluster_copy.source import TIMEOUT, USER_AGENT, LostError, Source
from kubedra.cluster_copy.target import send
from kubedra.command.arguments import Parser
from kubedra.runtime.objects import Json
from kubedra.runtime.user_settings import data_dir

__all__ = ["run"]

_EPILOG: Final = """\
The source is only read: nothing but lists is requested. Values of Secrets and tokens of service accounts are left out.

  kubedra import --kubeconfig ~/.kube/config --context prod -o prod.kubedra
  kubedra up --from prod.kubedra
  kubedra import --kubeconfig ~/.kube/config --namespace team-a --to .kubedra/kubeconfig
"""
#: Equal reasons that are listed one by one.
_LISTED: Final = 5


#: Writes objects to a file; returns the counts and refusals of `send`.
WriteCopy = Callable[[Path, Sequence[Json]], Json]


def run(args: Sequence[str], write_copy: WriteCopy) -> int:
    """Run the command. Return 0, 1 if the connection is lost, 2 for a usage error."""
    options = _parser().parse_args(args)
    logging.getLogger("kubedra.client").setLevel(logging.ERROR)  # warnings about deprecated versions of kinds
    try:
        copy = _read(options)
        if options.output is None:
            with Client.from_kubeconfig(options.to or data_dir() / "kubeconfig") as client:
                answer, place = send(client, copy.objects), client.url
        else:
            answer, place = write_copy(options.output, copy.objects), str(options.output)
    except LostError as error:
        return _fail(f"{error}; nothing was changed", 1)
    except (ApiError, ArchiveError, ValueError, OSError) as error:
        return _fail(str(error), 2)
    _report(copy, answer, place)
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="kubedra import",
        description="Copy a live cluster to a file for `kubedra up --from`, or into a running server.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="kubeconfig of the source (default: $KUBECONFIG, ~/.kube/config)",
    )
    parser.add_argument("--context", default="", metavar="NAME", help="its context (default: the current one)")
    parser.add_argument(
        "-n", "--namespace", action="append", default=[], metavar="NAME,…",
        help="copy only these namespaces, and all objects without a namespace; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--kind", action="append", default=[], metavar="NAME,…",
        help="copy only these kinds, as in kubectl: pods, deploy, deployments.apps; repeatable",
    )  # fmt: skip
    parser.add_argument("--with-secrets", action="store_true", help="copy the values of Secrets, and tokens")
    parser.add_argument(
        "--anonymize", action="store_true",
        help="replace names, label values, images and addresses consistently; remove environments, commands and texts",
    )  # fmt: skip
    to = parser.add_mutually_exclusive_group()
    to.add_argument("-o", "--output", type=Path, metavar="FILE", help="file to write, for `kubedra up --from`")
    to.add_argument(
        "--to", type=Path, metavar="FILE",
        help="kubeconfig of the kubedra server to copy into (default: that of the data directory)",
    )  # fmt: skip
    return parser


def _read(options: argparse.Namespace) -> Copy:
    if options.with_secrets and options.anonymize:
        raise ValueError("--with-secrets: not with --anonymize, which removes them")
    selection = Selection(
        namespaces=[name for item in options.namespace for name in item.split(",") if name],
        kinds=KindFilter(options.kind),
        with_secrets=options.with_secrets,
        anonymize=options.anonymize,
    )
    file = options.kubeconfig or _default_kubeconfig()
    with Client.from_kubeconfig(file, context=options.context, user_agent=USER_AGENT, timeout=TIMEOUT) as client:
        with Progress() as progress:
            copy = collect(Source(client, counted=progress.count), selection, progress)
        if not copy.objects:
            reasons = "; ".join(f"{subject}: {reason}" for subject, reason in copy.problems[:3])
            raise ValueError(f"{client.url}: no objects to copy{f': {reasons}' if reasons else ''}")
    if options.anonymize:
        copy.objects = anonymize(copy.objects)
    return copy


def _default_kubeconfig() -> Path | None:
    """Return the user's kubeconfig; None for the files of $KUBECONFIG."""
    return None if os.environ.get("KUBECONFIG") else Path.home() / ".kube" / "config"


def _report(copy: Copy, answer: Json, place: str) -> None:
    """Print what was copied, and what was not."""
    for note in copy.notes:
        print(f"note: {note}", file=sys.stderr)
    for warning, count in sorted(answer["warnings"].items()):
        print(f"note: {warning} (dropped in {count} objects)", file=sys.stderr)
    for subject, reason in copy.problems:
        print(f"not imported: {subject}: {reason}", file=sys.stderr)
    by_reason: dict[tuple[str, str], list[str]] = {}
    for each in answer["refused"]:
        name = "/".join(filter(None, (each.get("namespace"), each["name"])))
        by_reason.setdefault((each["kind"], each["reason"]), []).append(name)
    for (kind, reason), names in by_reason.items():
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        print(f"not imported: {kind} {', '.join(names[:_LISTED])}{more}: {reason}", file=sys.stderr)
    counts = [f"{answer[name]} {name}" for name in ("created", "replaced", "unchanged") if answer[name]]
    print(f"imported {len(copy.objects) - len(answer['refused'])} objects into {place}: {', '.join(counts) or 'none'}")


def _fail(message: str, code: int) -> int:
    print(f"kubedra import: {message}", file=sys.stderr)
    return code
