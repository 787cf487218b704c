"""Clients that continue like real ones: on another server after errors, where a watch ended, with a list after 410."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections import Counter
from typing import Any, Protocol

from apiserver.api.objects import Json
from tests.servers.history import History, List, Read, Write
from tests.servers.wire import Answer, Ended, Line, NoAnswer

NAMESPACES = ("default", "kube-public")
NAMES = 24
COLORS = ("red", "blue")
#: Attempts for a version that a client knows; every server reaches it while the database is up. Each takes 3 s.
MAX_LATE = 10
ALL = "/api/v1/configmaps"
LAST = "last"
_MERGE = "application/merge-patch+json"


class Server(Protocol):
    """One process; `ended` is the time of its signal."""

    url: str
    ended: float | None


class Servers(Protocol):
    def up(self) -> list[Server]: ...


class World:
    """The state that all clients share."""

    def __init__(self, servers: Servers, seed: int) -> None:
        self.servers = servers
        self.random = random.Random(seed)
        self.history = History()
        self.counts: Counter[str] = Counter()
        self.stop = asyncio.Event()
        self.numbers = itertools.count(1)
        self.broken: list[tuple[Server, float, str]] = []
        self.latencies: list[float] = []

    def broke(self, server: Server, what: str) -> None:
        """Record a connection that ended. The checker decides later whether its server had been killed."""
        self.counts["connections that ended"] += 1
        self.broken.append((server, time.monotonic(), what))

    def fault(self, what: str) -> None:
        self.history.faults.append(what)


class Client:
    """One client: a connection to each server, and what its answers mean."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        #: By process, not by address: one of many restarts gets a port that an earlier process had.
        self._lines: dict[Server, Line] = {}
        self._last: Server | None = None

    async def server(self, other: bool = False) -> Server:
        """Return a random server; with `other` not the previous one."""
        while True:
            up = self.world.servers.up()
            choice = [server for server in up if not other or server is not self._last] or up
            if choice:
                self._last = self.world.random.choice(choice)
                return self._last
            await asyncio.sleep(0.02)

    async def ask(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json", *, other: bool = False
    ) -> Answer | None:
        """Send a request; return None without an answer, or if a 503 asks for a repetition."""
        server = await self.server(other)
        line = self._lines.setdefault(server, Line(server.url))
        self.world.counts["requests"] += 1
        try:
            answer = await line.ask(method, path, body, content_type)
        except Ended as error:
            self.world.broke(server, f"{method} {path}: {error}")
            await asyncio.sleep(0.02)
            return None
        except NoAnswer as error:
            self.world.fault(f"no answer in time: {error}")
            return None
        if answer.status == 503 and "retry-after" in answer.headers:
            self.world.counts["503 with Retry-After"] += 1
            await asyncio.sleep(0.05)
            return None
        return answer

    def close(self) -> None:
        for line in self._lines.values():
            line.close()

    def unexpected(self, method: str, path: str, answer: Answer) -> None:
        self.world.fault(f"{method} {path} was answered {answer.status} {answer.body}")

    async def get(self, namespace: str, name: str, least: int = 0, *, other: bool = False) -> Json | None:
        """Get an object; record it or its absence in the history."""
        path = f"/api/v1/namespaces/{namespace}/configmaps/{name}" + (f"?resourceVersion={least}" if least else "")
        began = time.monotonic()
        answer = await self.ask("GET", path, other=other)
        ended = time.monotonic()
        if answer is None or self.late(answer, least):
            return None
        if answer.status not in (200, 404):
            self.unexpected("GET", path, answer)
            return None
        found = answer.status == 200
        revision = answer.revision if found else 0
        self.world.history.reads.append(Read(f"{namespace}/{name}", began, ended, revision, least=least, what="get"))
        if not found:
            return None
        self.saw(answer.body, ended)
        return answer.body

    def late(self, answer: Answer, least: int) -> bool:
        """Return whether this is a 504 for a version that the server has not reached in time; clients repeat it."""
        if (
            answer.status == 504
            and least
            and "retry-after" in answer.headers
            and "Too large resource version" in answer.body["message"]
        ):
            self.world.counts["504 Too large resource version"] += 1
            return True
        return False

    def saw(self, obj: Json, when: float) -> None:
        metadata = obj["metadata"]
        revision = int(metadata["resourceVersion"])
        self.world.history.note(
            f"{metadata['namespace']}/{metadata['name']}", revision, (obj.get("data") or {}).get("op", "")
        )
        self.world.history.tell(when, revision)


