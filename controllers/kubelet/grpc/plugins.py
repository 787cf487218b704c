"""The book of registered drivers: which sockets each has, which of them is called, and when a driver is gone.

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
    Prepared,
    PreparedDevice,
)
from controllers.kubelet.dra.metrics import DraMetrics
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

#: Seconds that a driver has for a call.
CALL_TIMEOUT: Final = 45.0


class PluginError(Exception):
    """A driver that cannot be registered; the text is the kubelet's."""


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
    ) -> None:
        self.name, self.endpoint, self.service = name, endpoint, service
        self._timeout, self._metrics = timeout, metrics
        self.connection = Connection(endpoint, lambda connected: changed())

    async def prepare(self, claims: Sequence[ClaimId]) -> Mapping[str, Prepared]:
        answer = await self._call("NodePrepareResources", claims, PrepareResults)
        return {
            uid: Prepared(
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
        """Hands over what the driver reports, until it stops. Raises DriverCallError."""
        method = f"/{HEALTH_SERVICE}/NodeWatchResources"
        async for answer in self.connection.stream(method, Empty(), HealthReport):
            report(answer)

    def _share(self, share_id: str | None) -> str | None:
        """v1beta1 knows no shares."""
        return share_id if self.service == "v1.DRAPlugin" else None

    async def _call(self, method: str, claims: Sequence[ClaimId], answer: type[Answer]) -> Answer:
        path = f"/{DRA_SERVICES[self.service]}/{method}"
        request = Claims(tuple(Claim(claim.namespace, claim.uid, claim.name) for claim in claims))
        began, code = time.monotonic(), "OK"
        try:
            return await self.connection.call(path, request, answer, self._timeout)
        except DriverCallError as error:
            code = error.code
            raise
        finally:
            self._metrics.call(self.name, path, code, time.monotonic() - began)


T = TypeVar("T")


class Plugins:
    """The drivers of one node. `changed` is called with a driver's name and whether one of its sockets is connected,
    each time that something about them changed; `watch` follows one socket's health, `left` is called when it was
    deregistered.
    """

    def __init__(
        self,
        metrics: DraMetrics,
        changed: Callable[[str, bool], None] = lambda name, usable: None,
        watch: Callable[[Plugin], Awaitable[None]] | None = None,
        left: Callable[[Plugin], None] = lambda plugin: None,
    ) -> None:
        self._metrics, self._changed, self._watch, self._left = metrics, changed, watch, left
        self._plugins: dict[str, list[Plugin]] = {}
        self._watching: dict[Plugin, asyncio.Task[None]] = {}

    @property
    def registered(self) -> Mapping[str, Sequence[Plugin]]:
        """By driver its sockets, in the order of their registration."""
        return self._plugins

    def get(self, name: str) -> Plugin:
        """The newest connected socket; the newest where none is connected. Raises DriverMissingError."""
        plugins = self._plugins.get(name) if name else None
        if not plugins:
            raise DriverMissingError(name)
        return next((plugin for plugin in reversed(plugins) if plugin.connection.connected), plugins[-1])

    def check(self, name: str, endpoint: str, services: Sequence[str]) -> str:
        """The service to call: the first of the driver's that is known. Raises PluginError."""
        service = next((service for service in services if service in DRA_SERVICES), None)
        if service is not None:
            return service
        problem = "empty list of supported gRPC services (aka supported versions)"
        if services:
            problem = (
                f"none of services supported by the plugin ({_listed(services)}) are supported by the kubelet"
                f" ({_listed(tuple(DRA_SERVICES))})"
            )
        raise PluginError(
            f"invalid supported gRPC versions of DRA driver plugin {name} at endpoint {endpoint}: {problem}"
        )

    def register(self, name: str, endpoint: str, services: Sequence[str], timeout: float = CALL_TIMEOUT) -> None:
        """One more socket of a driver, from now on its newest. Raises PluginError."""
        service = self.check(name, endpoint, services)
        present = self._plugins.get(name, ())
        if any(plugin.endpoint == endpoint for plugin in present):
            raise PluginError(f"endpoint {endpoint} already registered for DRA driver plugin {name}")
        if problem := _unusable(endpoint):
            start = f"create gRPC connection to DRA driver {name} plugin at endpoint {endpoint}"
            raise PluginError(f"{start}: parse {go_quote(f'dns:///unix:{endpoint}')}: {problem}")
        plugin = Plugin(name, endpoint, service, timeout, self._metrics, lambda: self._note(name))
        self._plugins.setdefault(name, []).append(plugin)
        plugin.connection.open()
        if self._watch is not None:
            self._watching[plugin] = asyncio.create_task(_as_task(self._watch(plugin)), name=f"health {endpoint}")
        self._note(name)

    async def deregister(self, name: str, endpoint: str) -> None:
        """A socket that is not to be called any more; one that is not known is passed over."""
        plugin = next((p for p in self._plugins.get(name, ()) if p.endpoint == endpoint), None)
        if plugin is None:
            return
        self._plugins[name].remove(plugin)
        if not self._plugins[name]:
            del self._plugins[name]
        self._note(name)
        await self._end(plugin)
        self._left(plugin)

    async def close(self) -> None:
        """Leaves every driver; nothing is reported as changed."""
        plugins = [plugin for present in self._plugins.values() for plugin in present]
        self._plugins.clear()
        await asyncio.gather(*(self._end(plugin) for plugin in plugins))

    async def _end(self, plugin: Plugin) -> None:
        watching = self._watching.pop(plugin, None)
        # grpclib loses a cancellation that comes together with the end of the connection.
        while watching is not None and not watching.done():
            watching.cancel()
            await asyncio.wait((watching,), timeout=0.1)
        await plugin.connection.close()

    def _note(self, name: str) -> None:
        self._changed(name, any(plugin.connection.connected for plugin in self._plugins.get(name, ())))


def _unusable(endpoint: str) -> str:
    """Why an endpoint is no URL's path, as Go says it: grpc-go takes it for one."""
    if any(char < " " or char == "\x7f" for char in endpoint):
        return "net/url: invalid control character in URL"
    wrong = re.search("%(?![0-9A-Fa-f]{2}).{0,2}", endpoint)
    return f"invalid URL escape {go_quote(wrong[0])}" if wrong else ""


def _listed(names: Sequence[str]) -> str:
    return "[" + " ".join(go_quote(name) for name in names) + "]"


async def _as_task(work: Awaitable[T]) -> T:
    return await work
