"""Sends requests to a server of its own and watches over it.

The server runs in a child process. One connection carries the requests of the API, one after the other; each
conversation of the wire has a connection of its own; a thread asks for /readyz all the while. How long the server's
loop was busy is read from its processor time, so that a busy machine makes nothing look slow.
"""

from __future__ import annotations

import os
import shutil
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.fuzz import rules
from tests.fuzz.requests import Case, Requests
from tests.fuzz.wire import Conversations, WireCase
from tests.support.patience import Deadline
from tests.support.wire import Child

#: One of so many requests is a connection of the wire.
WIRE_SHARE: Final = 12
#: What may be added to the server's memory by the second half of a run, in bytes and as a part of what there was.
GROWTH: Final = (48 << 20, 0.15)
FLAGS: Final = (
    "--runtime-config=api/all=true",
    "--feature-gates=AllAlpha=true,AllBeta=true",
    "--etcd-compaction-interval=2s",
    "--seed=1",
    "--storage=sqlite",
    "--durability=off",
)
_READY: Final = b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
_TROUBLE: Final = ("Traceback", " ERROR ", "never retrieved", "was never awaited")


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that was broken, by which request."""

    rule: str
    case: Case | WireCase | None
    detail: str


@dataclass(slots=True)
class Report:
    """What a run found, and what it counted."""

    findings: list[Finding] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)
    requests: int = 0
    stall: float = 0.0
    memory: list[int] = field(default_factory=list)

    def count(self, status: int) -> None:
        self.statuses[status] = self.statuses.get(status, 0) + 1


class Processor:
    """The processor time of a process's main thread, in seconds."""

    def __init__(self, process: int) -> None:
        self._file = os.open(f"/proc/{process}/task/{process}/schedstat", os.O_RDONLY)

    def seconds(self) -> float:
        return int(os.pread(self._file, 64, 0).split()[0]) / 1e9

    def close(self) -> None:
        os.close(self._file)


