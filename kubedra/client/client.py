"""Small clients for tests and commands: resources by kind, apply from YAML, wait on a watch.

`Client` waits in its thread, `AsyncClient` in an event loop; `methods` implements both. They work against any
Kubernetes API server. They cover what a test needs; for more, any Kubernetes client takes the kubeconfig.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, assert_never

from kubedra.client.faults import async_fault, blocking_fault
from kubedra.client.methods import FIELD_MANAGER, Methods, Objects
from kubedra.client.responses import ApiError, decode, log_warnings
from kubedra.client.snapshots import (
    async_snapshot,
    async_snapshots,
    blocking_snapshot,
    blocking_snapshots,
    go_back,
)
from kubedra.client.steps import Call, CloseWatch, NextEvent, OpenWatch, Pause, Step, as_async, as_blocking
from kubedra.client.waiting import AtRestError, condition
from kubedra.kubeconfig.credentials import CredentialHeaders, Credentials, Headers
from kubedra.runtime.failures import IS_IT_RUNNING
from kubedra.runtime.objects import Json

if TYPE_CHECKING:
    import httpx

__all__ = [
    "FIELD_MANAGER",
    "ApiError",
    "AsyncClient",
    "AtRestError",
    "Client",
    "Json",
    "Methods",
    "Objects",
    "condition",
]

#: pytest hides this module's frames in the reports of failing tests.
__tracebackhide__ = True
#: Timeout for establishing a connection, in seconds.
_CONNECT = 10.0
_UNAUTHORIZED = 401
Http = TypeVar("Http")


class _BaseClient(Generic[Http]):
    """The connection settings of both clients.

    `namespace` is the default namespace of namespaced objects. `timeout` is in seconds. `credentials` are those of a
    kubeconfig; their certificate is in the context `verify`.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        verify: bool | str | ssl.SSLContext = True,
        namespace: str = "default",
        timeout: float = 30.0,
        user_agent: str = "kubedra",
        credentials: Credentials | None = None,
    ) -> None:
        self.url, self._methods = url.rstrip("/"), Methods(namespace)
        self._credentials = credentials or Credentials(token=token)
        headers = {"Accept": "application/json", "User-Agent": user_agent}
        # The environment's proxy does not apply: the server is local or named in a kubeconfig. Plain HTTP needs no CA
        # bundle, which takes longer to load than a test.
        verify = verify if self.url.startswith("https:") else False
        self._http = self._connect(
            {"base_url": self.url, "headers": headers, "verify": verify, "timeout": timeout, "trust_env": False}
        )

    def _connect(self, settings: dict[str, Any]) -> Http:
        raise NotImplementedError

    @classmethod
    def from_kubeconfig(
        cls,
        path: Path | str | None = None,
        *,
        context: str = "",
        namespace: str = "",
        user_agent: str = "kubedra",
        timeout: float = 30.0,
    ) -> Self:
        """Return a client for the cluster and user of a context, by default the current one and its namespace.

        Without a path, read the files of `$KUBECONFIG`, merged, or `.kubedra/kubeconfig`. Raises KubeconfigError (a
        ValueError) for an unusable file.
        """
        from kubedra.kubeconfig.reader import read_kubeconfig

        cluster = read_kubeconfig(None if path is None else Path(path), context)
        verify = cluster.tls_context() or False
        return cls(
            cluster.server,
            verify=verify,
            namespace=namespace or cluster.namespace,
            timeout=timeout,
            user_agent=user_agent,
            credentials=cluster.credentials,
        )

    @property
    def namespace(self) -> str:
        """The default namespace of namespaced objects."""
        return self._methods.namespace

    @property
    def asserted(self) -> list[tuple[str, str | None]]:
        """The latest objects that were read or awaited by name, with their namespaces, oldest first."""
        return [*self._methods.asserted]

    def __repr__(self) -> str:
        return f"<kubedra.{type(self).__name__} {self.url} namespace={self.namespace}>"

    def _request_arguments(self, call: Call, headers: Headers) -> dict[str, Any]:
        content = call.content if call.body is None else json.dumps(call.body)
        sent = {
            "method": call.method,
            "url": call.path,
            "content": content,
            "headers": [
                *headers,
                *((("Content-Type", call.content_type),) if content else ()),
                *((("Accept", call.accept),) if call.accept else ()),
            ],
            "params": dict(call.params) or None,
        }
        return sent if call.timeout is None else sent | {"timeout": call.timeout}

    @staticmethod
    def _stream_arguments(opening: OpenWatch, headers: Headers) -> dict[str, Any]:
        import httpx

        return {
            "method": "GET",
            "url": opening.path,
            "params": dict(opening.params),
            "headers": [*headers, *((("User-Agent", opening.user_agent),) if opening.user_agent else ())],
            "timeout": httpx.Timeout(opening.timeout, connect=_CONNECT),
        }

    def _read_answer(self, answer: httpx.Response, *, raw: bool) -> tuple[int, str | bytes]:
        if answer.status_code == _UNAUTHORIZED:
            self._credentials.expire()
        log_warnings(answer.headers.get_list("warning"))
        return answer.status_code, answer.content if raw else answer.text

    def _translate_error(self, error: Exception) -> Exception | None:
        """Return the exception to raise instead of `error`, or None to re-raise it.

        Drop the credential if the server rejected it for a watch.
        """
        import httpx

        if isinstance(error, ApiError) and error.code == _UNAUTHORIZED:
            self._credentials.expire()
        unreachable = isinstance(error, httpx.ConnectError)
        return ConnectionError(f"{self.url}: no server responds: {error}; {IS_IT_RUNNING}") if unreachable else None


