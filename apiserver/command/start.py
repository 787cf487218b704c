"""`python -m apiserver`: the server as a process, with the controllers that `--controllers` names.

Only this module and `apiserver.command.serve` import both the server and its clients. A mistake is one line on stderr
and exit code 2.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Sequence
from functools import partial
from typing import Final

from apiserver.admission.plugins.registered import select
from apiserver.authentication.tokens.service_account_keys import KeyFileError
from apiserver.authentication.x509.client_certificates import CertificateError
from apiserver.command import kubeconfig
from apiserver.command.import_guard import ShadowedPackageError, check_origins
from apiserver.command.output import print_line, print_warning
from apiserver.command.serve import Process, certified
from apiserver.components.child_process import ComponentsEnded, fork
from apiserver.components.components import Files, build_factory, in_process
from apiserver.controlplane.dependencies import Components
from apiserver.http.sinks.jsonlines import RequestLogError
from apiserver.options import logs
from apiserver.options.flags import SettingsError
from apiserver.options.settings import Settings, read
from apiserver.registry.catalog.served import RuntimeConfigError
from apiserver.runtime.virtual_loop import VirtualLoop
from apiserver.state.contents import Contents
from apiserver.storage import UnusableDatabase
from apiserver.storage.sqlite.deletion import delete_data
from kubedra.command.arguments import program
from kubedra.kubeconfig.reader import KubeconfigError
from kubedra.runtime.user_settings import source_of

_MISTAKES = (
    SettingsError, CertificateError, KeyFileError, KubeconfigError, RuntimeConfigError, UnusableDatabase,
    ShadowedPackageError, RequestLogError,
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGINT or SIGTERM; return the exit code."""
    prog = program("python -m apiserver")
    try:
        check_origins()
        settings = read(sys.argv[1:] if arguments is None else arguments)
        logs.configure(settings.logging_format, settings.verbosity)
        for warning in settings.warnings:
            print_warning(settings, warning)
        kubeconfig.check(settings.kubeconfig)
        names = choose_components(settings)
        initial = _read_initial(settings)
        listener = listen(settings)
        if settings.fresh and settings.storage == "sqlite":
            delete_data(settings.data_dir)
        settings, files = certified(settings, names)
        _run(Process(settings, listener, files, _components(settings, listener, files, names), initial))
    except ComponentsEnded as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return 1
    except _MISTAKES as error:
        flag = "--runtime-config: " if isinstance(error, RuntimeConfigError) else ""
        print(f"{prog}: {source_of(f'{flag}{error}')}", file=sys.stderr)
        return 2
    return 0


def _read_initial(settings: Settings) -> Contents | None:
    """Return the first state of the storage. Raise SettingsError before anything is deleted or stored."""
    if not settings.from_file:
        return None
    from apiserver.state.contents import read_contents
    from kubedra.archive.archive import ArchiveError

    try:
        return read_contents(settings.from_file)
    except ArchiveError as error:
        raise SettingsError(f"--from: {error}") from error


def listen(settings: Settings) -> socket.socket:
    """Return the listening socket. Raise SettingsError if the port is in use."""
    family = socket.AF_INET6 if ":" in settings.bind_address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.bind_address, settings.port))
    except OSError as error:
        listener.close()
        reason = (
            "is in use; --port 0 takes a free one" if error.errno in (98, 48) else f"cannot be used: {error.strerror}"
        )
        raise SettingsError(f"--port {settings.port}: {settings.bind_address}:{settings.port} {reason}") from error
    listener.listen(2048)
    listener.setblocking(False)
    return listener


def choose_components(settings: Settings) -> list[str]:
    """Return the components of this process. Raise SettingsError for an unknown name."""
    chosen: list[str] = []
    if settings.controllers:
        from controllers.manager.manager import UnknownComponentError, choose

        try:
            chosen = choose(settings.controllers)
        except UnknownComponentError as error:
            raise SettingsError(f"--controllers: {error}") from error
    if settings.scheduler_config is not None and "scheduler" not in chosen:
        raise SettingsError("--config: needs the scheduler, add it to --controllers")
    if "node-agent" not in chosen:
        if settings.run:
            raise SettingsError("--run: needs the node-agent, add it to --controllers")
        if settings.nodes:
            print_warning(settings, f"--nodes {settings.nodes} does nothing: --controllers leaves out the node-agent")
    return chosen


def _components(settings: Settings, listener: socket.socket, files: Files, names: list[str]) -> Components:
    """Prepare the components that the flags name; fork them if the flags request a child process."""
    if not names:
        return Components()
    make = build_factory(settings, files, names, partial(print_line, settings))
    connect = fork(names, make, listener).connect if settings.components_apart else partial(in_process, make)
    from controllers.manager.unattended import unattended

    plugins = select(settings.enable_plugins, settings.disable_plugins).on
    return Components(connect, unattended(names, settings.features, plugins))


#: Seconds for which a thread with a long request keeps the interpreter while the event loop waits for it. Each callback
#: of the loop may have to wait so long.
_SWITCH: Final = 0.001


def _run(process: Process) -> None:
    start = process.clock
    if start is not None:
        with asyncio.Runner(loop_factory=lambda: VirtualLoop(start, standing=True)) as virtual:
            virtual.run(process.run())
        return
    sys.setswitchinterval(_SWITCH)
    runner = asyncio.run
    if not process.forks:
        with contextlib.suppress(ImportError):
            import uvloop

            runner = uvloop.run
    runner(process.run())
