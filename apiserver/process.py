"""One run of the server as a process: it starts, says so, waits for the end, and stops."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import signal
import socket
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from apiserver import garbage, kubeconfig
from apiserver.certificates import SIGNER, own_certificate, own_signer, trusting_signer
from apiserver.flags import SettingsError
from apiserver.https import Https, HttpsError
from apiserver.settings import Settings
from apiserver.virtualloop import VirtualLoop
from kubedra import private

if TYPE_CHECKING:
    from apiserver.app import Server
    from apiserver.http.server.web import Web
    from apiserver.http.sinks.jsonlines import JsonLines
    from controllers.manager import Manager
    from controllers.scheduler.configuration import Configuration

#: In the data directory while a server runs on it: its address and process.
RECORD = "server.json"
#: What a kubeconfig holds where access is open and a client insists on credentials.
_OPEN_CREDENTIAL = "open-access"
#: A process that takes less of a processor than this (seconds) between two looks (seconds) is at rest.
_AT_REST, _LOOK = 0.005, 0.1
#: Seconds of virtual time that a start may take.
_START_LIMIT = 60.0


def say(settings: Settings, text: str) -> None:
    """A line for people: on stdout, or on stderr where stdout is a program's."""
    print(text, file=sys.stderr if settings.announce else sys.stdout, flush=True)


