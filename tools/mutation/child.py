"""Run work in a forked process: it has all imports of this one, and damages nothing here."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from tests.support import patience

_PR_SET_PDEATHSIG = 1
#: Sends bytes to the waiting process; each is a sign of life, too.
Send = Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a process: its exit code (None after too long a silence), its bytes, its CPU seconds."""

    code: int | None
    output: bytes
    seconds: float


def run_in_child(work: Callable[[Send], int | None], patient: Callable[[int], float] | None = None) -> Outcome:
    """Run `work` in a child; its result is the exit code.

    `patient` returns the fair seconds of allowed silence after so many bytes; its output is discarded then.
    """
    return start_in_child(work, patient)()


def start_in_child(
    work: Callable[[Send], int | None], patient: Callable[[int], float] | None = None
) -> Callable[[], Outcome]:
    """Run `work` in a child in parallel; the returned function waits for its end."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        _work(work, writing, keep_output=patient is None)
    os.close(writing)

    def finish() -> Outcome:
        try:
            return _wait(pid, reading, patient)
        finally:
            os.close(reading)
            with contextlib.suppress(ProcessLookupError):  # processes that its tests started and did not end
                os.killpg(pid, signal.SIGKILL)

    return finish


def _work(work: Callable[[Send], int | None], writing: int, *, keep_output: bool) -> None:
    code = 99
    try:
        os.setpgid(0, 0)
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # no process would wait for this one
        patience.CLOCK.__init__()  # type: ignore[misc]  # its thread is not in this process
        if not keep_output:
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nothing, stream)
        code = work(lambda output: (os.write(writing, output), None)[1]) or 0
    except BaseException:  # noqa: BLE001 - nothing of this process goes on where it was forked
        traceback.print_exc()
    finally:
        os._exit(code)


def _wait(pid: int, reading: int, patient: Callable[[int], float] | None) -> Outcome:
    output, quiet, before = b"", 0.0, time.monotonic()
    while True:
        ready, _, _ = select.select([reading], [], [], patience.TICK)
        now = time.monotonic()
        quiet += min(now - before, patience.LONGEST) * patience.processor_share()
        before = now
        heard = os.read(reading, 65536) if ready else b""
        if heard:
            output, quiet = output + heard, 0.0
            continue
        late = patient is not None and quiet > patient(len(output))
        if late:
            os.kill(pid, signal.SIGKILL)
        ended, status, usage = os.wait4(pid, 0 if late or ready else os.WNOHANG)
        if ended:
            code = None if late else os.waitstatus_to_exitcode(status)
            return Outcome(code, output, usage.ru_utime + usage.ru_stime)
