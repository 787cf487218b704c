"""`kubedra record`: follow a cluster's changes and write them to a file."""

from __future__ import annotations

import argparse
import asyncio
import logging
import re
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from kubedra.archive.archive import ArchiveError, ArchiveWriter, header, write_archive
from kubedra.client.client import ApiError, AsyncClient
from kubedra.cluster_copy.adapt import is_token, redact_secret
from kubedra.cluster_copy.kinds import Kind, KindFilter, discover, left_out
from kubedra.cluster_copy.source import LostError, Source
from kubedra.command.arguments import Parser
from kubedra.recording.changes import KIND, Change, ChangeType, format_time
from kubedra.recording.following import Follower
from kubedra.runtime.objects import Json

__all__ = ["Recorder", "run"]

USER_AGENT: Final = "kubedra-record"
#: Seconds between two frames. At most the changes of this time are lost if the process is killed.
_FRAME: Final = 1.0
_DURATION: Final = re.compile(r"^(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$")
_EPILOG: Final = """\
The source is only read: nothing but lists and watches is requested. Values of Secrets are left out.

  kubedra record --kubeconfig ~/.kube/config --for 1h -o day.kubedra
  kubedra replay day.kubedra
"""


class Recorder:
    """Writes the changes of all kinds in the order in which they arrive."""

    def __init__(self, writer: ArchiveWriter, *, with_secrets: bool = False) -> None:
        self._writer, self._with_secrets = writer, with_secrets
        self._unflushed = False
        #: The latest failure by kind.
        self.problems: dict[str, str] = {}

    def record(self, type_: ChangeType, obj: Json) -> None:
        """Write one change."""
        if obj["kind"] == "Secret" and not self._with_secrets:
            if is_token(obj):
                return
            redact_secret(obj)
        self._writer.write(Change(datetime.now(UTC), type_, obj).encode())
        self._unflushed = True

    def report(self, kind: str, reason: str) -> None:
        """Print a new failure; the follower goes on."""
        if self.problems.get(kind) != reason:
            self.problems[kind] = reason
            print(f"{kind}: {reason}; trying again", file=sys.stderr)

    def flush(self) -> None:
        if self._unflushed:
            self._writer.flush()
            self._unflushed = False

    async def flush_regularly(self) -> None:
        """End a frame every second until cancelled. Raise ArchiveError."""
        while True:
            await asyncio.sleep(_FRAME)
            self.flush()


def run(args: Sequence[str]) -> int:
    """Run the command. Return 0, 1 if the cluster cannot be read, 2 for a usage error."""
    options = _parser().parse_args(args)
    logging.getLogger("kubedra.client").setLevel(logging.ERROR)  # warnings about deprecated versions of kinds
    try:
        return asyncio.run(_record(options))
    except LostError as error:
        return _fail(f"{error}; nothing was recorded", 1)
    except (ApiError, ArchiveError, ValueError, OSError) as error:
        return _fail(str(error), 2)


def _parser() -> Parser:
    parser = Parser(
        prog="kubedra record",
        description="Record the changes of a cluster, for `kubedra replay`.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="kubeconfig (default: $KUBECONFIG, .kubedra/kubeconfig)"
    )
    parser.add_argument("--context", default="", metavar="NAME", help="its context (default: the current one)")
    parser.add_argument(
        "--for",
        dest="duration",
        default="",
        metavar="DURATION",
        help="how long, as 1h30m (default: until Ctrl-C)",
    )
    parser.add_argument(
        "-n", "--namespace", action="append", default=[], metavar="NAME,…",
        help="record only these namespaces, and all objects without a namespace; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--kind",
        action="append",
        default=[],
        metavar="NAME,…",
        help="record only these kinds; repeatable",
    )
    parser.add_argument("--with-secrets", action="store_true", help="record the values of Secrets, and tokens")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="file to write")
    return parser


def parse_duration(flag: str, text: str) -> timedelta:
    """Parse "1h30m". Raise ValueError that names the flag."""
    match = _DURATION.match(text)
    if not text or match is None:
        raise ValueError(f"{flag} {text}: not a duration, such as 1h30m or 90s")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)


async def _record(options: argparse.Namespace) -> int:
    limit = parse_duration("--for", options.duration).total_seconds() if options.duration else None
    client = AsyncClient.from_kubeconfig(options.kubeconfig, context=options.context, user_agent=USER_AGENT)
    async with client:
        kinds, release = await asyncio.to_thread(_read_kinds, options)
        fields = header(KIND, release=release, created=format_time(datetime.now(UTC)))
        with write_archive(options.output, fields, growing=True) as writer:
            recorder = Recorder(writer, with_secrets=options.with_secrets)
            namespaces = [name for item in options.namespace for name in item.split(",") if name]
            followers = [
                Follower(client, kind, namespace, recorder.record, recorder.report)
                for kind in kinds
                for namespace in (namespaces if kind.namespaced and namespaces else ("",))
            ]
            await _begin(followers, recorder)
            print(f"recording {len(kinds)} kinds to {options.output}", file=sys.stderr, flush=True)
            await _follow(followers, recorder, limit)
        print(f"recorded {writer.items} objects and changes in {options.output}")
    return 0


def _read_kinds(options: argparse.Namespace) -> tuple[list[Kind], str]:
    """Return the kinds to record and the release of the cluster."""
    from kubedra.client.client import Client

    chosen = KindFilter(options.kind)
    with Client.from_kubeconfig(options.kubeconfig, context=options.context, user_agent=USER_AGENT) as client:
        source = Source(client)
        version = source.get("/version")
        kinds = chosen.select(discover(source.get, lambda *_: None))
    release = f"{version['major']}.{version['minor'].rstrip('+')}"
    return (kinds if chosen else [kind for kind in kinds if not left_out(kind)]), release


async def _begin(followers: Sequence[Follower], recorder: Recorder) -> None:
    """Record the state of all kinds, in the order of their creation. Kinds that may not be listed are left out."""
    for follower in followers:
        try:
            await follower.begin()
        except ApiError as error:
            recorder.report(follower.kind.qualified, error.message)
    recorder.flush()


async def _follow(followers: Sequence[Follower], recorder: Recorder, limit: float | None) -> None:
    """Follow all kinds until the time is over or a signal arrives."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    tasks = [asyncio.create_task(follower.run()) for follower in followers]
    flushing = asyncio.create_task(recorder.flush_regularly())
    stopping = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait({flushing, stopping}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in (*tasks, flushing, stopping):
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, flushing, stopping, return_exceptions=True)


def _fail(message: str, code: int) -> int:
    print(f"kubedra record: {message}", file=sys.stderr)
    return code
