"""Records of requests in `/-/requests` and in `--request-log`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apiserver.authentication.authenticator import ADMIN
from apiserver.components.in_process import InProcess
from apiserver.http.sinks.ring import Ring
from tests.support.extensions import make_rule
from tests.support.patience import wait_until
from tests.support.server import Running, serve
from tests.support.tokens import token_flag
from tests.support.wire import Child, Wire, refused

pytestmark = pytest.mark.integration

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def running() -> Iterator[Running]:
    with serve() as server:
        yield server


def list_records(wire: Wire, query: str = "") -> list[dict[str, Any]]:
    answer = wire.get(f"/-/requests?{query}")
    assert answer.status == 200, answer.text
    return list(answer.json)


def test_audit_annotations_of_a_policy_are_in_the_record(running: Running) -> None:
    wire, group = running.wire(), "/apis/admissionregistration.k8s.io/v1"
    rule = make_rule("configmaps")
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "object.metadata.name == 'a'", "message": "wrong name"}],
        "auditAnnotations": [
            {"key": "who", "valueExpression": "request.userInfo.username"},
            {"key": "none", "valueExpression": "null"},
        ],
    }
    wire.create(f"{group}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec})
    binding = {"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Audit"]}}
    wire.create(f"{group}/validatingadmissionpolicybindings", binding)
    wire.create(MAPS, {"metadata": {"name": "z"}})
    noted = list_records(wire)[0]["annotations"]
    assert noted["p/who"] == list_records(wire)[0]["user"]
    assert json.loads(noted.pop("validation.policy.admission.k8s.io/validation_failure")) == [
        {"message": "wrong name", "policy": "p", "binding": "b", "expressionIndex": 0, "validationActions": ["Audit"]}
    ]
    assert list(noted) == ["p/who"]


def test_a_record_has_user_request_and_answer(running: Running) -> None:
    wire = running.wire()
    made = wire.request("POST", f"{MAPS}?dryRun=All", {"metadata": {"name": "a"}}, {"User-Agent": "mine/1"})
    record = list_records(wire)[0]
    assert record.pop("seconds") > 0
    assert record.pop("time").endswith("Z")
    request = {"verb": "create", "version": "v1", "resource": "configmaps", "namespace": "default", "method": "POST"}
    answer = {"stage": "ResponseComplete", "code": 201, "bytes": len(made.body), "annotations": {}}
    client = {"user": "system:admin", "userAgent": "mine/1", "uri": f"{MAPS}?dryRun=All"}
    assert record == {**request, **answer, **client, **dict.fromkeys(("group", "subresource", "name", "fault"), "")}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("access_token=hidden&limit=1", "access_token=REDACTED&limit=1"),
        ("limit=1&access%5Ftoken=hid%20den", "limit=1&access%5Ftoken=REDACTED"),
        ("labelSelector=access_token%3Dshown", "labelSelector=access_token%3Dshown"),
    ],
)
def test_an_access_token_in_the_query_is_not_recorded(running: Running, query: str, expected: str) -> None:
    running.wire().get(f"{MAPS}?{query}")
    assert list_records(running.wire())[0]["uri"] == f"{MAPS}?{expected}"


def test_the_newest_request_comes_first_whatever_became_of_it(running: Running) -> None:
    wire = running.wire()
    wire.get(f"{MAPS}/missing")
    wire.get("/nope")
    wire.put(MAPS, {})
    assert [(record["uri"], record["code"]) for record in list_records(wire, "limit=3")] == [
        (MAPS, 405),
        ("/nope", 404),
        (f"{MAPS}/missing", 404),
    ]


def test_clients_in_the_process_are_recorded_like_those_outside(running: Running) -> None:
    async def ask() -> None:
        client = InProcess(running.server.chain, ADMIN)
        await client.request("GET", f"{MAPS}/inside", "", {"user-agent": "inside"}, b"")

    running.call(ask)
    assert [record["uri"] for record in list_records(running.wire(), "userAgent=inside")] == [f"{MAPS}/inside"]


def test_requests_below_the_own_paths_are_not_recorded(running: Running) -> None:
    wire = running.wire()
    wire.get("/-/info")
    assert all(not record["uri"].startswith("/-/") for record in list_records(wire))


def test_a_watch_is_recorded_when_it_opens_and_with_its_bytes_when_it_ends(running: Running) -> None:
    wire = running.wire()
    with wire.watch(f"{MAPS}?watch=true") as watch:
        wire.create_config_map("seen")
        line = watch.line()
        (opened,) = list_records(wire, "verb=watch")
        assert (opened["stage"], opened["bytes"]) == ("ResponseStarted", 0)
    wait_until(lambda: len(list_records(wire, "verb=watch")) == 2, "the watch has ended")
    ended = list_records(wire, "verb=watch")[0]
    assert (ended["stage"], ended["bytes"]) == ("ResponseComplete", len(line))
    assert ended["seconds"] >= opened["seconds"]


@pytest.mark.parametrize(
    ("query", "uris"),
    [
        ("verb=get&resource=configmaps", [f"{MAPS}/b", f"{MAPS}/a"]),
        ("resource=configmaps&name=a", [f"{MAPS}/a"]),
        ("resource=pods/status", ["/api/v1/namespaces/other/pods/p/status"]),
        ("resource=pods", []),
        ("namespace=other", ["/api/v1/namespaces/other/pods/p/status"]),
        ("code=200", []),
        ("user=nobody", []),
        ("limit=1", ["/api/v1/namespaces/other/pods/p/status"]),
    ],
)
def test_records_are_filtered_by_their_fields(running: Running, query: str, uris: list[str]) -> None:
    wire = running.wire()
    wire.delete("/-/requests")
    for path in (f"{MAPS}/a", f"{MAPS}/b", "/api/v1/namespaces/other/pods/p/status"):
        wire.get(path)
    assert [record["uri"] for record in list_records(wire, query)] == uris


def test_a_parameter_that_does_not_exist_is_refused(running: Running) -> None:
    assert running.wire().get("/-/requests?verbs=get").status == 422


def test_forgetting_and_reset_leave_no_records(running: Running) -> None:
    wire = running.wire()
    wire.get("/nope")
    assert wire.delete("/-/requests").status == 204
    assert list_records(wire) == []
    wire.get("/nope")
    wire.post("/-/reset", None)
    assert list_records(wire) == []


def test_only_so_many_records_are_kept() -> None:
    ring = Ring(kept=3)
    for number in range(5):
        ring.add(number)  # type: ignore[arg-type]
    assert list(ring.latest()) == [4, 3, 2]  # type: ignore[comparison-overlap]


def test_a_record_of_an_unauthenticated_request_has_no_user(tmp_path: Path) -> None:
    with serve(token_flag(tmp_path, 'root-token,root,1,"system:masters"\n'), "--authorization-mode=RBAC") as server:
        server.wire("wrong").get(MAPS)
        server.wire("root-token").get(MAPS)
        server.wire().get(MAPS)
        server.wire("root-token").request("GET", MAPS, headers={"Impersonate-User": "alice"})
        records = list_records(server.wire("root-token"), "limit=4")
        assert [(record["user"], record["code"]) for record in records] == [
            ("alice", 403),
            ("system:anonymous", 403),
            ("root", 200),
            ("", 401),
        ]
        assert server.wire().get("/-/requests").status == 403
        assert server.wire("wrong").delete("/-/requests").status == 401


# The file


def test_the_request_log_has_a_line_for_each_request(tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    log.write_text('{"uri":"/older"}\n')
    with Child(tmp_path / "data", f"--request-log={log}") as child:
        wire = child.wire()
        wire.create_config_map("a")
        wire.get(f"{MAPS}/a")
        with wire.watch(f"{MAPS}?watch=true") as watch:
            watch.line()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    told = [(line.get("verb"), line.get("name"), line.get("code"), line.get("stage")) for line in lines[1:]]
    assert lines[0] == {"uri": "/older"}, "what was there stays"
    assert told == [
        ("create", None, 201, "ResponseComplete"),
        ("get", "a", 200, "ResponseComplete"),
        ("watch", None, 200, "ResponseStarted"),
        ("watch", None, 200, "ResponseComplete"),
    ]


def test_only_its_owner_may_read_a_new_log(tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    with Child(tmp_path / "data", f"--request-log={log}"):
        assert log.stat().st_mode & 0o077 == 0


def test_a_dash_writes_where_people_read(tmp_path: Path) -> None:
    with Child(tmp_path / "data", "--request-log=-") as child:
        child.wire().get("/nope")
        wait_until(lambda: '"uri":"/nope"' in child.log(), "with --announce standard output is a program's")


def test_a_log_that_cannot_be_opened_ends_the_start_with_one_line(tmp_path: Path) -> None:
    code, text = refused("--storage=memory", "--port=0", f"--data-dir={tmp_path}", f"--request-log={tmp_path}")
    assert (code, text) == (2, f"python -m apiserver: --request-log {tmp_path}: Is a directory\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is full is needed")
def test_a_full_disk_is_logged_once_and_stops_no_request(tmp_path: Path) -> None:
    with Child(tmp_path / "data", "--request-log=/dev/full") as child:
        wire = child.wire()
        assert [wire.get("/readyz").status for _ in range(3)] == [200] * 3
        wait_until(lambda: "No space left" in child.log(), "the failure is logged")
        assert child.log().count("No space left") == 1
