"""The registered drivers: their sockets, the socket to call, and the removal of drivers.

Source of facts: Kubernetes 1.36, package pkg/kubelet/cm/dra/plugin; texts are that release's.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

from apiserver.api.errors.field_errors import go_quote
from controllers.kubelet.dra.drivers import (
    ClaimId,
    DriverCallError,
    DriverMissingError,
    PreparedClaim,
    PreparedDevice,
)
from controllers.kubelet.dra.metrics import DraMetrics
from controllers.kubelet.grpc.calls import CallLog, to_json
from controllers.kubelet.grpc.connection import Answer, Connection
from kubedra.driver.messages import (
    DRA_SERVICES,
    HEALTH_SERVICE,
    Claim,
    Claims,
    Empty,
    HealthReport,
    PrepareResults,
    UnprepareResults,
)

#: Timeout of a call to a driver in seconds.
CALL_TIMEOUT: Final = 45.0


class PluginError(Exception):
    """A driver cannot be registered. The text is the kubelet's."""


class Plugin:
    """One socket of a driver."""

    def __init__(
        self,
        name: str,
        endpoint: str,
        service: str,
        timeout: float,
        metrics: DraMetrics,
        changed: Callable[[], None],
        calls: CallLog,
    ) -> None:
        self.name, self.endpoint, self.service = name, endpoint, service
        self._timeout, self._metrics, self._calls = timeout, metrics, calls
        self.connection = Connection(endpoint, lambda connected: changed())

    async def prepare(self, claims: Sequence[ClaimId]) -> Mapping[str, PreparedClaim]:
        answer = await self._call("NodePrepareResources", claims, PrepareResults)
        return {
            uid: PreparedClaim(
                tuple(
                    PreparedDevice(d.pool, d.device, d.requests, d.cdi_ids, self._share(d.share_id))
                    for d in result.devices
                ),
                result.error,
            )
            for uid, result in answer.claims.items()
        }

    async def unprepare(self, claims: Sequence[ClaimId]) -> Mapping[str, str]:
        return (await self._call("NodeUnprepareResources", claims, UnprepareResults)).claims

    async def watch_health(self, report: Callable[[HealthReport], None]) -> None:
        """Call `report` with each health report until the stream ends. Raise DriverCallError."""
        method = f"/{HEALTH_SERVICE}/NodeWatchResources"
        with self._calls.record(self.name, method, stream=True) as call:
            number = 0
            async for answer in self.connection.stream(method, Empty(), HealthReport):
                number += 1
                self._calls.message(call, number, answer)
                report(answer)

    def _share(self, share_id: str | None) -> str | None:
        """Return the share ID; v1beta1 has none."""
        return share_id if self.service == "v1.DRAPlugin" else None

    async def _call(self, method: str, claims: Sequence[ClaimId], answer: type[Answer]) -> Answer:
        path = f"/{DRA_SERVICES[self.service]}/{method}"
        request = Claims(tuple(Claim(claim.namespace, claim.uid, claim.name) for claim in claims))
        began, code = time.monotonic(), "OK"
        try:
            with self._calls.record(self.name, path, claims) as call:
                found = await self.connection.call(path, request, answer, self._timeout)
                call.answer = to_json(found)
            return found
        except DriverCallError as error:
            code = error.code
            raise
        finally:
            self._metrics.call(self.name, path, code, time.monotonic() - began)


T = TypeVar("T")


