"""The idleness of a control plane: busy components, recent writes, and clients that watch."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from apiserver.http.admin.idle import IdleMonitor, IdleStatus
from apiserver.request.messages import Request, Stream
from apiserver.request.records import RequestRecord

pytestmark = pytest.mark.integration

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Components:
    names: tuple[str, ...] = ("scheduler", "agent")

    def __init__(self, *busy: str, after: int = 0) -> None:
        self._busy, self._looks, self._after = busy, 0, after

    async def get_pending_work(self) -> tuple[tuple[str, ...], tuple[str, float]]:
        self._looks += 1
        return self._busy if self._looks > self._after else (), ("agent", 12.5)


class NoComponents(Components):
    names = ()


#: What a client sends for a verb.
METHODS = {"get": "GET", "update": "PUT", "patch": "PATCH", "create": "POST", "list": "GET", "watch": "GET"}


def request(verb: str = "get", resource: str = "pods", agent: str = "mine") -> Request:
    name = "" if verb in ("create", "list", "watch") else "/x"
    return Request(METHODS[verb], f"/api/v1/namespaces/default/{resource}{name}", "", {"user-agent": agent}, b"")


def record(verb: str, resource: str, seconds: float) -> RequestRecord:
    return RequestRecord.of(request(verb, resource), NOW - timedelta(seconds=seconds), 0.1, 200, 1)


def poll_idle(
    components: Components | None = None,
    records: tuple[RequestRecord, ...] = (),
    streams: dict[Stream, Request] | None = None,
) -> IdleStatus:
    rest = IdleMonitor(lambda: records, lambda: streams or {}, lambda: 7, lambda: NOW, components or NoComponents())
    return asyncio.run(rest.poll())


def test_nothing_is_known_without_components() -> None:
    assert poll_idle() == IdleStatus((), (), None, 0, None)


@pytest.mark.parametrize("after", [0, 3])
def test_a_component_that_has_something_to_do_in_any_look_is_busy(after: int) -> None:
    found = poll_idle(Components("scheduler", after=after))
    assert (found.busy, found.next_timer) == (["scheduler"], ("agent", 12.5))
    assert poll_idle(Components()).busy == []


def test_the_last_write_counts_but_for_signs_of_life_and_reports() -> None:
    old, new = record("update", "pods", 5), record("patch", "pods", 2)
    assert poll_idle(records=(record("get", "pods", 0), new, old)).quiet == 2
    assert poll_idle(records=(record("update", "leases", 0), record("create", "events", 0), old)).quiet == 5
    assert poll_idle(records=(record("list", "pods", 0),)).quiet is None


def test_a_write_during_the_measurement_is_activity() -> None:
    revisions = iter(range(100))
    rest = IdleMonitor(lambda: (), dict, lambda: next(revisions), lambda: NOW, Components())
    assert asyncio.run(rest.poll()).quiet == 0.0


def test_watches_are_those_of_clients_outside_that_may_act() -> None:
    inside = Stream(200, inside=True)
    streams = {
        inside: request("watch"),
        Stream(200): request("watch"),
        Stream(200): request("watch", agent="kubedra-wait"),
    }
    assert poll_idle(streams=streams).watches == 1
