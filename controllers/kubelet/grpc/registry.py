"""The directory in which drivers register: each socket is queried, and notified of the outcome.

Source of facts: Kubernetes 1.36, package pkg/kubelet/pluginmanager; texts are that release's.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from apiserver.runtime.clock import Timer, timers
from apiserver.runtime.metrics import Labels
from controllers.kubelet.dra.drivers import DriverCallError
from controllers.kubelet.grpc.calls import to_json
from controllers.kubelet.grpc.connection import Connection
from controllers.kubelet.grpc.plugins import PluginError, Plugins
from kubedra.driver.messages import PLUGIN_TYPE, REGISTRATION, Empty, PluginInfo, RegistrationStatus

log = logging.getLogger(__name__)
#: Poll interval of the directory in seconds.
_PERIOD: Final = 0.2
_INFO_TIMEOUT, _NOTIFY_TIMEOUT = 1.0, 5.0
#: First and longest delay in seconds before a registration is retried; each delay is twice the last.
_FIRST, _LONGEST = 0.5, 122.0
#: Identity of a socket file (device, inode, mtime): a recreated socket of the same name differs.
Identity = tuple[int, int, int]


@dataclass(slots=True)
class _KnownDriver:
    """A registered driver."""

    identity: Identity
    name: str
    endpoint: str


@dataclass(slots=True)
class _FailedSocket:
    """A socket whose registration failed, with its back-off: active or not, and the next pause in seconds."""

    backing_off: bool = False
    pause: float = _FIRST

    def back_off(self) -> None:
        self.backing_off = True
        with timers(Timer.MACHINE):
            asyncio.get_running_loop().call_later(self.pause, setattr, self, "backing_off", False)
        self.pause = min(self.pause * 2, _LONGEST)


class Registry:
    """The polling of one directory, which keeps `plugins` up to date."""

    def __init__(self, directory: Path, plugins: Plugins) -> None:
        self._directory, self._plugins = directory, plugins
        self._known: dict[str, _KnownDriver] = {}
        self._failed: dict[str, _FailedSocket] = {}
        self._busy: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Poll until cancelled."""
        try:
            while True:
                self._poll()
                with timers(Timer.MACHINE):
                    await asyncio.sleep(_PERIOD)
        finally:
            for task in self._busy.values():
                task.cancel()
            await asyncio.gather(*self._busy.values(), return_exceptions=True)

    def counts(self) -> dict[Labels, float]:
        """Return the metric values of present and registered sockets, by path and state."""
        known: dict[Labels, float] = {(path, "actual_state_of_world"): 1.0 for path in self._known}
        return known | {(path, "desired_state_of_world"): 1.0 for path in dict(self._sockets())}

    def _poll(self) -> None:
        """Start due registrations and deregistrations, one at a time per socket."""
        present = dict(self._sockets())
        for path in {*self._known, *present} - self._busy.keys():
            known, identity = self._known.get(path), present.get(path)
            if known is not None and known.identity != identity:
                self._start(path, self._deregister(path, known))
            elif known is None and identity is not None and not self._failed.get(path, _FailedSocket()).backing_off:
                self._start(path, self._register(path, identity))
        for path in self._failed.keys() - present.keys():
            del self._failed[path]

    def _start(self, path: str, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work, name=f"registration {path}")
        self._busy[path] = task

        def done(task: asyncio.Task[None]) -> None:
            del self._busy[path]
            if not task.cancelled() and (error := task.exception()) is not None:
                log.error("registration at socket %s failed", path, exc_info=error)

        task.add_done_callback(done)

    def _sockets(self) -> Iterator[tuple[str, Identity]]:
        for directory, _, names in os.walk(self._directory):
            for name in names:
                path = os.path.join(directory, name)  # noqa: PTH118 - many times a second
                if name.startswith("."):
                    continue
                try:
                    status = os.stat(path)  # noqa: PTH116
                except OSError:
                    continue
                if stat.S_ISSOCK(status.st_mode):
                    yield path, (status.st_dev, status.st_ino, status.st_mtime_ns)

    async def _register(self, path: str, identity: Identity) -> None:
        try:
            await self._try_register(path, identity)
        except (DriverCallError, PluginError) as error:
            self._failed.setdefault(path, _FailedSocket()).back_off()
            log.warning("%s", error)
        else:
            self._failed.pop(path, None)

    async def _try_register(self, path: str, identity: Identity) -> None:
        connection = Connection(path)
        try:
            info = await self._info(connection, path)
            try:
                self._admit(path, info)
            except PluginError as error:
                await self._notify(connection, info.name, RegistrationStatus(False, str(error)))
                raise
            endpoint = info.endpoint or path
            self._known[path] = _KnownDriver(identity, info.name, endpoint)
            try:
                await self._notify(connection, info.name, RegistrationStatus(True))
            except DriverCallError:
                del self._known[path]
                await self._plugins.deregister(info.name, endpoint)
                raise
        finally:
            await connection.close()

    async def _info(self, connection: Connection, path: str) -> PluginInfo:
        method = f"/{REGISTRATION}/GetInfo"
        try:
            with self._plugins.calls.record("", method) as call:
                info = await connection.call(method, Empty(), PluginInfo, _INFO_TIMEOUT)
                call.driver, call.answer = info.name, to_json(info)
            return info
        except DriverCallError as error:
            problem = f"failed to get plugin info using RPC GetInfo at socket {path}, err: {error}"
            raise PluginError(f"RegisterPlugin error -- {problem}") from error

    def _admit(self, path: str, info: PluginInfo) -> None:
        """Register the driver of a socket. Raise PluginError."""
        start = "RegisterPlugin error --"
        if info.type != PLUGIN_TYPE:
            raise PluginError(f"{start} no handler registered for plugin type: {info.type} at socket {path}")
        endpoint = info.endpoint or path
        try:
            self._plugins.check(info.name, endpoint, info.supported_versions)
        except PluginError as error:
            raise PluginError(f"{start} plugin validation failed with err: {error}") from error
        try:
            self._plugins.register(info.name, endpoint, info.supported_versions)
        except PluginError as error:
            raise PluginError(f"{start} plugin registration failed with err: {error}") from error

    async def _notify(self, connection: Connection, driver: str, status: RegistrationStatus) -> None:
        method = f"/{REGISTRATION}/NotifyRegistrationStatus"
        with self._plugins.calls.record(driver, method, request=status):
            await connection.call(method, status, Empty, _NOTIFY_TIMEOUT)

    async def _deregister(self, path: str, known: _KnownDriver) -> None:
        del self._known[path]
        await self._plugins.deregister(known.name, known.endpoint)
