"""`kubedra snapshot save|restore|list|show|diff|delete`: keep the state of a cluster, and go back to it.

A snapshot is a file if its name has a slash, a dot or `://`, and otherwise a name in the server's memory.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubedra.command.arguments import Parser
from kubedra.runtime.objects import Json

if TYPE_CHECKING:
    from kubedra.archive.objects import StoredObjects
    from kubedra.client.client import Client

_DESCRIPTION = "Keep the state of a cluster, and go back to it."
_EPILOG = """\
A snapshot is a file (two-nodes.kubedra), a URL of fsspec (s3://bucket/two-nodes.kubedra), or a name in the server's
memory (before). `kubedra up --from FILE` begins with a file.

  kubedra snapshot save two-nodes.kubedra
  kubedra snapshot restore two-nodes.kubedra
  kubedra snapshot diff two-nodes.kubedra          what has changed since
"""
#: Differences that every write makes.
_OF_WRITES = frozenset({"resourceVersion", "managedFields"})


def main(args: Sequence[str]) -> int:
    """Run the command. Return 0; 1 if `diff` found differences; 2 for an error."""
    options = _parser().parse_args(args)
    from kubedra.archive.archive import ArchiveError
    from kubedra.client.client import ApiError

    try:
        code = int(_RUN[options.command](options))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader has closed the pipe (`| head`). The interpreter must not flush to it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ApiError, ArchiveError, ValueError, OSError) as error:
        return _fail(str(error))
    except Exception as error:
        import httpx

        if not isinstance(error, httpx.HTTPError):
            raise
        return _fail(f"{options.server or 'the server'}: {error}")


def _fail(message: str) -> int:
    print(f"kubedra snapshot: {message}", file=sys.stderr)
    return 2


def _parser() -> Parser:
    parser = Parser(
        prog="kubedra snapshot",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in (
        ("save", "write the state of a server to a file, or keep it in its memory"),
        ("restore", "go back to a snapshot; watches get the differences as events"),
        ("delete", "delete a snapshot from the server's memory"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("snapshot", metavar="FILE|NAME", help="a file, a URL, or a name in the server's memory")
        _add_server(command)
    listing = commands.add_parser("list", help="list the snapshots in the server's memory, or files")
    listing.add_argument("files", nargs="*", metavar="FILE", help="files to list instead")
    show = commands.add_parser("show", help="print the header of a snapshot and its objects by kind")
    show.add_argument("snapshot", metavar="FILE|NAME")
    diff = commands.add_parser("diff", help="compare two snapshots, or one with the server: by object and field")
    diff.add_argument("snapshot", metavar="FILE|NAME")
    diff.add_argument("other", nargs="?", default="now", metavar="FILE|NAME", help="default: the server's state now")
    diff.add_argument(
        "--all", action="store_true", help="also compare resourceVersion, managedFields, Events and Leases"
    )
    for command in (listing, show, diff):
        command.add_argument("-o", "--output", choices=("text", "json"), default="text", help="format (default text)")
        _add_server(command)
    return parser


def _add_server(parser: argparse.ArgumentParser) -> None:
    server = parser.add_mutually_exclusive_group()
    server.add_argument("--server", metavar="URL", help="address of the API server")
    server.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="kubeconfig (default: $KUBECONFIG, .kubedra/kubeconfig)"
    )


def _connect(options: argparse.Namespace) -> Client:
    from kubedra.client.client import Client

    return Client(options.server) if options.server else Client.from_kubeconfig(options.kubeconfig)


def _save(options: argparse.Namespace) -> int:
    from kubedra.client.snapshots import NOW, download, is_file
    from kubedra.client.steps import walk

    with _connect(options) as client:
        if is_file(options.snapshot):
            size = walk(download(NOW, options.snapshot), client)
            print(f"saved {options.snapshot} ({_format_size(size)})")
        else:
            kept = client.snapshot(options.snapshot)
            print(f"kept {kept.objects} objects as {kept.name} in the server's memory")
    return 0


def _restore(options: argparse.Namespace) -> int:
    from kubedra.client.snapshots import is_file, restore
    from kubedra.client.steps import walk

    with _connect(options) as client:
        if is_file(options.snapshot):
            found = client.restore(options.snapshot)
        else:
            found = walk(restore(options.snapshot), client)
    counts = ", ".join(f"{found[what]} {what}" for what in ("created", "updated", "deleted"))
    print(f"restored {options.snapshot}: {counts}")
    return 0


def _delete(options: argparse.Namespace) -> int:
    from kubedra.client.snapshots import delete
    from kubedra.client.steps import walk

    with _connect(options) as client:
        walk(delete(options.snapshot), client)
    print(f"deleted {options.snapshot}")
    return 0


def _list(options: argparse.Namespace) -> int:
    if options.files:
        from kubedra.archive.objects import read_header

        found = [_describe(file, *read_header(file)) for file in options.files]
    else:
        from kubedra.client.snapshots import list_all
        from kubedra.client.steps import walk

        with _connect(options) as client:
            found = walk(list_all(), client)
    if options.output == "json":
        print(json.dumps(found, indent=2))
    elif found:
        _print_table(
            ("NAME", "OBJECTS", "CREATED", "RELEASE"),
            [(each["name"], str(each["objects"]), each["created"], each["release"]) for each in found],
        )
    else:
        print("no snapshots in the server's memory")
    return 0


def _describe(name: str, header: Json, objects: int) -> Json:
    return {
        "name": name,
        "created": header["created"],
        "resourceVersion": str(header["revision"]),
        "objects": objects,
        "release": header["release"],
        "kubedra": header["kubedra"],
        "clock": header.get("clock", "real"),
        "seed": header.get("seed"),
    }


def _print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(len(heads))]
    for row in (heads, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _show(options: argparse.Namespace) -> int:
    found = _load(options, options.snapshot)
    counts = Counter(stored.kind for stored in found.objects.values())
    described = _describe(options.snapshot, found.header, len(found.objects))
    if options.output == "json":
        print(json.dumps({**described, "kinds": dict(sorted(counts.items()))}, indent=2))
        return 0
    seed = "" if described["seed"] is None else f", seed {described['seed']}"
    print(
        f"{options.snapshot}: {described['objects']} objects at resourceVersion {described['resourceVersion']}\n"
        f"created {described['created']} by kubedra {described['kubedra']} (Kubernetes {described['release']},"
        f" {described['clock']} time{seed})\n"
    )
    _print_table(("KIND", "OBJECTS"), [(kind, str(count)) for kind, count in sorted(counts.items())])
    return 0


def _load(options: argparse.Namespace, target: str) -> StoredObjects:
    """Read the objects of a file, of a snapshot in the server, or of its current state (`now`)."""
    from kubedra.archive.objects import read_bytes, read_objects
    from kubedra.client.snapshots import is_file, read
    from kubedra.client.steps import walk

    if is_file(target):
        return read_objects(target)
    with _connect(options) as client:
        return read_bytes(walk(read(target), client), target)


def _diff(options: argparse.Namespace) -> int:
    from kubedra.archive.differences import compare, format_value

    ignored = frozenset() if options.all else _OF_WRITES
    before, after = _load(options, options.snapshot), _load(options, options.other)
    found = compare(before, after, ignored, rare=not options.all)
    if options.output == "json":
        print(json.dumps([each.as_json() for each in found], indent=2))
        return int(bool(found))
    lines: list[str] = []
    for each in found:
        lines.append(f"{each.sign} {each.name}")
        for field in each.fields:
            old: Any = "" if field.old is None else f" {format_value(field.old)}"
            new: Any = "" if field.new is None else f" {format_value(field.new)}"
            lines.append(f"    {field.path}:{old or ' (none)'} ->{new or ' (none)'}")
    if lines:
        print("\n".join(lines))
    return int(bool(found))


def _format_size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1_000_000 else f"{max(1, round(size / 1000))} kB"


_RUN = {
    "save": _save,
    "restore": _restore,
    "delete": _delete,
    "list": _list,
    "show": _show,
    "diff": _diff,
}
