"""The client and the informer on exact wire bytes: streaming lists, fallback, resume, 410."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.runtime.client import Client
from controllers.runtime.informer import Informer
from controllers.runtime.kinds import PODS, RESOURCE_SLICES
from controllers.runtime.transport import TransportError
from tests.support.virtual import passes, run

pytestmark = pytest.mark.integration


def make_pod(name: str, version: int, **labels: str) -> Json:
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {**metadata, **({"labels": labels} if labels else {})}}


def line(kind: str, obj: Json) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def end_of_initial(version: int) -> bytes:
    metadata = {"resourceVersion": str(version), "annotations": {"k8s.io/initial-events-end": "true"}}
    return line("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "metadata": metadata})


def a_status(code: int, reason: str) -> Json:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": reason,
        "reason": reason,
        "code": code,
    }


class Script:
    """A transport that answers with prepared bytes and records what was asked."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, list[bytes], bool]] = []
        self.asked: list[tuple[str, str, dict[str, list[str]]]] = []
        self.drained = asyncio.Event()

    def answer(self, *chunks: bytes, status: int = 200, stays_open: bool = False) -> Script:
        self.answers.append((status, list(chunks), stays_open))
        return self

    def _next(self, method: str, path: str, query: str) -> tuple[int, list[bytes], bool]:
        self.asked.append((method, path, parse_qs(query)))
        if not self.answers:
            self.drained.set()
            raise TransportError("the script has ended")
        return self.answers.pop(0)

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        status, chunks, _ = self._next(method, path, query)
        return status, [("retry-after", "1")] if status == 429 else [], b"".join(chunks)

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str], *_: Any
    ) -> tuple[int, list[tuple[str, str]], AsyncIterator[bytes]]:
        status, chunks, stays_open = self._next(method, path, query)

        async def stream() -> AsyncIterator[bytes]:
            for chunk in chunks:
                yield chunk
            if stays_open:
                self.drained.set()
                await asyncio.Event().wait()

        return status, [], stream()

    async def close(self) -> None: ...


