"""Limits of events: they expire an hour, or `--event-ttl`, after their last write, and EventRateLimit bounds their rate."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from apiserver.api.objects import Json
from apiserver.app import Server
from apiserver.authentication.authenticator import ADMIN
from apiserver.controlplane.event_ttl import PACE
from apiserver.options.flags import SettingsError
from apiserver.options.settings import read
from apiserver.request.messages import Request, Response, Stream
from tests.support.server import HeldTime, serve
from tests.support.virtual import passes, run

pytestmark = pytest.mark.integration

EVENTS = "/api/v1/namespaces/default/events"
HOUR = 3600.0


@asynccontextmanager
async def server(directory: Path, *flags: str) -> AsyncIterator[Server]:
    made = await Server.open(read([f"--data-dir={directory}", "--storage=memory", *flags]))
    try:
        yield made
    finally:
        await made.close()


async def ask(made: Server, method: str, path: str, body: Json | None = None, query: str = "") -> Any:
    data = b"" if body is None else orjson.dumps(body)
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    answer = await made.chain.handle(Request(method, path, query, {"content-type": kind}, data, ADMIN))
    if isinstance(answer, Stream):
        return answer
    assert isinstance(answer, Response)
    assert answer.status < 300, answer.body
    return orjson.loads(answer.body)


async def report(made: Server, name: str) -> None:
    await ask(made, "POST", EVENTS, {"metadata": {"name": name}, "involvedObject": {"namespace": "default"}})


async def names(made: Server) -> list[str]:
    return [item["metadata"]["name"] for item in (await ask(made, "GET", EVENTS))["items"]]


async def test_an_event_goes_an_hour_after_its_last_write_and_watches_see_it(tmp_path: Path) -> None:
    async with server(tmp_path) as made:
        await report(made, "first")
        await passes(HOUR / 2)
        await report(made, "second")
        await ask(made, "PATCH", f"{EVENTS}/first", {"count": 2})
        await report(made, "third")
        await ask(made, "DELETE", f"{EVENTS}/third")
        version = (await ask(made, "GET", EVENTS))["metadata"]["resourceVersion"]
        await passes(HOUR - PACE)
        assert await names(made) == ["first", "second"]
        await passes(2 * PACE)
        assert await names(made) == []
        stream = await ask(made, "GET", EVENTS, query=f"watch=true&resourceVersion={version}")
        seen = b""
        while seen.count(b'"DELETED"') < 2:
            seen += await anext(stream.chunks)
        await stream.close()


def test_the_time_is_a_flag_and_zero_keeps_events_for_ever(tmp_path: Path) -> None:
    async def scenario(flag: str, seconds: float) -> list[str]:
        async with server(tmp_path, f"--event-ttl={flag}") as made:
            await report(made, "only")
            await passes(seconds)
            return await names(made)

    assert run(lambda: scenario("10m", 600 - PACE)) == ["only"]
    assert run(lambda: scenario("10m", 600 + PACE)) == []
    assert run(lambda: scenario("0", 30 * HOUR)) == ["only"]


def test_events_of_an_earlier_process_expire_by_their_last_write(tmp_path: Path) -> None:
    async def before() -> None:
        async with server(tmp_path, "--storage=sqlite") as made:
            await report(made, "old")
            await report(made, "written-again")
            await passes(HOUR / 2)
            await ask(made, "PATCH", f"{EVENTS}/written-again", {"count": 2})

    async def after() -> None:
        # Virtual time begins again with each process: let this one begin where the last one ended.
        await passes(HOUR / 2)
        async with server(tmp_path, "--storage=sqlite") as made:
            await passes(HOUR / 2 - PACE)
            assert await names(made) == ["old", "written-again"]
            await passes(2 * PACE)
            assert await names(made) == ["written-again"]
            await passes(HOUR / 2)
            assert await names(made) == []

    run(before)
    run(after)


async def test_many_events_that_are_due_at_once_all_go(tmp_path: Path) -> None:
    async with server(tmp_path) as made:
        await asyncio.gather(*(report(made, f"e{number}") for number in range(600)))
        await passes(HOUR + PACE)
        assert await names(made) == []


async def test_an_event_that_is_to_expire_leaves_nothing_to_wait_for(tmp_path: Path) -> None:
    """`run_until_idle` does not run through the hour."""
    loop: Any = asyncio.get_running_loop()
    async with server(tmp_path) as made:
        await report(made, "only")
        before = loop.time()
        assert (await loop.run_until_idle()).idle
        assert loop.time() == before


def configure(folder: Path, limits: list[Json]) -> str:
    """Write an admission configuration; return its flag."""
    given = {"apiVersion": "eventratelimit.admission.k8s.io/v1alpha1", "kind": "Configuration", "limits": limits}
    file = folder / "admission.json"
    plugins = [{"name": "EventRateLimit", "configuration": given}]
    kind = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration"}
    file.write_text(json.dumps({**kind, "plugins": plugins}))
    return f"--admission-control-config-file={file}"


def test_a_server_with_the_plugin_refuses_events_of_the_core_group(tmp_path: Path) -> None:
    flag = configure(tmp_path, [{"type": "Namespace", "qps": 1, "burst": 1}])
    with serve("--enable-admission-plugins=EventRateLimit", flag, time=HeldTime()) as running:
        wire = running.wire()

        def post(name: str) -> int:
            about = {"namespace": "default", "kind": "Pod", "name": "p"}
            event = {"metadata": {"name": name}, "involvedObject": about}
            return wire.post("/api/v1/namespaces/default/events", event).status

        assert [post("a"), post("b")] == [201, 429]
        wire.create("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "a"}})


def test_invalid_limits_are_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"limits: Invalid value: \[\]: must not be empty"):
        read(["--enable-admission-plugins=EventRateLimit", configure(tmp_path, [])])
    with pytest.raises(SettingsError, match="couldn't init admission plugin"):
        read(["--enable-admission-plugins=EventRateLimit"])
