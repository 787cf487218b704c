"""A control plane as a context manager: one child process, a free port, ready before `start` returns."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kubedra.runtime import private_files as private
from kubedra.runtime import process

if TYPE_CHECKING:
    import httpx

    from kubedra.client.client import AsyncClient, Client
    from kubedra.plane.fork import Fork

#: Seconds until a stopping server is killed.
STOP_TIMEOUT = 5.0


#: Seconds. A busy machine needs more than httpx's 5 s for the first reset.
_RESET_TIMEOUT = 60.0


class StartError(RuntimeError):
    """The server ended before it was ready, or did not become ready. The message has the end of its log."""


def flag_value(value: str | Mapping[str, object] | None) -> str:
    """Return `{"A": True, "B": False}` as "A=true,B=false", the syntax of kube-apiserver."""
    if value is None or isinstance(value, str):
        return value or ""
    return ",".join(
        f"{name}={str(setting).lower() if isinstance(setting, bool) else setting}" for name, setting in value.items()
    )


class ControlPlane:
    """An API server with controllers, scheduler and node agent, in a child process.

    `nodes`: number of emulated nodes to create at start · `devices`: driver of their 8 GPUs, or "none" ·
    `controllers`: False for only the API server; with `nodes`, the node-agent and the node-lifecycle-controller run
    nevertheless · `storage`: "memory", "sqlite" (a file in `data_dir`) or a database URL · `emulated_version`: "1.33"
    to "1.36" · `feature_gates`, `runtime_config`: a mapping, or the syntax of kube-apiserver's flags · `clock`:
    "virtual" or "virtual=TIME" for time that only `Clock.advance` moves · `seed`: makes UIDs, names and random choices
    repeatable · `jobs_exit_after`: end the emulated containers of Jobs after this time ("1s") · `history`: keep the
    history of a duration ("1h"), a number of revisions ("5000") or "all" · `args`: further flags
    of `kubedra serve` · `attached`: False for a child process that may outlive this one (`detach`) · `start_patience`:
    seconds without progress until a start fails.

    Durability is off unless `args` set it, because tests need no synced commits. `start` raises StartError with the
    server's message.
    """

    def __init__(
        self,
        *,
        nodes: int = 0,
        devices: str = "none",
        controllers: bool = True,
        storage: str = "memory",
        data_dir: Path | str | None = None,
        emulated_version: str | None = None,
        feature_gates: str | Mapping[str, object] | None = None,
        runtime_config: str | Mapping[str, object] | None = None,
        clock: str = "real",
        seed: int | None = None,
        jobs_exit_after: str = "",
        history: str = "",
        args: Sequence[str] = (),
        attached: bool = True,
        start_patience: float = process.PATIENCE,
    ) -> None:
        self.data_dir = Path(data_dir or tempfile.mkdtemp(prefix="kubedra-"))
        self._cleanup = None if data_dir else weakref.finalize(self, shutil.rmtree, self.data_dir, ignore_errors=True)
        self._flags = [
            "--port=0",
            f"--storage={storage}",
            f"--data-dir={self.data_dir}",
            f"--devices={devices}",
            "--durability=off",
            "--announce",
            *(["--attached"] if attached else []),
        ]
        self._attached = attached
        if controllers:
            self._flags += ["--controllers=*", "--storage-class=standard"]
        for flag, value in (
            ("emulated-version", emulated_version),
            ("feature-gates", flag_value(feature_gates)),
            ("runtime-config", flag_value(runtime_config)),
            ("clock", clock),
            ("nodes", str(nodes or "")),
            ("seed", "" if seed is None else str(seed)),
            ("jobs-exit-after", jobs_exit_after),
            ("history", history),
        ):
            if value:
                self._flags.append(f"--{flag}={value}")
        self._flags += args
        self.jobs_exit_after = jobs_exit_after
        self.virtual = clock != "real"
        #: Whether it can be forked.
        self.forkable = storage == "memory" and (self.virtual or "--forks" in args)
        self._start_patience = start_patience
        self._process: subprocess.Popen[str] | None = None
        self._announced: dict[str, Any] = {}
        self._http: httpx.Client | None = None

    @property
    def url(self) -> str:
        """The address of the server, such as http://127.0.0.1:PORT."""
        return str(self._running()["url"])

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig for the server; never the user's own file."""
        return Path(self._running()["kubeconfig"])

    def _running(self) -> dict[str, Any]:
        if self._process is None or not self._announced:
            raise RuntimeError(f"the control plane {'was stopped' if self._announced else 'has not been started'}")
        return self._announced

    def __repr__(self) -> str:
        state = self._announced["url"] if self._process and self._announced else "not running"
        return f"<kubedra.ControlPlane {state} in {self.data_dir}>"

    @property
    def pid(self) -> int:
        """The process id of the child process."""
        if self._process is None:
            raise RuntimeError("the control plane is not running")
        return self._process.pid

    def client(self) -> Client:
        """Return a client of this server. Close it, or use it in a `with`."""
        from kubedra.client.client import Client

        return Client.from_kubeconfig(self.kubeconfig)

    def async_client(self) -> AsyncClient:
        """Return a client of this server for an event loop. `aclose` it, or use it in an `async with`."""
        from kubedra.client.client import AsyncClient

        return AsyncClient.from_kubeconfig(self.kubeconfig)

    def start(self) -> Self:
        """Start the child process and return when it serves requests."""
        private.make_directory(self.data_dir)
        with os.fdopen(private.open_file(self.log_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                process.command("apiserver", *self._flags), env=process.environment(), cwd=self.data_dir,
                stdin=subprocess.PIPE if self._attached else subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=log, text=True,
                # Ctrl-C in the terminal must reach only the parent process. Closing the pipe ends the child.
                start_new_session=True,
            )  # fmt: skip
        process.CONTROL_PLANES.add(self._process.pid)
        try:
            self._announced = json.loads(self._first_line(self._process))
        except BaseException:
            self.stop()
            raise
        return self

    def _first_line(self, child: subprocess.Popen[str]) -> str:
        try:
            line = process.wait_for_announcement(child, self.log_file, self._start_patience)
        except process.SilentError as error:
            child.kill()  # a stuck process would not handle SIGTERM either
            raise StartError(
                f"kubedra did not become ready and logged nothing for {self._start_patience:g} s; the last line of"
                f" {self.log_file.name}: {error}"
            ) from None
        if not line:
            code = child.wait(STOP_TIMEOUT)
            raise StartError(f"kubedra ended before it was ready (exit code {code}): {self.log().strip()[-2000:]}")
        return line

    @property
    def log_file(self) -> Path:
        """The log file of the server."""
        return self.data_dir / "server.log"

    def log_size(self) -> int:
        """Return the size of the server's output so far, in bytes."""
        return self.log_file.stat().st_size if self.log_file.exists() else 0

    def log(self, begin: int = 0) -> str:
        """Return the server's output so far, without its first `begin` bytes."""
        return self.log_file.read_bytes()[begin:].decode(errors="replace") if self.log_file.exists() else ""

    def reset(self) -> None:
        """Delete all objects except the built-in ones and the nodes that were created at start."""
        import httpx

        if self._http is None:
            token = self._announced.get("token")
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            self._http = httpx.Client(verify=False, trust_env=False, headers=headers)  # noqa: S501 - our own child on loopback
        self._http.post(f"{self.url}/-/reset", timeout=_RESET_TIMEOUT).raise_for_status()

    def fork(self, name: str = "") -> Fork:
        """Return a copy of the running control plane, with an address of its own; see docs/howto/snapshots.md.

        The copy continues with the same objects, revisions, virtual time and timers, and changes in one do not reach
        the other. It shares the memory of this control plane, and ends with it. Needs `clock="virtual"` or
        `args=["--forks"]`, and memory storage. Raises ApiError if the control plane cannot be forked.
        """
        from kubedra.plane.fork import fork_of

        return fork_of(self.client(), name, virtual=self.virtual, jobs_exit_after=self.jobs_exit_after)

    def stop(self) -> None:
        """Stop the child process. Stopping twice is allowed."""
        if self._http is not None:
            self._http.close()
            self._http = None
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._close_pipes()
        process.CONTROL_PLANES.discard(self._process.pid)
        self._process = None
        if self._cleanup is not None:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    def detach(self) -> None:
        """Leave the child process and its data running after this process; needs `attached=False`.

        `kubedra down --data-dir DIR` stops it.
        """
        if self._attached:
            raise RuntimeError("the control plane ends with this process: create it with attached=False")
        child = self._process
        if child is None:
            raise RuntimeError("the control plane is not running")
        child.returncode = 0  # without this, Popen would warn that it still runs
        self._close_pipes()
        if self._cleanup is not None:
            self._cleanup.detach()
        self._process = None

    def _close_pipes(self) -> None:
        assert self._process is not None
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        import asyncio

        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import asyncio

        await asyncio.to_thread(self.stop)