def follow(prepare: Callable[[Script], Script]) -> tuple[Informer, Script, list[tuple[str, ...]]]:
    """Run an informer through a script to its end; return it with the calls of its handler."""

    async def main() -> tuple[Informer, Script, list[tuple[str, ...]]]:
        script = prepare(Script())
        informer = Informer(Client(script), PODS)
        calls: list[tuple[str, ...]] = []

        def name(pod: Json) -> str:
            return f"{pod['metadata']['name']}@{pod['metadata']['resourceVersion']}"

        informer.on(
            added=lambda pod: calls.append(("added", name(pod))),
            updated=lambda old, new: calls.append(("updated", name(old), name(new))),
            deleted=lambda pod: calls.append(("deleted", name(pod))),
        )
        task = asyncio.create_task(informer.run())
        await asyncio.wait_for(script.drained.wait(), 5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return informer, script, calls

    return run(main)


def test_the_first_sync_is_one_watch_whose_bookmark_ends_the_present_objects() -> None:
    whole = (
        line("ADDED", make_pod("a", 1))
        + line("ADDED", make_pod("b", 2))
        + end_of_initial(7)
        + line("MODIFIED", make_pod("a", 8))
    )
    for cut in (1, 50, len(whole) - 1):
        informer, script, calls = follow(lambda s, cut=cut: s.answer(whole[:cut], whole[cut:], stays_open=True))  # type: ignore[misc]
        assert informer.synced
        assert calls == [("added", "a@1"), ("added", "b@2"), ("updated", "a@1", "a@8")]
        assert informer.resource_version == "8"
        query = script.asked[0][2]
        assert query["sendInitialEvents"] == ["true"]
        assert query["resourceVersionMatch"] == ["NotOlderThan"]
        assert query["allowWatchBookmarks"] == ["true"]
        assert "resourceVersion" not in query


def test_objects_that_change_or_go_while_the_first_sync_runs_are_as_they_are_at_its_end() -> None:
    informer, _, calls = follow(
        lambda s: s.answer(
            line("ADDED", make_pod("changed", 1))
            + line("ADDED", make_pod("gone", 2))
            + line("ADDED", make_pod("back", 3)),
            line("MODIFIED", make_pod("changed", 4)) + line("DELETED", make_pod("gone", 5)),
            line("DELETED", make_pod("back", 6))
            + line("ADDED", make_pod("back", 7))
            + line("DELETED", make_pod("never", 8)),
            end_of_initial(8),
            stays_open=True,
        )
    )
    assert calls == [("added", "changed@4"), ("added", "back@7")]
    assert sorted(informer.objects) == ["ns/back", "ns/changed"]


def test_an_object_that_goes_while_the_collection_is_read_again_is_deleted() -> None:
    informer, _, calls = follow(
        lambda s: s.answer(
            line("ADDED", make_pod("a", 1)), end_of_initial(7), line("ERROR", a_status(410, "Expired"))
        ).answer(
            line("ADDED", make_pod("a", 1)) + line("DELETED", make_pod("a", 9)), end_of_initial(9), stays_open=True
        )
    )
    assert (calls, informer.objects) == ([("added", "a@1"), ("deleted", "a@1")], {})


@pytest.mark.parametrize(
    "end", [line("ERROR", a_status(410, "Expired")), b""], ids=["an ERROR event", "the end of the connection"]
)
def test_a_first_sync_that_breaks_off_leaves_nothing_behind(end: bytes) -> None:
    informer, script, calls = follow(
        lambda s: s.answer(line("ADDED", make_pod("ghost", 1)), end).answer(
            line("ADDED", make_pod("a", 2)), end_of_initial(7), stays_open=True
        )
    )
    assert (informer.synced, calls) == (True, [("added", "a@2")])
    assert [query["sendInitialEvents"] for _, _, query in script.asked] == [["true"]] * 2


def test_a_watch_that_ends_goes_on_from_the_last_version_seen_bookmarks_included() -> None:
    bookmark = line("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "20"}})
    _, script, calls = follow(
        lambda s: s.answer(line("ADDED", make_pod("a", 1)), end_of_initial(7), bookmark).answer(
            line("DELETED", make_pod("a", 21)), stays_open=True
        )
    )
    assert calls == [("added", "a@1"), ("deleted", "a@21")]
    assert script.asked[1][2]["resourceVersion"] == ["20"]
    assert "sendInitialEvents" not in script.asked[1][2]


def test_a_server_without_streaming_lists_gets_a_list_and_a_watch_from_its_version() -> None:
    def without_type(pod: Json) -> Json:
        return {"metadata": pod["metadata"]}

    page = {
        "kind": "PodList",
        "metadata": {"resourceVersion": "5", "continue": "t"},
        "items": [without_type(make_pod("a", 1))],
    }
    rest = {"kind": "PodList", "metadata": {"resourceVersion": "5"}, "items": [without_type(make_pod("b", 2))]}
    informer, script, calls = follow(
        lambda s: (
            s.answer(json.dumps(a_status(422, "Invalid")).encode(), status=422)
            .answer(json.dumps(page).encode())
            .answer(json.dumps(rest).encode())
            .answer(line("ADDED", make_pod("c", 6)), stays_open=True)
        )
    )
    assert calls == [("added", "a@1"), ("added", "b@2"), ("added", "c@6")]
    assert script.asked[1][2]["resourceVersion"] == ["0"]
    assert script.asked[2][2]["continue"] == ["t"]
    assert script.asked[3][2]["resourceVersion"] == ["5"]
    found = informer.get("ns/a")
    assert found is not None
    assert (found["kind"], found["apiVersion"]) == ("Pod", "v1")


def test_a_server_that_fails_in_a_streaming_list_is_asked_for_a_plain_one() -> None:
    refused = line("ADDED", make_pod("ghost", 1)) + line("ERROR", a_status(500, "InternalError"))
    page = {"kind": "PodList", "metadata": {"resourceVersion": "5"}, "items": [make_pod("a", 1)]}
    informer, script, calls = follow(
        lambda s: s.answer(refused).answer(json.dumps(page).encode()).answer(stays_open=True)
    )
    assert (informer.synced, calls) == (True, [("added", "a@1")])
    assert script.asked[2][2]["resourceVersion"] == ["5"]


@pytest.mark.parametrize("in_stream", [True, False], ids=["as an ERROR event", "as the answer"])
def test_after_410_the_collection_is_read_again_and_handlers_see_the_difference(in_stream: bool) -> None:
    gone = a_status(410, "Expired")

    def script(s: Script) -> Script:
        initial = [line("ADDED", make_pod(n, v)) for n, v in (("same", 1), ("changed", 2), ("gone", 3))]
        s.answer(*initial, end_of_initial(7))
        if in_stream:
            s.answer(line("ERROR", gone))
        else:
            s.answer(json.dumps(gone).encode(), status=410)
        again = [line("ADDED", make_pod(n, v)) for n, v in (("same", 1), ("changed", 12), ("new", 13))]
        return s.answer(*again, end_of_initial(20), stays_open=True)

    informer, _, calls = follow(script)
    assert calls[3:] == [("deleted", "gone@3"), ("updated", "changed@2", "changed@12"), ("added", "new@13")]
    assert sorted(informer.objects) == ["ns/changed", "ns/new", "ns/same"]
    assert informer.resource_version == "20"


class Refusing(Script):
    """Answers every watch with 410, in the stream or at once, after an event if there is one; notes when it was asked."""

    def __init__(self, *chunks: bytes, status: int = 200) -> None:
        super().__init__()
        self.times: list[float] = []
        self._chunks, self._status = chunks, status

    def _next(self, method: str, path: str, query: str) -> tuple[int, list[bytes], bool]:
        self.times.append(asyncio.get_running_loop().time())
        return self._status, list(self._chunks), False


GONE = a_status(410, "Expired")


@pytest.mark.parametrize(
    "script",
    [
        lambda: Refusing(line("ERROR", GONE)),
        lambda: Refusing(json.dumps(GONE).encode(), status=410),
        lambda: Refusing(line("ADDED", make_pod("a", 1)), end_of_initial(7), line("ERROR", GONE)),
        lambda: Refusing(line("ADDED", make_pod("a", 1))),
        lambda: Refusing(b""),
    ],
    ids=["as an ERROR event", "as the answer", "after initial events", "in initial events", "nothing comes at all"],
)
async def test_where_every_watch_is_gone_each_attempt_waits_twice_as_long_up_to_half_a_minute(
    script: Callable[[], Refusing],
) -> None:
    refusing = script()
    task = asyncio.create_task(Informer(Client(refusing), PODS).run())
    await passes(119)
    delays = [after - before for before, after in pairwise(refusing.times)]
    for delay, least in zip(delays, (0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30), strict=False):
        assert least <= delay <= 2 * least
    assert 5 <= len(delays) <= 7
    refusing.times.clear()
    await passes(120)
    delays = [after - before for before, after in pairwise(refusing.times)]
    assert min(delays) <= 1.6, "after two minutes the delays begin again"
    task.cancel()


async def test_an_informer_whose_watches_end_after_each_event_lets_others_work() -> None:
    refusing = Refusing(line("ADDED", make_pod("a", 1)), end_of_initial(7))
    task = asyncio.create_task(Informer(Client(refusing), PODS).run())
    for _ in range(100):
        await asyncio.sleep(0)
    assert 1 < len(refusing.times) <= 100
    task.cancel()


def test_others_have_their_turn_while_a_long_list_is_read() -> None:
    def turns(number: int) -> int:
        page = {
            "kind": "PodList",
            "metadata": {"resourceVersion": "5"},
            "items": [make_pod(f"p{n}", 1) for n in range(number)],
        }

        async def main() -> int:
            script = Script().answer(json.dumps(a_status(422, "Invalid")).encode(), status=422)
            script.answer(json.dumps(page).encode()).answer(stays_open=True)
            task = asyncio.create_task(Informer(Client(script), PODS).run())
            turn = 0
            while not script.drained.is_set():
                turn += 1
                await asyncio.sleep(0)
            task.cancel()
            return turn

        return run(main)

    assert turns(33) == turns(32) > turns(31)
    assert turns(96) - turns(31) >= 3


def test_a_name_taken_by_another_object_while_no_watch_ran_is_a_deletion_and_an_addition() -> None:
    other = make_pod("a", 9)
    other["metadata"]["uid"] = "other"
    _, _, calls = follow(
        lambda s: s.answer(
            line("ADDED", make_pod("a", 1)), end_of_initial(7), line("ERROR", a_status(410, "Expired"))
        ).answer(line("ADDED", other), end_of_initial(10), stays_open=True)
    )
    assert calls[1:] == [("deleted", "a@1"), ("added", "a@9")]


async def test_an_index_follows_every_change() -> None:
    script = Script().answer(
        line("ADDED", make_pod("a", 1, app="x")),
        line("ADDED", make_pod("b", 2, app="x")),
        end_of_initial(3),
        line("MODIFIED", make_pod("a", 4, app="y")),
        line("DELETED", make_pod("b", 5, app="x")),
        stays_open=True,
    )
    informer = Informer(Client(script), PODS)
    by_app = informer.index("app", lambda pod: [pod["metadata"]["labels"]["app"]])
    task = asyncio.create_task(informer.run())
    await asyncio.wait_for(script.drained.wait(), 5)
    assert by_app.get("x") == []
    assert by_app.keys("y") == ["ns/a"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_error_answer_is_raised_with_its_code_reason_and_message() -> None:
    status = a_status(409, "Conflict")
    client = Client(Script().answer(json.dumps(status).encode(), status=409))
    with pytest.raises(StatusError, match="Conflict") as caught:
        await client.update(PODS, make_pod("a", 1))
    assert (caught.value.code, caught.value.reason) == (409, "Conflict")


@pytest.mark.parametrize(
    ("body", "said"), [(b"no such thing", "no such thing"), (b"", "the server answered with status 502")]
)
async def test_an_error_that_is_no_status_is_what_was_written(body: bytes, said: str) -> None:
    client = Client(Script().answer(body, status=502))
    with pytest.raises(StatusError) as caught:
        await client.get(PODS, "a", "ns")
    assert (str(caught.value), caught.value.code) == (said, 502)


async def test_an_unknown_path_is_named_as_client_go_names_it() -> None:
    asked = {
        "/apis/metrics.k8s.io/v1beta1/namespaces/ns/pods": "(get pods.metrics.k8s.io)",
        "/api/v1/namespaces/ns/pods/a": "(get pods a)",
        "/apis/example.com/v1/things/x": "(get things.example.com x)",
        "/api/v1/namespaces/ns": "(get namespaces ns)",
    }
    for path, shown in asked.items():
        client = Client(Script().answer(b"404 page not found", status=404))
        with pytest.raises(StatusError) as caught:
            await client.request("GET", path)
        assert str(caught.value) == f"the server could not find the requested resource {shown}"
    client = Client(Script().answer(b"404 page not found", status=404))
    with pytest.raises(StatusError, match=r"^the server could not find the requested resource$"):
        await client.request("GET", "/nothing")


async def test_a_request_that_the_server_asks_to_repeat_is_repeated_after_the_time_it_names() -> None:
    script = Script().answer(b"", status=429).answer(json.dumps(make_pod("a", 1)).encode())
    task = asyncio.create_task(Client(script).get(PODS, "a", "ns"))
    await passes()
    assert len(script.asked) == 1
    await passes(1)
    assert (await task)["metadata"]["name"] == "a"
    assert script.asked[1][1] == "/api/v1/namespaces/ns/pods/a"


def test_paths_follow_group_and_scope() -> None:
    assert PODS.path("ns", "p", "status") == "/api/v1/namespaces/ns/pods/p/status"
    assert PODS.path() == "/api/v1/pods"
    assert RESOURCE_SLICES.path("ignored", "s") == "/apis/resource.k8s.io/v1/resourceslices/s"
