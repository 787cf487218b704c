"""Server processes on one database, their restarts, and faults."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import orjson

from tests.servers.clients import Server
from tests.support.patience import patience
from tests.support.postgres import Database
from tests.support.wire import ROOT, environment

#: A server is started again until it runs; the database may be away for as long.
START_SECONDS = 60.0


class Process:
    """One server process."""

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self.process, self.url = process, url
        self.ended: float | None = None


class Slot:
    """A slot for a server, which has one process after the other."""

    def __init__(self, number: int, url: str, directory: Path, flags: tuple[str, ...], counts: Counter[str]) -> None:
        self._directory = directory / f"server{number}"
        own = ("--announce", "--port=0", f"--data-dir={self._directory}", f"--storage={url}")
        self._command = ["-P", "-m", "apiserver", *own, *flags]
        self._counts = counts
        self.log = directory / f"server{number}.log"
        self.current: Process | None = None

    async def start(self) -> None:
        """Start until it succeeds. Raise TimeoutError if it never does."""
        async with patience(START_SECONDS):
            while not await self._attempt():
                self._counts["starts that failed"] += 1
                await asyncio.sleep(0.1)

    async def _attempt(self) -> bool:
        begin = time.monotonic()
        with self.log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable, *self._command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
                stderr=log, env=environment(), cwd=ROOT,
            )  # fmt: skip
        assert process.stdout is not None
        line = await process.stdout.readline()
        if not line:
            await process.wait()
            return False
        self._counts["starts"] += 1
        self._counts["start ms"] += int((time.monotonic() - begin) * 1000)
        self.current = Process(process, orjson.loads(line)["url"])
        return True

    async def end(self, number: signal.Signals) -> None:
        """Send the signal and wait for the end; a stopped process continues first."""
        current, self.current = self.current, None
        if current is None:
            return
        current.ended = time.monotonic()
        current.process.send_signal(number)
        try:
            async with patience():
                await current.process.wait()
        except TimeoutError:
            current.process.kill()
            await current.process.wait()
            self._counts["servers that did not stop"] += 1


class Cluster:
    """All servers, and the database."""

    def __init__(self, database: Database, directory: Path, servers: int, flags: tuple[str, ...], seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self._database = database
        self._random = random.Random(seed)
        self.slots = [Slot(number, database.url, directory, flags, self.counts) for number in range(servers)]
        self._coming: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start all servers together."""
        await asyncio.gather(*(slot.start() for slot in self.slots))

    def up(self) -> list[Server]:
        return [slot.current for slot in self.slots if slot.current is not None]

    async def kill(self) -> None:
        """End a server, rarely all of them, by SIGKILL or SIGTERM. They restart while the clients continue."""
        number = self._random.choice((signal.SIGKILL, signal.SIGTERM))
        running = [slot for slot in self.slots if slot.current is not None]
        if not running:
            return
        chosen = running if self._random.random() < 0.05 else [self._random.choice(running)]
        for slot in chosen:
            self.counts[number.name] += 1
            task = asyncio.create_task(self._again(slot, number))
            self._coming.add(task)
            task.add_done_callback(self._coming.discard)

    async def _again(self, slot: Slot, number: signal.Signals) -> None:
        await slot.end(number)
        await slot.start()

    async def disturb(self) -> None:
        """Disturb the database or its connections, or stop a server so that it continues with an old state."""
        what = self._random.choice(("one", "all", "listeners", "fast", "immediate", "sleep"))
        self.counts[f"disturbed: {what}"] += 1
        if what in ("fast", "immediate"):
            await asyncio.to_thread(self._database.restart, what)
        elif what == "sleep":
            await self._sleep()
        else:
            one = (
                "pid = (SELECT pid FROM pg_stat_activity WHERE application_name = 'kubedra' ORDER BY random() LIMIT 1)"
            )
            which = {"one": one, "all": "true", "listeners": "query = 'LISTEN kubedra_log'"}[what]
            await asyncio.to_thread(self._database.end_connections, which)

    async def _sleep(self) -> None:
        running = [slot for slot in self.slots if slot.current is not None]
        if len(running) < 2:
            return
        process = self._random.choice(running).current
        assert process is not None
        process.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(self._random.random() * 2)
        if process.process.returncode is None:
            process.process.send_signal(signal.SIGCONT)

    async def settle(self) -> None:
        """Wait until all servers are up. Raise the error of a failed start."""
        while self._coming:
            await asyncio.gather(*self._coming)

    async def close(self) -> None:
        for task in list(self._coming):
            task.cancel()
        await asyncio.gather(*self._coming, return_exceptions=True)
        await asyncio.gather(*(slot.end(signal.SIGTERM) for slot in self.slots))

    def complaints(self) -> list[str]:
        """Return log lines that point to a defect, such as uncaught errors."""
        found = []
        for slot in self.slots:
            if slot.log.exists():
                lines = slot.log.read_text(errors="replace").splitlines()
                found += [
                    f"{slot.log.name}: {_cause(lines, index)}"
                    for index, line in enumerate(lines)
                    if line.startswith("Traceback")
                ]
        return found


def _cause(lines: list[str], index: int) -> str:
    """Return the exception below the first line of a traceback."""
    before = lines[index - 1] if index else ""
    return next(
        (f"{before} … {line}" for line in lines[index + 1 :] if line and not line.startswith((" ", "+"))),
        "an unfinished traceback",
    )
