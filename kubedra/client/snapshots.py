"""Snapshots of a kubedra server: keep the state of the cluster and go back to it.

before = kube.snapshot()
…
kube.restore(before)
before.save("two-nodes.kubedra")
kube.restore("two-nodes.kubedra")
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from kubedra.archive.archive import ArchiveError
from kubedra.archive.places import NewFile, open_for_reading
from kubedra.client.paths import join_path
from kubedra.client.responses import decode
from kubedra.client.steps import AsyncStepRunner, Call, Step, StepRunner, Steps, as_async, as_blocking, walk, walk_async
from kubedra.runtime.failures import describe_failure
from kubedra.runtime.objects import Json

__all__ = [
    "AsyncSnapshot",
    "Place",
    "Snapshot",
    "SnapshotMethods",
    "async_snapshot",
    "async_snapshots",
    "blocking_snapshot",
    "blocking_snapshots",
    "download",
    "go_back",
    "is_file",
    "upload",
]

#: pytest hides this module's frames in the reports of failing tests.
__tracebackhide__ = True
#: The name under which the server offers its current state.
NOW: Final = "now"
#: Seconds for a large snapshot.
_TIMEOUT: Final = 300.0
#: Bytes per request of an upload; servers accept 3 MiB.
_PART: Final = 2 << 20

#: A path of a file, or a URL of fsspec.
Place = str | os.PathLike[str]


def is_file(target: str) -> bool:
    """Return whether a target is a file or URL instead of a name in the server's memory."""
    return "/" in target or "." in target


def _call(method: str, *path: str, body: Any = None) -> Steps[Json]:
    code, text = yield Call(method=method, path=join_path("-", "snapshots", *path), body=body, timeout=_TIMEOUT)
    return decode(code, text or "{}")


def take(name: str = "") -> Steps[Json]:
    """Take a snapshot; the server chooses a missing name."""
    return (yield from _call("POST", body={"name": name}))


def list_all() -> Steps[list[Json]]:
    """Return the snapshots in the server's memory, oldest first."""
    found: list[Json] = (yield from _call("GET"))["value"]
    return found


def delete(name: str) -> Steps[None]:
    yield from _call("DELETE", name)


def restore(name: str, *, reset: bool = False) -> Steps[Json]:
    """Go back to a snapshot. Return the numbers of objects that were created, updated and deleted."""
    return (yield from _call("POST", name, "restore", body={"reset": reset}))


def read(name: str) -> Steps[bytes]:
    """Return the file of a snapshot, or of the current state (`NOW`)."""
    path = join_path("-", "snapshots", name, "file")
    code, content = yield Call(method="GET", path=path, raw=True, timeout=_TIMEOUT)
    if code >= 400:
        decode(code, content.decode(errors="replace"))
    found: bytes = content
    return found


def download(name: str, place: Place) -> Steps[int]:
    """Write a snapshot to a file and return its size. Raise ArchiveError; an existing file stays then."""
    content = yield from read(name)
    try:
        file = NewFile(place)
        try:
            file.file.write(content)
            file.complete()
        except BaseException:
            file.discard()
            raise
    except OSError as error:
        raise ArchiveError(f"cannot write {os.fspath(place)}: {describe_failure(error)}") from error
    return len(content)


def upload(name: str, place: Place) -> Steps[Json]:
    """Send a file to the server, which keeps it under a name. Raise ArchiveError."""
    text = os.fspath(place)
    try:
        with open_for_reading(place) as file:
            content = file.read()
    except OSError as error:
        raise ArchiveError(f"cannot read {text}: {describe_failure(error)}") from error
    return (yield from send(name, content, text))


def send(name: str, content: bytes, text: str) -> Steps[Json]:
    """Send the bytes of a file; errors call it `text`. Raise ArchiveError."""
    parts = [content[at : at + _PART] for at in range(0, len(content), _PART)] or [b""]
    answer: Json = {}
    for number, part in enumerate(parts):
        code, answered = yield Call(
            method="PUT",
            path=join_path("-", "snapshots", name, "file"),
            content=part,
            content_type="application/vnd.kubedra.archive",
            params={"part": str(number), "last": str(number == len(parts) - 1).lower()},
            timeout=_TIMEOUT,
        )
        if code == 400:
            # The server calls the file by the name.
            raise ArchiveError(str((_json(answered)).get("detail", answered)).replace(name, text, 1))
        answer = decode(code, answered)
    return answer