class Connection:
    """A connection that is opened again when it was closed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None
        self._data = b""

    def ask(self, data: bytes, *, bodiless: bool = False) -> rules.Answer | None:
        """The answer; None where the server closes instead. Raises ValueError for what is no answer, TimeoutError."""
        if self._socket is None:
            self._socket, self._data = connect(self._port), b""
        made = None
        try:
            self._socket.sendall(data)
            while made is None:
                part = receive(self._socket)
                if not part:
                    self.close()
                    return rules.read(self._data, bodiless=bodiless)
                self._data += part
                made = rules.read(self._data, bodiless=bodiless)
                if made is not None and made.status == 100:
                    self._data, made = self._data[made.end :], None
        except (ConnectionError, ValueError, TimeoutError):
            self.close()
            raise
        self._data = self._data[made.end :]
        if made.body is None or made.last:
            self.close()
        return made

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def connect(port: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.settimeout(0.5)
    return made


def receive(connection: socket.socket) -> bytes:
    """The next bytes; b"" at the end. Raises TimeoutError after fair seconds."""
    deadline = Deadline()
    while True:
        try:
            return connection.recv(1 << 20)
        except TimeoutError:
            if deadline.passed:
                raise TimeoutError("no answer") from None


class Probe(threading.Thread):
    """Asks for /readyz again and again. `worst` is the longest time that the server's loop worked while one such
    request waited.
    """

    def __init__(
        self, port: int, processor: Processor, now: Callable[[], int], most: float, interval: float = 0.01
    ) -> None:
        super().__init__(name="probe", daemon=True)
        self._connection, self._processor, self._now, self._interval = Connection(port), processor, now, interval
        self._most, self._ended = most, threading.Event()
        #: (seconds, the number of the request that was sent before it, and after it)
        self.stalls: list[tuple[float, int, int]] = []
        self.worst = 0.0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._ended.wait(self._interval):
                number, before = self._now(), self._processor.seconds()
                answer = self._connection.ask(_READY)
                worked = self._processor.seconds() - before
                assert answer is not None, "/readyz was not answered"
                assert answer.status == 200, f"/readyz: {answer.body!r}"
                self.worst = max(self.worst, worked)
                if worked > self._most:
                    self.stalls.append((worked, number, self._now()))
        except BaseException as error:  # noqa: BLE001 - told by the run
            self.failure = error
        finally:
            self._connection.close()

    def end(self) -> None:
        self._ended.set()
        self.join()


class Run:
    """One run against a server that answers. `stall`: seconds of its loop's work for which /readyz may wait."""

    def __init__(
        self, child: Child, seed: int, *, stall: float = rules.STALL, progress: Callable[[str], Any] = lambda _: None
    ) -> None:
        self._child, self._stall, self._progress = child, stall, progress
        self.port = int(child.url.rpartition(":")[2])
        self._requests, self._conversations = Requests(seed), Conversations(seed)
        self._connection = Connection(self.port)
        self._process = child.process.pid
        self._said = len(child.log())
        self._number = 0
        #: Set it to end the run with a report of what it saw so far.
        self.interrupted = False
        self.report = Report()

    def go(self, numbers: range) -> Report:
        processor = Processor(self._process)
        probe = Probe(self.port, processor, lambda: self._number, self._stall)
        probe.start()
        marks = {numbers.start + len(numbers) * part // 4 for part in (1, 2, 3)}
        try:
            for number in numbers:
                if self.interrupted:
                    break
                self._number = number
                self.one(number)
                if number in marks:
                    self._mark()
                if number % 500 == 499:
                    self._look(number)
                    self._progress(
                        f"{number + 1} requests, {self._memory() >> 20} MiB, {len(self.report.findings)} findings"
                    )
                if len(self.report.findings) >= 20 or probe.failure is not None:
                    break
        finally:
            probe.end()
            processor.close()
            self._connection.close()
        self._mark()
        self._look(self._number)
        self._judge(probe)
        return self.report

    def one(self, number: int) -> None:
        """Sends the request of a number."""
        self.report.requests += 1
        if number % WIRE_SHARE == WIRE_SHARE - 1:
            case: Case | WireCase = self._conversations.case(number)
        else:
            case = self._requests.case(number)
        self.send(case)

    def send(self, case: Case | WireCase) -> None:
        try:
            if isinstance(case, Case):
                self._ask(case)
            else:
                self._converse(case)
        except ValueError as error:
            self._found("every answer is HTTP", case, str(error))
        except TimeoutError as error:
            self._found("every request is answered", case, str(error))
            self._connection.close()
        except ConnectionRefusedError:
            self._found("the server lives", case, f"it ended with {self._child.process.poll()}")
            raise

    def _ask(self, case: Case) -> None:
        try:
            answer = self._connection.ask(case.data, bodiless=case.method == "HEAD")
        except (ConnectionResetError, BrokenPipeError):
            answer = self._connection.ask(case.data, bodiless=case.method == "HEAD")
        if answer is None:
            self._found("every request is answered", case, "the connection closed")
            return
        self.report.count(answer.status)
        if wrong := rules.broken(answer):
            self._found(
                "no failure but upstream's own" if answer.status >= 500 else "answers are what they say", case, wrong
            )

    def _converse(self, case: WireCase) -> None:
        with connect(self.port) as connection:
            try:
                for piece in case.pieces:
                    connection.sendall(piece)
                if case.ending != "read":
                    if case.ending == "reset":
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return
                connection.shutdown(socket.SHUT_WR)
            except (ConnectionResetError, BrokenPipeError):
                return  # the server has refused it already
            except OSError as error:
                if isinstance(error, TimeoutError):
                    raise  # the server does not read
                return
            data = b""
            try:
                while part := receive(connection):
                    data += part
            except ConnectionResetError:
                pass
        at = 0
        while at < len(data):
            answer = rules.read(data, at)
            if answer is None:
                return  # the end of an answer that the client did not wait for
            self.report.count(answer.status)
            if wrong := rules.broken(answer):
                self._found(
                    "no failure but upstream's own" if answer.status >= 500 else "answers are what they say",
                    case,
                    wrong,
                )
            at = answer.end

    # The server

    def _memory(self) -> int:
        pages = Path(f"/proc/{self._process}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def _mark(self) -> None:
        self.report.memory.append(self._memory())

    def _look(self, number: int) -> None:
        """What the server has logged since the last look."""
        log = self._child.log()
        said, self._said = log[self._said :], len(log)
        lines = said.splitlines()
        for at, line in enumerate(lines):
            if any(word in line for word in _TROUBLE):
                self._found(
                    "nothing goes wrong in the log",
                    None,
                    f"before request {number}:\n" + "\n".join(lines[max(0, at - 2) : at + 30]),
                )
                return

    def _judge(self, probe: Probe) -> None:
        self.report.stall = probe.worst
        if probe.failure is not None:
            self._found("/readyz is answered", None, repr(probe.failure))
        for seconds, first, last in probe.stalls[:5]:
            case: Case | WireCase = self._requests.case(first)
            if first % WIRE_SHARE == WIRE_SHARE - 1:
                case = self._conversations.case(first)
            self._found(
                "nobody waits for another's request",
                case,
                f"/readyz waited while the loop worked for {seconds * 1000:.0f} ms (requests {first} to {last})",
            )
        _, half, _, end = (self.report.memory + [0] * 4)[:4]
        if end > half + GROWTH[0] + half * GROWTH[1]:
            self._found("memory is flat", None, " → ".join(f"{size >> 20} MiB" for size in self.report.memory))

    def _found(self, rule: str, case: Case | WireCase | None, detail: str) -> None:
        key = (rule, detail[:60])
        if all((finding.rule, finding.detail[:60]) != key for finding in self.report.findings):
            self.report.findings.append(Finding(rule, case, detail))


@contextmanager
def server(directory: Path) -> Iterator[Child]:
    """A server with every version and gate, on a store in a file. Ctrl-C is for the run alone."""
    apart = ("setsid",) if shutil.which("setsid") else ()
    with Child(directory, *FLAGS, before=apart) as child:
        yield child
