"""The events of a watch, read in a thread, so that waiting for one never breaks the stream."""

from __future__ import annotations

import contextlib
import http.client
import json
import queue
import socket
import threading
from collections.abc import Mapping
from typing import Final

from apiserver.api.objects import Json
from tests.support.patience import Deadline
from tests.support.server import SystemTime

#: Seconds of the system's time that an event has to come by itself, before the server's time is moved.
_GLANCE: Final = 0.05


class EventStream:
    """An open watch with its `status` and `content_type`; `refusal` is the body unless the status is 200.

    `time` is the server's.
    """

    def __init__(self, host: str, port: int, path: str, headers: Mapping[str, str], time: SystemTime) -> None:
        self._time = time
        self._connection = http.client.HTTPConnection(host, port)
        self._connection.request("GET", path, headers=dict(headers))
        time.await_answer(self._connection.sock)
        self._answer = self._connection.getresponse()
        self.status, self.content_type = self._answer.status, self._answer.getheader("content-type")
        self.refusal = b"" if self.status == http.client.OK else self._answer.read()
        self._events: queue.SimpleQueue[Json | None] = queue.SimpleQueue()
        self._ended = False
        self._reader = threading.Thread(target=self._receive, name="watch", daemon=True)
        self._reader.start()

    def _receive(self) -> None:
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException, AttributeError):
            while line := self._answer.readline():
                self._events.put(json.loads(line))
        self._events.put(None)

    def read(self, count: int, expected: int, seconds: float, patience: float, *, bookmarks: bool) -> list[Json]:
        """Read this number of events, fewer if the stream ends.

        Wait for the `expected` events up to `patience`; then check for `seconds` of the server's time that none
        follows.
        """
        events: list[Json] = []
        deadline = Deadline(max(seconds, patience))
        while len(events) < count and not self._ended and not deadline.passed:
            if len(events) >= expected and seconds <= 0:
                break
            try:
                event = self._events.get(timeout=_GLANCE)
            except queue.Empty:
                if seconds > 0:
                    seconds -= self._time.step(seconds)
                continue
            self._ended = event is None
            if event is not None and (bookmarks or event.get("type") != "BOOKMARK"):
                events.append(event)
        return events

    def close(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._reader.join()
        self._connection.close()
