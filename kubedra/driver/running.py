"""A running driver: its sockets, its registration and its slices, in a thread with its own event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from kubedra.client.client import Client
from kubedra.client.responses import ApiError
from kubedra.driver.claims import ClaimHandler
from kubedra.driver.metadata import DeviceMetadata
from kubedra.driver.publisher import Publisher
from kubedra.driver.service import Service
from kubedra.driver.sockets import SocketServer
from kubedra.profiles.pools import Owner, Pool
from kubedra.runtime.objects import Json

Result = TypeVar("Result")
#: Timeout of starting and registering, in seconds.
_TIMEOUT = 30.0
#: Time that a Node may take to be created, and the pause between two reads of it, in seconds.
_FOR_NODE, _PAUSE = 20.0, 0.1


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """The node, the directories and the server of a running driver."""

    node: str
    plugin_dir: Path
    registry_dir: Path
    kubeconfig: Path | str | None
    server: str
    instance: str
    cdi_dir: Path

    def client(self) -> Client:
        """Return a client. Raises ValueError if there is neither a kubeconfig nor a server."""
        if self.server:
            return Client(self.server)
        if self.kubeconfig is None:
            raise ValueError("a driver needs a server: pass kubeconfig or server")
        return Client.from_kubeconfig(self.kubeconfig)


class NodeDriver(ClaimHandler, Protocol):
    """A driver that can run on a node: it also has devices to publish."""

    def pools(self, node: str) -> Mapping[str, Pool]: ...


class RunningDriver:
    """One driver on one node."""

    def __init__(self, driver: NodeDriver, settings: NodeSettings) -> None:
        if not driver.name:
            raise ValueError("DRA driver name is empty")
        self.driver, self._settings = driver, settings
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._service: Service | None = None
        self._publisher: Publisher | None = None
        self._stopping: asyncio.Event | None = None

    @property
    def statistics(self) -> dict[str, int]:
        """The numbers of created, updated and deleted slices."""
        return dict(self._publisher.statistics) if self._publisher is not None else {}

    def start(self) -> Self:
        """Start the driver. Return when its sockets listen and publishing has begun.

        Raises the error of a failed start.
        """
        started: Future[None] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main(started)), daemon=True)
        self._thread.start()
        started.result(_TIMEOUT)
        return self

    def stop(self) -> None:
        """Stop the driver and remove its sockets. Slices stay, as with a real driver."""
        thread, self._thread = self._thread, None
        if thread is None or self._loop is None or self._stopping is None:
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        thread.join(_TIMEOUT)

    def wait_registered(self) -> None:
        """Wait for the kubelet's result of the registration. Raises RuntimeError if the kubelet rejected it."""
        assert self._service is not None

        async def wait(service: Service) -> None:
            async with asyncio.timeout(_TIMEOUT):
                await service.registered.wait()

        self._call(wait(self._service))
        status = self._service.registration
        if status is not None and not status.registered:
            raise RuntimeError(status.error)

    def publish(self) -> None:
        """Publish the current result of `pools`."""
        assert self._loop is not None
        assert self._publisher is not None
        self._loop.call_soon_threadsafe(self._publisher.update, self.driver.pools(self._settings.node))

    def set_health(self, device: str, state: str, message: str = "") -> None:
        """Set the reported health of a device: Healthy, Unhealthy or Unknown."""
        assert self._service is not None
        self._call(self._service.set_health(device, state, message))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _call(self, work: Coroutine[Any, Any, Result]) -> Result:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_TIMEOUT)

    async def _main(self, started: Future[None]) -> None:
        try:
            self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
            with self._settings.client() as client:
                await self._serve(client, started, self._stopping)
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    async def _read_node(self, client: Client) -> Json:
        """Return the Node. Wait until it exists, because its kubelet may start at the same time. Raises ApiError."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_FOR_NODE):
                while True:
                    try:
                        return await asyncio.to_thread(client.get, f"node/{self._settings.node}")
                    except ApiError as error:
                        if error.code != 404:
                            raise
                    await asyncio.sleep(_PAUSE)
        return await asyncio.to_thread(client.get, f"node/{self._settings.node}")

    async def _serve(self, client: Client, started: Future[None], stopping: asyncio.Event) -> None:
        settings, name = self._settings, self.driver.name
        suffix = f"-{settings.instance}" if settings.instance else ""
        directory = settings.plugin_dir / name
        for path in (directory, settings.registry_dir):
            await asyncio.to_thread(path.mkdir, parents=True, exist_ok=True)

        async def read_claim(namespace: str, name: str) -> Json:
            return await asyncio.to_thread(client.get, f"resourceclaim/{name}", namespace=namespace)

        node = await self._read_node(client)
        metadata = DeviceMetadata(name, directory, settings.cdi_dir)
        self._service = Service(self.driver, read_claim, settings.node, metadata)
        owner = Owner(settings.node, node["metadata"]["uid"])
        self._publisher = publisher = Publisher(client, name, owner, self.driver.failed)
        endpoint = directory / f"dra{suffix}.sock"
        dra = SocketServer(endpoint, self._service.methods())
        registration = SocketServer(
            settings.registry_dir / f"{name}{suffix}-reg.sock", self._service.registration_methods(endpoint)
        )
        async with AsyncExitStack() as listening:
            for server in (dra, registration):
                await server.listen()
                listening.push_async_callback(server.stop)
            publisher.update(await asyncio.to_thread(self.driver.pools, settings.node))
            publishing = asyncio.create_task(publisher.run())
            started.set_result(None)
            try:
                await stopping.wait()
            finally:
                publishing.cancel()
                await asyncio.gather(publishing, return_exceptions=True)