def _json(text: str) -> Json:
    import json

    try:
        found: Json = json.loads(text)
    except ValueError:
        found = {}
    return found


class SnapshotMethods:
    """The methods of `Snapshot` and `AsyncSnapshot`, as steps. `described` is the server's description."""

    def __init__(self, described: Mapping[str, Any]) -> None:
        self.described = described

    def save(self, place: Place) -> Steps[None]:
        """Write the snapshot to a file or a URL of fsspec. The file has Secrets and the keys that sign tokens."""
        yield from download(self.described["name"], place)

    def delete(self) -> Steps[None]:
        """Free the server's memory."""
        yield from delete(self.described["name"])


class _Described:
    """A snapshot in a server's memory."""

    def __init__(self, methods: SnapshotMethods) -> None:
        self._methods = methods

    @property
    def name(self) -> str:
        """Its name in the server."""
        return str(self._methods.described["name"])

    @property
    def objects(self) -> int:
        """The number of objects."""
        return int(self._methods.described["objects"])

    @property
    def resource_version(self) -> str:
        """The resourceVersion of the whole state."""
        return str(self._methods.described["resourceVersion"])

    def __repr__(self) -> str:
        return f"<snapshot {self.name}: {self.objects} objects at {self.resource_version}>"


class Snapshot(_Described):
    """A snapshot in a server's memory. It ends with the server; `save` writes it to a file."""

    def __init__(self, client: StepRunner, methods: SnapshotMethods) -> None:
        super().__init__(methods)
        self._client = client

    def _do(self, step: Step) -> Any:
        return self._client._do(step)

    save = as_blocking(SnapshotMethods.save)
    delete = as_blocking(SnapshotMethods.delete)


class AsyncSnapshot(_Described):
    """`Snapshot` for an event loop."""

    def __init__(self, client: AsyncStepRunner, methods: SnapshotMethods) -> None:
        super().__init__(methods)
        self._client = client

    async def _do(self, step: Step) -> Any:
        return await self._client._do(step)

    save = as_async(SnapshotMethods.save)
    delete = as_async(SnapshotMethods.delete)


def go_back(self: object, snapshot: Snapshot | AsyncSnapshot | Place, *, reset: bool = False) -> Steps[Json]:
    """Go back to a snapshot, or to one in a file or at a URL. Return the numbers of changed objects.

    Objects that differ are created, updated or deleted; watches get these events. Time does not go back. With
    `reset` faults and records of requests are deleted, too. Raise ArchiveError for an unusable file; nothing is
    changed then. Only kubedra's servers support this.
    """
    if isinstance(snapshot, _Described):
        return (yield from restore(snapshot.name, reset=reset))
    name = f"uploaded-{os.urandom(4).hex()}"
    yield from upload(name, snapshot)
    try:
        return (yield from restore(name, reset=reset))
    finally:
        yield from delete(name)


def blocking_snapshot(self: StepRunner, name: str = "") -> Snapshot:
    """Keep the state of the cluster in the server's memory: all objects, with uids and revisions.

    Without a name the server chooses one. A snapshot of that name is replaced. Only kubedra's servers support this.
    """
    return Snapshot(self, SnapshotMethods(walk(take(name), self)))


def blocking_snapshots(self: StepRunner) -> list[Snapshot]:
    """Return the snapshots in the server's memory, oldest first."""
    return [Snapshot(self, SnapshotMethods(each)) for each in walk(list_all(), self)]


async def async_snapshot(self: AsyncStepRunner, name: str = "") -> AsyncSnapshot:
    """Keep the state of the cluster in the server's memory: all objects, with uids and revisions.

    Without a name the server chooses one. A snapshot of that name is replaced. Only kubedra's servers support this.
    """
    return AsyncSnapshot(self, SnapshotMethods(await walk_async(take(name), self)))


async def async_snapshots(self: AsyncStepRunner) -> list[AsyncSnapshot]:
    """Return the snapshots in the server's memory, oldest first."""
    return [AsyncSnapshot(self, SnapshotMethods(each)) for each in await walk_async(list_all(), self)]