class Plugins:
    """The drivers of one node.

    `changed` is called with a driver's name and its connection state after each change. `watch` follows the health of
    one socket. `left` is called after deregistration.
    """

    def __init__(
        self,
        metrics: DraMetrics,
        changed: Callable[[str, bool], None] = lambda name, usable: None,
        watch: Callable[[Plugin], Awaitable[None]] | None = None,
        left: Callable[[Plugin], None] = lambda plugin: None,
        calls: CallLog | None = None,
    ) -> None:
        self._metrics, self._changed, self._watch, self._left = metrics, changed, watch, left
        self.calls = calls or CallLog("")
        self._plugins: dict[str, list[Plugin]] = {}
        self._watching: dict[Plugin, asyncio.Task[None]] = {}

    @property
    def registered(self) -> Mapping[str, Sequence[Plugin]]:
        """The sockets by driver, in order of registration."""
        return self._plugins

    def get(self, name: str) -> Plugin:
        """Return the newest connected socket, or the newest one. Raise DriverMissingError."""
        plugins = self._plugins.get(name) if name else None
        if not plugins:
            raise DriverMissingError(name)
        return next((plugin for plugin in reversed(plugins) if plugin.connection.connected), plugins[-1])

    def check(self, name: str, endpoint: str, services: Sequence[str]) -> str:
        """Return the gRPC service to call, the first supported one of the driver's. Raise PluginError."""
        service = next((service for service in services if service in DRA_SERVICES), None)
        if service is not None:
            return service
        problem = "empty list of supported gRPC services (aka supported versions)"
        if services:
            problem = (
                f"none of services supported by the plugin ({_quote_list(services)}) are supported by the kubelet"
                f" ({_quote_list(tuple(DRA_SERVICES))})"
            )
        raise PluginError(
            f"invalid supported gRPC versions of DRA driver plugin {name} at endpoint {endpoint}: {problem}"
        )

    def register(self, name: str, endpoint: str, services: Sequence[str], timeout: float = CALL_TIMEOUT) -> None:
        """Add a socket of a driver as its newest. Raise PluginError."""
        service = self.check(name, endpoint, services)
        present = self._plugins.get(name, ())
        if any(plugin.endpoint == endpoint for plugin in present):
            raise PluginError(f"endpoint {endpoint} already registered for DRA driver plugin {name}")
        if problem := _unusable(endpoint):
            start = f"create gRPC connection to DRA driver {name} plugin at endpoint {endpoint}"
            raise PluginError(f"{start}: parse {go_quote(f'dns:///unix:{endpoint}')}: {problem}")
        plugin = Plugin(name, endpoint, service, timeout, self._metrics, lambda: self._notify(name), self.calls)
        self._plugins.setdefault(name, []).append(plugin)
        plugin.connection.open()
        if self._watch is not None:
            self._watching[plugin] = asyncio.create_task(_as_task(self._watch(plugin)), name=f"health {endpoint}")
        self._notify(name)

    async def deregister(self, name: str, endpoint: str) -> None:
        """Remove a socket; unknown sockets are ignored."""
        plugin = next((p for p in self._plugins.get(name, ()) if p.endpoint == endpoint), None)
        if plugin is None:
            return
        self._plugins[name].remove(plugin)
        if not self._plugins[name]:
            del self._plugins[name]
        self._notify(name)
        await self._end(plugin)
        self._left(plugin)

    async def close(self) -> None:
        """Disconnect from every driver without calling `changed`."""
        plugins = [plugin for present in self._plugins.values() for plugin in present]
        self._plugins.clear()
        await asyncio.gather(*(self._end(plugin) for plugin in plugins))

    async def _end(self, plugin: Plugin) -> None:
        watching = self._watching.pop(plugin, None)
        # grpclib loses a cancellation that coincides with the end of the connection.
        while watching is not None and not watching.done():
            watching.cancel()
            await asyncio.wait((watching,), timeout=0.1)
        await plugin.connection.close()

    def _notify(self, name: str) -> None:
        self._changed(name, any(plugin.connection.connected for plugin in self._plugins.get(name, ())))


def _unusable(endpoint: str) -> str:
    """Return Go's error for an endpoint that is not a valid URL path, because grpc-go parses it as one."""
    if any(char < " " or char == "\x7f" for char in endpoint):
        return "net/url: invalid control character in URL"
    wrong = re.search("%(?![0-9A-Fa-f]{2}).{0,2}", endpoint)
    return f"invalid URL escape {go_quote(wrong[0])}" if wrong else ""


def _quote_list(names: Sequence[str]) -> str:
    return "[" + " ".join(go_quote(name) for name in names) + "]"


async def _as_task(work: Awaitable[T]) -> T:
    return await work