class Writer(Client):
    """Creates, updates, patches and deletes objects that others write, too."""

    async def run(self) -> None:
        world = self.world
        while not world.stop.is_set():
            namespace, name = world.random.choice(NAMESPACES), f"m{world.random.randrange(NAMES)}"
            await world.random.choice(
                (self.create, self.create, self.update, self.update, self.patch, self.patch, self.delete)
            )(namespace, name)
            if world.random.random() < 0.02:
                await self.settle()
            await asyncio.sleep(world.random.random() * 0.01)

    def _body(self, op: str) -> Json:
        return {"metadata": {"labels": {"color": self.world.random.choice(COLORS)}}, "data": {"op": op}}

    def _op(self) -> str:
        return f"{self.name}-{next(self.world.numbers)}"

    async def settle(self) -> None:
        """Create a namespace on one server, and immediately an object in it on another."""
        name = f"ns{next(self.world.numbers)}"
        answer = await self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        if answer is None:
            return
        if answer.status != 201:
            self.unexpected("POST", "/api/v1/namespaces", answer)
            return
        self.world.history.tell(time.monotonic(), answer.revision)
        await self.create(name, "first")

    async def create(self, namespace: str, name: str) -> None:
        op = self._op()
        body = self._body(op)
        body["metadata"]["name"] = name
        await self._write("POST", namespace, name, body, op)

    async def patch(self, namespace: str, name: str) -> None:
        op = self._op()
        await self._write("PATCH", namespace, name, self._body(op), op)

    async def update(self, namespace: str, name: str) -> None:
        obj = await self.get(namespace, name, other=True)
        if obj is None:
            return
        op = self._op()
        obj["data"] = {"op": op}
        obj["metadata"]["labels"] = {"color": self.world.random.choice(COLORS)}
        base = int(obj["metadata"]["resourceVersion"])
        await self._write("PUT", namespace, name, obj, op, base=base)

    async def delete(self, namespace: str, name: str) -> None:
        obj = await self.get(namespace, name)
        if obj is not None:
            uid = obj["metadata"]["uid"]
            await self._write("DELETE", namespace, name, {"preconditions": {"uid": uid}}, "", uid=uid)

    async def _write(
        self, method: str, namespace: str, name: str, body: Json, op: str, *, base: int = 0, uid: str = ""
    ) -> None:
        world, key = self.world, f"{namespace}/{name}"
        path = f"/api/v1/namespaces/{namespace}/configmaps" + ("" if method == "POST" else f"/{name}")
        content_type = _MERGE if method == "PATCH" else "application/json"
        began = time.monotonic()
        answer = await self.ask(method, path, body, content_type, other=world.random.random() < 0.5)
        ended = time.monotonic()
        if answer is None:
            world.counts["writes without an answer"] += 1
            world.history.writes.append(Write(op, key, began, ended, "unknown", uid=uid))
            return
        if answer.status in (200, 201):
            revision = 0 if uid else answer.revision
            world.counts["writes answered"] += 1
            world.latencies.append(ended - began)
            world.history.writes.append(Write(op, key, began, ended, "done", revision, base, uid))
            if revision:
                self.saw(answer.body, ended)
                await self._read_back(key, revision)
            return
        world.history.writes.append(Write(op, key, began, ended, "refused", uid=uid))
        if answer.status == 404 and method != "POST":
            world.history.reads.append(Read(key, began, ended, 0, what=method))
        elif answer.status == 409 and method == "POST" and answer.reason == "AlreadyExists":
            world.history.reads.append(Read(key, began, ended, 0, exists=True, what=method))
        elif not (answer.status == 409 and method in ("PUT", "DELETE") and answer.reason == "Conflict"):
            self.unexpected(method, path, answer)
        world.counts[f"{answer.status} {answer.reason}"] += 1

    async def _read_back(self, key: str, revision: int) -> None:
        """Read an own write back from another server, immediately."""
        namespace, name = key.split("/")
        if self.world.random.random() < 0.2:
            await self.get(namespace, name, self.world.random.choice((0, revision)), other=True)


class Reader(Client):
    """Lists: the newest state, one not older than what was seen, an exact one, in pages from several servers."""

    async def run(self) -> None:
        world = self.world
        while not world.stop.is_set():
            await world.random.choice((self.newest, self.newest, self.selected, self.least, self.exact, self.pages))()
            await asyncio.sleep(world.random.random() * 0.03)

    def _known(self) -> int:
        told = self.world.history.told
        return told[-1][1] if told else 0

    async def newest(self) -> None:
        await self._list("newest", "")

    async def selected(self) -> None:
        color = self.world.random.choice(COLORS)
        await self._list(f"of {color}", f"?labelSelector=color%3D{color}", color=color)

    async def least(self) -> None:
        if least := self._known():
            await self._list("not older", f"?resourceVersion={least}", least=least, fresh=False)

    async def exact(self) -> None:
        if known := self._known():
            exact = max(known - self.world.random.choice((0, 0, 5, 50)), 1)
            await self._list(
                "exact", f"?resourceVersion={exact}&resourceVersionMatch=Exact", least=exact, exact=exact, fresh=False
            )

    async def pages(self) -> None:
        await self._list("in pages", f"?limit={self.world.random.choice((5, 10, 500))}")

    async def _list(
        self, what: str, query: str, *, color: str = "", least: int = 0, exact: int = 0, fresh: bool = True
    ) -> None:
        world = self.world
        items: list[int] = []
        token, began, revision, late = "", time.monotonic(), 0, 0
        while True:
            path = ALL + query + (f"&continue={token}" if token else "")
            answer = await self.ask("GET", path, other=bool(token) or world.random.random() < 0.5)
            ended = time.monotonic()
            if answer is None:
                if token:
                    continue  # the page can be asked for again, of any server
                return
            if answer.status == 410 and (exact or token):
                world.counts["lists that expired"] += 1
                return
            if self.late(answer, exact or least or len(token)):
                late += 1
                if late < MAX_LATE:
                    continue
                world.fault(f"{path}: no server reached it in {late} times")
                return
            if answer.status != 200:
                self.unexpected("GET", path, answer)
                return
            if token and answer.revision != revision:
                world.fault(f"{path}: a page at {answer.revision} follows one at {revision}")
            revision = answer.revision
            for obj in answer.body["items"]:
                self.saw(obj, ended)
                items.append(int(obj["metadata"]["resourceVersion"]))
            token = answer.body["metadata"].get("continue", "")
            if not token:
                break
        world.counts["lists"] += 1
        world.history.lists.append(List(began, ended, revision, tuple(items), color, fresh, least, exact, what))
        if fresh:
            world.history.tell(ended, revision)
