"""Faults that a kubedra server injects for the time of a `with` block.

with kube.fault(resource="resourceclaims/status", verb="update", status=409, count=1) as fault:
    ...
assert fault.fired() == 1
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import TracebackType
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar

from kubedra.client.paths import join_path
from kubedra.client.responses import decode
from kubedra.client.steps import AsyncStepRunner, Call, Step, StepRunner, Steps, as_async, as_blocking
from kubedra.runtime.objects import Json

#: pytest hides this module's frames in the reports of failing tests.
__tracebackhide__ = True

Close = Literal["before", "after"]
WatchEnd = Literal["end", "close", "expired"]
_NOT_FOUND = 404

__all__ = ["AsyncFault", "Close", "Fault", "FaultMethods", "WatchEnd", "async_fault", "blocking_fault"]
P = ParamSpec("P")
F = TypeVar("F")


def _fault(
    *,
    verb: str = "",
    group: str = "",
    resource: str = "",
    namespace: str = "",
    name: str = "",
    user: str = "",
    user_agent: str = "",
    path: str = "",
    status: int | None = None,
    retry_after: int | None = None,
    message: str = "",
    close: Close | None = None,
    watch: WatchEnd | None = None,
    watch_after: float = 0.0,
    latency: float = 0.0,
    count: int | None = None,
    probability: float = 1.0,
    seed: int = 0,
) -> Json:
    """Inject a fault into the matching requests of the `with` block: `with kube.fault(…) as fault:`.

    Without one of these arguments all requests match. They are patterns with `*`, `?` and `[…]`: `verb`, `group`,
    `resource` ("pods", "pods/status"), `namespace`, `name`, `user`, `user_agent` and `path`. Requests of this client,
    the scheduler and the controllers match, too.

    `status` returns 409, 410, 429, 500 or 503 without any effect, with `retry_after` (in seconds) and `message`.
    `close` closes the connection "before" or "after" the request takes effect. `watch` ends a watch after `watch_after`
    seconds: "end" as at its timeout, "close" with its connection, "expired" with the event 410. `latency` delays the
    request in seconds, alone or before one of these.

    The fault hits at most `count` requests, each with the given `probability`, chosen by `seed`. `fault.fired()`
    returns how many it has hit, `fault.requests()` returns these requests. Only kubedra's servers support this.
    """
    match = {
        "verb": verb,
        "group": group,
        "resource": resource,
        "namespace": namespace,
        "name": name,
        "user": user,
        "userAgent": user_agent,
        "path": path,
    }
    fields: Json = {
        "latencySeconds": latency,
        "status": status,
        "retryAfterSeconds": retry_after,
        "message": message,
        "close": close,
        "watch": None if watch is None else {"end": watch, "afterSeconds": watch_after},
        "count": count,
        "probability": probability,
        "seed": seed,
    }
    chosen = {key: pattern for key, pattern in match.items() if pattern}
    return {"match": chosen, **{key: value for key, value in fields.items() if value not in (None, "")}}


def _injects(body: Callable[P, Json], fault: Callable[[Any, FaultMethods], F]) -> Callable[Concatenate[Any, P], F]:
    @functools.wraps(body)
    def inject(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> F:
        return fault(self, FaultMethods(body(*args, **kwargs), self._methods.requests))

    # The documentation shows one signature for both clients.
    signature = inspect.signature(body).replace(return_annotation="Fault")
    inject.__signature__ = signature  # type: ignore[attr-defined]
    return inject


class FaultMethods:
    """The methods of `Fault` and `AsyncFault`, as steps."""

    def __init__(self, body: Json, requests: Callable[[], Steps[list[Json]]]) -> None:
        self._body, self._requests = body, requests
        self._id = ""
        #: The count after the fault was removed.
        self._fired: int | None = None

    def inject(self) -> Steps[None]:
        code, text = yield Call(method="POST", path="/-/faults", body=self._body)
        self._id, self._fired = decode(code, text)["id"], None

    def remove(self) -> Steps[None]:
        """Remove the fault. A reset of the server may have removed it already."""
        self._fired = yield from self.fired()
        code, text = yield Call(method="DELETE", path=join_path("-", "faults", self._id))
        if code != _NOT_FOUND:
            decode(code, text or "{}")

    def fired(self) -> Steps[int]:
        """Return the number of requests that the fault has hit."""
        if self._fired is not None:
            return self._fired
        code, text = yield Call(method="GET", path=join_path("-", "faults", self._id))
        return 0 if code == _NOT_FOUND else int(decode(code, text)["fired"])

    def requests(self) -> Steps[list[Json]]:
        """Return the requests that the fault has hit, oldest first; see `Client.requests`."""
        found = yield from self._requests()
        return [request for request in found if request["fault"] == self._id]


class Fault:
    """A fault of one server, injected by `with`."""

    def __init__(self, client: StepRunner, methods: FaultMethods) -> None:
        self._client, self._methods = client, methods

    def _do(self, step: Step) -> Any:
        return self._client._do(step)

    fired = as_blocking(FaultMethods.fired)
    requests = as_blocking(FaultMethods.requests)
    _inject = as_blocking(FaultMethods.inject)
    _remove = as_blocking(FaultMethods.remove)

    def __enter__(self) -> Self:
        self._inject()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()


class AsyncFault:
    """`Fault` for an event loop, injected by `async with`."""

    def __init__(self, client: AsyncStepRunner, methods: FaultMethods) -> None:
        self._client, self._methods = client, methods

    async def _do(self, step: Step) -> Any:
        return await self._client._do(step)

    fired = as_async(FaultMethods.fired)
    requests = as_async(FaultMethods.requests)
    _inject = as_async(FaultMethods.inject)
    _remove = as_async(FaultMethods.remove)

    async def __aenter__(self) -> Self:
        await self._inject()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._remove()


#: The method `fault` of `Client` and of `AsyncClient`.
blocking_fault = _injects(_fault, Fault)
async_fault = _injects(_fault, AsyncFault)
