"""The controllers, the scheduler and the nodes that run with a server: their options and their connection."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from apiserver.controlplane.dependencies import RunningComponents
from apiserver.options.flags import SettingsError
from apiserver.options.settings import Settings
from apiserver.registry.catalog.served import select_served
from apiserver.resources import catalog_of
from apiserver.tls.self_signed import load_or_create_authority
from kubedra.runtime.exclusive import take_name
from kubedra.runtime.failures import describe_failure

if TYPE_CHECKING:
    from apiserver.http.handlers.chain import HandlerChain
    from apiserver.http.server.coalesce import Coalescer
    from controllers.manager.manager import Manager
    from controllers.options.options import Options
    from controllers.runtime.transport import Transport
    from controllers.scheduler.config.configuration import Configuration

#: Certificate and key.
Files = tuple[Path, Path] | None
#: Creates components.
Make: TypeAlias = "Callable[[Transport], Manager]"


async def in_process(make: Make, chain: HandlerChain, _: Coalescer) -> RunningComponents:
    """Create components on the server's own loop. Raise SettingsError."""
    from apiserver.authentication.authenticator import ADMIN
    from apiserver.components.in_process import InProcess
    from controllers.runtime.transport import TransportError

    return make(InProcess(chain, ADMIN, TransportError))


def build_factory(settings: Settings, files: Files, names: Sequence[str], log_line: Callable[[str], object]) -> Make:
    """Return a factory of the components that the flags name. The factory raises SettingsError."""

    def make(transport: Transport) -> Manager:
        from controllers.kubelet.dra.checkpoint import CheckpointError
        from controllers.manager.manager import Manager
        from controllers.runtime.client import Client

        options = _options(settings, files, log_line)
        plugins = settings.plugin_dir
        if plugins is not None and not take_name(f"plugin-dir {plugins.resolve()}"):
            raise SettingsError(f"--plugin-dir {plugins}: another kubelet uses it")
        try:
            client = Client(transport, release=options.emulated_version, device_version=_device_version(settings))
            return Manager(client, options, names)
        except CheckpointError as error:
            raise SettingsError(f"--plugin-dir {settings.plugin_dir}: {error}") from error

    return make


def _device_version(settings: Settings) -> str:
    """Return the served version of resource.k8s.io for components; "" for the one of the release."""
    from controllers.runtime.emulation import pick_device_version
    from controllers.runtime.kinds import RESOURCE_CLAIMS

    served = select_served(catalog_of(settings.runtime_config), settings.features, settings.runtime_config)
    versions = tuple(version.name for resource, version in served if resource.kind == RESOURCE_CLAIMS.kind)
    return pick_device_version(settings.features.release, versions)


def _options(settings: Settings, files: Files, log_line: Callable[[str], object]) -> Options:
    """Build the components' options from the flags. Raise SettingsError."""
    from apiserver.http.kubelet.sockets import KUBELETS
    from controllers.options.options import Options, PluginDirs, Processes
    from controllers.signing.options import SigningOptions

    features = settings.features
    plugins, registry = settings.plugin_dir, settings.registry_dir
    return Options(
        # A seed makes runs repeatable on every machine.
        host=socket.gethostname() if settings.seed is None else "kubedra",
        seed=settings.seed,
        signing=SigningOptions(own=partial(load_or_create_authority, settings.data_dir)),
        root_ca=files[0].read_text() if files else "",
        nodes=settings.nodes,
        devices=settings.devices,
        profile=settings.profile,
        storage_class=settings.storage_class,
        jobs_exit_after=settings.jobs_exit_after,
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
        scheduler=_scheduler_configuration(settings, log_line),
    )


def _scheduler_configuration(settings: Settings, log_line: Callable[[str], object]) -> Configuration | None:
    """Load the scheduler configuration of `--config`. Raise SettingsError."""
    path = settings.scheduler_config
    if path is None:
        return None
    from controllers.scheduler.cycle.profiles import load

    try:
        found = load(path, settings.features.enabled)
    except (ValueError, OSError) as error:
        text = f"{path}: {describe_failure(error)}" if isinstance(error, OSError) else str(error)
        raise SettingsError(f"--config: {text}") from error
    if found.process is not None:
        log_line(f"{path}: clientConnection and leaderElection are for a scheduler in a process of its own")
    return found
