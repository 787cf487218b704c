"""Run kubectl against one control plane, a process per command or many commands in one process."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.patience import run_command

#: Seconds after which a command counts as hung.
_LONGEST: Final = 60.0
#: The exit code of a hung command, as of `timeout`.
HUNG: Final = 124
#: Commands that end the process or write to its terminal: always in a process of their own.
_OWN_PROCESS: Final = ("diff", "edit", "completion", "plugin", "alpha")


@dataclass(frozen=True, slots=True)
class Output:
    """The result of a command."""

    code: int
    out: str
    err: str


class Kubectl:
    """The kubectl of one plane. `loop` is the program of loop.go, or None for a process per command."""

    def __init__(self, kubectl: str, loop: str | None, kubeconfig: Path, files: Path, home: Path) -> None:
        self._kubectl, self._loop, self._files, self._home = kubectl, loop, files, home
        home.mkdir(parents=True, exist_ok=True)
        self._environment = {
            **os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(home), "KUBECTL_KUBERC": "false", "TZ": "UTC",
            "KUBE_EDITOR": f"{files}/editor", "COLUMNS": "200",
        }  # fmt: skip
        self._out, self._err = home / "out", home / "err"
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, arguments: tuple[str, ...]) -> Output:
        """Run a command in the directory of the files."""
        if self._loop is None or arguments[0] in _OWN_PROCESS:
            return self._run_alone(arguments)
        for file in (self._out, self._err):
            file.write_bytes(b"")
        process = self._running()
        assert process.stdin is not None
        process.stdin.write(json.dumps(arguments).encode() + b"\n")
        process.stdin.flush()
        code = self._read_code(process)
        return Output(code, *(file.read_text(errors="replace") for file in (self._out, self._err)))

    def _run_alone(self, arguments: tuple[str, ...]) -> Output:
        try:
            done = run_command(
                [self._kubectl, *arguments],
                env=self._environment,
                cwd=self._files,
                seconds=_LONGEST,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            return Output(HUNG, "", "")
        return Output(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            assert self._loop is not None
            self.close()
            self._process = subprocess.Popen(
                [self._loop, str(self._out), str(self._err)], env=self._environment, cwd=self._files,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        return self._process

    def _read_code(self, process: subprocess.Popen[bytes]) -> int:
        """Return the exit code of the command, also where it ended the process."""
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            if not selector.select(_LONGEST):
                process.kill()
                process.wait()
                return HUNG
        line = process.stdout.readline()
        return int(line) if line else process.wait()

    def close(self) -> None:
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process.kill()
            self._process.wait()
            self._process = None
