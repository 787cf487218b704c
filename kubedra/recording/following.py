"""Follow the changes of one kind: list, watch, resume, and list again when the history is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, Protocol

from kubedra.client.responses import ApiError
from kubedra.cluster_copy.kinds import Kind
from kubedra.recording.changes import ChangeType
from kubedra.runtime.objects import Json

__all__ = ["Follower", "Watcher"]

#: Seconds after which a silent watch is opened again. Servers send bookmarks once a minute.
_SILENCE: Final = 90.0
#: Pauses after failures, in seconds.
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0
_GONE: Final = 410
_PAGE: Final = "500"


class Watcher(Protocol):
    """The part of an asynchronous client that lists and watches."""

    def request(self, method: str, path: str, *, params: dict[str, str] | None = None) -> Awaitable[Json]: ...

    def watch(self, path: str, *, timeout: float, **params: str) -> AsyncIterator[Json]: ...


class Follower:
    """Follows one kind, in one namespace or in all. `record` gets each change, `problem` each failure."""

    def __init__(
        self,
        client: Watcher,
        kind: Kind,
        namespace: str,
        record: Callable[[ChangeType, Json], None],
        problem: Callable[[str, str], None],
    ) -> None:
        self._client, self.kind, self._record, self._problem = client, kind, record, problem
        self._path = kind.path(namespace)
        self._version = ""
        self._objects: dict[str, Json] = {}

    async def begin(self) -> None:
        """Record the present objects. Raise ApiError and the client's errors."""
        for obj in await self._list():
            self._objects[_key(obj)] = obj
            self._record("STATE", obj)

    async def run(self) -> None:
        """Follow until cancelled."""
        pause = _FIRST_PAUSE
        while True:
            try:
                if not self._version:
                    await self._compare()
                await self._watch()
                pause = _FIRST_PAUSE
                continue
            except ApiError as error:
                if error.code == _GONE:
                    self._version = ""
                    continue
                self._problem(self.kind.qualified, error.message)
            except Exception as error:  # noqa: BLE001 - any failure of the connection
                self._problem(self.kind.qualified, " ".join(str(error).split()) or type(error).__name__)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _list(self) -> list[Json]:
        objects: list[Json] = []
        params = {"limit": _PAGE}
        while True:
            try:
                answer = await self._client.request("GET", self._path, params=params)
            except ApiError as error:
                if error.code != _GONE or "continue" not in params:
                    raise
                objects, params = [], {}
                continue
            objects += (self._typed(item) for item in answer.get("items") or ())
            metadata = answer.get("metadata") or {}
            self._version = metadata.get("resourceVersion", "")
            if not metadata.get("continue"):
                return objects
            params = {"limit": _PAGE, "continue": metadata["continue"]}

    def _typed(self, item: Json) -> Json:
        return {"apiVersion": self.kind.api_version, "kind": self.kind.kind, **item}

    async def _compare(self) -> None:
        """List again and record the differences to the known objects."""
        present = {_key(obj): obj for obj in await self._list()}
        for key, obj in present.items():
            known = self._objects.get(key)
            if known is None:
                self._record("ADDED", obj)
            elif known["metadata"].get("uid") != obj["metadata"].get("uid"):
                self._record("DELETED", known)
                self._record("ADDED", obj)
            elif known["metadata"].get("resourceVersion") != obj["metadata"].get("resourceVersion"):
                self._record("MODIFIED", obj)
        for key in self._objects.keys() - present.keys():
            self._record("DELETED", self._objects[key])
        self._objects = present

    async def _watch(self) -> None:
        """Record the events of one watch. Raise ApiError for an event that reports a failure."""
        params: dict[str, Any] = {"resourceVersion": self._version, "allowWatchBookmarks": "true"}
        async for event in self._client.watch(self._path, timeout=_SILENCE, **params):
            kind, obj = event["type"], event["object"]
            if kind == "ERROR":
                raise ApiError(obj.get("code", 0), obj.get("reason", ""), obj.get("message", ""), obj)
            self._version = obj["metadata"]["resourceVersion"]
            if kind == "BOOKMARK":
                continue
            obj = self._typed(obj)
            self._record(kind, obj)
            if kind == "DELETED":
                self._objects.pop(_key(obj), None)
            else:
                self._objects[_key(obj)] = obj


def _key(obj: Json) -> str:
    metadata = obj["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"
