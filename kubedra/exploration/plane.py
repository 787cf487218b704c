"""A control plane on the test's own event loop, in virtual time.

    async def test_the_counter_is_right(kube):
        kube.run("counter", count_config_maps)
        await kube.apply("config-maps/")
        await kube.wait("configmap/total", lambda total: total["data"]["n"] == "3")

The server and its components run in the process of the test, so that a schedule controls the order of everything. It is
the only part of this package that imports the server's packages; it finds them like a child process does
(docs/adr/0042-exploration.md).
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import importlib.util
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

import httpx

from kubedra.client.client import AsyncClient
from kubedra.exploration.schedule import Deviation, FixedSchedule, Schedule
from kubedra.plane.control_plane import flag_value
from kubedra.runtime import process
from kubedra.runtime.objects import Json

__all__ = ["LoopControlPlane", "Program"]

#: A program that the test runs, such as a controller. It gets a client whose requests the schedule may disturb.
Program = Callable[[AsyncClient], Awaitable[object]]
#: Default timeout of waits, in seconds of virtual time: longer than all delays of a schedule together.
_WAIT = 600.0
#: The address of the server, for clients on the same loop. No socket is opened.
_URL = "http://127.0.0.1:6443"


@functools.cache
def _server_module(name: str) -> Any:
    """Import a module of the server. Raise ImportError, in one line, if a package of the caller has its name."""
    root = process.server_root()
    if str(root) not in sys.path:
        sys.path.append(str(root))
    package = name.partition(".")[0]
    spec = importlib.util.find_spec(package)
    found = [Path(place).resolve() for place in (spec.submodule_search_locations or ())] if spec else []
    if found != [root / package]:
        raise ImportError(
            f"an explored coroutine test runs kubedra's server in this process, but its package {package!r} is hidden"
            f" by {', '.join(map(str, found)) or 'a module'}: rename that, or make the test a plain function"
        )
    return importlib.import_module(name)


class _Transport(httpx.AsyncBaseTransport):
    """Requests to the server on this loop."""

    def __init__(self, plane: Callable[[], Any]) -> None:
        self._plane = plane

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        path, _, query = request.url.raw_path.partition(b"?")
        headers = {name.lower(): value for name, value in request.headers.items()}
        sent = path.decode(), query.decode(), headers
        transport = self._plane().transport()
        closed = _server_module("controllers.runtime.transport").TransportError
        try:
            if b"watch=" in query:
                status, answered, chunks = await transport.stream(request.method, *sent)
                return httpx.Response(status, headers=list(answered), stream=_Chunks(chunks, closed))
            status, answered, body = await transport.request(request.method, *sent, await request.aread())
        except closed as error:
            raise httpx.RemoteProtocolError(f"server disconnected without sending a response ({error})") from None
        return httpx.Response(status, headers=list(answered), content=body)


class _Chunks(httpx.AsyncByteStream):
    """The chunks of a watch."""

    def __init__(self, chunks: AsyncIterator[bytes], closed: type[Exception]) -> None:
        self._chunks, self._closed = chunks, closed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._chunks:
                yield chunk
        except self._closed as error:
            raise httpx.RemoteProtocolError(
                f"peer closed connection without sending complete message ({error})"
            ) from None

    async def aclose(self) -> None:
        close: Any = getattr(self._chunks, "aclose", None)
        if close is not None:
            await close()


class LoopClient(AsyncClient):
    """A client of the server on this loop. Timeouts are in virtual time, by default 600 s."""

    def __init__(self, plane: Callable[[], Any], name: str, namespace: str = "default") -> None:
        self._find_plane = plane
        super().__init__(_URL, namespace=namespace, user_agent=name)
        self._methods.monotonic = lambda: asyncio.get_running_loop().time()
        self._methods.default_timeout = lambda _: _WAIT
        self._methods.reports_idleness = False

    def _connect(self, settings: dict[str, Any]) -> httpx.AsyncClient:
        self._header_source: Any = _NoCredentials()
        return httpx.AsyncClient(**settings, transport=_Transport(self._find_plane))


class _NoCredentials:
    async def headers(self, _: object) -> tuple[tuple[str, str], ...]:
        return ()


class LoopControlPlane(LoopClient):
    """An API server with its components on the running loop, and a client of it, in one.

    `nodes`, `devices`, `emulated_version`, `feature_gates`, `runtime_config`, `jobs_exit_after` and `args` are those of
    `ControlPlane`. `controllers` are the names of the components, by default all; False for only the API server. The
    seed is always the same.

    The loop is one of `new_loop`: `asyncio.Runner(loop_factory=LoopControlPlane.new_loop)`. Requests of the plane
    itself are never disturbed; those of programs (`run`) and of the components are.
    """

    def __init__(
        self,
        *,
        nodes: int = 0,
        devices: str = "none",
        controllers: bool | Sequence[str] = True,
        emulated_version: str | None = None,
        feature_gates: str | Mapping[str, object] | None = None,
        runtime_config: str | Mapping[str, object] | None = None,
        jobs_exit_after: str = "",
        args: Sequence[str] = (),
        explore_components: bool = False,
    ) -> None:
        super().__init__(lambda: self._plane, "kubedra")
        self._components = ["*"] if controllers is True else [] if controllers is False else [*controllers]
        self._flags = [f"--devices={devices}", *(["--storage-class=standard"] if controllers is True else [])]
        for flag, value in (
            ("emulated-version", emulated_version),
            ("feature-gates", flag_value(feature_gates)),
            ("runtime-config", flag_value(runtime_config)),
            ("nodes", str(nodes or "")),
            ("jobs-exit-after", jobs_exit_after),
        ):
            if value:
                self._flags.append(f"--{flag}={value}")
        self._flags += args
        self._explore_components = explore_components
        self._directory: Path | None = None
        self._plane: Any = None

    @staticmethod
    def new_loop() -> asyncio.AbstractEventLoop:
        """Create a loop for a control plane."""
        loop: asyncio.AbstractEventLoop = _server_module("apiserver.runtime.explored_loop").ExploredLoop()
        return loop

    async def start(self) -> None:
        """Start the server and the components. Raise ValueError for a bad option."""
        self._directory = Path(tempfile.mkdtemp(prefix="kubedra-"))
        make = _server_module("apiserver.components.on_loop").LoopPlane
        self._plane = make(self._flags, self._directory, self._components, explored=self._explore_components)
        await self._plane.start()

    async def stop(self) -> None:
        """End the programs, the components and the server."""
        await self.aclose()
        if self._plane is not None:
            await self._plane.close()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig for clients on the same loop, such as kopf and kubernetes_asyncio."""
        assert self._directory is not None, "the control plane has been started"
        path = self._directory / "kubeconfig"
        if not path.exists():
            _server_module("apiserver.command.kubeconfig").write(path, self.url)
        return path

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def run(self, name: str, program: Program) -> None:
        """Run a program, such as a controller, as a process of its own until the end of the test.

        A schedule can pause it, and kill it at one of its requests: no line of it runs any more, and it is called again
        after some seconds, with a new client. So it has to keep its state in the server, as in a cluster. An exception
        that it raises fails the test.
        """

        async def run() -> None:
            async with LoopClient(self._find_plane, name, self.namespace) as client:
                await program(client)

        self._plane.run(name, run)

    def client(self, name: str) -> AsyncClient:
        """Return another client that no schedule disturbs, with a user agent."""
        return LoopClient(self._find_plane, name, self.namespace)

    def objects(self, word: str) -> Sequence[Json]:
        """Return the present objects of a resource ("pods", "events.events.k8s.io"), without a request.

        They belong to the server and must not be changed.
        """
        found: Sequence[Json] = self._plane.objects(word)
        return found

    @property
    def deviations(self) -> Sequence[Deviation]:
        """The deviations of the schedule so far."""
        schedule: Schedule | None = self._plane.loop.schedule
        return schedule.taken if schedule is not None else ()

    def always(self, check: Callable[[LoopControlPlane], object]) -> None:
        """Call a check after every write from now on. An exception that it raises fails the test."""

        def call() -> None:
            try:
                check(self)
            except Exception as error:  # noqa: BLE001 - the test fails with it
                self._plane.fail(error)

        self._plane.on_commit(call)

    async def advance(self, delay: timedelta | None = None, **units: float) -> None:
        """Let time pass: `await kube.advance(minutes=5)`. All that falls due meanwhile is done on return."""
        await asyncio.sleep((delay if delay is not None else timedelta(**units)).total_seconds())
        await self._plane.loop.advance(0)

    async def run_until_idle(self, limit: timedelta = timedelta(hours=1)) -> None:
        """Let time pass until only periodic work is left. Raise TimeoutError if there is more at the limit."""
        result = await self._plane.loop.run_until_idle(limit.total_seconds())
        if not result.idle:
            raise TimeoutError(f"work is left after {limit}: {self._plane.loop.pending()[:3]}")

    async def play(self, test: Callable[[], Awaitable[object]], schedule: Schedule | None = None) -> None:
        """Run a test under a schedule, by default the plain one. Raise its exception, or that of a program or check."""
        loop, schedule = self._plane.loop, schedule or FixedSchedule()
        loop.schedule = schedule
        schedule.begin()
        running = loop.create_task(_awaited(test), name="test")
        try:
            await asyncio.wait({running, self._plane.failure}, timeout=_LIMIT, return_when=asyncio.FIRST_COMPLETED)
            if self._plane.failure.done():
                self._plane.failure.result()
            if not running.done():
                raise TimeoutError(f"the test did not end within {_LIMIT:.0f} s of virtual time")
            running.result()
        finally:
            schedule.end()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


#: The longest run of a test, in seconds of virtual time.
_LIMIT = 24 * 3600.0


async def _awaited(test: Callable[[], Awaitable[object]]) -> None:
    await test()
