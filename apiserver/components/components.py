"""The controllers, the scheduler and the nodes that run with a server: what they are told, and how they are reached.

They are clients of the server, and the server reports on them. So a server is made with its `Components`, and those
start when it serves.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from apiserver.http.admin.idle import Look
from apiserver.options.flags import SettingsError
from apiserver.options.settings import Settings
from apiserver.runtime.metrics import Family
from apiserver.tls.self_signed import own_signer

if TYPE_CHECKING:
    from apiserver.app import Server
    from apiserver.http.handlers.dispatch import Unattended
    from controllers.manager.manager import Manager
    from controllers.options.options import Options
    from controllers.runtime.transport import Transport
    from controllers.scheduler.config.configuration import Configuration

#: Certificate and key.
Files = tuple[Path, Path] | None
#: Makes components.
Make: TypeAlias = "Callable[[Transport], Manager]"


class Running(Protocol):
    """The components of one server: `controllers.manager.manager.Manager` in its process, or `child_process.Apart`."""

    @property
    def names(self) -> Sequence[str]: ...

    async def run(self) -> None:
        """Until cancelled; the first failure ends all, and is raised."""

    async def wait_ready(self) -> None:
        """Returns once they have read what they work on."""

    async def begin_anew(self) -> None:
        """After the store was emptied."""

    async def explain(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        """Why a pod, claim or node is as it is. Raises LookupError where there is no such object."""
        ...

    async def look(self) -> Look:
        """What they have to do."""
        ...

    async def counted(self) -> Sequence[Family]:
        """What they count."""
        ...


#: Explains a pod, claim or node (kind, namespace, name).
Explain = Callable[[str, str, str], Awaitable[dict[str, Any]]]
#: Makes components clients of a server. Raises SettingsError.
Connect: TypeAlias = "Callable[[Server], Awaitable[Running]]"


class Components:
    """The components of one server, none before `start` and none without `connect`. `unattended`, by group and
    resource, returns the warnings of a new object on which none of them acts.
    """

    def __init__(self, connect: Connect | None = None, unattended: Unattended = MappingProxyType({})) -> None:
        self._connect, self.unattended = connect, unattended
        self.running: Running | None = None

    async def start(self, server: Server) -> Running | None:
        """Start them as clients of this server. Raise SettingsError."""
        if self._connect is not None:
            self.running = await self._connect(server)
        return self.running

    @property
    def names(self) -> Sequence[str]:
        return self.running.names if self.running is not None else ()

    @property
    def explain(self) -> Explain | None:
        return self.running.explain if self.running is not None else None

    async def begin_anew(self) -> None:
        if self.running is not None:
            await self.running.begin_anew()

    async def look(self) -> Look:
        return await self.running.look() if self.running is not None else ((), None)

    async def counted(self) -> Sequence[Family]:
        return await self.running.counted() if self.running is not None else ()


async def in_process(make: Make, server: Server) -> Running:
    """Make components on the server's own loop. Raise SettingsError."""
    from apiserver.authentication.authenticator import ADMIN
    from apiserver.components.in_process import InProcess
    from controllers.runtime.transport import TransportError

    return make(InProcess(server.chain, ADMIN, TransportError))


def maker(settings: Settings, files: Files, names: Sequence[str], say: Callable[[str], object]) -> Make:
    """What makes the components that the flags name, for a server that is reached by a transport. Raises SettingsError
    when it is called.
    """

    def make(transport: Transport) -> Manager:
        from controllers.kubelet.dra.checkpoint import CheckpointError
        from controllers.manager.manager import Manager
        from controllers.runtime.client import Client

        options = _options(settings, files, say)
        try:
            return Manager(Client(transport, release=options.emulated_version), options, names)
        except CheckpointError as error:
            raise SettingsError(f"--plugin-dir {settings.plugin_dir}: {error}") from error

    return make


def _options(settings: Settings, files: Files, say: Callable[[str], object]) -> Options:
    """What the flags tell the components. Raises SettingsError."""
    from apiserver.http.kubelet.sockets import KUBELETS
    from controllers.options.options import Options, PluginDirs, Processes
    from controllers.signing.options import SigningOptions

    features = settings.features
    plugins, registry = settings.plugin_dir, settings.registry_dir
    return Options(
        # With a seed not even the machine makes a difference.
        host=socket.gethostname() if settings.seed is None else "kubedra",
        seed=settings.seed,
        signing=SigningOptions(own=own_signer(settings.identity.client_ca, settings.data_dir)),
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
        scheduler=_scheduler_configuration(settings, say),
    )


def _scheduler_configuration(settings: Settings, say: Callable[[str], object]) -> Configuration | None:
    """What `--config` says. Raises SettingsError."""
    path = settings.scheduler_config
    if path is None:
        return None
    from controllers.scheduler.cycle.profiles import load

    try:
        found = load(path, settings.features.enabled)
    except (ValueError, OSError) as error:
        raise SettingsError(f"--config: {error}") from error
    if found.process is not None:
        say(f"{path}: clientConnection and leaderElection are for a scheduler in a process of its own")
    return found
