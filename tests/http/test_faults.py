"""Injected faults: matching requests see a failing server, other requests are unaffected."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apiserver.authentication.authenticator import ADMIN
from apiserver.components.in_process import InProcess
from apiserver.request.messages import Request
from controllers.runtime.client import Client
from controllers.runtime.kinds import PODS
from controllers.runtime.transport import TransportError
from tests.support.server import Running, serve
from tests.support.tokens import token_flag
from tests.support.wire import Wire

pytestmark = pytest.mark.integration

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def wire(wire: Wire) -> Iterator[Wire]:
    yield wire
    assert wire.post("/-/reset", None).status == 200


def inject(wire: Wire, **fault: Any) -> str:
    answer = wire.create("/-/faults", fault)
    return str(answer["id"])


def fault(wire: Wire, name: str) -> Any:
    return wire.get(f"/-/faults/{name}").json


REASONS = {
    409: ("Conflict", 'Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes to the latest version and try again'),
    410: ("Expired", "The provided resource version is too old."),
    429: ("TooManyRequests", "the server has received too many requests and has asked us to try again later"),
    500: ("InternalError", "an error on the server prevented the request from succeeding"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
}  # fmt: skip


@pytest.mark.parametrize("media", ["", "application/x-www-form-urlencoded"])
def test_a_fault_is_read_as_kubectl_and_curl_send_it(wire: Wire, media: str) -> None:
    headers = {"Content-Type": media} if media else {}
    assert wire.request("POST", "/-/faults", b'{"status": 503}', headers).status == 201
    assert wire.get(MAPS).status == 503


@pytest.mark.parametrize("status", REASONS)
def test_an_injected_error_is_a_status_that_names_its_fault_and_nothing_has_happened(wire: Wire, status: int) -> None:
    wire.create_config_map("a", k="before")
    made = inject(wire, match={"verb": "update"}, status=status)
    answer = wire.put(f"{MAPS}/a", {"metadata": {"name": "a"}, "data": {"k": "after"}})
    assert (answer.status, answer.json["kind"], answer.headers["kubedra-fault"]) == (status, "Status", made)
    assert (answer.reason, answer.message) == REASONS[status]
    assert "retry-after" not in answer.headers
    assert wire.get(f"{MAPS}/a").json["data"] == {"k": "before"}


def test_an_error_can_ask_to_be_repeated_later_and_have_a_text_of_its_own(wire: Wire) -> None:
    inject(wire, status=429, retryAfterSeconds=3, message="slow down")
    answer = wire.get(MAPS)
    assert (answer.headers["retry-after"], answer.message) == ("3", "slow down")
    assert answer.json["details"]["retryAfterSeconds"] == 3


def test_a_fault_is_injected_as_often_as_its_count(wire: Wire) -> None:
    made = inject(wire, match={"resource": "configmaps"}, status=500, count=2)
    assert [wire.get(MAPS).status for _ in range(4)] == [500, 500, 200, 200]
    assert (fault(wire, made)["fired"], fault(wire, made)["active"]) == (2, False)


def test_the_same_seed_gives_the_same_faults(wire: Wire) -> None:
    runs = []
    for seed in (7, 7, 8):
        made = inject(wire, status=503, probability=0.5, seed=seed)
        runs.append([wire.get(MAPS).status for _ in range(24)])
        wire.delete(f"/-/faults/{made}")
    assert runs[0] == runs[1] != runs[2]
    assert set(runs[0]) == {200, 503}


MATCHING = [
    ({"verb": "get"}, f"{MAPS}/a"),
    ({"verb": "list"}, MAPS),
    ({"resource": "configmaps", "name": "a"}, f"{MAPS}/a"),
    ({"resource": "pods/status"}, "/api/v1/namespaces/n/pods/p/status"),
    ({"resource": "pods/*"}, "/api/v1/namespaces/n/pods/p/status"),
    ({"group": "apps", "verb": "[lg]*"}, "/apis/apps/v1/deployments"),
    ({"namespace": "def*"}, f"{MAPS}/a"),
    ({"userAgent": "mine/*"}, f"{MAPS}/a"),
    ({"user": "system:adm?n"}, f"{MAPS}/a"),
    ({"path": "/readyz*"}, "/readyz"),
    ({}, "/version"),
]
OTHERS = [
    ({"verb": "list"}, f"{MAPS}/a"),
    ({"resource": "configmaps", "name": "b"}, f"{MAPS}/a"),
    ({"resource": "pods"}, "/api/v1/namespaces/n/pods/p/status"),
    ({"group": "apps"}, MAPS),
    ({"namespace": "*"}, "/api/v1/nodes"),
    ({"resource": "*"}, "/readyz"),
    ({"userAgent": "other/*"}, f"{MAPS}/a"),
    ({"user": "somebody"}, f"{MAPS}/a"),
    ({"path": "/readyz*"}, "/livez"),
]


@pytest.mark.parametrize(("match", "path"), MATCHING)
def test_a_fault_is_for_requests_that_fit_every_pattern(wire: Wire, match: dict[str, str], path: str) -> None:
    inject(wire, match=match, status=503)
    assert wire.get(path, User_Agent="mine/1").status == 503


@pytest.mark.parametrize(("match", "path"), OTHERS)
def test_a_fault_is_not_for_other_requests(wire: Wire, match: dict[str, str], path: str) -> None:
    inject(wire, match=match, status=503)
    assert wire.get(path, User_Agent="mine/1").status != 503


def test_the_user_of_a_fault_is_the_authenticated_user(tmp_path: Path) -> None:
    tokens = token_flag(tmp_path, 'root-token,root,1,"system:masters"\nalice-token,alice,2\n')
    with serve(tokens, "--authorization-mode=RBAC") as server:
        root = server.wire("root-token")
        assert server.wire("alice-token").post("/-/faults", {"status": 500}).status == 403
        assert server.wire().get("/-/faults").status == 403
        inject(root, match={"user": "alice"}, status=503)
        assert root.get(MAPS).status == 200
        assert server.wire("alice-token").get(MAPS).status == 503
        assert root.get(MAPS, Impersonate_User="alice").status == 503
        assert server.wire("unknown").get(MAPS).status == 401


def test_latency_comes_before_the_answer(wire: Wire) -> None:
    inject(wire, match={"verb": "list"}, latencySeconds=0.2)
    started = time.monotonic()
    assert wire.get(MAPS).status == 200
    assert time.monotonic() - started >= 0.2


def test_the_first_fault_that_fits_decides(wire: Wire) -> None:
    inject(wire, match={"verb": "get"}, status=500)
    inject(wire, status=503)
    assert (wire.get(f"{MAPS}/a").status, wire.get(MAPS).status) == (500, 503)


# Connections


def test_a_connection_that_closes_before_the_request_leaves_no_effect(wire: Wire) -> None:
    inject(wire, match={"verb": "create"}, close="before", count=1)
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        wire.post(MAPS, {"metadata": {"name": "lost"}})
    assert wire.get(f"{MAPS}/lost").status == 404


def test_a_connection_that_closes_after_the_request_leaves_its_effect(wire: Wire) -> None:
    inject(wire, match={"verb": "create"}, close="after", count=1)
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        wire.post(MAPS, {"metadata": {"name": "kept"}})
    assert wire.get(f"{MAPS}/kept").status == 200
    closed = wire.get("/-/requests?verb=create&limit=1").json[0]
    assert (closed["code"], closed["fault"] != "") == (0, True)


# Watches


def test_a_watch_can_end_as_if_its_time_were_over(wire: Wire) -> None:
    wire.create_config_map("a")
    inject(wire, watch={"end": "end", "afterSeconds": 0.3}, count=1)
    with wire.watch(f"{MAPS}?watch=true&fieldSelector=metadata.name%3Da") as watch:
        assert watch.event()["object"]["metadata"]["name"] == "a"
        assert watch.rest() == b""


def test_a_watch_can_end_with_its_connection(wire: Wire) -> None:
    inject(wire, watch={"end": "close"}, count=1)
    with wire.watch(f"{MAPS}?watch=true") as watch, pytest.raises(http.client.IncompleteRead):
        watch.rest()


def test_a_watch_can_end_with_an_error_after_which_clients_list_again(wire: Wire) -> None:
    inject(wire, watch={"end": "expired"}, count=1)
    with wire.watch(f"{MAPS}?watch=true") as watch:
        event = json.loads(watch.rest())
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


def test_an_error_on_a_watch_in_protobuf_is_a_frame(wire: Wire) -> None:
    inject(wire, watch={"end": "expired"}, count=1)
    with wire.watch(f"{MAPS}?watch=true", Accept="application/vnd.kubernetes.protobuf;stream=watch") as watch:
        frame = watch.rest()
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert b"ERROR" in frame
    assert b"Expired" in frame


def test_a_watch_that_is_cut_leaves_nothing_open(wire: Wire) -> None:
    inject(wire, watch={"end": "end", "afterSeconds": 0.1})
    with wire.watch(f"{MAPS}?watch=true") as watch:
        watch.rest()
    assert wire.get("/-/info").json["watches"] == 0


def test_a_fault_of_watches_does_not_affect_lists(wire: Wire) -> None:
    made = inject(wire, watch={"end": "close"})
    assert wire.get(MAPS).status == 200
    assert fault(wire, made)["fired"] == 0


# Clients in the process


def test_clients_in_the_process_meet_the_same_faults(running: Running, wire: Wire) -> None:
    inject(wire, match={"userAgent": "inside"}, close="before", count=1)
    inject(wire, match={"userAgent": "inside"}, watch={"end": "close"}, count=1)

    async def ask() -> list[str]:
        client = Client(InProcess(running.server.chain, ADMIN, TransportError), user_agent="inside")
        met = []
        try:
            await client.list(PODS)
        except TransportError as error:
            met.append(str(error))
        try:
            async for _ in client.watch(
                PODS, resource_version=(await client.list(PODS))["metadata"]["resourceVersion"]
            ):
                pass
        except TransportError as error:
            met.append(str(error))
        return met

    first, second = running.call(ask)
    assert first.startswith("the connection closed")
    assert second.startswith("the connection closed")


# The rules themselves


def test_faults_are_checked_only_while_one_may_fire(running: Running, wire: Wire) -> None:
    """A get is answered fast unless a fault may match it."""

    async def fast() -> bool:
        return running.server.chain.try_fast(Request("GET", MAPS, "", {}, b"", ADMIN)) is not None

    assert running.call(fast)
    made = inject(wire, match={"verb": "get"}, status=500, count=1)
    assert not running.call(fast)
    wire.get(f"{MAPS}/a")
    assert running.call(fast), "it has fired as often as it may"
    inject(wire, match={"verb": "get"}, status=500)
    assert not running.call(fast)
    wire.delete("/-/faults")
    assert running.call(fast)
    assert wire.get(f"/-/faults/{made}").status == 404


def test_faults_never_touch_the_paths_that_end_them(wire: Wire) -> None:
    made = inject(wire, close="before")
    assert [entry["id"] for entry in wire.get("/-/faults").json] == [made]
    assert wire.delete(f"/-/faults/{made}").status == 204
    assert wire.get("/-/faults").json == []
    assert wire.delete(f"/-/faults/{made}").status == 404


def test_a_fault_is_shown_as_it_was_given(wire: Wire) -> None:
    match = {"verb": "patch", "resource": "pods/status"}
    given = {"latencySeconds": 0.5, "status": 429, "retryAfterSeconds": 1, "count": 3, "probability": 0.25, "seed": 11}
    made = inject(wire, match=match, **given)
    found = fault(wire, made)
    assert {name: value for name, value in found["match"].items() if value} == match
    assert {name: found[name] for name in given} == given
    assert (found["fired"], found["active"]) == (0, True)


def test_reset_ends_all_faults(wire: Wire) -> None:
    inject(wire, status=503)
    wire.post("/-/reset", None)
    assert wire.get("/-/faults").json == []
    assert wire.get(MAPS).status == 200


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ({}, "one of latencySeconds, status, close and watch is required"),
        ({"status": 503, "close": "before"}, "status and close are mutually exclusive: inject one fault each"),
        ({"close": "after", "watch": {"end": "end"}}, "close and watch are mutually exclusive: inject one fault each"),
        ({"latencySeconds": 1, "retryAfterSeconds": 1}, "retryAfterSeconds and message require status"),
        ({"status": 404}, "Input should be 409, 410, 429, 500 or 503"),
        ({"status": 500, "match": {"verbs": "get"}}, "Extra inputs are not permitted"),
        ({"status": 500, "probability": 0}, "Input should be greater than 0"),
        ({"status": 500, "count": 0}, "Input should be greater than or equal to 1"),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused_with_the_reason(wire: Wire, fault: Any, problem: str) -> None:
    answer = wire.post("/-/faults", fault)
    assert answer.status == 400
    assert problem in answer.json["detail"]
    assert wire.get("/-/faults").json == []
