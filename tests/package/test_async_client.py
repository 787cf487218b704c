"""The client for event loops does what the other one does."""

import asyncio
import inspect
from pathlib import Path

import pytest

from kubedra import ApiError, AsyncClient, Client, ControlPlane
from kubedra.client.clock import AsyncClock
from kubedra.pytest_plugin import Kube
from tests.support.objects import pod_manifest

pytestmark = pytest.mark.integration

POD = pod_manifest("web")


def public(of: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(method)
        for name, method in vars(of).items()
        if callable(method) and not name.startswith("_") and name not in {"close", "aclose"}
    }


def test_both_clients_have_the_same_methods_with_the_same_arguments() -> None:
    blocking, awaited = public(Client), public(AsyncClient)
    assert set(blocking) == set(awaited) >= {"get", "apply", "wait", "watch", "requests", "add_node"}
    for name in set(blocking) - {"watch"}:
        same = str(awaited[name]).replace("Async", "")
        assert str(blocking[name]).replace("Async", "") == same, name
        assert "Steps" not in str(awaited[name])


@pytest.mark.real_time
async def test_a_pod_runs_and_waits_go_on_side_by_side(kube: Kube) -> None:
    async with AsyncClient.from_kubeconfig(kube.kubeconfig) as client:
        await client.add_node("worker", devices=1)
        gone = asyncio.ensure_future(client.wait("pod/web", "phase=Running"))
        other = asyncio.ensure_future(client.wait("pod/other", "create"))
        await client.apply([POD, {**POD, "metadata": {"name": "other"}}])
        assert (await gone)["spec"]["nodeName"] == "worker"
        assert (await other)["metadata"]["name"] == "other"
        assert len(await client.list("pods")) == 2
        await client.delete("pod/other", grace_period=0)
        await client.wait("pod/other", "delete")
        events = [event async for event in client.watch("/api/v1/pods", timeout=5, timeoutSeconds="1")]
        assert [event["object"]["metadata"]["name"] for event in events] == ["web"]
        with pytest.raises(ApiError, match='pods "other" not found'):
            await client.get("pod/other")


@pytest.mark.real_time
async def test_a_control_plane_is_started_and_stopped_without_blocking_the_loop(tmp_path: Path) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.01)
            turns += 1

    counting = asyncio.create_task(count())
    async with ControlPlane(controllers=False, clock="virtual", data_dir=tmp_path) as plane:
        assert turns > 3
        async with plane.async_client() as client:
            assert repr(client) == f"<kubedra.AsyncClient {plane.url} namespace=default>"
            clock = AsyncClock(client)
            begin = await clock.now()
            await clock.advance(minutes=5)
            assert (await clock.now() - begin).total_seconds() == 300
            await asyncio.to_thread(plane.stop)
            with pytest.raises(ConnectionError, match="no server responds"):
                await client.list("pods")
    counting.cancel()
