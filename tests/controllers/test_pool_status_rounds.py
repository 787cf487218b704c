"""What one look at a question about pools answers, when it waits, and what goes when it is old: without a server."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.options.options import Options
from controllers.resourceclaims.pool_status_requests import ATTEMPTS, GATE, Pool, build
from controllers.runtime.client import Client
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import RESOURCE_CLAIMS, RESOURCE_POOL_STATUS_REQUESTS, RESOURCE_SLICES
from controllers.runtime.transport import NoTransport
from tests.support.recording import RecordingClient, make_informers
from tests.support.virtual import run

pytestmark = pytest.mark.integration


def question(name: str = "q", since: str = "2026-01-01T00:00:00Z", **more: Any) -> Json:
    spec = {"driver": "d", **more.pop("spec", {})}
    return {"metadata": {"name": name, "uid": f"{name}-uid", "creationTimestamp": since}, "spec": spec, **more}


def pool(name: str, devices: int = 1, *, count: int = 1, generation: int = 1, part: int = 0, **more: Any) -> Json:
    spec = {"driver": "d", "pool": {"name": name, "generation": generation, "resourceSliceCount": count}, **more}
    spec["devices"] = [{"name": str(number)} for number in range(devices)]
    return {"metadata": {"name": f"{name}-{generation}-{part}"}, "spec": spec}


def claim(*pools: str, driver: str = "d") -> Json:
    results = [{"driver": driver, "pool": name} for name in pools]
    return {"metadata": {"name": f"c{len(pools)}", "namespace": "ns"},
            "status": {"allocation": {"devices": {"results": results}}}}  # fmt: skip


class Asked:
    """Looks at questions, of which the first is asked about."""

    def __init__(self, *questions: Json, slices: Any = (), claims: Any = (), refuses: Any = None) -> None:
        self.client = RecordingClient()
        self.client.refuses = refuses or {}
        informers = make_informers(RESOURCE_POOL_STATUS_REQUESTS, *questions)
        make_informers(RESOURCE_SLICES, *slices, informers=informers)
        make_informers(RESOURCE_CLAIMS, *claims, informers=informers)
        self.informers = informers
        options = Options(gates={GATE: True})
        self.part = build(self.client, informers, options)  # type: ignore[arg-type]

    def look(self, times: int = 1) -> list[timedelta | None]:
        async def scenario() -> list[timedelta | None]:
            return [await self.part.reconcile("q") for _ in range(times)]

        return run(scenario)

    @property
    def status(self) -> Json:
        [(verb, _, body)] = self.client.writes
        assert verb == "update/status"
        found: Json = body["status"]
        return found

    @property
    def counts(self) -> tuple[int, int, int]:
        counted = self.part._metrics
        return counted.processed.value("d"), counted.errors.value("d"), counted.durations.count("d")


SLICES = [pool("b", 3, nodeName="n"), pool("a", 2, count=2, nodeName="n"), pool("a", 1, count=2, part=1, nodeName="m"),
          pool("z", driver="other")]  # fmt: skip


def test_a_question_is_answered_with_the_pools_in_order() -> None:
    asked = Asked(question(), slices=SLICES, claims=[claim("a", "a"), claim("b"), claim("b", "b", "b", driver="other")])
    assert asked.look() == [None]
    [first, second] = asked.status["pools"]
    rest = {"driver": "d", "generation": 1, "unavailableDevices": 0}
    assert first == {**rest, "poolName": "a", "resourceSliceCount": 2, "totalDevices": 3, "allocatedDevices": 2,
                     "availableDevices": 1}  # fmt: skip
    assert second == {**rest, "poolName": "b", "resourceSliceCount": 1, "totalDevices": 3, "allocatedDevices": 1,
                      "availableDevices": 2, "nodeName": "n"}  # fmt: skip
    [condition] = asked.status["conditions"]
    assert {name: value for name, value in condition.items() if name != "lastTransitionTime"} == {
        "type": "Complete", "status": "True", "reason": "CalculationComplete",
        "message": "Calculated status for 2 pools",
    }  # fmt: skip
    assert (asked.status["poolCount"], asked.counts) == (2, (1, 0, 1))


@pytest.mark.parametrize(
    ("spec", "names", "count"),
    [({"poolName": "b"}, ["b"], 1), ({"poolName": ""}, ["a", "b"], 2), ({"limit": 1}, ["a"], 2),
     ({"limit": 0}, [], 2), ({"poolName": "none"}, [], 0)],
)  # fmt: skip
def test_a_question_says_which_pools_and_how_many(spec: Json, names: list[str], count: int) -> None:
    asked = Asked(question(spec=spec), slices=SLICES)
    asked.look()
    assert [each["poolName"] for each in asked.status.get("pools", [])] == names
    assert ("pools" in asked.status, asked.status["poolCount"]) == (bool(names), count)


def test_a_hundred_pools_are_shown_where_nothing_else_is_said() -> None:
    asked = Asked(question(), slices=[pool(f"p{number:03}") for number in range(101)])
    asked.look()
    assert (len(asked.status["pools"]), asked.status["poolCount"]) == (100, 101)


def test_an_incomplete_pool_is_waited_for_a_few_times() -> None:
    asked = Asked(question(), slices=[pool("a", count=2)])
    waits = [timedelta(milliseconds=5 * 2**number) for number in range(ATTEMPTS)]
    assert asked.look(ATTEMPTS + 2) == [*waits, None, waits[0]]
    assert asked.client.writes == []
    make_informers(RESOURCE_SLICES, pool("a", count=2, part=1), informers=asked.informers)
    assert asked.look() == [None]
    assert (len(asked.client.writes), asked.part._attempts) == (1, {})
    other = Asked(question(spec={"poolName": "b"}), slices=[pool("a", count=2), pool("b")])
    assert other.look() == [None], "only those that are asked about"


def test_what_was_answered_or_is_gone_needs_no_answer() -> None:
    for questions in ((), (question(status={}),)):
        asked = Asked(*questions, slices=SLICES)
        asked.part._attempts["q"] = 3
        assert (asked.look(), asked.client.writes, asked.part._attempts) == ([None], [], {})


def test_an_answer_that_is_not_taken_counts_as_processed_and_as_an_error() -> None:
    asked = Asked(question(), slices=SLICES, refuses={"update/status": (409, "Conflict")})
    with pytest.raises(StatusError):
        asked.look()
    assert asked.counts == (1, 1, 1)


def test_a_newer_generation_takes_the_place_of_an_older_one() -> None:
    found = Pool("d", "a")
    for generation, devices, count in ((2, 1, 1), (1, 5, 9), (3, 2, 2), (3, 4, 2)):
        found.add(pool("a", devices, generation=generation, count=count, nodeName="n")["spec"])
    assert (found.generation, found.slices, found.devices, found.complete) == (3, 2, 6, True)
    assert found.status(9)["availableDevices"] == 0
    assert not Pool("d", "a", expected=1).complete


@pytest.mark.parametrize("reason", ["", "NotFound", "Conflict", "Forbidden"])
def test_old_questions_are_deleted_now_and_every_ten_minutes(reason: str, caplog: pytest.LogCaptureFixture) -> None:
    done = {"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": "2000-01-01T00:00:00Z"}]}
    asked = Asked(question("new", "2999-01-01T00:00:00Z"), question("old", "2000-01-01T00:00:00Z"),
                  question("done", "2999-01-01T00:00:00Z", status=done),
                  refuses={"delete": (400, reason)} if reason else None)  # fmt: skip

    async def scenario() -> list[int]:
        sweeping = asyncio.create_task(asked.part._sweep_regularly())
        seen = []
        for seconds in (1, 598, 2):
            await asyncio.sleep(seconds)
            seen.append(len(asked.client.writes))
        sweeping.cancel()
        return seen

    assert run(scenario) == [2, 2, 4]
    assert [what for _, _, what in asked.client.writes[:2]] == [
        ("old", {"uid": "old-uid"}),
        ("done", {"uid": "done-uid"}),
    ]
    assert ("cannot delete" in caplog.text) is (reason == "Forbidden")


async def test_without_the_gate_nothing_is_followed() -> None:
    informers = Informers(Client(NoTransport()))
    part = build(RecordingClient(), informers, Options())  # type: ignore[arg-type]
    assert not informers._informers
    running = asyncio.create_task(part.run())
    await asyncio.sleep(1)
    assert not running.done()
    running.cancel()
