"""One pass over a request for the status of pools, its retries, and the deletion of old requests: without a server."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.resourceclaims.pool_status_requests import ATTEMPTS, GATE, Pool, build
from tests.support import recording
from tests.support.objects import make_claim, make_metadata
from tests.support.recording import RecordingClient

pytestmark = pytest.mark.integration


def request(name: str = "q", since: str = "2026-01-01T00:00:00Z", **more: Any) -> Json:
    """Build a ResourcePoolStatusRequest for the driver `d`."""
    spec = {"driver": "d", **more.pop("spec", {})}
    metadata = make_metadata(name, creationTimestamp=since)
    return {"kind": "ResourcePoolStatusRequest", "metadata": metadata, "spec": spec, **more}


def pool(name: str, devices: int = 1, *, count: int = 1, generation: int = 1, part: int = 0, **more: Any) -> Json:
    """Build a slice of a pool."""
    spec = {"driver": "d", "pool": {"name": name, "generation": generation, "resourceSliceCount": count}, **more}
    spec["devices"] = [{"name": str(number)} for number in range(devices)]
    return {"kind": "ResourceSlice", "metadata": {"name": f"{name}-{generation}-{part}"}, "spec": spec}


def claim(*pools: str, driver: str = "d") -> Json:
    results = [{"driver": driver, "pool": name} for name in pools]
    return make_claim(f"c{len(pools)}", allocation={"devices": {"results": results}})


class PoolClient(RecordingClient):
    @property
    def counts(self) -> tuple[int, int, int]:
        metrics = self.component._metrics
        return metrics.processed.value("d"), metrics.errors.value("d"), metrics.durations.count("d")


def build_over(*objects: Json, **more: Any) -> PoolClient:
    return recording.build(build, PoolClient(), *objects, gates={GATE: True}, **more)


async def answer(*objects: Json, **more: Any) -> PoolClient:
    """Reconcile the request `q` once."""
    return await build_over(*objects, **more).reconcile("q")


SLICES = [pool("b", 3, nodeName="n"), pool("a", 2, count=2, nodeName="n"), pool("a", 1, count=2, part=1, nodeName="m"),
          pool("z", driver="other")]  # fmt: skip


async def test_a_request_is_answered_with_the_pools_in_order() -> None:
    client = await answer(request(), *SLICES, claim("a", "a"), claim("b"), claim("b", "b", "b", driver="other"))
    assert client.requeue_after is None
    [first, second] = client.status["pools"]
    rest = {"driver": "d", "generation": 1, "unavailableDevices": 0}
    assert first == {**rest, "poolName": "a", "resourceSliceCount": 2, "totalDevices": 3, "allocatedDevices": 2,
                     "availableDevices": 1}  # fmt: skip
    assert second == {**rest, "poolName": "b", "resourceSliceCount": 1, "totalDevices": 3, "allocatedDevices": 1,
                      "availableDevices": 2, "nodeName": "n"}  # fmt: skip
    [condition] = client.status["conditions"]
    assert {name: value for name, value in condition.items() if name != "lastTransitionTime"} == {
        "type": "Complete", "status": "True", "reason": "CalculationComplete",
        "message": "Calculated status for 2 pools",
    }  # fmt: skip
    assert (client.status["poolCount"], client.counts) == (2, (1, 0, 1))


@pytest.mark.parametrize(
    ("spec", "names", "count"),
    [({"poolName": "b"}, ["b"], 1), ({"poolName": ""}, ["a", "b"], 2), ({"limit": 1}, ["a"], 2),
     ({"limit": 0}, [], 2), ({"poolName": "none"}, [], 0)],
)  # fmt: skip
async def test_a_request_names_a_pool_and_a_limit(spec: Json, names: list[str], count: int) -> None:
    client = await answer(request(spec=spec), *SLICES)
    assert [each["poolName"] for each in client.status.get("pools", [])] == names
    assert ("pools" in client.status, client.status["poolCount"]) == (bool(names), count)


async def test_the_default_limit_is_a_hundred_pools() -> None:
    client = await answer(request(), *(pool(f"p{number:03}") for number in range(101)))
    assert (len(client.status["pools"]), client.status["poolCount"]) == (100, 101)


async def test_an_incomplete_pool_is_waited_for_a_few_times() -> None:
    client = build_over(request(), pool("a", count=2))
    waits = [timedelta(milliseconds=5 * 2**number) for number in range(ATTEMPTS)]
    assert [(await client.reconcile("q")).requeue_after for _ in range(ATTEMPTS + 2)] == [*waits, None, waits[0]]
    assert client.writes == []
    assert (await client.set_objects(pool("a", count=2, part=1)).reconcile("q")).requeue_after is None
    assert (len(client.writes), client.component._attempts) == (1, {})
    other = await answer(request(spec={"poolName": "b"}), pool("a", count=2), pool("b"))
    assert other.requeue_after is None, "only the requested pools count"


async def test_a_request_that_was_answered_or_is_gone_needs_no_answer() -> None:
    for requests in ((), (request(status={}),)):
        client = build_over(*requests, *SLICES)
        client.component._attempts["q"] = 3
        assert (await client.reconcile("q")).requeue_after is None
        assert (client.writes, client.component._attempts) == ([], {})


async def test_an_answer_that_is_refused_counts_as_processed_and_as_an_error() -> None:
    client = await answer(request(), *SLICES, refuses={"update/status": (409, "Conflict")})
    assert (client.error is not None, client.counts) == (True, (1, 1, 1))


def test_a_newer_generation_takes_the_place_of_an_older_one() -> None:
    found = Pool("d", "a")
    for generation, devices, count in ((2, 1, 1), (1, 5, 9), (3, 2, 2), (3, 4, 2)):
        found.add(pool("a", devices, generation=generation, count=count, nodeName="n")["spec"])
    assert (found.generation, found.slices, found.devices, found.complete) == (3, 2, 6, True)
    assert found.status(9)["availableDevices"] == 0
    assert not Pool("d", "a", expected=1).complete


@pytest.mark.parametrize("reason", ["", "NotFound", "Conflict", "Forbidden"])
async def test_old_requests_are_deleted_immediately_and_every_ten_minutes(
    reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    done = {"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": "2000-01-01T00:00:00Z"}]}
    client = build_over(request("new", "2999-01-01T00:00:00Z"), request("old", "2000-01-01T00:00:00Z"),
                        request("done", "2999-01-01T00:00:00Z", status=done),
                        refuses={"delete": (400, reason)} if reason else None)  # fmt: skip
    sweeping = asyncio.create_task(client.component._sweep_regularly())
    for seconds, deletions in ((1, 2), (598, 2), (2, 4)):
        await asyncio.sleep(seconds)
        assert len(client.writes) == deletions
    sweeping.cancel()
    assert client.bodies("delete")[:2] == [("old", {"uid": "uid-old"}), ("done", {"uid": "uid-done"})]
    assert ("cannot delete" in caplog.text) is (reason == "Forbidden")


async def test_without_the_gate_nothing_is_followed() -> None:
    client = recording.build(build, RecordingClient())
    assert not client.informers._informers
    running = asyncio.create_task(client.component.run())
    await asyncio.sleep(1)
    assert not running.done()
    running.cancel()
