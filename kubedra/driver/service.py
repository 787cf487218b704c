"""The gRPC side of a driver: DRA service, registration and health, on unix sockets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError
from grpclib.server import Stream

from kubedra.driver.claims import Claim, ClaimHandler, called
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

Json = dict[str, Any]
#: Reads a claim by namespace and name; raises ApiError.
ReadClaim = Callable[[str, str], Awaitable[Json]]
#: Seconds between two health reports.
_HEALTH_PERIOD = 2.0


class Service:
    """Answers a kubelet for one driver. One call at a time is passed on to it."""

    def __init__(self, driver: ClaimHandler, read_claim: ReadClaim, pool: str, metadata: DeviceMetadata) -> None:
        self._driver, self._read_claim, self._pool, self._metadata = driver, read_claim, pool, metadata
        self._one = asyncio.Lock()
        self._health: dict[str, tuple[str, str]] = {}
        self._health_changed = asyncio.Condition()
        #: What the kubelet said of the last registration; None before it said anything.
        self.registration: RegistrationStatus | None = None
        self.registered = asyncio.Event()

    def methods(self) -> dict[str, Handler]:
        """The DRA service in both versions, and health."""
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
        """What is reported of a device from now on: Healthy, Unhealthy or Unknown."""
        async with self._health_changed:
            self._health[device] = (state, message)
            self._health_changed.notify_all()

    async def _prepare(self, stream: Stream[Claims, PrepareResults]) -> None:
        request = await stream.recv_message()
        assert request is not None
        claims = [await self._allocated(claim.namespace, claim.uid, claim.name) for claim in request.claims]
        async with self._one:
            results = {claim.uid: await self._prepared(claim) for claim in claims}
        await stream.send_message(PrepareResults(results))

    async def _allocated(self, namespace: str, uid: str, name: str) -> Claim:
        """The claim with its allocation; a call for one that is not there fails as a whole."""
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

    async def _prepared(self, claim: Claim) -> PrepareResult:
        try:
            cdi_ids = await called(self._driver.prepare, claim) or {}
        except Exception as error:  # noqa: BLE001 - whatever a driver raises is the claim's error
            return PrepareResult(error=str(error) or type(error).__name__)
        mounts = await self._described(claim)
        devices = []
        for result in claim.results:
            request, ids = result["request"].partition("/")[0], tuple(cdi_ids.get(result["device"], ()))
            if request in mounts:  # the first device of a request brings its file
                ids += (mounts.pop(request),)
            devices.append(Device((request,), result["pool"], result["device"], ids, result.get("shareID")))
        return PrepareResult(tuple(devices))

    async def _described(self, claim: Claim) -> dict[str, str]:
        """Writes what containers may read of the claim's devices: CDI ids by request. What fails is said, no more."""
        try:
            said = await called(self._driver.metadata, claim)
            if said is None:
                return {}
            return await asyncio.to_thread(self._metadata.write, claim.object, claim.results, said)
        except Exception as error:  # noqa: BLE001 - the devices are prepared all the same
            self._driver.failed(RuntimeError(f"device metadata of claim {claim.namespace}/{claim.name}: {error}"))
            return {}

    async def _unprepare(self, stream: Stream[Claims, UnprepareResults]) -> None:
        request = await stream.recv_message()
        assert request is not None
        errors = {}
        async with self._one:
            for claim in request.claims:
                errors[claim.uid] = await self._unprepared(Claim(claim.namespace, claim.uid, claim.name))
        await stream.send_message(UnprepareResults(errors))

    async def _unprepared(self, claim: Claim) -> str:
        try:
            await called(self._driver.unprepare, claim)
        except Exception as error:  # noqa: BLE001 - as above
            return str(error) or type(error).__name__
        await asyncio.to_thread(self._metadata.remove, claim.namespace, claim.name, claim.uid)
        return ""

    async def _watch(self, stream: Stream[Empty, HealthReport]) -> None:
        await stream.recv_message()
        while True:
            now = int(time.time())
            health = sorted(self._health.items())
            report = (DeviceHealth(self._pool, name, state, now, 0, said) for name, (state, said) in health)
            await stream.send_message(HealthReport(tuple(report)))
            try:
                async with asyncio.timeout(_HEALTH_PERIOD), self._health_changed:
                    await self._health_changed.wait()
            except TimeoutError:
                continue


def _unary(work: Callable[[Any], Awaitable[None]], request: type, answer: type) -> Handler:
    return Handler(work, Cardinality.UNARY_UNARY, request, answer)


def _failure(text: str) -> GRPCError:
    return GRPCError(Status.UNKNOWN, text)
