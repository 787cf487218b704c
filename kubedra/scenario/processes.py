"""Commands of a scenario: run to their end, or started beside it and stopped at its end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from kubedra.runtime.failures import describe_failure

__all__ = ["Command", "Process", "StepError", "run_command"]

#: Seconds until a stopping process is killed, and between two looks at one.
_STOP_TIMEOUT: Final = 10.0
_POLL: Final = 0.02
#: Maximum number of lines of output in an error.
_LINES: Final = 20


class StepError(Exception):
    """A step that failed. The message says why."""


class Command:
    """A command with its environment. A text runs in a shell."""

    def __init__(self, words: str | Sequence[str | float], directory: Path, environment: Mapping[str, str]) -> None:
        self.words = ["sh", "-c", words] if isinstance(words, str) else [str(word) for word in words]
        self._directory, self._environment = directory, environment

    def start(self, output: Path) -> subprocess.Popen[bytes]:
        """Start the command in a process group of its own. Raise StepError."""
        with output.open("ab") as log:
            try:
                return subprocess.Popen(  # noqa: S603 - the command of the user's own file
                    self.words,
                    cwd=self._directory,
                    env={**os.environ, **self._environment},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                named = error.filename or self.words[0]
                raise StepError(f"{os.fsdecode(named)}: {describe_failure(error)}") from None


class Process:
    """A process beside the scenario. `start` may be called again after it has ended."""

    def __init__(self, name: str, command: Command, output: Path, ready: str, timeout: float) -> None:
        self._name, self._command, self._output = name, command, output
        self._ready, self._timeout = ready, timeout
        self._running: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self._running is not None and self._running.poll() is None

    def start(self) -> None:
        """Start the process and wait for its `ready` text. Raise StepError if it ends before, or takes too long."""
        if self.is_running:
            raise StepError(f"process/{self._name} is already running")
        begin = self._output.stat().st_size if self._output.exists() else 0
        self._running = self._command.start(self._output)
        deadline = time.monotonic() + self._timeout
        while self._ready and self._ready not in self.read_output(begin):
            if self._running.poll() is not None:
                raise StepError(self._describe(f"ended with exit code {self._running.returncode}", begin))
            if time.monotonic() > deadline:
                raise StepError(self._describe(f"did not print {self._ready!r} within {self._timeout:g} s", begin))
            time.sleep(_POLL)

    def read_output(self, begin: int = 0) -> str:
        return self._output.read_bytes()[begin:].decode(errors="replace") if self._output.exists() else ""

    def end(self, number: signal.Signals) -> None:
        """Send a signal to the process and its children, and wait for its end."""
        running, self._running = self._running, None
        if running is None:
            raise StepError(f"process/{self._name} is not running")
        if running.poll() is not None:
            raise StepError(self._describe(f"ended before with exit code {running.returncode}", 0))
        _end(running, number)

    def close(self) -> None:
        """Stop the process if it runs."""
        running, self._running = self._running, None
        if running is not None:
            _end(running, signal.SIGTERM)

    def _describe(self, problem: str, begin: int) -> str:
        return "\n".join([f"process/{self._name} {problem}", *last_lines(self.read_output(begin))])


def run_command(command: Command, timeout: float) -> tuple[int, str]:
    """Run a command to its end. Return its exit code and output. Raise StepError after `timeout` seconds."""
    with tempfile.TemporaryDirectory(prefix="kubedra-") as directory:
        output = Path(directory) / "output"
        running = command.start(output)
        try:
            running.wait(timeout)
        except subprocess.TimeoutExpired:
            _end(running, signal.SIGKILL)
            text = output.read_text(errors="replace")
            raise StepError("\n".join([f"did not end within {timeout:g} s", *last_lines(text)])) from None
        except BaseException:
            _end(running, signal.SIGKILL)
            raise
        return running.returncode, output.read_text(errors="replace")


def last_lines(text: str) -> list[str]:
    """Return the last lines of an output, indented."""
    return [f"  {line}" for line in text.rstrip().splitlines()[-_LINES:]]


def _end(running: subprocess.Popen[bytes], number: signal.Signals) -> None:
    _signal_group(running, number)
    try:
        running.wait(_STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        pass
    finally:
        # Children that ignored the signal.
        _signal_group(running, signal.SIGKILL)
    running.wait()


def _signal_group(running: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(running.pid, number)