class Process:
    """One run of the server."""

    def __init__(self, settings: Settings, listener: socket.socket, components: list[str]) -> None:
        self._listener, self._components = listener, components
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else {"0.0.0.0": "127.0.0.1"}.get(host, host)  # noqa: S104 - compared, not bound
        # The service `kubernetes` leads to the port that is really listened on.
        self._settings = replace(settings, port=port)
        self.url = f"{'https' if settings.tls else 'http'}://{shown}:{port}"
        self._stopping = asyncio.Event()
        self._https: Https | None = None
        #: When virtual time begins; None for real time.
        self.clock = settings.clock

    async def run(self) -> None:
        """Start, say so, wait for the end, stop."""
        from apiserver.app import Server

        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):
                loop.add_signal_handler(number, self._signalled)
        files = self._certificate()
        if files and SIGNER in self._components:
            self._settings = trusting_signer(self._settings)
        request_log = self._log("--request-log", self._settings.request_log)
        audit_log = self._log("--audit-log-path", self._settings.audit_log)
        server = await Server.open(self._settings)
        try:
            if request_log is not None:
                server.record_requests(request_log)
            if audit_log is not None:
                server.audit_requests(audit_log)
            say(self._settings, f"storage     {self._storage()}")
            server.announced = False
            web = self._web(server, files)
            serving = asyncio.ensure_future(web.serve(sockets=[self._listener]))
            await _first(web.ready.wait(), serving)
            say(
                self._settings,
                f"api server  {self.url}  (Kubernetes {'.'.join(map(str, self._settings.features.release))})",
            )
            await self._until_stopped(server, web, serving, files)
        finally:
            await server.close()
            self._unrecord()
        self._farewell(f"stopped; {self._kept()}")

    async def _until_stopped(
        self, server: Server, web: Web, serving: asyncio.Future[None], files: tuple[Path, Path] | None
    ) -> None:
        manager = self._manager(server, files)
        running = asyncio.ensure_future(manager.run()) if manager else None
        following = [asyncio.ensure_future(file.follow()) for file in (self._https.files if self._https else ())]
        try:
            if manager is not None:
                await _first(manager.wait_ready(), running, self._stopping.wait())
                for component in manager.components:
                    say(self._settings, f"component   {component.name}")
            await self._come_to_rest()
            self._announce(files)
            server.announced = True
            garbage.begin()
            threading.Thread(target=_warm, args=(self._settings.announce,), daemon=True).start()
            await _first(self._stopping.wait(), running, serving)
        finally:
            for each in following:
                each.cancel()
            if running is not None:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
            server.stop_watches()
            web.stop()
            await serving

    async def _come_to_rest(self) -> None:
        """In virtual time nothing of the start is left to be done when others are told that all is ready."""
        loop = asyncio.get_running_loop()
        if isinstance(loop, VirtualLoop):
            await loop.run_until_idle(_START_LIMIT)
            say(
                self._settings,
                f"clock       virtual, {loop.now():%Y-%m-%dT%H:%M:%SZ}; POST {self.url}/-/clock moves it",
            )

    def _signalled(self) -> None:
        """The first signal ends the server, the second one at once."""
        if self._stopping.is_set():
            os._exit(130)
        self._stopping.set()
        self._farewell("stopping; a second signal ends it at once")

    def _farewell(self, text: str) -> None:
        """Whoever reads it may have gone already."""
        with contextlib.suppress(OSError):
            say(self._settings, text)

    def _storage(self) -> str:
        settings = self._settings
        if settings.memory:
            return "memory: nothing is kept"
        if settings.storage == "sqlite":
            return f"{settings.data_dir}  (durability {settings.durability})"
        return settings.storage.rpartition("@")[2]

    def _kept(self) -> str:
        """What is left when the server has ended."""
        settings = self._settings
        if settings.memory:
            return "nothing is kept"
        return f"{settings.data_dir if settings.storage == 'sqlite' else self._storage()} keeps what was stored"

    def _log(self, flag: str, name: str) -> JsonLines | None:
        """Where a flag has lines written: before the server starts it is known whether that is possible."""
        from apiserver.http.sinks.jsonlines import JsonLines

        if not name:
            return None
        return JsonLines.open(flag, name, standard=(sys.stderr if self._settings.announce else sys.stdout).buffer)

    def _certificate(self) -> tuple[Path, Path] | None:
        settings = self._settings
        if settings.tls_cert_file is not None and settings.tls_key_file is not None:
            return settings.tls_cert_file, settings.tls_key_file
        if not settings.tls_own:
            return None
        return own_certificate(settings.data_dir, settings.bind_address, rsa=settings.tls_options.rsa)

    def _web(self, server: Server, files: tuple[Path, Path] | None) -> Web:
        """Raises SettingsError."""
        from apiserver.http.server.web import Web

        certificates = server.front.certificates
        if files is None:
            return Web(server.front)
        try:
            self._https = Https(files, self._settings.tls_options, certificates)
        except HttpsError as error:
            raise SettingsError(str(error)) from error
        return Web(server.front, self._https.context)

    def _manager(self, server: Server, files: tuple[Path, Path] | None) -> Manager | None:
        settings = self._settings
        if not self._components:
            return None
        from apiserver.http.handlers.authenticator import ADMIN
        from apiserver.http.kubelets import KUBELETS
        from apiserver.inprocess import InProcess
        from controllers.certificates.settings import SigningOptions
        from controllers.manager import Manager
        from controllers.node.dra.checkpoint import CheckpointError
        from controllers.options import Options, PluginDirs, Processes
        from controllers.runtime.client import Client
        from controllers.runtime.transport import TransportError
        from controllers.unattended import unattended

        features = settings.features
        plugins, registry = settings.plugin_dir, settings.registry_dir
        options = Options(
            # With a seed not even the machine makes a difference.
            host=socket.gethostname() if settings.seed is None else "kubedra",
            seed=settings.seed,
            signing=SigningOptions(own=own_signer(settings)),
            root_ca=files[0].read_text() if files else "",
            nodes=settings.nodes,
            devices=settings.devices,
            profile=settings.profile,
            storage_class=settings.storage_class,
            run=Processes(
                directory=settings.data_dir / "run",
                announcements=settings.data_dir / KUBELETS,
                cdi=Processes.cdi_of(plugins, settings.cdi_dirs),
            )
            if settings.run
            else None,
            plugin_dirs=PluginDirs(plugins=plugins, registry=registry) if plugins and registry else None,
            emulated_version=features.release,
            gates=features.settings,
            scheduler=self._scheduler_configuration(),
        )
        client = Client(InProcess(server.chain, ADMIN, TransportError), release=features.release)
        try:
            manager = Manager(client, options, self._components)
        except CheckpointError as error:
            raise SettingsError(f"--plugin-dir {plugins}: {error}") from error
        server.after_reset = manager.begin_anew
        server.rest.components = manager
        server.explain = manager.explain
        server.warn_of(unattended(self._components))
        server.metrics.include(manager.metrics)
        return manager

    def _scheduler_configuration(self) -> Configuration | None:
        """What `--config` says. Raises SettingsError."""
        path = self._settings.scheduler_config
        if path is None:
            return None
        from controllers.scheduler.profiles import load

        try:
            found = load(path, self._settings.features.enabled)
        except (ValueError, OSError) as error:
            raise SettingsError(f"--config: {error}") from error
        if found.process is not None:
            unheeded = "clientConnection and leaderElection are for a scheduler in a process of its own"
            say(self._settings, f"{path}: {unheeded}")
        return found

    def _announce(self, files: tuple[Path, Path] | None) -> None:
        """Write the kubeconfig, and say that all is ready."""
        settings = self._settings
        token = next((token for token, user in (settings.tokens or {}).items() if "system:masters" in user.groups), "")
        # Over https kubectl asks people for a name and a password unless its user has credentials; where access is open
        # any will do.
        credential = _OPEN_CREDENTIAL if files and settings.tokens is None else token
        kubeconfig.write(settings.kubeconfig, self.url, token=credential, ca=files[0].read_bytes() if files else b"")
        if settings.attached:
            loop = asyncio.get_running_loop()
            threading.Thread(target=_when_stdin_ends, args=(loop, self._stopping), daemon=True).start()
        announcement = {"url": self.url, "kubeconfig": str(settings.kubeconfig), "pid": os.getpid(), "token": token}
        self._record(announcement)
        if settings.announce:
            print(json.dumps(announcement), flush=True)
            return
        say(settings, f"kubeconfig  {settings.kubeconfig}")
        say(settings, "ready; Ctrl-C stops")

    def _record(self, announcement: dict[str, object]) -> None:
        """What `kubedra status` reads: who serves this data directory."""
        record = self._settings.data_dir / RECORD
        private.make_directory(record.parent)
        private.write(record, json.dumps(announcement))

    def _unrecord(self) -> None:
        (self._settings.data_dir / RECORD).unlink(missing_ok=True)


def _warm(fixture: bool) -> None:
    """Import what the start left out, before the first request that needs it would wait: selectors, and for a fixture
    the routes of its reset. Not while the server works: that would take turns with the first requests, which seldom
    need it. Where it cannot be read now (no descriptors are left), the request that needs it imports it.
    """
    at_rest, worked = False, time.process_time()
    while not at_rest:
        time.sleep(_LOOK)
        before, worked = worked, time.process_time()
        at_rest = worked - before < _AT_REST
    with contextlib.suppress(OSError):
        for module in ("apiserver.api.cel.devices", *(("apiserver.http.admin.application",) if fixture else ())):
            importlib.import_module(module)


def _when_stdin_ends(loop: asyncio.AbstractEventLoop, stopping: asyncio.Event) -> None:
    """Whoever started this process is gone when its end of the pipe is."""
    with contextlib.suppress(OSError, ValueError):
        while os.read(0, 4096):
            pass
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(stopping.set)


async def _first(*waited: object) -> None:
    """Wait for the first of several; its failure is ours. The others are left to their owners, coroutines are
    cancelled.
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
