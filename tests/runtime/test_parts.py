"""The small parts that controllers share: conditions, delays, times, amounts, texts and the endpoint of health."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from apiserver.api.objects import Json
from controllers.runtime.backoff import Backoff
from controllers.runtime.client import Client
from controllers.runtime.conditions import condition_of, condition_patch, with_condition
from controllers.runtime.controller import ComponentOfSeveral, Controller
from controllers.runtime.gotext import label_selector_text
from controllers.runtime.health import answer, answering
from controllers.runtime.informer import Informers
from controllers.runtime.intorstring import scaled
from controllers.runtime.kinds import NODES, PODS, VOLUMES, key_of, split_key
from controllers.runtime.newest import Newest
from controllers.runtime.times import go_time, micro_time, parse_time
from controllers.runtime.transport import NoTransport
from controllers.runtime.workqueue import Resync, RetryDelays, Workqueue

pytestmark = pytest.mark.integration

OLD, NOW = "2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z"


def condition(kind: str, status: str, at: str = NOW, **more: str) -> Json:
    return {"type": kind, "status": status, "lastTransitionTime": at, **more}


# --- conditions


def test_a_condition_is_changed_in_its_place_and_keeps_its_time_while_its_status_stays() -> None:
    known = [condition("A", "True", OLD), condition("B", "True", OLD, reason="r")]
    assert with_condition(known, condition("A", "True", reason="s")) == [
        condition("A", "True", OLD, reason="s"),
        known[1],
    ]
    assert with_condition(known, condition("B", "False")) == [known[0], condition("B", "False")]
    assert with_condition(known, condition("C", "False")) == [*known, condition("C", "False")]
    assert condition_of({"status": {"conditions": known}}, "B") == known[1]
    assert condition_of({"status": {"conditions": known}}, "C") is None
    assert condition_of({}, "A") is None


def test_a_patch_of_a_condition_sends_what_changes_and_the_order() -> None:
    def patch(wanted: Json, *known: Json) -> Json:
        return condition_patch({"status": {"conditions": list(known)}}, wanted)

    a, b = condition("A", "True", OLD, reason="r"), condition("B", "False", OLD)
    order = {"$setElementOrder/conditions": [{"type": "A"}, {"type": "B"}]}
    assert patch(condition("A", "True")) == {"conditions": [condition("A", "True")]}
    assert patch(b, a) == {**order, "conditions": [b]}
    assert patch(condition("A", "True", NOW, reason="r"), a, b) == {}
    assert patch(condition("A", "True", NOW, reason="s"), a, b) == {
        **order,
        "conditions": [{"type": "A", "reason": "s"}],
    }
    assert patch(condition("A", "False"), a, b) == {
        **order, "conditions": [{"type": "A", "status": "False", "lastTransitionTime": NOW, "reason": None}],
    }  # fmt: skip


# --- times and amounts


def test_times_are_written_and_read_as_objects_have_them() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    assert (go_time(moment), micro_time(moment)) == ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.678901Z")
    assert parse_time(micro_time(moment)) == moment
    assert parse_time("2026-01-02T05:04:05+02:00") == moment.replace(microsecond=0)
    assert parse_time("2026-01-02T05:04:05+02:00").utcoffset() == timedelta()


@pytest.mark.parametrize(
    ("value", "total", "up", "down"),
    [
        (3, 10, 3, 3),
        (0, 10, 0, 0),
        ("25%", 10, 3, 2),
        ("100%", 7, 7, 7),
        ("0%", 7, 0, 0),
        ("1%", 1, 1, 0),
        ("150%", 2, 3, 3),
    ],
)
def test_a_share_is_rounded_up_or_down(value: int | str, total: int, up: int, down: int) -> None:
    assert (scaled(value, total, up=True), scaled(value, total, up=False)) == (up, down)


@pytest.mark.parametrize("text", ["25", "%", "-5%", "5 %", "25%%", ""])
def test_a_text_that_is_no_share_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="string is not a percentage"):
        scaled(text, 10, up=True)


def test_a_selector_is_written_as_go_does() -> None:
    assert label_selector_text(None) == "nil"
    given = {
        "matchLabels": {"b": "2", "a": "1"},
        "matchExpressions": [{"key": "k", "operator": "In", "values": ["x", "y"]}],
    }
    assert label_selector_text(given) == (
        "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:[]LabelSelectorRequirement{"
        "LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},},}"
    )
    assert label_selector_text({"matchExpressions": [{"key": "k", "operator": "Exists"}]}).count("Values:[],") == 1


# --- delays


async def test_a_client_waits_longer_each_time_and_begins_anew_after_two_minutes() -> None:
    backoff = Backoff(lambda: 0.5)
    assert [backoff.next() for _ in range(8)] == pytest.approx([1.2, 2.4, 4.8, 9.6, 19.2, 38.4, 45, 45])
    await asyncio.sleep(120)
    assert backoff.next() == 45
    await asyncio.sleep(0.001)
    assert backoff.next() == pytest.approx(1.2)
    assert backoff.next() == pytest.approx(2.4)
    await asyncio.sleep(119)
    assert backoff.next() == pytest.approx(4.8)


async def test_failures_are_counted_until_they_are_forgotten_and_waits_end_at_the_limit() -> None:
    queue = Workqueue(RetryDelays(timedelta(seconds=1), timedelta(seconds=5)))
    loop, begun = asyncio.get_running_loop(), asyncio.get_running_loop().time()
    waits = []
    assert queue.retries("a") == 0
    for number in range(4):
        queue.retry("a")
        assert queue.retries("a") == number + 1
        waits.append(round((queue.due or 0) - loop.time()))
        assert await queue.get() == "a"
        queue.done("a")
    assert waits == [1, 2, 4, 5]
    assert loop.time() - begun == pytest.approx(12)
    queue.forget("a")
    queue.forget("never")
    assert queue.retries("a") == 0
    assert queue.due is None


async def test_upkeep_is_not_due_and_does_not_shorten_what_is() -> None:
    queue, loop = Workqueue(), asyncio.get_running_loop()
    queue.add_after("a", Resync(seconds=1))
    assert queue.due is None
    queue.add_after("a", timedelta(seconds=5))
    queue.add_after("b", timedelta(seconds=3))
    assert queue.due == pytest.approx(loop.time() + 3)
    begun, found = loop.time(), []
    for _ in range(3):
        key = await queue.get()
        assert key is not None
        found.append((key, round(loop.time() - begun)))
        assert not queue.idle
        queue.done(key)
        assert queue.idle
    assert found == [("a", 1), ("b", 3), ("a", 5)]
    queue.add_after("c", timedelta(seconds=1))
    queue.close()
    queue.add("d")
    queue.add_after("e", timedelta(seconds=1))
    assert (await queue.get(), len(queue), queue.due) == (None, 0, None)


# --- controllers


def pod(name: str, node: str = "", version: int = 1, uid: str = "") -> Json:
    metadata = {"name": name, "namespace": "ns", "uid": uid or name, "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {"nodeName": node}}


def test_a_controller_looks_at_what_an_object_was_and_is_about() -> None:
    informers = Informers(Client(NoTransport()))

    async def nothing(_: str) -> None:
        pass

    controller = Controller("c", nothing)
    controller.follow(informers.of(PODS), lambda found: (found["spec"]["nodeName"],))

    def looked_at(obj: Json | None) -> set[str]:
        informers.of(PODS).set_object("ns/p", obj)
        queue = controller.queue
        found = set(queue._dirty)
        queue._dirty.clear()
        queue._order.clear()
        return found

    assert looked_at(pod("p", "a")) == {"a"}
    assert looked_at(pod("p", "b")) == {"a", "b"}
    assert looked_at(None) == {"b"}


async def test_a_component_of_several_is_idle_when_all_are_and_due_with_the_first() -> None:
    async def nothing(_: str) -> None:
        pass

    one, other = Controller("one", nothing), Controller("other", nothing)
    component = ComponentOfSeveral()
    component._controllers = (one, other)
    assert component.idle
    assert component.due is None
    other.queue.add_after("x", timedelta(seconds=5))
    one.queue.add_after("y", timedelta(seconds=3))
    assert component.due == one.queue.due
    other.queue.add("z")
    assert not component.idle
    assert len(component.metrics) == len(one.metrics) + len(other.metrics)


def test_an_answer_to_an_update_counts_until_the_watch_shows_it_or_something_newer() -> None:
    informers = Informers(Client(NoTransport()))
    known = Newest(informers.of(PODS))

    def shown() -> str | None:
        found = known.get("ns/p")
        return found["metadata"]["resourceVersion"] if found else None

    known.wrote(pod("p", version=5))
    assert shown() is None
    informers.of(PODS).set_object("ns/p", pod("p", version=2))
    known.wrote(pod("p", version=5))
    assert shown() == "5"
    assert [each["metadata"]["resourceVersion"] for each in known.of([pod("p", version=2), pod("q", version=1)])] == [
        "5",
        "1",
    ]
    informers.of(PODS).set_object("ns/p", pod("p", version=4))
    assert shown() == "5"
    informers.of(PODS).set_object("ns/p", pod("p", version=5))
    known.wrote(pod("p", version=5, node="late"))
    known.wrote(pod("p", version=9, uid="another"))
    assert known.get("ns/p") == pod("p", version=5)
    known.wrote(pod("p", version=8))
    informers.of(PODS).set_object("ns/p", None)
    assert shown() is None


def test_a_key_is_namespace_and_name() -> None:
    assert key_of(pod("p")) == "ns/p"
    assert key_of({"metadata": {"name": "n"}}) == "n"
    assert (split_key("ns/p"), split_key("n")) == (("ns", "p"), ("", "n"))
    assert (NODES.namespaced, PODS.namespaced, VOLUMES.namespaced) == (False, True, False)


# --- health


@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        ("GET /healthz HTTP/1.1", 200, "ok"), ("GET /livez?verbose HTTP/1.1", 200, "ok"), ("GET /readyz HTTP/1.1", 500, "not yet"),
        ("HEAD /readyz HTTP/1.1", 500, ""), ("GET /metrics HTTP/1.1", 200, "a 1\n"), ("HEAD /metrics HTTP/1.1", 200, ""),
        ("POST /healthz HTTP/1.1", 405, "method not allowed"), ("GET / HTTP/1.1", 404, "not found"), ("", 404, "not found"),
        ("POST /other HTTP/1.1", 404, "not found"),
    ],
)  # fmt: skip
def test_a_component_says_how_it_is(request_line: str, status: int, body: str) -> None:
    found = answer(request_line, lambda: "not yet", lambda: "a 1\n").decode()
    head, _, text = found.partition("\r\n\r\n")
    lines = head.split("\r\n")
    assert (int(lines[0].split()[1]), text) == (status, body)
    kind = "text/plain; version=0.0.4" if "/metrics" in request_line and status == 200 else "text/plain; charset=utf-8"
    assert next(line for line in lines if line.startswith("content-type")).startswith(f"content-type: {kind}")
    length = {"HEAD /readyz HTTP/1.1": 7, "HEAD /metrics HTTP/1.1": 4}.get(request_line, len(body))
    assert f"content-length: {length}" in lines


@pytest.mark.real_time
async def test_health_is_answered_over_a_socket_and_nowhere_without_an_address() -> None:
    async def ask(port: int, *lines: str) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write("".join(f"{line}\r\n" for line in lines).encode())
        found = await reader.read()
        writer.close()
        return found

    async with answering(("127.0.0.1", 0), lambda: "", lambda: "") as port:
        assert (await ask(port, "GET /readyz HTTP/1.1", "Host: x", "")).endswith(b"\r\n\r\nok")
    with pytest.raises(ConnectionRefusedError):
        await ask(port, "")
    async with answering(None, lambda: "", lambda: "") as nowhere:
        assert nowhere == 0


async def test_without_a_server_nothing_is_asked() -> None:
    for ask in (NoTransport().request, NoTransport().stream):
        with pytest.raises(AssertionError, match=r"there is no server to .*: .*/x"):
            await ask("GET", "/x", "", {}, b"")
    await NoTransport().close()
