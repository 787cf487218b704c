"""A control plane in virtual time, as tests and people use it: over its socket."""

from __future__ import annotations

import http.client
import json
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from apiserver.api.objects import Json
from kubedra import ControlPlane
from kubedra.client.client import ApiError
from kubedra.client.clock import Clock, RealTimeError
from kubedra.plane.control_plane import StartError
from kubedra.pytest_plugin import Kube
from tests.support.objects import pod_manifest

pytestmark = pytest.mark.integration

virtual = pytest.mark.kube(clock="virtual")


def make_pod(name: str, **annotations: str) -> Json:
    return pod_manifest(
        name, {f"kubedra.dev/{key}": value for key, value in annotations.items()}, restartPolicy="Never"
    )


@virtual
def test_what_needs_no_time_is_done_when_the_next_request_is_answered(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply(make_pod("p"))
    assert kube.get("pod/p")["status"]["phase"] == "Running"


@virtual
def test_time_stands_still_until_it_is_advanced_and_pods_end_on_time(kube: Kube) -> None:
    kube.add_node("worker")
    before = kube.clock.now()
    kube.apply(make_pod("p", **{"exit-after": "300s"}))
    assert kube.clock.now() == before
    kube.advance(seconds=299)
    assert kube.get("pod/p")["status"]["phase"] == "Running"
    kube.advance(seconds=1)
    assert kube.get("pod/p")["status"]["phase"] == "Succeeded"
    assert kube.clock.now() == before + timedelta(minutes=5)
    finished = kube.get("pod/p")["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
    assert datetime.fromisoformat(finished) == before.replace(microsecond=0) + timedelta(minutes=5)


@virtual
def test_run_until_idle_ends_when_only_upkeep_is_left(kube: Kube) -> None:
    kube.add_node("worker")
    before = kube.clock.now()
    kube.apply(make_pod("p", **{"exit-after": "1000s"}))
    moved = kube.run_until_idle()
    assert kube.get("pod/p")["status"]["phase"] == "Succeeded"
    assert kube.clock.now() - before == timedelta(seconds=1000)
    assert (moved["idle"], moved["work"]) == (True, 0)
    assert moved["pending"] > 0, "leases are renewed for ever"
    assert moved["next"]["purpose"] == "upkeep"


@virtual
def test_run_until_idle_says_what_is_left_at_its_limit(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply(make_pod("p", **{"exit-after": "1000s"}))
    with pytest.raises(TimeoutError, match="work is left after 0:01:00"):
        kube.run_until_idle(timedelta(minutes=1))


@virtual
def test_while_a_test_waits_time_passes_as_far_as_it_has_to(kube: Kube) -> None:
    kube.add_node("worker")
    before = kube.clock.now()
    kube.apply(make_pod("p", **{"exit-after": "20s"}))
    kube.wait("pod/p", "phase=Succeeded")
    assert kube.clock.now() - before == timedelta(seconds=20)
    with pytest.raises(TimeoutError, match=r"did not reach phase=Failed within 30 s"):
        kube.wait("pod/p", "phase=Failed", timeout=30.0)


@virtual
def test_a_watch_ends_when_its_time_is_over_and_tokens_expire(kube: Kube) -> None:
    client = kube.client()
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    kube.run_until_idle()
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    token = client.request("POST", path, body)["status"]["token"]
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}

    def good() -> bool:
        answer = client.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)
        return bool(answer["status"].get("authenticated"))

    assert good()
    kube.advance(minutes=12)
    assert not good()
    other = kube.plane.client()
    with other, other._http.stream("GET", "/api/v1/pods?watch=true&timeoutSeconds=3600") as stream:
        lines = stream.iter_lines()
        kube.advance(hours=1)
        assert list(lines) == []


@virtual
def test_streams_go_on_while_time_stands_still_and_connections_live_while_it_moves(kube: Kube) -> None:
    connection = http.client.HTTPConnection(kube.url.removeprefix("http://"))
    stream = http.client.HTTPConnection(kube.url.removeprefix("http://"))
    stream.request("GET", "/api/v1/namespaces/default/configmaps?watch=true&resourceVersion=0")
    events = stream.getresponse()
    connection.request("GET", "/-/clock")
    connection.getresponse().read()
    sock = connection.sock
    for name in ("a", "b", "c"):
        kube.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
        assert json.loads(events.readline())["object"]["metadata"]["name"] == name
    kube.advance(minutes=10)
    connection.request("GET", "/-/clock")
    assert connection.getresponse().status == 200
    assert connection.sock is sock
    stream.close()
    connection.close()


@virtual
def test_the_clock_tells_which_timers_wait(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply(make_pod("p", **{"exit-after": "300s"}))
    told = kube.client().request("GET", "/-/clock")
    assert told["virtual"]
    assert told["work"] == 1
    (work,) = [timer for timer in told["timers"] if timer["purpose"] == "work"]
    assert datetime.fromisoformat(work["due"]) - kube.clock.now() == timedelta(minutes=5)
    assert work["calls"] == "Workqueue._fall_due(pod:default/p)"
    assert told["timers"] == sorted(told["timers"], key=lambda timer: str(timer["due"]))
    assert told["next"] == told["timers"][0]


@virtual
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"advance": "soon"}, "advance 'soon': not a duration; write it like 5m or 1h30m"),
        ({}, 'set either advance or until: {"advance": "5m"} or {"until": "idle"}'),
        ({"advance": "5m", "until": "idle"}, 'set either advance or until: {"advance": "5m"} or {"until": "idle"}'),
        ({"until": "later"}, "until: Input should be 'next' or 'idle'"),
        ({"forward": "5m"}, "forward: Extra inputs are not permitted"),
    ],
)
def test_a_move_that_cannot_be_understood_is_refused(kube: Kube, body: Json, said: str) -> None:
    with pytest.raises(ApiError) as refused:
        kube.client().request("POST", "/-/clock", body)
    assert refused.value.code == 400
    assert (refused.value.status or {})["detail"] == said


