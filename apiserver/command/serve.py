"""One run of the server as a process: start, announce, wait for the end, stop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from apiserver.command import kubeconfig
from apiserver.command.forks import Forks
from apiserver.command.output import print_line, print_phase, print_warning
from apiserver.components.components import Files
from apiserver.controlplane.dependencies import Components, Dependencies, RunningComponents
from apiserver.options.flags import SettingsError
from apiserver.options.settings import Settings
from apiserver.runtime import gc_tuning as garbage
from apiserver.runtime.lazy_imports import import_when_idle
from apiserver.runtime.virtual_loop import VirtualLoop
from apiserver.tls.listener import Https, HttpsError
from apiserver.tls.self_signed import SIGNER, load_or_create_authority, load_or_create_certificate
from kubedra.runtime import private_files as private
from kubedra.runtime.server_record import ServerRecord

if TYPE_CHECKING:
    from apiserver.app import Server
    from apiserver.http.server.web import Web
    from apiserver.http.sinks.jsonlines import JsonLines
    from apiserver.state.contents import Contents

#: The credential in the kubeconfig for clients that require one although access is open.
_OPEN_CREDENTIAL = "open-access"
_ENDS = {signal.SIGINT: "Ctrl-C (SIGINT)", signal.SIGTERM: "stopped by SIGTERM, as `kubedra down` sends"}
#: Maximal virtual time of a start, in seconds.
_START_LIMIT = 60.0


def certified(settings: Settings, names: Sequence[str]) -> tuple[Settings, Files]:
    """Return the settings and the server's certificate, None without https. Raise OSError if it cannot be created.

    A signer among the components becomes a trusted client certificate authority, besides those of the flags.
    """
    files: Files = None
    if settings.tls_cert_file is not None and settings.tls_key_file is not None:
        files = settings.tls_cert_file, settings.tls_key_file
    elif settings.tls_own:
        files = load_or_create_certificate(settings.data_dir, settings.bind_address, rsa=settings.tls_options.rsa)
    if files and SIGNER in names:
        own, _ = load_or_create_authority(settings.data_dir)
        settings = replace(settings, identity=replace(settings.identity, signer_ca=own))
    return settings, files


class Process:
    """One run of the server."""

    def __init__(
        self,
        settings: Settings,
        listener: socket.socket,
        files: Files,
        components: Components,
        initial: Contents | None = None,
    ) -> None:
        """Prepare the run; `files` is the certificate for https, `initial` is the first state of the storage."""
        self._listener, self._files, self._components, self._initial = listener, files, components, initial
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else {"0.0.0.0": "127.0.0.1"}.get(host, host)  # noqa: S104 - compared, not bound
        # The service `kubernetes` needs the real port.
        self._settings = replace(settings, port=port)
        self.url = f"{'https' if settings.tls else 'http'}://{shown}:{port}"
        self._stopping = asyncio.Event()
        self._announced = False
        #: Why the server ends, for `kubedra status`.
        self._end = "its parent process ended"
        self._https: Https | None = None
        self._record = ServerRecord(settings.data_dir)
        #: Start of virtual time; None for real time.
        self.clock = settings.clock
        #: Whether the server may be forked.
        self.forks = settings.forks

    async def run(self) -> None:
        """Start, announce the server, wait for the end, stop."""
        from apiserver.app import Server

        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):
                loop.add_signal_handler(number, self._signalled, number)
        dependencies = Dependencies(
            components=self._components,
            announced=lambda: self._announced,
            initial=self._initial,
            request_log=self._log("--request-log", self._settings.request_log),
            audit_log=self._log("--audit-log-path", self._settings.audit_log),
        )
        server = await Server.open(self._settings, dependencies)
        try:
            print_phase(self._settings, "storage", self._storage())
            web = self._web(server)
            serving = asyncio.ensure_future(web.serve(sockets=[self._listener]))
            await _first(web.ready.wait(), serving)
            release = ".".join(map(str, self._settings.features.release))
            print_phase(self._settings, "api server", f"{self.url}  (Kubernetes {release})")
            await self._run_until_stopped(server, web, serving)
        except Exception as error:
            self._end = " ".join(str(error).split())[:200] or type(error).__name__
            raise
        finally:
            await server.close()
            self._record.withdraw(self._end)
        self._print_safely(f"stopped; {self._describe_data()}")

    async def _run_until_stopped(self, server: Server, web: Web, serving: asyncio.Future[None]) -> None:
        server.forks = forks = Forks(
            self._settings.data_dir / "clusters",
            self._describe_fork_refusal(),
            partial(self._begin_fork, server, web),
            self._stopping.set,
        )
        components = await self._components.start(server.chain, server.front.coalescer)
        running = asyncio.ensure_future(components.run()) if components else None
        following = [asyncio.ensure_future(file.follow()) for file in (self._https.files if self._https else ())]
        try:
            if components is not None:
                await _first(components.wait_ready(), running, self._stopping.wait())
                self._print_components(components.names)
            await self._wait_idle()
            announcement = self._publish()
            self._announced = True
            if components is not None:
                await _first(self._wait_nodes(components), running, self._stopping.wait())
            self._announce(announcement)
            garbage.enable()
            admin = ("apiserver.http.admin.application",) if self._settings.announce else ()  # for a fixture's reset
            import_when_idle("apiserver.cel.environments.devices", *admin)
            await _first(self._stopping.wait(), running, serving)
        finally:
            await forks.close()
            for each in following:
                each.cancel()
            if running is not None:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
            server.stop_watches()
            web.stop()
            await serving

    def _describe_fork_refusal(self) -> str:
        """Return why this server cannot be forked; "" if it can."""
        if not isinstance(asyncio.get_running_loop(), asyncio.SelectorEventLoop):
            return "this server cannot be forked: start it with --forks"
        if not self._settings.memory:
            return "only a server with --storage memory can be forked"
        if self._settings.components_apart:
            return "a server with --components-apart cannot be forked"
        return "" if self._files is None else "a server with https cannot be forked"

    async def _begin_fork(
        self, server: Server, web: Web, listener: socket.socket, directory: Path, snapshot: str
    ) -> dict[str, object]:
        """Serve a forked process on its own socket, with its own directory. Return its announcement."""
        port = listener.getsockname()[1]
        private.make_directory(directory)
        log = private.open_file(directory / "server.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor, source in ((0, null), (1, log), (2, log)):
            os.dup2(source, descriptor)
        for each in web.servers:
            each.close()
        self._listener.close()
        self._listener, self.url, self._end = listener, f"http://127.0.0.1:{port}", "its parent process ended"
        # All parts share the settings of the server.
        for name, value in (
            ("port", port), ("data_dir", directory), ("kubeconfig", directory / "kubeconfig"), ("attached", False),
        ):  # fmt: skip
            object.__setattr__(server.settings, name, value)
        self._settings, self._record = server.settings, ServerRecord(directory)
        await web.startup([listener])
        await server.state.begin_fork(snapshot)
        return self._publish()

    def _print_components(self, names: Sequence[str]) -> None:
        print_phase(self._settings, "components", f"{len(names)} running")
        for name in names if self._settings.verbosity else ():
            print_phase(self._settings, "component", name)

    async def _wait_nodes(self, components: RunningComponents) -> None:
        """Wait until the emulated nodes can be used. `/readyz` does not wait for them."""
        ready, warnings = await components.wait_nodes()
        if ready:
            print_phase(self._settings, "nodes", f"{ready} Ready")
        for warning in warnings:
            print_warning(self._settings, warning)

    async def _wait_idle(self) -> None:
        """Wait until the start has no pending work in virtual time, before readiness is announced."""
        loop = asyncio.get_running_loop()
        if isinstance(loop, VirtualLoop):
            await loop.run_until_idle(_START_LIMIT)
            text = f"virtual, {loop.now():%Y-%m-%dT%H:%M:%SZ}; advance it with POST {self.url}/-/clock"
            print_phase(self._settings, "clock", text)

    def _signalled(self, number: signal.Signals) -> None:
        """Stop gracefully on the first signal, exit immediately on the second."""
        if self._stopping.is_set():
            os._exit(130)
        self._end = _ENDS[number]
        self._stopping.set()
        self._print_safely("stopping; send a second signal to exit immediately")

    def _print_safely(self, text: str) -> None:
        """Print a line; ignore a closed output."""
        with contextlib.suppress(OSError):
            print_line(self._settings, text)

    def _storage(self) -> str:
        settings = self._settings
        if settings.memory:
            return "memory (no data is kept)"
        if settings.storage == "sqlite":
            return f"{settings.data_dir}  (durability {settings.durability})"
        return settings.storage.rpartition("@")[2]

    def _describe_data(self) -> str:
        """Return a description of the data that remains after the end."""
        settings = self._settings
        if settings.memory:
            return "no data is kept"
        return f"data is kept in {settings.data_dir if settings.storage == 'sqlite' else self._storage()}"

    def _log(self, flag: str, name: str) -> JsonLines | None:
        """Open a flag's log file before the server starts, so that a failure is reported early."""
        from apiserver.http.sinks.jsonlines import JsonLines

        if not name:
            return None
        return JsonLines.open(flag, name, standard=(sys.stderr if self._settings.announce else sys.stdout).buffer)

    def _web(self, server: Server) -> Web:
        """Build the web server. Raise SettingsError."""
        from apiserver.http.server.web import Web

        certificates = server.front.certificates
        if self._files is None:
            return Web(server.front)
        try:
            self._https = Https(self._files, self._settings.tls_options, certificates)
        except HttpsError as error:
            raise SettingsError(str(error)) from error
        return Web(server.front, self._https.context)

    def _publish(self) -> dict[str, object]:
        """Write the kubeconfig and the record of the server. Return the announcement."""
        settings, files = self._settings, self._files
        token = next((token for token, user in (settings.tokens or {}).items() if "system:masters" in user.groups), "")
        # Over https kubectl prompts for a name and a password unless its user has credentials. With open access any
        # will do.
        credential = _OPEN_CREDENTIAL if files and settings.tokens is None else token
        kubeconfig.write(settings.kubeconfig, self.url, token=credential, ca=files[0].read_bytes() if files else b"")
        if settings.attached:
            loop = asyncio.get_running_loop()
            threading.Thread(target=_stop_at_stdin_end, args=(loop, self._stopping), daemon=True).start()
        announcement: dict[str, object] = {
            "url": self.url,
            "kubeconfig": str(settings.kubeconfig),
            "pid": os.getpid(),
            "token": token,
        }
        self._record.publish(announcement)
        return announcement

    def _announce(self, announcement: dict[str, object]) -> None:
        """Announce readiness, to a program or to people."""
        settings = self._settings
        if settings.announce:
            print(json.dumps(announcement), flush=True)
            return
        print_phase(settings, "kubeconfig", str(settings.kubeconfig))
        print_line(settings, "ready; press Ctrl-C to stop")


def _stop_at_stdin_end(loop: asyncio.AbstractEventLoop, stopping: asyncio.Event) -> None:
    """Stop the server when stdin ends: the parent process has exited."""
    with contextlib.suppress(OSError, ValueError):
        while os.read(0, 4096):
            pass
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(stopping.set)


async def _first(*waited: object) -> None:
    """Wait for the first of several awaitables and raise its failure.

    Coroutines are cancelled; other futures are left to their owners.
    """
    futures = [asyncio.ensure_future(item) for item in waited if item is not None]  # type: ignore[call-overload]
    mine = [
        future
        for future, item in zip(futures, (item for item in waited if item is not None), strict=True)
        if future is not item
    ]
    try:
        done, _ = await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        for future in done:
            future.result()
    finally:
        for future in mine:
            future.cancel()
