"""Claims as drivers see them, and the driver methods that serve a kubelet."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from kubedra.runtime.objects import Json


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim in a call of the kubelet.

    For `prepare`, `object` is the ResourceClaim and `results` are its allocation results of this driver. For
    `unprepare` both are empty.
    """

    namespace: str
    uid: str
    name: str
    object: Json = field(default_factory=dict)
    results: tuple[Json, ...] = ()

    @property
    def devices(self) -> tuple[str, ...]:
        """Names of the allocated devices, without duplicates."""
        return tuple(dict.fromkeys(result["device"] for result in self.results))

    def parameters(self, driver: str, result: Json) -> list[Json]:
        """Return the opaque parameters of one result in order of precedence: the class's first, then the claim's."""
        allocation = self.object["status"]["allocation"]["devices"]
        request = result["request"]
        return [
            entry["opaque"]["parameters"]
            for entry in allocation.get("config") or ()
            if entry.get("opaque", {}).get("driver") == driver
            and (not entry.get("requests") or {request, request.partition("/")[0]} & set(entry["requests"]))
        ]


class ClaimHandler(Protocol):
    """The methods of a driver that serve a kubelet; see `Driver`."""

    name: str

    def prepare(self, claim: Claim) -> Mapping[str, Iterable[str]] | None: ...

    def unprepare(self, claim: Claim) -> None: ...

    def metadata(self, claim: Claim) -> Mapping[str, Json] | None: ...

    def failed(self, error: Exception) -> None: ...


async def call(function: Any, *arguments: Any) -> Any:
    """Call a function in a thread, or await a coroutine function. Return the result."""
    if inspect.iscoroutinefunction(function):
        return await function(*arguments)
    return await asyncio.to_thread(function, *arguments)
