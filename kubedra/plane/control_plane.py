"""A control plane as a context manager: one child process, a free port, ready before `start` returns."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kubedra.runtime import private_files as private
from kubedra.runtime import process

if TYPE_CHECKING:
    import httpx

    from kubedra.client.client import AsyncClient, Client

#: Seconds until a stopping server is killed.
STOP_TIMEOUT = 5.0


class StartError(RuntimeError):
    """The server ended before it was ready, or did not get ready; the text holds the end of its log."""


def flag_value(value: str | Mapping[str, object] | None) -> str:
    """`{"A": True, "B": False}` or "A=true,B=false" in kube-apiserver's spelling."""
    if value is None or isinstance(value, str):
        return value or ""
    return ",".join(
        f"{name}={str(setting).lower() if isinstance(setting, bool) else setting}" for name, setting in value.items()
    )


class ControlPlane:
    """API server, controllers, scheduler and node agent in a child process of their own.

    `nodes`: emulated nodes to begin with · `devices`: what each publishes ("none" for nothing) · `controllers`: False
    for the API server alone, with `nodes` also what these need (node-agent, node-lifecycle-controller) · `storage`:
    "memory", "sqlite" (a file in `data_dir`) or a database URL · `emulated_version`: "1.33" to "1.36" ·
    `feature_gates`, `runtime_config`: a mapping or kube-apiserver's spelling · `clock`: "virtual" (or "virtual=TIME")
    for time that stands still until `Clock.advance` moves it · `seed`: makes uids, names and choices repeatable ·
    `args`: further flags of `kubedra serve` · `start_patience`: seconds without progress after which a start has
    failed.

    Durability is off unless `args` say otherwise: a fixture needs no synced commit. Raises StartError with the server's
    own message.
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
        args: Sequence[str] = (),
        start_patience: float = process.PATIENCE,
    ) -> None:
        self._directory = None if data_dir else tempfile.TemporaryDirectory(prefix="kubedra-")
        self.data_dir = Path(data_dir or self._directory.name)  # type: ignore[union-attr]
        self._flags = [
            "--port=0",
            f"--storage={storage}",
            f"--data-dir={self.data_dir}",
            f"--devices={devices}",
            "--durability=off",
            "--announce",
            "--attached",
        ]
        if controllers:
            self._flags += ["--controllers=*", "--storage-class=standard"]
        for flag, value in (
            ("emulated-version", emulated_version),
            ("feature-gates", flag_value(feature_gates)),
            ("runtime-config", flag_value(runtime_config)),
            ("clock", clock),
            ("nodes", str(nodes or "")),
            ("seed", "" if seed is None else str(seed)),
        ):
            if value:
                self._flags.append(f"--{flag}={value}")
        self._flags += args
        self.virtual = clock != "real"
        self._start_patience = start_patience
        self._process: subprocess.Popen[str] | None = None
        self._announced: dict[str, Any] = {}
        self._http: httpx.Client | None = None

    @property
    def url(self) -> str:
        """The server's address, as http://127.0.0.1:PORT."""
        return str(self._running()["url"])

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig for it; never the user's own."""
        return Path(self._running()["kubeconfig"])

    def _running(self) -> dict[str, Any]:
        if self._process is None or not self._announced:
            raise RuntimeError(f"the control plane {'was stopped' if self._announced else 'is not started'}")
        return self._announced

    def __repr__(self) -> str:
        state = self._announced["url"] if self._process and self._announced else "not running"
        return f"<kubedra.ControlPlane {state} in {self.data_dir}>"

    @property
    def pid(self) -> int:
        """The child's process id."""
        if self._process is None:
            raise RuntimeError("the control plane is not running")
        return self._process.pid

    def client(self) -> Client:
        """A client of this server (close it, or use it in a `with`)."""
        from kubedra.client.client import Client

        return Client.from_kubeconfig(self.kubeconfig)

    def async_client(self) -> AsyncClient:
        """A client of this server for an event loop (`aclose` it, or use it in an `async with`)."""
        from kubedra.client.client import AsyncClient

        return AsyncClient.from_kubeconfig(self.kubeconfig)

    def start(self) -> Self:
        """Start the child and return when it answers requests."""
        private.make_directory(self.data_dir)
        with os.fdopen(private.open_file(self.log_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                process.command("apiserver", *self._flags), env=process.environment(), cwd=self.data_dir,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                # Ctrl-C in the terminal is for the program that uses it. The pipe ends it with its owner.
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
            line = process.announcement(child, self.log_file, self._start_patience)
        except process.SilentError as error:
            child.kill()  # it would not hear that it shall end, either
            raise StartError(
                f"kubedra was not ready and made no progress for {self._start_patience:g} s; the last line of"
                f" {self.log_file.name}: {error}"
            ) from None
        if not line:
            code = child.wait(STOP_TIMEOUT)
            raise StartError(f"kubedra ended before it was ready (exit code {code}): {self.log().strip()[-2000:]}")
        return line

    @property
    def log_file(self) -> Path:
        """Where the server writes its output."""
        return self.data_dir / "server.log"

    def log(self) -> str:
        """The server's output so far."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def reset(self) -> None:
        """Delete everything but the built-in objects and the nodes that the control plane was started with."""
        import httpx

        if self._http is None:
            token = self._announced.get("token")
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            self._http = httpx.Client(verify=False, trust_env=False, headers=headers)  # noqa: S501 - our own child on loopback
        self._http.post(f"{self.url}/-/reset").raise_for_status()

    def stop(self) -> None:
        """End the child; safe to call twice."""
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
        self._release()
        process.CONTROL_PLANES.discard(self._process.pid)
        self._process = None
        if self._directory:
            self._directory.cleanup()

    def _release(self) -> None:
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