@virtual
@pytest.mark.parametrize("content_type", [None, "application/x-www-form-urlencoded"], ids=["kubectl", "curl"])
def test_a_move_may_come_without_its_content_type(kube: Kube, content_type: str | None) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}
    answer = httpx.post(f"{kube.url}/-/clock", content=b'{"advance": "5m"}', headers=headers)
    assert answer.status_code == 200, answer.text


def test_time_stands_still_while_postgres_answers(postgres_url: str) -> None:
    with (
        ControlPlane(nodes=1, storage=postgres_url, clock="virtual") as plane,
        plane.client() as client,
    ):
        clock = Clock(lambda: client)
        client.create(make_pod("p", **{"exit-after": "300s"}))
        clock.advance(minutes=5)
        status = client.get("pod/p")["status"]
        assert status["phase"] == "Succeeded"
        state = status["containerStatuses"][0]["state"]["terminated"]
        assert (state["startedAt"], state["finishedAt"]) == ("2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z")


def test_real_time_cannot_be_moved(kube: Kube) -> None:
    with pytest.raises(RealTimeError, match="the clock is real: start the server with --clock virtual"):
        kube.advance(minutes=5)
    told = kube.client().request("GET", "/-/clock")
    assert (told["virtual"], told["timers"]) == (False, [])
    assert abs(datetime.now(UTC) - kube.clock.now()) < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("clock", "said"),
    [
        ("fast", "--clock fast: use real, virtual or virtual=TIME"),
        ("virtual=noon", "--clock virtual=noon: 'noon' is not a time; write it like 2026-01-01T00:00:00Z"),
    ],
)
def test_a_clock_that_there_is_not_is_named(clock: str, said: str) -> None:
    with pytest.raises(StartError, match=said):
        ControlPlane(clock=clock).start()


@pytest.mark.kube(own=True, clock="virtual=2030-05-06T07:08:09Z", controllers=False)
def test_virtual_time_begins_when_it_is_told_to(kube: Kube) -> None:
    assert kube.get("namespace/default")["metadata"]["creationTimestamp"] == "2030-05-06T07:08:09Z"


@virtual
def test_an_idle_hour_takes_little_work(kube: Kube) -> None:
    """About 480 watches of informers end in an hour, and 720 checks of nodes and 720 of the history are due."""
    hour = kube.advance(hours=1)
    assert hour["fired"] < 2700
    kube.add_node("worker", devices=8)
    kube.advance(minutes=1)
    hour = kube.advance(hours=1)
    assert hour["fired"] < 2700 + 500, "a node renews its lease 360 times, and writes 12 heartbeats"
    sent = kube.requests(verb="get", resource="")
    polls = [request for request in sent if request["uri"] == "/apis"]
    begun, ended = (datetime.fromisoformat(polls[at]["time"]) for at in (0, -1))
    assert (ended - begun) / (len(polls) - 1) > timedelta(seconds=25)
