"""Measure how long other clients wait: a thread requests /readyz, and the server's processor time is read."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Final

from tools.fuzz.connection import Connection

_READY: Final = b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


class Processor:
    """The processor time of a process's main thread, in seconds."""

    def __init__(self, process: int) -> None:
        self._file = os.open(f"/proc/{process}/task/{process}/schedstat", os.O_RDONLY)

    def seconds(self) -> float:
        return int(os.pread(self._file, 64, 0).split()[0]) / 1e9

    def close(self) -> None:
        os.close(self._file)


class Probe(threading.Thread):
    """A thread that requests /readyz in a loop.

    `worst` is the longest processor time of the server's loop during one such request.
    """

    def __init__(
        self, port: int, processor: Processor, now: Callable[[], int], most: float, interval: float = 0.01
    ) -> None:
        super().__init__(name="probe", daemon=True)
        self._connection, self._processor, self._now, self._interval = Connection(port), processor, now, interval
        self._most, self._ended = most, threading.Event()
        #: (seconds, the number of the request that was sent before it, and after it)
        self.stalls: list[tuple[float, int, int]] = []
        self.worst, self.worst_at = 0.0, 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._ended.wait(self._interval):
                number, before = self._now(), self._processor.seconds()
                answer = self._connection.ask(_READY)
                worked = self._processor.seconds() - before
                assert answer is not None, "/readyz was not answered"
                assert answer.status == 200, f"/readyz: {answer.body!r}"
                if worked > self.worst:
                    self.worst, self.worst_at = worked, number
                if worked > self._most:
                    self.stalls.append((worked, number, self._now()))
        except BaseException as error:  # noqa: BLE001 - told by the run
            self.failure = error
        finally:
            self._connection.close()

    def end(self) -> None:
        self._ended.set()
        self.join()
