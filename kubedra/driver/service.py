"""The gRPC services of a driver: DRA, registration and health, on Unix sockets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError
from grpclib.server import Stream

from kubedra.driver.claims import Claim, ClaimHandler, call
from kubedra.driver.messages import (
    DRA_SERVICES,
    HEALTH_SERVICE,
    PLUGIN_TYPE,
    REGISTRATION,
    Claims,
    Device,
    DeviceHealth,
    Empty,
    HealthReport,
    PluginInfo,
    PrepareResult,
    PrepareResults,
    RegistrationStatus,
    UnprepareResults,
)
from kubedra.driver.metadata import DeviceMetadata
from kubedra.runtime.objects import Json

#: Returns a claim by namespace and name; raises ApiError.
ReadClaim = Callable[[str, str], Awaitable[Json]]
#: Interval of health reports, in seconds.
_HEALTH_PERIOD = 2.0


class Service:
    """The services of one driver. The driver gets one call at a time."""

    def __init__(self, driver: ClaimHandler, read_claim: ReadClaim, pool: str, metadata: DeviceMetadata) -> None:
        self._driver, self._read_claim, self._pool, self._metadata = driver, read_claim, pool, metadata
        self._call_lock = asyncio.Lock()
        self._health: dict[str, tuple[str, str]] = {}
        self._health_changed = asyncio.Condition()
        #: The result of the last registration; None before the first.
        self.registration: RegistrationStatus | None = None
        self.registered = asyncio.Event()

    def methods(self) -> dict[str, Handler]:
        """Return the methods of the DRA service in both versions, and of health."""
        found = {}
        for service in DRA_SERVICES.values():
            found[f"/{service}/NodePrepareResources"] = _unary(self._prepare, Claims, PrepareResults)
            found[f"/{service}/NodeUnprepareResources"] = _unary(self._unprepare, Claims, UnprepareResults)
        watch = Handler(self._watch, Cardinality.UNARY_STREAM, Empty, HealthReport)
        found[f"/{HEALTH_SERVICE}/NodeWatchResources"] = watch
        return found

    def registration_methods(self, endpoint: Path) -> dict[str, Handler]:
        versions = (*DRA_SERVICES, HEALTH_SERVICE)
        info = PluginInfo(PLUGIN_TYPE, self._driver.name, str(endpoint), versions)

        async def get_info(stream: Stream[Empty, PluginInfo]) -> None:
            await stream.recv_message()
            await stream.send_message(info)

        async def notify(stream: Stream[RegistrationStatus, Empty]) -> None:
            status = await stream.recv_message()
            assert status is not None
            self.registration = status
            self.registered.set()
            if not status.registered:
                error = f"failed registration process: {status.error}"
                self._driver.failed(RuntimeError(error))
                raise GRPCError(Status.UNKNOWN, error)
            await stream.send_message(Empty())

        return {
            f"/{REGISTRATION}/GetInfo": _unary(get_info, Empty, PluginInfo),
            f"/{REGISTRATION}/NotifyRegistrationStatus": _unary(notify, RegistrationStatus, Empty),
        }

    async def set_health(self, device: str, state: str, message: str = "") -> None:
        """Set the reported health of a device: Healthy, Unhealthy or Unknown."""
        async with self._health_changed:
            self._health[device] = (state, message)
            self._health_changed.notify_all()

    async def _prepare(self, stream: Stream[Claims, PrepareResults]) -> None:
        request = await stream.recv_message()
        assert request is not None
        claims = [await self._read_allocated(claim.namespace, claim.uid, claim.name) for claim in request.claims]
        async with self._call_lock:
            results = {claim.uid: await self._prepare_claim(claim) for claim in claims}
        await stream.send_message(PrepareResults(results))

    async def _read_allocated(self, namespace: str, uid: str, name: str) -> Claim:
        """Return a claim with its allocation. Raises GRPCError, which fails the whole call."""
        where = f"claim {namespace}/{name}"
        try:
            found = await self._read_claim(namespace, name)
        except Exception as error:
            raise _failure(f"get resource claims: retrieve {where}: {error}") from error
        allocation = (found.get("status") or {}).get("allocation")
        if allocation is None:
            raise _failure(f"get resource claims: {where} not allocated")
        if found["metadata"]["uid"] != uid:
            raise _failure(f"get resource claims: {where} got replaced")
        results = (allocation.get("devices") or {}).get("results") or ()
        mine = tuple(result for result in results if result["driver"] == self._driver.name)
        return Claim(namespace, uid, name, found, mine)

    async def _prepare_claim(self, claim: Claim) -> PrepareResult:
        try:
            cdi_ids = await call(self._driver.prepare, claim) or {}
        except Exception as error:  # noqa: BLE001 - any exception of a driver is the claim's error
            return PrepareResult(error=str(error) or type(error).__name__)
        mounts = await self._write_metadata(claim)
        devices = []
        for result in claim.results:
            request, ids = result["request"].partition("/")[0], tuple(cdi_ids.get(result["device"], ()))
            if request in mounts:  # once per request, with its first device
                ids += (mounts.pop(request),)
            devices.append(Device((request,), result["pool"], result["device"], ids, result.get("shareID")))
        return PrepareResult(tuple(devices))

    async def _write_metadata(self, claim: Claim) -> dict[str, str]:
        """Write the metadata of the claim's devices. Return CDI IDs by request. Errors are only reported."""
        try:
            metadata = await call(self._driver.metadata, claim)
            if metadata is None:
                return {}
            return await asyncio.to_thread(self._metadata.write, claim.object, claim.results, metadata)
        except Exception as error:  # noqa: BLE001 - the devices are prepared nevertheless
            self._driver.failed(RuntimeError(f"device metadata of claim {claim.namespace}/{claim.name}: {error}"))
            return {}

    async def _unprepare(self, stream: Stream[Claims, UnprepareResults]) -> None:
        request = await stream.recv_message()
        assert request is not None
        errors = {}
        async with self._call_lock:
            for claim in request.claims:
                errors[claim.uid] = await self._unprepare_claim(Claim(claim.namespace, claim.uid, claim.name))
        await stream.send_message(UnprepareResults(errors))

    async def _unprepare_claim(self, claim: Claim) -> str:
        try:
            await call(self._driver.unprepare, claim)
        except Exception as error:  # noqa: BLE001 - as above
            return str(error) or type(error).__name__
        await asyncio.to_thread(self._metadata.remove, claim.namespace, claim.name, claim.uid)
        return ""

    async def _watch(self, stream: Stream[Empty, HealthReport]) -> None:
        await stream.recv_message()
        while True:
            now = int(time.time())
            health = sorted(self._health.items())
            report = (DeviceHealth(self._pool, name, state, now, 0, message) for name, (state, message) in health)
            await stream.send_message(HealthReport(tuple(report)))
            try:
                async with asyncio.timeout(_HEALTH_PERIOD), self._health_changed:
                    await self._health_changed.wait()
            except TimeoutError:
                continue


def _unary(method: Callable[[Any], Awaitable[None]], request: type, response: type) -> Handler:
    return Handler(method, Cardinality.UNARY_UNARY, request, response)


def _failure(text: str) -> GRPCError:
    return GRPCError(Status.UNKNOWN, text)
