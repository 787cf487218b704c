"""`kubedra export`: manifests of a cluster's objects, which `kubectl apply` takes."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from kubedra.client.client import ApiError, Client
from kubedra.cluster_copy.collect import Copy, list_objects
from kubedra.cluster_copy.kinds import KindFilter, discover, left_out
from kubedra.cluster_copy.manifests import LEFT_OUT_OF_MANIFESTS, to_manifests
from kubedra.cluster_copy.source import LostError, Source
from kubedra.command.arguments import Parser
from kubedra.runtime.failures import describe_failure
from kubedra.runtime.objects import Json

__all__ = ["export_objects", "run"]

_EPILOG: Final = """\
Objects that controllers create, such as the ReplicaSets and pods of a Deployment, are left out, and so are fields that
servers set. Objects are in an order in which they can be applied.

  kubedra export -n team-a > team-a.yaml
  kubedra export --kind deviceclasses,resourceslices --kubeconfig ~/.kube/config -o devices.yaml
"""


def export_objects(
    client: Client, namespaces: Sequence[str] = (), kinds: Iterable[str] = (), *, with_secrets: bool = False
) -> tuple[list[Json], Copy]:
    """Return the manifests of a cluster, and the problems and notes of reading it.

    Without `kinds`, a selection of namespaces has only objects in them, and the namespaces.
    """
    source, copy, chosen = Source(client), Copy(), KindFilter(kinds)
    selected = chosen.select(discover(source.get, copy.add_problem))
    if not chosen:
        selected = [kind for kind in selected if not left_out(kind) and kind.qualified not in LEFT_OUT_OF_MANIFESTS]
        if namespaces:
            selected = [kind for kind in selected if kind.namespaced or kind.qualified == "namespaces"]
    objects: list[Json] = []
    secrets = 0
    for kind in selected:
        found = list_objects(source, kind, namespaces, copy)
        if kind.qualified == "secrets" and not with_secrets:
            secrets += len(found)
            continue
        objects += to_manifests(found)
    if secrets:
        copy.notes.append(f"left out {secrets} Secrets; --with-secrets writes them with their values")
    return objects, copy


def run(args: Sequence[str]) -> int:
    """Run the command. Return 0, 1 if the connection is lost, 2 for a usage error."""
    options = _parser().parse_args(args)
    logging.getLogger("kubedra.client").setLevel(logging.ERROR)  # warnings about deprecated versions of kinds
    namespaces = [name for item in options.namespace for name in item.split(",") if name]
    try:
        with Client.from_kubeconfig(options.kubeconfig, context=options.context) as client:
            objects, copy = export_objects(client, namespaces, options.kind, with_secrets=options.with_secrets)
        if options.output is None:
            sys.stdout.write(_render(objects))
        else:
            options.output.write_text(_render(objects))
    except LostError as error:
        return _fail(str(error), 1)
    except (ApiError, ValueError) as error:
        return _fail(str(error), 2)
    except OSError as error:
        return _fail(f"{options.output}: {describe_failure(error)}" if options.output else describe_failure(error), 2)
    for note in copy.notes:
        print(f"note: {note}", file=sys.stderr)
    for subject, reason in copy.problems:
        print(f"not exported: {subject}: {reason}", file=sys.stderr)
    return 0


def _render(objects: Iterable[Json]) -> str:
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return str(yaml.dump_all(objects, Dumper=dumper, sort_keys=False, allow_unicode=True, width=120))


def _parser() -> Parser:
    parser = Parser(
        prog="kubedra export",
        description="Write manifests of a cluster's objects for `kubectl apply`.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="kubeconfig (default: $KUBECONFIG, .kubedra/kubeconfig)"
    )
    parser.add_argument("--context", default="", metavar="NAME", help="its context (default: the current one)")
    parser.add_argument(
        "-n", "--namespace", action="append", default=[], metavar="NAME,…",
        help="export only objects in these namespaces; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--kind", action="append", default=[], metavar="NAME,…",
        help="export only these kinds, as in kubectl: pods, deploy, deployments.apps; repeatable",
    )  # fmt: skip
    parser.add_argument("--with-secrets", action="store_true", help="export Secrets, with their values")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="file to write (default: standard output)")
    return parser


def _fail(message: str, code: int) -> int:
    print(f"kubedra export: {message}", file=sys.stderr)
    return code
