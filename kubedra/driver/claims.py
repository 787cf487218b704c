"""A claim as a driver sees it, and the calls that a kubelet makes to a driver about claims."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim as a driver is asked about it. `object` and `results` are there when it is prepared: the ResourceClaim,
    and those of its allocation's results that are the driver's.
    """

    namespace: str
    uid: str
    name: str
    object: Json = field(default_factory=dict)
    results: tuple[Json, ...] = ()

    @property
    def devices(self) -> tuple[str, ...]:
        """Names of the devices that were allocated, each once."""
        return tuple(dict.fromkeys(result["device"] for result in self.results))

    def parameters(self, driver: str, result: Json) -> list[Json]:
        """Opaque parameters for one result, in the order in which they hold: the class's first, then the claim's."""
        allocation = self.object["status"]["allocation"]["devices"]
        request = result["request"]
        return [
            entry["opaque"]["parameters"]
            for entry in allocation.get("config") or ()
            if entry.get("opaque", {}).get("driver") == driver
            and (not entry.get("requests") or {request, request.partition("/")[0]} & set(entry["requests"]))
        ]


class ClaimHandler(Protocol):
    """The part of a driver that answers a kubelet; see `Driver`."""

    name: str

    def prepare(self, claim: Claim) -> Mapping[str, Iterable[str]] | None: ...

    def unprepare(self, claim: Claim) -> None: ...

    def metadata(self, claim: Claim) -> Mapping[str, Json] | None: ...

    def failed(self, error: Exception) -> None: ...


async def called(function: Any, *arguments: Any) -> Any:
    """The outcome of a method, be it a function (called in a thread) or a coroutine."""
    if inspect.iscoroutinefunction(function):
        return await function(*arguments)
    return await asyncio.to_thread(function, *arguments)