class Client(_BaseClient["httpx.Client"]):
    """A client of one server. Close it, or use it in a `with`."""

    def _connect(self, settings: dict[str, Any]) -> httpx.Client:
        import httpx

        return httpx.Client(**settings)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _do(self, step: Step) -> Any:
        try:
            match step:
                case Call():
                    answer = self._http.request(**self._request_arguments(step, self._credentials.headers()))
                    return self._read_answer(answer, raw=step.raw)
                case OpenWatch():
                    return _Watch(self._http, self._stream_arguments(step, self._credentials.headers()))
                case NextEvent(watch):
                    return watch.next()
                case CloseWatch(watch):
                    return watch.close()
                case Pause(seconds):
                    return time.sleep(seconds)
                case _:
                    assert_never(step)
        except Exception as error:
            if (translated := self._translate_error(error)) is None:
                raise
            raise translated from None

    request = as_blocking(Methods.request)
    path = as_blocking(Methods.path)
    resolve = as_blocking(Methods.resolve)
    get = as_blocking(Methods.get)
    list = as_blocking(Methods.list)
    create = as_blocking(Methods.create)
    apply = as_blocking(Methods.apply)
    patch = as_blocking(Methods.patch)
    patch_status = as_blocking(Methods.patch_status)
    scale = as_blocking(Methods.scale)
    delete = as_blocking(Methods.delete)
    events = as_blocking(Methods.events)
    logs = as_blocking(Methods.logs)
    driver_calls = as_blocking(Methods.driver_calls)
    requests = as_blocking(Methods.requests)
    fault = blocking_fault
    snapshot = blocking_snapshot
    snapshots = blocking_snapshots
    restore = as_blocking(go_back)
    explain = as_blocking(Methods.explain)
    history = as_blocking(Methods.history)
    read_history = as_blocking(Methods.read_history)
    timeline = as_blocking(Methods.timeline)
    revision = as_blocking(Methods.revision)
    wait = as_blocking(Methods.wait)
    add_node = as_blocking(Methods.add_node)
    kill_node = as_blocking(Methods.kill_node)
    start_node = as_blocking(Methods.start_node)
    cordon = as_blocking(Methods.cordon)
    uncordon = as_blocking(Methods.uncordon)
    drain = as_blocking(Methods.drain)

    def watch(self, path: str, *, timeout: float, **params: str) -> Iterator[Json]:
        """Yield events of a collection's path until `timeout` seconds pass without one or the server ends the watch."""
        watch = self._do(_open_watch(path, timeout, params))
        try:
            while (event := self._do(NextEvent(watch))) is not None:
                yield event
        finally:
            self._do(CloseWatch(watch))


