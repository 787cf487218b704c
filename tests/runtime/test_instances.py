"""The components as a process of their own, in this one: waiting for the server, leading or standing by, the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from apiserver.app import Server
from apiserver.authentication.authenticator import ADMIN
from apiserver.components.in_process import InProcess
from apiserver.options.settings import read as read_settings
from controllers.kubelet.dra.checkpoint import CheckpointError
from controllers.manager.instance import CredentialsError, Instance
from controllers.options.options import Options
from controllers.runtime.client import Client
from controllers.runtime.election import Election, LeaseLostError
from controllers.runtime.kinds import LEASES, NAMESPACES, SERVICE_ACCOUNTS, Kind
from controllers.runtime.transport import TransportError
from tests.support.virtual import passes

pytestmark = pytest.mark.integration

SERVER = "http://server"
EVENTS = Kind("", "v1", "events", "Event")
COMPONENTS = ("serviceaccount-controller",)


class ScriptedTransport:
    """A transport to a server; `ready` replaces its answer to /readyz by another or by an error."""

    def __init__(self, inner: InProcess) -> None:
        self._inner = inner
        self.ready: tuple[int, bytes] | TransportError | None = None
        self.asked = 0

    async def request(self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Any:
        if path == "/readyz":
            self.asked += 1
            if isinstance(self.ready, TransportError):
                raise self.ready
            if self.ready is not None:
                return self.ready[0], {}, self.ready[1]
        return await self._inner.request(method, path, query, headers, body)

    async def stream(self, *arguments: Any) -> Any:
        return await self._inner.stream(*arguments)

    async def close(self) -> None: ...


class Running:
    """A running instance with its transport."""

    def __init__(self, transport: InProcess, identity: str = "", names: tuple[str, ...] = COMPONENTS) -> None:
        self.transport = ScriptedTransport(transport)
        election = Election(name="lease", namespace="kube-system", identity=identity) if identity else None
        self.instance = Instance(Client(self.transport), Options(), names, election, SERVER)
        self.task: asyncio.Task[None] | None = None

    def start(self) -> Running:
        self.task = asyncio.create_task(self.instance.run())
        return self

    async def stop(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    @property
    def end(self) -> BaseException | None:
        assert self.task is not None
        assert self.task.done()
        return self.task.exception()


class Cluster:
    """A server in memory, and a client of its administrator."""

    def __init__(self, server: Server) -> None:
        self.transport = InProcess(server.chain, ADMIN)
        self.client = Client(self.transport)

    async def works(self, namespace: str) -> bool:
        """Return whether a new namespace gets its service account."""
        await self.client.create(NAMESPACES, {"metadata": {"name": namespace}})
        await passes(1)
        return bool((await self.client.list(SERVICE_ACCOUNTS, namespace))["items"])


@asynccontextmanager
async def make_cluster() -> AsyncIterator[Cluster]:
    server = await Server.open(read_settings(["--storage", "memory"]))
    try:
        yield Cluster(server)
    finally:
        await server.close()


async def test_it_waits_until_the_server_is_ready_and_says_once_why(caplog: pytest.LogCaptureFixture) -> None:
    async with make_cluster() as cluster:
        caplog.set_level(logging.WARNING, "controllers")
        running = Running(cluster.transport)
        running.transport.ready = TransportError("no\nconnection")
        running.start()
        await passes(1)
        assert running.instance.unready() == f"waiting for {SERVER}"
        assert running.instance.metrics() == ""
        assert 4 <= running.transport.asked <= 7, "every 200 ms"
        running.transport.ready = (500, b"etcd " + b"x" * 300 + b"\xff")
        await passes(1)
        running.transport.ready = (503, b"")
        await passes(1)
        assert [record.getMessage() for record in caplog.records if record.name == "controllers"] == [
            f"waiting for {SERVER}: no connection",
            f"waiting for {SERVER}: not ready: 500 etcd {'x' * 195}",
            f"waiting for {SERVER}: not ready: 503",
        ]
        assert not await cluster.works("early")
        running.transport.ready = None
        await passes(1)
        assert running.instance.unready() == ""
        assert await cluster.works("ns")
        assert 'workqueue_depth{name="serviceaccount-controller"} 0\n' in running.instance.metrics()
        assert running.instance.elector is None
        assert (await cluster.client.list(LEASES, ""))["items"] == []
        await running.stop()
        assert not await cluster.works("late")


async def test_it_says_that_it_reads_until_it_has_read() -> None:
    async with make_cluster() as cluster:
        seen = set()
        running = Running(cluster.transport).start()
        while running.instance.unready():
            seen.add(running.instance.unready())
            await asyncio.sleep(0)
        assert seen == {f"waiting for {SERVER}", "listing collections"}
        await running.stop()


async def test_an_instance_with_bad_credentials_ends() -> None:
    async with make_cluster() as cluster:
        running = Running(cluster.transport)
        running.transport.ready = (401, b"")
        running.start()
        await passes(1)
        assert isinstance(running.end, CredentialsError)
        assert str(running.end) == f"{SERVER} does not accept these credentials (401 Unauthorized)"


async def test_of_two_one_works_and_the_other_begins_at_once_when_it_has_stopped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with make_cluster() as cluster:
        caplog.set_level(logging.INFO, "controllers")
        first = Running(cluster.transport, "first").start()
        await passes(1)
        second = Running(cluster.transport, "second").start()
        await passes(5)
        assert [each.instance.unready() for each in (first, second)] == ["", ""], "a standby is ready"
        assert (first.instance.manager is not None, second.instance.manager) == (True, None)
        assert await cluster.works("one")
        await first.stop()
        assert (await cluster.client.get(LEASES, "lease", "kube-system"))["spec"]["holderIdentity"] == ""
        await passes(5)
        assert (await cluster.client.get(LEASES, "lease", "kube-system"))["spec"]["holderIdentity"] == "second"
        assert await cluster.works("two")
        events = (await cluster.client.list(EVENTS, "kube-system"))["items"]
        assert sorted(event["message"] for event in events) == ["first became leader", "second became leader"]
        [event, _] = events
        assert (event["reason"], event["type"], event["source"]["component"]) == ("LeaderElection", "Normal", "kubedra")
        about = event["involvedObject"]
        assert (about["kind"], about["name"], about["namespace"]) == ("Lease", "lease", "kube-system")
        await second.stop()
        said = [record.getMessage() for record in caplog.records if record.name == "controllers"]
        assert said == [
            "lease kube-system/lease: this instance leads",
            "running serviceaccount-controller",
            "lease kube-system/lease: standing by, first leads",
            "lease kube-system/lease: this instance leads",
            "running serviceaccount-controller",
        ]


async def test_an_instance_whose_lease_is_taken_ends_and_leaves_it() -> None:
    async with make_cluster() as cluster:
        running = Running(cluster.transport, "first").start()
        await passes(1)
        taken = {"spec": {"holderIdentity": "usurper", "leaseDurationSeconds": 3600}}
        await cluster.client.patch(LEASES, "lease", taken, "kube-system", type="merge")
        await passes(5)
        assert isinstance(running.end, LeaseLostError)
        assert str(running.end) == "the lease kube-system/lease was taken by usurper"
        assert (await cluster.client.get(LEASES, "lease", "kube-system"))["spec"]["holderIdentity"] == "usurper"
        assert not await cluster.works("late")


@pytest.mark.parametrize("identity", ["", "first"])
async def test_what_a_component_fails_with_ends_all(identity: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(_: object) -> None:
        raise CheckpointError("torn")

    async with make_cluster() as cluster:
        monkeypatch.setattr("controllers.manager.instance.Manager.run", fails)
        running = Running(cluster.transport, identity).start()
        await passes(1)
        assert isinstance(running.end, CheckpointError)
        if identity:
            lease = await cluster.client.get(LEASES, "lease", "kube-system")
            assert lease["spec"]["holderIdentity"] == "", "the next one may begin"
