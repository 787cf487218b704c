"""Watches of clients in the server's process share its objects and equal other watches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from typing import Any, cast

import orjson
import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.authentication.authenticator import ADMIN
from apiserver.components.in_process import InProcess
from controllers.runtime.client import Client
from controllers.runtime.kinds import RESOURCE_CLAIMS, Kind
from controllers.runtime.transport import Transport
from tests.support.server import Running, serve

pytestmark = pytest.mark.integration

CLAIM = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [{"name": "r", "exactly": {
    "deviceClassName": "gpu"}}]}}}  # fmt: skip
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
OLDER = Kind("resource.k8s.io", "v1beta1", "resourceclaims", "ResourceClaim")


class WithoutShortcut:
    """The same transport without its shortcut for watches."""

    def __init__(self, inside: InProcess) -> None:
        self.request, self.stream, self.close = inside.request, inside.stream, inside.close


@pytest.fixture
def running() -> Iterator[Running]:
    with serve("--runtime-config=api/all=true") as server:
        yield server


def watch_until_deleted(running: Running, kind: Kind, *, shortcut: bool) -> list[tuple[str, Json]]:
    """Return the events of a new watch until the claim is deleted."""

    async def watch() -> list[tuple[str, Json]]:
        inside = InProcess(running.server.chain, ADMIN)
        client = Client(cast("Transport", inside if shortcut else WithoutShortcut(inside)), "inside")
        events: list[tuple[str, Json]] = []
        async with aclosing(client.watch(kind, resource_version="1")) as batches:
            async for batch in batches:
                events += batch
                if events[-1][0] == "DELETED":
                    break
        return events

    return running.call(watch)


def claim_that_came_and_went(running: Running) -> None:
    wire = running.wire()
    wire.post(CLAIMS, CLAIM)
    wire.patch(f"{CLAIMS}/c", {"metadata": {"labels": {"a": "b"}}})  # fmt: skip
    wire.delete(f"{CLAIMS}/c")


@pytest.mark.parametrize("kind", [RESOURCE_CLAIMS, OLDER], ids=["as stored", "in another version"])
def test_a_client_inside_sees_what_a_reader_of_the_bytes_sees(running: Running, kind: Kind) -> None:
    claim_that_came_and_went(running)
    events = watch_until_deleted(running, kind, shortcut=True)
    assert [what for what, _ in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert events == watch_until_deleted(running, kind, shortcut=False)


def test_the_objects_are_those_of_the_server(running: Running) -> None:
    claim_that_came_and_went(running)
    one, other = (watch_until_deleted(running, RESOURCE_CLAIMS, shortcut=True) for _ in range(2))
    assert all(mine["metadata"] is theirs["metadata"] for (_, mine), (_, theirs) in zip(one, other, strict=True))


def test_its_record_counts_as_many_bytes(running: Running) -> None:
    claim_that_came_and_went(running)
    for shortcut in (True, False):
        watch_until_deleted(running, RESOURCE_CLAIMS, shortcut=shortcut)
    records = running.wire().get("/-/requests?userAgent=inside").json
    ended = [record["bytes"] for record in records if record["stage"] == "ResponseComplete"]
    assert len(ended) == 2
    assert ended[0] == ended[1] > 0


REVISIONS = Kind("apps", "v1", "controllerrevisions", "ControllerRevision")
REVISION = {"metadata": {"name": "c"}, "revision": 1, "data": {"spec": {"a": [1, {"b": "c"}]}}}


async def follow_objects(running: Running, kind: Kind, objects: Sequence[Json]) -> list[tuple[Json, Json, bool]]:
    """Create objects under a watch inside.

    Returns:
        For each object its event, its body for other readers, and whether its bytes were decoded for the event.
    """
    store = running.server.registry.stores[kind.group, kind.plural]
    cache, decoded = store.cache, list[bytes]()
    decode = cache._decode

    def record(text: bytes) -> Any:
        decoded.append(text)
        return decode(text)

    cache._decode = record
    client, found = Client(InProcess(running.server.chain, ADMIN), "inside"), []
    async with aclosing(client.watch(kind, resource_version=str(cache.revision))) as batches:
        first = asyncio.ensure_future(anext(batches))
        while not cache.followers:
            await asyncio.sleep(0)
        for obj in objects:
            made = await client.request("POST", kind.path("default"), "", obj)
            ((_, seen),) = await first
            found.append((seen, made, bool(decoded)))
            first = asyncio.ensure_future(anext(batches))
        with pytest.raises(StatusError):
            await client.request("POST", kind.path("default"), "", objects[-1])
        first.cancel()
        await asyncio.wait([first])
    assert not cache.followers
    assert not cache._preloaded
    return found


@pytest.mark.parametrize(
    ("kind", "obj", "decoded"),
    [(RESOURCE_CLAIMS, CLAIM, False), (REVISIONS, REVISION, True)],
    ids=["what was made is what reading gives", "something knows how it was written"],
)
def test_a_write_under_a_watch_inside_is_shown_as_others_read_it(
    running: Running, kind: Kind, obj: Json, decoded: bool
) -> None:
    ((seen, made, was_decoded),) = running.call(lambda: follow_objects(running, kind, [obj]))
    assert seen == made
    assert orjson.dumps(seen, option=orjson.OPT_PASSTHROUGH_SUBCLASS)
    assert was_decoded == decoded
