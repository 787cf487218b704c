"""Scripted DRA drivers on unix sockets, for the DRA manager's vectors."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError
from grpclib.server import Stream as ServerStream

from apiserver.api.objects import Json
from kubedra.driver.codec import code_name
from kubedra.driver.messages import (
    DRA_SERVICES,
    HEALTH_SERVICE,
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
from kubedra.driver.sockets import SocketServer

_CODES = {code_name(status): status for status in Status}
_PATIENCE = 10.0
Work = Callable[[Any], Awaitable[None]]


class _Listener:
    """A socket with methods, which can be closed and opened again."""

    def __init__(self, path: str, methods: dict[str, Handler]) -> None:
        self._path, self._methods, self._before = Path(path), methods, 0
        self._server: SocketServer | None = None

    async def open(self) -> None:
        self._server = SocketServer(self._path, self._methods)
        await self._server.listen()

    async def close(self) -> None:
        if self._server is not None:
            server, self._server = self._server, None
            self._before += server.accepted
            await server.stop()

    @property
    def connections(self) -> int:
        return self._before + (self._server.accepted if self._server else 0)


class Drivers:
    """The plugins of a case. `calls` are what they were asked since it was last emptied."""

    def __init__(self, plugins: dict[str, Json], path: Callable[[str], str]) -> None:
        self._plugins, self._path = plugins, path
        self.calls: list[Json] = []
        self._heard = asyncio.Condition()
        self._answers: dict[str, list[Json]] = {}
        self._registration: list[Json] = []
        self._blocks: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._streams: dict[str, list[asyncio.Queue[Any]]] = defaultdict(list)
        self._sockets: dict[str, _Listener] = {}
        self._dra = {
            name: _Listener(path(plugin["endpoint"]), self._methods(name, plugin)) for name, plugin in plugins.items()
        }

    async def open(self) -> None:
        for name, plugin in self._plugins.items():
            if plugin["listening"]:
                await self._dra[name].open()

    async def end(self) -> None:
        for listener in (*self._dra.values(), *self._sockets.values()):
            await listener.close()

    async def listen(self, name: str) -> None:
        await self._dra[name].open()

    async def close(self, name: str) -> None:
        await self._dra[name].close()

    def connections(self, name: str) -> int:
        return self._dra[name].connections

    async def add_socket(self, name: str, registration: Json | None = None) -> None:
        info = registration or self._plugins[name]["registration"]
        methods = self._registration_methods(name, info)
        if info.get("common"):
            methods |= self._methods(name, self._plugins[name])
        self._sockets[name] = _Listener(self._path(info["socket"]), methods)
        await self._sockets[name].open()

    async def remove_socket(self, name: str) -> None:
        await self._sockets.pop(name).close()

    def script(self, answers: dict[str, list[Json]], registration: list[Json]) -> None:
        """Set the next answers, in this order."""
        self._answers = {name: list(items) for name, items in answers.items()}
        if registration:
            self._registration = list(registration)

    def release(self, block: str) -> None:
        self._blocks[block].set()

    async def heard(self, number: int) -> None:
        """Return once this number of calls has arrived."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE), self._heard:
                await self._heard.wait_for(lambda: len(self.calls) >= number)

    async def say_health(self, name: str, devices: list[Json]) -> None:
        health = tuple(
            DeviceHealth(
                item["pool"],
                item["device"],
                item["health"].title(),
                0,
                item.get("timeoutSeconds", 0),
                item.get("message", ""),
            )
            for item in devices
        )
        await self._say(name, HealthReport(health))

    async def end_health(self, name: str, code: str, message: str) -> None:
        """End the newest stream with a code; without one as a driver does that returns."""
        await self._say(name, GRPCError(_CODES[code], message) if code not in ("", "OK") else None)

    async def _say(self, name: str, what: Any) -> None:
        async with asyncio.timeout(_PATIENCE):
            while not self._streams[name]:
                await asyncio.sleep(0.01)
        self._streams[name][-1].put_nowait(what)

    async def _note(self, call: Json) -> None:
        self.calls.append(call)
        async with self._heard:
            self._heard.notify_all()

    def _methods(self, name: str, plugin: Json) -> dict[str, Handler]:
        found = {}
        for service, full in DRA_SERVICES.items():
            prepare, unprepare = self._call(name, service, True), self._call(name, service, False)
            if service not in plugin["serves"]:
                # grpclib's own refusal lacks the content type that other servers send.
                prepare = unprepare = _unknown(full)
            found[f"/{full}/NodePrepareResources"] = _unary(prepare, Claims, PrepareResults)
            found[f"/{full}/NodeUnprepareResources"] = _unary(unprepare, Claims, UnprepareResults)
        if HEALTH_SERVICE in plugin["serves"]:
            watch = Handler(self._watch(name), Cardinality.UNARY_STREAM, Empty, HealthReport)
            found[f"/{HEALTH_SERVICE}/NodeWatchResources"] = watch
        return found

    def _call(self, name: str, service: str, prepare: bool) -> Work:
        method = "NodePrepareResources" if prepare else "NodeUnprepareResources"

        async def handle(stream: ServerStream[Claims, Any]) -> None:
            request = await stream.recv_message()
            assert request is not None
            claims = [{"name": c.name, "namespace": c.namespace, "uid": c.uid} for c in request.claims]
            answer = (self._answers.get(name) or [{}]).pop(0)
            await self._note({"method": method, "plugin": name, "service": service, "claims": claims})
            await asyncio.sleep(answer.get("delayMs", 0) / 1000)
            if "block" in answer:
                await self._blocks[answer["block"]].wait()
            if "code" in answer:
                raise GRPCError(_CODES[answer["code"]], answer.get("message"))
            results = self._results(name, request, answer)
            await stream.send_message(_prepared(results) if prepare else _unprepared(results))

        return handle

    def _results(self, name: str, request: Claims, answer: Json) -> Json:
        if "claims" in answer:
            results: Json = dict(answer["claims"] or {})
            return results
        devices = self._plugins[name]["devices"] or {}
        results = {claim.uid: {"devices": devices.get(claim.uid)} for claim in request.claims}
        results |= answer.get("extra") or {}
        return {uid: result for uid, result in results.items() if uid not in (answer.get("omit") or ())}

    def _watch(self, name: str) -> Work:
        async def handle(stream: ServerStream[Empty, HealthReport]) -> None:
            await stream.recv_message()
            queue: asyncio.Queue[Any] = asyncio.Queue()
            self._streams[name].append(queue)
            try:
                while True:
                    item = await queue.get()
                    if item is None:
                        return
                    if isinstance(item, Exception):
                        raise item
                    await stream.send_message(item)
            finally:
                self._streams[name].remove(queue)

        return handle

    def _registration_methods(self, name: str, info: Json) -> dict[str, Handler]:
        async def answer(method: str, call: Json) -> None:
            scripted = next((item for item in self._registration if item["method"] == method), None)
            if scripted is not None:
                self._registration.remove(scripted)
            await self._note({"method": method, "plugin": name, "service": "Registration", **call})
            if scripted is not None:
                await asyncio.sleep(scripted.get("delayMs", 0) / 1000)
                if "code" in scripted:
                    raise GRPCError(_CODES[scripted["code"]], scripted.get("message"))

        async def get_info(stream: ServerStream[Empty, PluginInfo]) -> None:
            await stream.recv_message()
            await answer("GetInfo", {})
            services = tuple(info["supportedVersions"] or ())
            await stream.send_message(PluginInfo(info["type"], info["name"], self._path(info["endpoint"]), services))

        async def notify(stream: ServerStream[RegistrationStatus, Empty]) -> None:
            status = await stream.recv_message()
            assert status is not None
            outcome = {"error": status.error, "pluginRegistered": status.registered}
            await answer("NotifyRegistrationStatus", outcome)
            await stream.send_message(Empty())

        return {
            f"/{REGISTRATION}/GetInfo": _unary(get_info, Empty, PluginInfo),
            f"/{REGISTRATION}/NotifyRegistrationStatus": _unary(notify, RegistrationStatus, Empty),
        }


def _unknown(service: str) -> Work:
    async def handle(stream: ServerStream[Any, Any]) -> None:
        raise GRPCError(Status.UNIMPLEMENTED, f"unknown service {service}")

    return handle


def _unary(work: Work, request: type, answer: type) -> Handler:
    return Handler(work, Cardinality.UNARY_UNARY, request, answer)


def _prepared(results: Json) -> PrepareResults:
    return PrepareResults(
        {
            uid: PrepareResult(
                tuple(map(_device, (result or {}).get("devices") or ())), (result or {}).get("error", "")
            )
            for uid, result in results.items()
        }
    )


def _device(item: Json) -> Device:
    return Device(
        tuple(item.get("requestNames") or ()),
        item.get("poolName", ""),
        item.get("deviceName", ""),
        tuple(item.get("cdiDeviceIds") or ()),
        item.get("shareId"),
    )


def _unprepared(results: Json) -> UnprepareResults:
    return UnprepareResults({uid: (result or {}).get("error") or "" for uid, result in results.items()})
