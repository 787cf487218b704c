"""`kubedra history`, `kubedra timeline` and `kubedra get`: what happened to objects, and how they were."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kubedra.command.arguments import Parser
from kubedra.runtime.objects import Json

if TYPE_CHECKING:
    from kubedra.client.client import Client

__all__ = ["get", "history", "timeline"]

#: The answers about a wrong argument.
_WRONG = frozenset({400, 422})


def history(args: Sequence[str]) -> int:
    """Run `kubedra history KIND/NAME`."""
    parser = _parser("history", "Show every change of an object: when, by whom, and which fields.")
    parser.add_argument("target", metavar="KIND/NAME", help="object, such as pod/web")
    parser.add_argument("--limit", type=int, default=100, metavar="N", help="maximum number of changes (default 100)")
    _add_output(parser, "text", "json", "yaml")
    return _run(parser.parse_args(args), _history)


def _history(client: Client, options: Namespace) -> Iterator[str]:
    found = client.read_history(options.target, namespace=options.namespace, limit=options.limit)
    yield found["report"] if options.output == "text" else _render(found["changes"], options.output)


def timeline(args: Sequence[str]) -> int:
    """Run `kubedra timeline KIND/NAME`."""
    parser = _parser("timeline", "Show the stages of an object, such as a pod, and the time spent in each.")
    parser.add_argument("target", metavar="KIND/NAME", help="object, such as pod/web")
    _add_output(parser, "text", "json", "yaml")
    return _run(parser.parse_args(args), _timeline)


def _timeline(client: Client, options: Namespace) -> Iterator[str]:
    found = client.timeline(options.target, namespace=options.namespace)
    report = found.pop("report")
    yield report if options.output == "text" else _render(found, options.output)


def get(args: Sequence[str]) -> int:
    """Run `kubedra get KIND[/NAME] … [--at MOMENT]`."""
    parser = _parser("get", "Show objects as they are, or as they were.")
    parser.add_argument("targets", nargs="+", metavar="KIND[/NAME]", help="such as pods, pod/web or pods,nodes")
    parser.add_argument(
        "--at",
        default="",
        metavar="MOMENT",
        help="revision (1234), time (2026-01-31T15:04:05Z) or duration before now (-5m); default: now",
    )
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="objects of all namespaces")
    parser.add_argument("-l", "--selector", default="", metavar="SELECTOR", help="label selector of lists")
    _add_output(parser, "table", "wide", "json", "yaml", "name")
    return _run(parser.parse_args([*_join_moment(args)]), _get)


def _join_moment(args: Sequence[str]) -> Iterator[str]:
    """Yield the arguments with `--at -5m` as `--at=-5m`, because argparse takes -5m for a flag."""
    remaining = iter(args)
    for arg in remaining:
        moment = next(remaining, None) if arg == "--at" else None
        yield arg if moment is None else f"--at={moment}"


def _get(client: Client, options: Namespace) -> Iterator[str]:
    namespace = "" if options.all_namespaces else options.namespace
    revision = client.revision(options.at) if options.at else ""
    for number, target in enumerate(each for given in options.targets for each in given.split(",")):
        word, _, name = target.partition("/")
        if options.output in ("table", "wide"):
            if number:
                yield ""
            yield from _table(client, word, name, namespace, revision, options)
        elif name:
            found = client.get(target, namespace=namespace or None, at=revision or None)
            yield _name_of(found) if options.output == "name" else _render(found, options.output)
        else:
            items = client.list(word, namespace=namespace, at=revision or None, **_selection(options))
            version, kind = client.resolve(word)
            found = {
                "apiVersion": "v1",
                "kind": "List",
                "metadata": {"resourceVersion": revision},
                "items": [{"apiVersion": version, "kind": kind, **item} for item in items],
            }
            yield from map(_name_of, found["items"]) if options.output == "name" else [_render(found, options.output)]


def _table(
    client: Client, word: str, name: str, namespace: str | None, revision: str, options: Namespace
) -> Iterator[str]:
    from kubedra.client.client import ApiError
    from kubedra.client.paths import field_selector
    from kubedra.history.tables import ACCEPT, table_lines

    path = client.path(*client.resolve(word), namespace)
    params = _selection(options)
    if name:
        params["fieldSelector"] = field_selector({"metadata.name": name})
    if revision:
        params |= {"resourceVersion": revision, "resourceVersionMatch": "Exact"}
    table = client.request("GET", path, accept=ACCEPT, params=params)
    if not table.get("rows"):
        when = f" at revision {revision}" if revision else ""
        if name:
            raise ApiError(404, "NotFound", f'{word} "{name}" not found{when}')
        yield f"no {word} found{when}"
        return
    yield from table_lines(table, wide=options.output == "wide", namespaces=options.all_namespaces)


def _selection(options: Namespace) -> dict[str, str]:
    return {"labelSelector": options.selector} if options.selector else {}


def _name_of(obj: Json) -> str:
    group = obj["apiVersion"].partition("/")[0] if "/" in obj["apiVersion"] else ""
    return f"{'.'.join(filter(None, (obj['kind'].lower(), group)))}/{obj['metadata']['name']}"


def _render(value: object, output: str) -> str:
    if output == "json":
        return json.dumps(value, indent=4, ensure_ascii=False)
    import yaml

    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True).rstrip("\n")


def _parser(name: str, description: str) -> Parser:
    parser = Parser(prog=f"kubedra {name}", description=description)
    parser.add_argument("-n", "--namespace", metavar="NAME", help="namespace (default: that of the kubeconfig)")
    server = parser.add_mutually_exclusive_group()
    server.add_argument("--server", metavar="URL", help="address of the API server")
    server.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="kubeconfig (default: $KUBECONFIG, .kubedra/kubeconfig)"
    )
    return parser


def _add_output(parser: Parser, *formats: str) -> None:
    parser.add_argument(
        "-o", "--output", choices=formats, default=formats[0], help=f"output format (default {formats[0]})"
    )


def _run(options: Namespace, command: Callable[[Client, Namespace], Iterator[str]]) -> int:
    """Print the lines of a command. Return 1 if the server refuses it or has no answer, 2 for a wrong argument."""
    import httpx

    from kubedra.client.client import ApiError, Client

    try:
        with Client(options.server) if options.server else Client.from_kubeconfig(options.kubeconfig) as client:
            for line in command(client, options):
                print(line)
    except ApiError as error:
        foreign = "page not found" in error.message
        print(f"kubedra: {'the server keeps no history that kubedra can read' if foreign else error}", file=sys.stderr)
        return 2 if error.code in _WRONG else 1
    except (ValueError, OSError) as error:
        print(f"kubedra: {error}", file=sys.stderr)
        return 2
    except httpx.HTTPError as error:
        print(f"kubedra: {options.server or 'the server'}: {error}", file=sys.stderr)
        return 1
    return 0