class AsyncClient(_BaseClient["httpx.AsyncClient"]):
    """`Client` for an event loop: the same methods, awaited. Close it (`aclose`), or use it in an `async with`."""

    def _connect(self, settings: dict[str, Any]) -> httpx.AsyncClient:
        import httpx

        self._header_source = CredentialHeaders()
        return httpx.AsyncClient(**settings)

    async def _headers(self) -> Headers:
        return await self._header_source.headers(self._credentials)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _do(self, step: Step) -> Any:
        try:
            match step:
                case Call():
                    answer = await self._http.request(**self._request_arguments(step, await self._headers()))
                    return self._read_answer(answer, raw=step.raw)
                case OpenWatch():
                    watch = _AsyncWatch()
                    await watch.open(self._http, self._stream_arguments(step, await self._headers()))
                    return watch
                case NextEvent(watch):
                    return await watch.next()
                case CloseWatch(watch):
                    return await watch.close()
                case Pause(seconds):
                    return await asyncio.sleep(seconds)
                case _:
                    assert_never(step)
        except Exception as error:
            if (translated := self._translate_error(error)) is None:
                raise
            raise translated from None

    request = as_async(Methods.request)
    path = as_async(Methods.path)
    resolve = as_async(Methods.resolve)
    get = as_async(Methods.get)
    list = as_async(Methods.list)
    create = as_async(Methods.create)
    apply = as_async(Methods.apply)
    patch = as_async(Methods.patch)
    patch_status = as_async(Methods.patch_status)
    scale = as_async(Methods.scale)
    delete = as_async(Methods.delete)
    events = as_async(Methods.events)
    logs = as_async(Methods.logs)
    driver_calls = as_async(Methods.driver_calls)
    requests = as_async(Methods.requests)
    fault = async_fault
    snapshot = async_snapshot
    snapshots = async_snapshots
    restore = as_async(go_back)
    explain = as_async(Methods.explain)
    history = as_async(Methods.history)
    read_history = as_async(Methods.read_history)
    timeline = as_async(Methods.timeline)
    revision = as_async(Methods.revision)
    wait = as_async(Methods.wait)
    add_node = as_async(Methods.add_node)
    kill_node = as_async(Methods.kill_node)
    start_node = as_async(Methods.start_node)
    cordon = as_async(Methods.cordon)
    uncordon = as_async(Methods.uncordon)
    drain = as_async(Methods.drain)

    async def watch(self, path: str, *, timeout: float, **params: str) -> AsyncIterator[Json]:  # noqa: ASYNC109 - the watch's own
        """Yield events of a collection's path until `timeout` seconds pass without one or the server ends the watch."""
        watch = await self._do(_open_watch(path, timeout, params))
        try:
            while (event := await self._do(NextEvent(watch))) is not None:
                yield event
        finally:
            await self._do(CloseWatch(watch))


def _open_watch(path: str, timeout: float, params: Mapping[str, str]) -> OpenWatch:
    query = {"watch": "true", "timeoutSeconds": str(max(1, int(timeout) + 1)), **params}
    return OpenWatch(path=path, params=query, timeout=timeout)


class _Watch:
    """The events of one watch response."""

    def __init__(self, http: httpx.Client, arguments: dict[str, Any]) -> None:
        self._open = ExitStack()
        try:
            answer = self._open.enter_context(http.stream(**arguments))
            if answer.status_code >= 400:
                decode(answer.status_code, answer.read().decode())
        except BaseException:
            self._open.close()
            raise
        self._lines = answer.iter_lines()

    def next(self) -> Json | None:
        import httpx

        try:
            line = next(self._lines, None)
        except httpx.TimeoutException:
            return None
        return None if line is None else json.loads(line)

    def close(self) -> None:
        self._open.close()


class _AsyncWatch:
    """`_Watch` for an event loop."""

    _lines: AsyncIterator[str]

    def __init__(self) -> None:
        self._open = AsyncExitStack()

    async def open(self, http: httpx.AsyncClient, arguments: dict[str, Any]) -> None:
        try:
            answer = await self._open.enter_async_context(http.stream(**arguments))
            if answer.status_code >= 400:
                decode(answer.status_code, (await answer.aread()).decode())
        except BaseException:
            await self._open.aclose()
            raise
        self._lines = answer.aiter_lines()

    async def next(self) -> Json | None:
        import httpx

        try:
            line = await anext(self._lines, None)
        except httpx.TimeoutException:
            return None
        return None if line is None else json.loads(line)

    async def close(self) -> None:
        await self._open.aclose()
