"""A long request does not delay others and is answered like a short one."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Iterator
from time import perf_counter, thread_time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apiserver.http.formats.encoding import encode
from apiserver.http.formats.gathering import gather
from apiserver.http.formats.negotiation import JSON, YAML
from apiserver.http.sinks.metrics import Metrics
from apiserver.registry.definition import options
from apiserver.registry.verbs import selection
from apiserver.request.messages import Request
from apiserver.runtime.clock import Timer, timers
from apiserver.runtime.metrics import Family, Histogram
from apiserver.runtime.offload import LONG, SLICE, on_loop, run_in_thread
from tests.support.server import Running, serve
from tests.support.virtual import run
from tests.support.wire import Wire

pytestmark = pytest.mark.integration

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
APPLY = "application/apply-patch+yaml"
WRONG = {"spec": {"containers": [{"name": f"c{at}", "image": "i", "env": [{}] * 2} for at in range(3000)]}}


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """Serve with a frozen heap, as the process of a server does at its start."""
    gc.collect()
    gc.freeze()
    with serve() as running:
        yield running
    gc.unfreeze()


def config_map(name: str, size: int) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "x" * size}}


def longest_wait(wire: Wire, during: threading.Thread) -> float:
    """Return the longest wait for another answer, in seconds."""
    longest = 0.0
    during.start()
    while during.is_alive():
        started = perf_counter()
        assert wire.get("/readyz").status == 200
        longest = max(longest, perf_counter() - started)
    return longest


@pytest.mark.parametrize(
    ("method", "path", "body", "media"),
    [
        ("POST", PODS, {"metadata": {"name": "x"}, **WRONG}, "application/json"),
        ("PATCH", f"{PODS}/x?fieldManager=m", WRONG, APPLY),
        ("POST", MAPS, "- " * 9000 + "[]\n", "application/yaml"),
        ("POST", MAPS, "{metadata: {name: x}, a: [" + "1," * 60_000 + "]}", "application/yaml"),
        ("DELETE", f"{MAPS}/x", {f"a{at}": {"b": 1} for at in range(40_000)}, "application/json"),
    ],
    ids=["wrong items", "applied items", "deep YAML", "long YAML", "options"],
)
def test_others_are_answered_while_a_request_takes_long(
    server: Running, method: str, path: str, body: Any, media: str
) -> None:
    data = (body if isinstance(body, str) else json.dumps(body)).encode()
    spent: list[float] = []
    waited: list[float] = []

    def work() -> None:
        started = perf_counter()
        assert server.wire().request(method, path, data, {"Content-Type": media}).status < 500
        spent.append(perf_counter() - started)

    while len(waited) < 4:  # a busy machine delays answers, too, but not every time
        waited.append(longest_wait(server.wire(), threading.Thread(target=work)))
        if waited[-1] < max(0.05, spent[-1] / 2):
            return
    pytest.fail(f"others waited {waited} s during {spent} s of work")


@pytest.mark.parametrize("size", [LONG // 2, LONG * 2], ids=["short", "long"])
def test_long_requests_are_answered_as_short_ones(server: Running, size: int) -> None:
    wire, path = server.wire(), f"{MAPS}/big"
    wire.create(MAPS, config_map("big", size))
    assert wire.post(MAPS, config_map("big", size)).reason == "AlreadyExists"
    put = wire.put(path, config_map("big", size + 1))
    assert (put.status, len(put.json["data"]["k"])) == (200, size + 1)
    assert wire.put(path, config_map("other", size)).status == 400
    stale = config_map("big", size)
    stale["metadata"]["resourceVersion"] = "1"
    assert wire.put(path, stale).status == 409
    for media, body in (
        ("application/merge-patch+json", {"data": {"k": "y" * size}}),
        ("application/strategic-merge-patch+json", {"data": {"k": "z" * size}}),
        ("application/json-patch+json", [{"op": "add", "path": "/data/l", "value": "x" * size}]),
        (APPLY, config_map("big", size)),
    ):
        force = "&force=true" if media == APPLY else ""
        answer = wire.request("PATCH", f"{path}?fieldManager=m{force}", body, {"Content-Type": media})
        assert (answer.status, answer.json["metadata"]["name"]) == (200, "big"), answer.text[:300]
    for accept in ("application/yaml", "application/vnd.kubernetes.protobuf", "application/json"):
        assert {wire.get(where, Accept=accept).status for where in (path, MAPS)} == {200}
    assert wire.delete(path, {"preconditions": {"uid": "x" * size}}).status == 409
    assert wire.delete(MAPS, {"x": "x" * size}).status == 200
    assert wire.get(path).status == 404


def test_long_writes_of_one_object_at_a_time_are_all_kept(server: Running) -> None:
    """Two threads and the loop write the same object: conflicting writes are repeated, so none is lost."""
    wire, path = server.wire(), f"{MAPS}/shared"
    wire.post(MAPS, config_map("shared", 1))

    def write(first: int, size: int) -> None:
        for number in range(first, first + 20):
            patch = {"data": {f"n{number}": "1", "padding": "x" * size}}
            assert server.wire().patch(path, patch).status == 200

    writers = [threading.Thread(target=write, args=each) for each in ((0, LONG * 2), (100, 1), (200, LONG * 2))]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(wire.get(path).json["data"]) == 62


@pytest.mark.parametrize("belonging", [False, True], ids=["in a step", "on the loop"])
def test_a_refused_long_request_is_freed_immediately(belonging: bool) -> None:
    """Otherwise megabytes per request would be kept until the next collection."""

    class Body:
        pass

    seen: list[weakref.ref[Body]] = []

    async def refuse() -> None:
        raise ValueError("refused")

    async def work() -> None:
        body = Body()
        seen.append(weakref.ref(body))
        await (on_loop(refuse)() if belonging else refuse())

    async def ask() -> None:
        with pytest.raises(ValueError, match="refused"):
            await run_in_thread(work())
        await run_in_thread(asyncio.sleep(0))  # the thread has let go of the step before

    gc.disable()
    try:
        asyncio.run(ask())
        assert [each() for each in seen] == [None]
    finally:
        gc.enable()


def test_virtual_time_passes_while_a_thread_waits_for_the_loop() -> None:
    """A pod waits like this for its service account."""

    async def request() -> None:
        await on_loop(asyncio.sleep)(60)

    async def wait() -> float:
        loop = asyncio.get_running_loop()
        work = asyncio.ensure_future(run_in_thread(request()))
        with timers(Timer.MACHINE):
            loop.call_later(30, work.cancel)
        await work
        return loop.time()

    assert run(wait) == 60


def test_others_have_their_turn_while_thousands_of_samples_are_written() -> None:
    """This is /metrics after requests for every resource."""
    samples = Histogram("seconds", "", ("resource", "verb"), [number / 10 for number in range(40)])
    for number in range(1500):
        samples.observe(0.1, f"resource-with-a-name-{number}" * 4, "get")
    version = {"major": "1", "minor": "36", "gitVersion": "v1.36.2", "gitCommit": "", "platform": ""}

    async def others() -> list[Family]:
        return [samples]

    metrics = Metrics(dict, dict, tuple, lambda _: None, defaultdict(str, version), lambda: None, others)
    gaps: list[float] = []

    async def measure_turns() -> None:
        while True:
            since = thread_time()
            await asyncio.sleep(0)
            gaps.append(thread_time() - since)

    async def ask() -> bytes:
        looking = asyncio.create_task(measure_turns())
        text = await metrics.text()
        await asyncio.sleep(0)
        looking.cancel()
        return text

    text = asyncio.run(ask())
    assert len(text) > 9 << 20
    assert text.count(b"seconds_bucket") == 1500 * 41
    assert len(gaps) >= 3, "others had turns"


scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)
WHOLE: dict[str, Any] = {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}}


@pytest.mark.parametrize("key", ["items", "rows"])
@pytest.mark.parametrize(("media", "pretty"), [(JSON, False), (JSON, True), (YAML, False)])
@given(items=st.lists(values, max_size=6))
@example(items=[{"\n": None}])
def test_pieces_make_the_same_bytes_as_the_whole(key: str, media: str, pretty: bool, items: list[Any]) -> None:
    made = asyncio.run(gather(media, WHOLE, key, items, lambda item: item, pretty=pretty))
    assert made == encode(media, {**WHOLE, key: items}, pretty=pretty)


@pytest.mark.real_time
async def test_others_get_their_turn_between_the_pieces() -> None:
    waits: list[float] = []

    async def others(done: asyncio.Event) -> None:
        while not done.is_set():
            before = time.perf_counter()
            await asyncio.sleep(0)
            waits.append(time.perf_counter() - before)

    def slow(item: int) -> int:
        until = time.perf_counter() + SLICE / 4
        while time.perf_counter() < until:
            pass
        return item

    done = asyncio.Event()
    other = asyncio.create_task(others(done))
    await gather(JSON, WHOLE, "items", range(60), slow)
    done.set()
    await other
    assert len(waits) >= 10


TERMS = ",".join(f"k{number}!=v{number}" for number in range(8000))
FIELDS = ",".join(f"metadata.name!=v{number}" for number in range(8000))


@pytest.mark.parametrize(
    ("method", "query"),
    [
        ("GET", f"labelSelector={TERMS}"),
        ("GET", f"fieldSelector={FIELDS}"),
        ("GET", f"watch=true&timeoutSeconds=1&labelSelector={TERMS}"),
        ("GET", f"watch=true&timeoutSeconds=1&fieldSelector={FIELDS}"),
        ("DELETE", f"labelSelector={TERMS},none"),
    ],
    ids=["labels", "fields", "watch of labels", "watch of fields", "deletion"],
)
def test_a_long_selector_is_compiled_in_a_thread_and_selects_as_any_other(
    server: Running, method: str, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    def noting(compiled: Any) -> Any:
        def compile_(*given: Any) -> Any:
            threads.append(threading.current_thread().name)
            return compiled(*given)

        return compile_

    wire = server.wire()
    wire.post(MAPS, config_map("selected", 1))
    for module, name in ((options, "parse_labels"), (options, "parse_fields"), (selection, "select")):
        monkeypatch.setattr(module, name, noting(getattr(module, name)))
    answer = wire.request(method, f"{MAPS}?{query}")
    assert answer.status == 200, answer.text[:300]
    assert set(threads) == {"long requests"}
    assert (b'"name":"selected"' in answer.body) is (method == "GET")
    assert wire.get(f"{MAPS}/selected").status == 200


def test_a_query_of_too_many_parameters_has_none() -> None:
    assert len(Request("GET", "/", "a=b&" * 9_999, {}, b"").params["a"]) == 9_999
    assert Request("GET", "/", "a=b&" * 10_000, {}, b"").params == {}
