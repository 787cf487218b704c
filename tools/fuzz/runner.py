"""Send requests to a server of its own and check its health.

The server runs in a child process. One connection carries the requests of the API in batches; the server answers in
order. Raw conversations have connections of their own, a few at a time; a thread requests /readyz continuously. The
busy time of the server's loop is its processor time, so that a busy machine makes nothing look slow.
"""

from __future__ import annotations

import os
import shutil
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.support.wire import Child
from tools.fuzz import rules
from tools.fuzz.connection import Connection, connect, receive
from tools.fuzz.probe import Probe, Processor
from tools.fuzz.requests import Case, Requests
from tools.fuzz.wire import Conversations, WireCase

#: One of so many requests is a raw conversation.
WIRE_SHARE: Final = 12
#: Bytes of requests per batch.
AT_ONCE: Final = 32 * 1024
#: Concurrent raw conversations.
BESIDE: Final = 4
#: Allowed growth of the server's memory in the second half of a run, in bytes and as a share.
GROWTH: Final = (48 << 20, 0.15)
FLAGS: Final = (
    "--runtime-config=api/all=true",
    "--feature-gates=AllAlpha=true,AllBeta=true",
    "--etcd-compaction-interval=2s",
    "--seed=1",
    "--storage=sqlite",
    "--durability=off",
)
_TROUBLE: Final = ("Traceback", " ERROR ", "never retrieved", "was never awaited")


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation of a rule, with its request."""

    rule: str
    case: Case | WireCase | None
    detail: str


@dataclass(slots=True)
class Report:
    """The findings and counts of a run."""

    findings: list[Finding] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)
    requests: int = 0
    stall: float = 0.0
    #: The number of the request with the loop's longest work.
    stalled: int = 0
    memory: list[int] = field(default_factory=list)

    def count(self, status: int) -> None:
        self.statuses[status] = self.statuses.get(status, 0) + 1


class Run:
    """One run against a running server. `stall`: seconds of its loop's work for which /readyz may wait."""

    def __init__(
        self,
        child: Child,
        seed: int,
        *,
        stall: float = rules.STALL,
        progress: Callable[[int, str], Any] = lambda _, __: None,
    ) -> None:
        #: Called with the number of requests sent (0 for an urgent line) and a line.
        self._child, self._stall, self._progress = child, stall, progress
        self.port = int(child.url.rpartition(":")[2])
        self._requests, self._conversations = Requests(seed), Conversations(seed)
        self._connection = Connection(self.port)
        self._process = child.process.pid
        self._log_length = len(child.log())
        self._number = 0
        self._threads = ThreadPoolExecutor(BESIDE, thread_name_prefix="conversation")
        self._conversing: deque[Future[None]] = deque()
        self._waiting: list[Case] = []
        self._waiting_bytes = 0
        #: Set it to end the run with a report of what it saw so far.
        self.interrupted = False
        self.report = Report()

    def run_requests(self, numbers: range) -> Report:
        processor = Processor(self._process)
        probe = Probe(self.port, processor, lambda: self._number, self._stall)
        probe.start()
        marks = {numbers.start + len(numbers) * part // 4 for part in (1, 2, 3)}
        try:
            for number in numbers:
                if self.interrupted:
                    break
                self.send_request(number)
                if number in marks:
                    self._flush()
                    self._record_memory()
                if number % 500 == 499:
                    self._flush()
                    self._check_log(number)
                    self._progress(
                        number + 1,
                        f"{number + 1} requests, {self._memory() >> 20} MiB, longest work {probe.worst * 1000:.0f} ms,"
                        f" {len(self.report.findings)} findings",
                    )
                if len(self.report.findings) >= 20 or probe.failure is not None:
                    break
            self._flush()
            self._end_conversations()
        finally:
            probe.end()
            processor.close()
            self._connection.close()
            self._threads.shutdown()
        self._record_memory()
        self._check_log(self._number)
        self._check_probe(probe)
        return self.report

    def send_request(self, number: int) -> None:
        """Send the request of a number, or add it to the next batch."""
        self.report.requests += 1
        if number % WIRE_SHARE == WIRE_SHARE - 1:
            self.send(self._conversations.case(number))
            return
        case = self._requests.case(number)
        self._waiting.append(case)
        self._waiting_bytes += len(case.data)
        if self._waiting_bytes > AT_ONCE:
            self._flush()

    def send(self, case: WireCase) -> None:
        """Start one conversation in parallel with the following requests; some answers take seconds."""
        while len(self._conversing) >= BESIDE:
            self._conversing.popleft().result()
        self._conversing.append(self._threads.submit(self._converse, case))

    def _end_conversations(self) -> None:
        while self._conversing:
            self._conversing.popleft().result()

    def _flush(self) -> None:
        """Send the batch."""
        cases, self._waiting, self._waiting_bytes = self._waiting, [], 0
        while cases:
            cases = cases[self._send_batch(cases) :]

    def _send_batch(self, cases: list[Case]) -> int:
        """Send requests in one batch; return the number of requests handled.

        Requests behind an answer that ends the connection are not handled.
        """
        connection, done = self._connection, 0
        fresh = not connection.open
        self._number = cases[0].number
        try:
            connection.send(b"".join(case.data for case in cases))
            for case in cases:
                self._number = case.number
                answer = connection.answer(bodiless=case.method == "HEAD")
                if answer is None:
                    break
                done += 1
                self._examine(case, answer)
                if not connection.open:
                    return done
            else:
                return done
        except ConnectionResetError:
            pass
        except (ValueError, TimeoutError, ConnectionRefusedError) as error:
            self._report_failure(cases[done], error)
            return done + 1
        if done or not fresh:
            return done  # the rest is sent again on another connection
        self._report("every request is answered", cases[0], "the connection closed")
        return 1

    def _examine(self, case: Case | WireCase, answer: rules.Answer) -> None:
        self.report.count(answer.status)
        if wrong := rules.find_violation(answer):
            self._report(
                "no failure but upstream's own" if answer.status >= 500 else "answers are what they say", case, wrong
            )

    def _report_failure(self, case: Case | WireCase, error: Exception) -> None:
        """Report a failure. Raise ConnectionRefusedError again: there is no server left."""
        if isinstance(error, ConnectionRefusedError):
            self._report("the server lives", case, f"it ended with {self._child.process.poll()}")
            raise error
        rule = "every request is answered" if isinstance(error, TimeoutError) else "every answer is HTTP"
        self._report(rule, case, str(error))

    def _converse(self, case: WireCase) -> None:
        try:
            self._exchange(case)
        except (ValueError, TimeoutError, ConnectionRefusedError) as error:
            self._report_failure(case, error)

    def _exchange(self, case: WireCase) -> None:
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
            self._examine(case, answer)
            at = answer.end

    # The server

    def _memory(self) -> int:
        pages = Path(f"/proc/{self._process}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def _record_memory(self) -> None:
        self.report.memory.append(self._memory())

    def _check_log(self, number: int) -> None:
        """Check the lines logged since the last check."""
        log = self._child.log()
        logged, self._log_length = log[self._log_length :], len(log)
        lines = logged.splitlines()
        for at, line in enumerate(lines):
            if any(word in line for word in _TROUBLE):
                self._report(
                    "nothing goes wrong in the log",
                    None,
                    f"before request {number}:\n" + "\n".join(lines[max(0, at - 2) : at + 30]),
                )
                return

    def _check_probe(self, probe: Probe) -> None:
        self.report.stall, self.report.stalled = probe.worst, probe.worst_at
        if probe.failure is not None:
            self._report("/readyz is answered", None, repr(probe.failure))
        for seconds, first, last in probe.stalls[:5]:
            case: Case | WireCase = self._requests.case(first)
            if first % WIRE_SHARE == WIRE_SHARE - 1:
                case = self._conversations.case(first)
            self._report(
                "no client waits for another's request",
                case,
                f"/readyz waited while the loop worked for {seconds * 1000:.0f} ms (requests {first} to {last})",
            )
        _, half, _, end = (self.report.memory + [0] * 4)[:4]
        if end > half + GROWTH[0] + half * GROWTH[1]:
            self._report("memory is flat", None, " → ".join(f"{size >> 20} MiB" for size in self.report.memory))

    def _report(self, rule: str, case: Case | WireCase | None, detail: str) -> None:
        key = (rule, detail[:60])
        if all((finding.rule, finding.detail[:60]) != key for finding in self.report.findings):
            self.report.findings.append(Finding(rule, case, detail))
            self._progress(0, f"{rule}: {detail[:300]}")


@contextmanager
def server(directory: Path) -> Iterator[Child]:
    """Start a server with every version and gate, on a store in a file; Ctrl-C reaches only the run."""
    apart = ("setsid",) if shutil.which("setsid") else ()
    with Child(directory, *FLAGS, before=apart) as child:
        yield child
