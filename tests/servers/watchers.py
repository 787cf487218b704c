"""Clients that watch and check their events."""

from __future__ import annotations

import asyncio
import time

from apiserver.api.objects import Json
from tests.servers.clients import ALL, LAST, Client, World
from tests.servers.history import Segment
from tests.servers.wire import Answer, Ended, Line, NoAnswer


class Watcher(Client):
    """A watcher of everything, or of one color, across the servers.

    `done` is set after the last object. At most `late` seconds pass before it resumes.
    """

    def __init__(self, world: World, name: str, color: str = "", late: float = 0.0) -> None:
        super().__init__(world, name)
        self._color, self._late = color, late
        self._selector = f"labelSelector=color%3D{color}&" if color else ""
        self.segment: Segment | None = None
        self.done = asyncio.Event()

    async def run(self) -> None:
        while not self.done.is_set():
            if self.segment is None:
                await self._begin()
            else:
                await self._follow(self.segment)
                if not self.world.stop.is_set():
                    await asyncio.sleep(self.world.random.random() * self._late)

    async def _begin(self) -> None:
        answer = await self.ask("GET", f"{ALL}?{self._selector}", other=True)
        if answer is None:
            return
        if answer.status != 200:
            self.unexpected("GET", ALL, answer)
            return
        self.segment = Segment(self.name, self._color, answer.revision, reached=answer.revision)
        self.world.history.segments.append(self.segment)
        if any(obj["metadata"]["name"] == LAST for obj in answer.body["items"]):
            self.done.set()

    async def _follow(self, segment: Segment) -> None:
        """One connection, on another server than the last one."""
        world = self.world
        server = await self.server(other=True)
        seconds = world.random.choice((2, 5, 60))
        path = f"{ALL}?{self._selector}watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={segment.reached}"
        world.counts["watches"] += 1
        began = time.monotonic()
        try:
            async for event in Line(server.url).watch(path):
                if isinstance(event, Answer):
                    await self._refused(path, event)
                    return
                if not self._take(segment, event):
                    return
        except Ended as error:
            world.broke(server, f"watch: {error}")
            await asyncio.sleep(0.02)
        except NoAnswer as error:
            world.fault(f"no answer in time: {error}")
        else:
            if server.ended is None and time.monotonic() - began < seconds - 0.5:
                world.broken.append((server, time.monotonic(), "a watch ended before its time"))

    async def _refused(self, path: str, answer: Answer) -> None:
        if answer.status == 503 and "retry-after" in answer.headers:
            self.world.counts["503 with Retry-After"] += 1
            await asyncio.sleep(0.05)
        else:
            self.unexpected("GET", path, answer)

    def _take(self, segment: Segment, event: Json) -> bool:
        """Whether the watch goes on."""
        world, obj, now = self.world, event["object"], time.monotonic()
        if event["type"] == "ERROR":
            if obj["code"] == 410:
                world.counts["watches that expired"] += 1
                self.segment = None
            elif obj["code"] == 503:
                world.counts["watches told to try again"] += 1
            else:
                world.fault(f"{self.name} got {event}")
            return False
        revision = int(obj["metadata"]["resourceVersion"])
        if event["type"] == "BOOKMARK":
            if revision < segment.reached:
                world.fault(f"{self.name}: a bookmark at {revision} after {segment.reached}")
            segment.reached = max(segment.reached, revision)
            return True
        segment.events.append((event["type"], revision))
        segment.reached = revision
        world.counts["events"] += 1
        if event["type"] != "DELETED":
            self.saw(obj, now)
        else:
            world.history.tell(now, revision)
        if obj["metadata"]["name"] == LAST:
            self.done.set()
            return False
        return True
