"""A control plane that does not get ready says so, and why."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubedra import ControlPlane
from kubedra.plane.control_plane import StartError
from kubedra.runtime.process import SilentError, wait_for_announcement

pytestmark = pytest.mark.integration


@pytest.fixture
def silent_database() -> Iterator[str]:
    """Yield the URL of a Postgres that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"postgresql://user@127.0.0.1:{listener.getsockname()[1]}/database"


def test_a_start_without_progress_ends_with_the_last_line_of_the_log(tmp_path: Path, silent_database: str) -> None:
    plane = ControlPlane(
        controllers=False,
        storage=silent_database,
        data_dir=tmp_path,
        args=("--feature-gates=WinOverlay=true",),
        start_patience=3,
    )
    with pytest.raises(StartError) as raised:
        plane.start()
    assert str(raised.value) == (
        "kubedra did not become ready and logged nothing for 3 s; the last line of server.log: "
        "warning: --feature-gates: WinOverlay changes nothing in kubedra"
    )
    with pytest.raises(RuntimeError, match="is not running"):
        _ = plane.pid


class Child:
    """A process whose standard output is a pipe, and a log that the test writes."""

    def __init__(self, directory: Path) -> None:
        self.log = directory / "log"
        self.log.write_text("")
        self.process = subprocess.Popen(
            [sys.executable, "-c", "import sys; print(sys.stdin.readline(), end='')"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.close()


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Child]:
    child = Child(tmp_path)
    yield child
    child.process.kill()
    child.process.wait()
    for pipe in (child.process.stdin, child.process.stdout):
        assert pipe is not None
        pipe.close()


def test_a_child_that_goes_on_logging_is_waited_for_longer_than_patience(child: Child) -> None:
    """Six lines, one after each third of the patience: without them the wait would have ended long before."""
    patience, lines = 0.6, iter(range(6))

    def tick() -> None:
        with child.log.open("a") as log:
            if (number := next(lines, None)) is None:
                child.say("ready\n")
                return
            log.write(f"step {number}\n")
        timer = threading.Timer(patience / 3, tick)
        timer.daemon = True
        timer.start()

    tick()
    assert wait_for_announcement(child.process, child.log, patience) == "ready\n"


def test_a_silent_child_is_given_up_with_the_last_line_it_logged(child: Child) -> None:
    child.log.write_text("first\nlast\n\n")
    with pytest.raises(SilentError, match=r"^last$"):
        wait_for_announcement(child.process, child.log, 0.1)


def test_a_silent_child_without_a_log_is_given_up_too(child: Child) -> None:
    with pytest.raises(SilentError, match=r"^its log is empty$"):
        wait_for_announcement(child.process, child.log, 0.1)


def test_a_child_that_ends_is_no_child_that_is_silent(child: Child) -> None:
    os.kill(child.process.pid, 9)
    assert wait_for_announcement(child.process, child.log, 30) == ""
