"""Deadlines of tests are in fair seconds: a busy machine gets more time, and a futile wait ends."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support.patience import (
    LONGEST,
    FairClock,
    communicate,
    ended,
    patience,
    processor_share,
    run_command,
    wait_until,
)

pytestmark = pytest.mark.integration

#: A test that hangs, in three ways, and one that does not.
HANGING = """
import socket, subprocess, sys, threading

def test_waits_for_a_thread(): threading.Event().wait()
def test_waits_for_a_socket():
    one, other = socket.socketpair()
    with one, other: one.recv(1)
def test_waits_for_a_process():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child: child.wait()
def test_goes_on(): pass
"""
SLEEPER = [sys.executable, "-c", "import threading; print('ready', flush=True); threading.Event().wait()"]


def test_a_second_counts_as_the_part_of_a_processor_that_a_process_gets() -> None:
    clock = FairClock(share=lambda: 0.1)
    clock.count(0.5)
    assert clock._seconds == pytest.approx(0.05)


def test_time_in_which_the_machine_stood_still_does_not_count() -> None:
    clock = FairClock(share=lambda: 1.0)
    clock.count(3600.0)
    assert clock._seconds == LONGEST


def test_a_share_is_part_of_one_processor() -> None:
    assert 0 < processor_share() <= 1


def test_alarms_ring_once_in_the_order_of_their_time_unless_they_are_called_off() -> None:
    clock, rung = FairClock(share=lambda: 1.0), list[str]()
    clock._thread = threading.current_thread()  # it is counted by hand
    clock.alarm(0.4, lambda: rung.append("second"))
    clock.alarm(0.2, lambda: rung.append("first"))
    off = clock.alarm(0.3, lambda: rung.append("never"))
    off()
    clock.count(0.1)
    assert rung == []
    clock.count(0.5)
    clock.count(0.5)
    assert rung == ["first", "second"]


def test_a_wait_ends_with_what_it_waited_for() -> None:
    with pytest.raises(AssertionError, match="still not so: the moon is blue"):
        wait_until(lambda: False, "the moon is blue", seconds=0.1)
    wait_until(iter((False, True)).__next__, "the second look")


@pytest.mark.real_time
async def test_a_coroutine_that_takes_too_long_is_cancelled_and_one_that_does_not_is_left_alone() -> None:
    with pytest.raises(TimeoutError):
        async with patience(0.1):
            await asyncio.Event().wait()
    async with patience(0.1):
        pass
    event = asyncio.Event()
    with pytest.raises(TimeoutError):
        async with patience(0.3):
            await event.wait()


def test_a_process_is_waited_for_and_not_for_ever() -> None:
    with subprocess.Popen(SLEEPER, stdout=subprocess.PIPE) as child:
        with pytest.raises(AssertionError, match="still not so: it has ended"):
            ended(child, "it has ended", seconds=0.1)
        with pytest.raises(subprocess.TimeoutExpired):
            communicate(child, seconds=0.1)
        child.terminate()
        assert communicate(child)[0] in (b"ready\n", b"")
        assert ended(child) == -signal.SIGTERM
    with pytest.raises(subprocess.TimeoutExpired):
        run_command(SLEEPER, seconds=0.2)
    with pytest.raises(subprocess.CalledProcessError):
        run_command([sys.executable, "-c", "raise SystemExit(3)"], check=True)


def test_a_test_that_hangs_fails_whatever_it_waits_for_and_says_what_every_thread_did(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    (tmp_path / "test_it.py").write_text(HANGING)
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_timeout_set_timer\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-o",
        "timeout=0.4",
        str(tmp_path / "test_it.py"),
    ]
    done = run_command(command, cwd=root, text=True)
    assert "3 failed, 1 passed" in done.stdout
    assert done.stdout.count("Timeout (>0.4s)") >= 3
    assert "fair clock" in done.stdout + done.stderr, "the stacks of the other threads"
