"""Single requests on the wire: status, media type and text, also of invalid requests."""

from __future__ import annotations

import time
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.http.formats.warning import warning_headers
from apiserver.http.server import heads
from apiserver.options.flags import SettingsError
from apiserver.options.settings import read
from apiserver.request.messages import Request
from tests.support.server import serve
from tests.support.wire import Child, Wire

pytestmark = pytest.mark.integration

MAPS = "/api/v1/namespaces/default/configmaps"

FLAGS = ("--runtime-config=api/all=true",)

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize("path", ["/nope", "/apis/nope", "/apis/nope/v1", "/apis/nope/v1/things/a", "/debug/nope"])
def test_a_path_outside_every_group_is_a_plain_404(wire: Wire, path: str) -> None:
    answer = wire.get(path)
    assert answer.status == 404
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.text == "404 page not found\n"


@pytest.mark.parametrize(
    "path",
    [
        *("/api/v2", "/api/v1/things", "/api/v1/namespaces/default/things/a", "/api/v1/namespaces/default/nodes"),
        *("/apis/resource.k8s.io/v9", "/apis/resource.k8s.io/v9/resourceclaims"),
        *(f"{CLAIMS}/a/nope", f"{CLAIMS}/a/status/more"),
    ],
)
def test_an_unknown_path_inside_a_group_is_a_status_404(wire: Wire, path: str) -> None:
    answer = wire.get(path)
    assert (answer.status, answer.reason, answer.json["details"]) == (404, "NotFound", {})
    assert answer.message == "the server could not find the requested resource"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", CLAIMS),
        ("PATCH", CLAIMS),
        ("POST", f"{CLAIMS}/a"),
        ("DELETE", f"{CLAIMS}/a/status"),
        ("DELETE", "/api/v1/namespaces"),
        ("DELETE", "/apis/resource.k8s.io/v1/resourceclaims"),
        ("DELETE", "/api/v1"),
        ("POST", "/api"),
        ("PURGE", CLAIMS),
    ],
)
def test_a_method_that_a_path_does_not_know_is_a_status_405(wire: Wire, method: str, path: str) -> None:
    answer = wire.request(method, path, {} if method in ("PUT", "POST", "PATCH") else None)
    assert answer.failure == (405, "MethodNotAllowed")
    assert answer.message == "the server does not allow this method on the requested resource"


def test_a_trailing_slash_changes_nothing(wire: Wire) -> None:
    for path in ("/api", "/apis", "/version", "/api/v1", CLAIMS):
        assert wire.get(path + "/").json.keys() == wire.get(path).json.keys(), path


def test_a_body_over_three_mebibytes_is_refused_and_one_below_is_read(wire: Wire) -> None:
    whole = b'{"metadata":{"name":"big"},"data":{"k":"' + b"x" * 3 * 1024 * 1024 + b'"}}'
    large = wire.request("POST", "/api/v1/namespaces/default/configmaps", whole, {"Content-Type": "application/json"})
    assert large.status == 413
    assert large.reason == "RequestEntityTooLarge"
    assert large.message == "Request entity too large: limit is 3145728"
    below = wire.request(
        "POST",
        "/api/v1/namespaces/default/configmaps",
        whole[: 3 * 1024 * 1024 - 10],
        {"Content-Type": "application/json"},
    )
    assert below.status == 400, "it is no JSON, but was read"


def test_an_answer_comes_in_the_first_form_that_can_be_given(wire: Wire) -> None:
    wire.create_config_map("forms", k="v")
    path, partial = "/api/v1/namespaces/default/configmaps/forms", "PartialObjectMetadata"
    for accept, content_type, start in (
        ("application/json", "application/json", b'{"kind":"ConfigMap"'),
        ("application/vnd.kubernetes.protobuf, application/json", "application/vnd.kubernetes.protobuf", b"k8s\x00"),
        ("application/vnd.kubernetes.protobuf;q=0.1,*/*", "application/json", b'{"kind":"ConfigMap"'),
        ("application/yaml", "application/yaml", b"apiVersion: v1\n"),
        ("application/json;q=0.1, application/yaml;q=0.9", "application/yaml", b"apiVersion: v1\n"),
        (f"{TABLE.replace('v1', 'v9')},{TABLE},application/json", "application/json", b'{"kind":"Table"'),
        (TABLE.replace("Table", partial), "application/json", b'{"kind":"PartialObjectMetadata"'),
    ):
        answer = wire.get(path, Accept=accept)
        assert answer.status == 200, accept
        assert answer.headers["content-type"] == content_type, accept
        assert answer.body[: len(start)] == start, accept


def test_an_error_is_never_a_table(wire: Wire) -> None:
    answer = wire.get(f"{CLAIMS}/missing", Accept=TABLE)
    assert (answer.status, answer.json["kind"], answer.reason) == (404, "Status", "NotFound")


def test_a_body_in_an_unknown_form_is_refused_by_naming_what_is_read(wire: Wire) -> None:
    answer = wire.request("POST", CLAIMS, b"\xd9\xd9\xf7", {"Content-Type": "application/cbor"})
    assert answer.failure == (415, "UnsupportedMediaType")
    assert "application/json" in answer.message


def test_yaml_goes_in_and_out(wire: Wire) -> None:
    body = b"metadata:\n  name: yaml\ndata:\n  answer: '42'\n"
    made = wire.request(
        "POST",
        "/api/v1/namespaces/default/configmaps",
        body,
        {"Content-Type": "application/yaml", "Accept": "application/yaml"},
    )
    assert (made.status, made.headers["content-type"]) == (201, "application/yaml")
    assert 'data:\n  answer: "42"\n' in made.text


#: Texts as go-yaml's encoder writes them: in quotes whatever it would read as something else, and some that others would.
QUOTED = "y N off ~ null 1e5 .5e1 0o17 0b11 08 1_000 1:30 190:20:30.15 0x1F +1 1. -.INF .nan 2001-1-1 2024-02-29T1:2:3Z"
BARE = "2001-01-01T00:00:00+25:00 yEs tRUE nil 0b12 0x 1:99 1e400 . .. -a 2001-13-01 2023-02-29 2024-02-29T1:2:3 2001-1-1T24:0:0Z <<a = <<"


def test_yaml_quotes_what_would_be_read_as_something_else(wire: Wire) -> None:
    texts = [*QUOTED.split(), "", "2001-1-1 1:2:3", *BARE.split(), "2001-1-1 1:2:3Z", "a #b", "a\nb\n"]
    data = {f"k{at:02}": text for at, text in enumerate(texts)} | {"n": "x"}
    body = orjson.dumps({"metadata": {"name": "quoted"}, "data": data})
    path = "/api/v1/namespaces/default/configmaps?dryRun=All"
    made = wire.request("POST", path, body, {"Content-Type": "application/json", "Accept": "application/yaml"})
    lines = made.text.partition("data:\n")[2].partition("kind:")[0].split("\n  ")
    shown = [line.partition(": ")[2] for line in lines]
    quoted, bare = len(QUOTED.split()) + 2, len(BARE.split()) + 1
    assert shown[:quoted] == [f'"{text}"' for text in texts[:quoted]]
    assert shown[quoted : quoted + bare] == texts[quoted : quoted + bare]
    assert lines[-5:] == [f"k{quoted + bare:02}: 'a #b'", f"k{quoted + bare + 1:02}: |", "  a", "  b", '"n": x\n']


@pytest.mark.parametrize(
    ("query", "agent", "pretty"),
    [
        ("", "curl/8", True),
        ("", "kubectl/v1.33", False),
        ("?pretty=true", "x", True),
        ("?pretty=false", "curl/8", False),
    ],
)
def test_json_is_indented_for_people(wire: Wire, query: str, agent: str, pretty: bool) -> None:
    answer = wire.get(f"/api/v1/namespaces/default{query}", User_Agent=agent)
    assert answer.text.startswith("{\n  " if pretty else '{"kind"')
    assert answer.json["metadata"]["name"] == "default"


def test_a_deprecated_version_warns_in_every_answer_and_the_stable_one_does_not(wire: Wire) -> None:
    old = wire.get("/apis/resource.k8s.io/v1beta1/namespaces/default/resourceclaims")
    assert (
        old.headers["warning"]
        == '299 - "resource.k8s.io/v1beta1 ResourceClaim is deprecated in v1.35+, unavailable in v1.38+"'
    )
    missing = wire.get("/apis/resource.k8s.io/v1beta1/namespaces/default/resourceclaims/missing")
    assert (missing.status, "warning" in missing.headers) == (404, True)
    assert "warning" not in wire.get(CLAIMS).headers


def test_unknown_fields_warn_once_each(wire: Wire) -> None:
    made = wire.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "warned"}, "one": 1, "two": 2})
    warnings = [value for name, value in made.all_headers if name == "warning"]
    assert (made.status, warnings) == (201, ['299 - "unknown field \\"one\\""', '299 - "unknown field \\"two\\""'])


def test_json_is_escaped_as_gos_encoder_does_in_every_form(wire: Wire) -> None:
    text, escaped = "<a>&\u2028\u2029é", b"\\u003ca\\u003e\\u0026\\u2028\\u2029" + "é".encode()
    wire.post(f"{MAPS}?fieldManager=m", {"metadata": {"name": "escaped", "annotations": {"a": text}}})
    table = "application/json;as=Table;g=meta.k8s.io;v=v1"
    metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    for path, accept in (
        (f"{MAPS}/escaped", "application/json"),
        (MAPS, "application/json"),
        (f"{MAPS}/escaped?pretty=1", "application/json"),
        (f"{MAPS}?pretty=1", "application/json"),
        (MAPS, table),
        (f"{MAPS}/escaped", metadata),
        (f"{MAPS}/%3Ca%3E%26%E2%80%A8%E2%80%A9%C3%A9", "application/json"),
    ):
        body = wire.get(path, Accept=accept).body
        assert escaped in body
        assert not {"<", ">", "&"} & set(body.decode())
    with wire.watch(f"{MAPS}?watch=1&fieldSelector=metadata.name=escaped") as events:
        assert escaped in events.line()


def test_a_bookmark_begins_with_its_kind(wire: Wire) -> None:
    query = "watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    with wire.watch(f"{MAPS}?{query}&fieldSelector=metadata.name=none") as events:
        assert events.line().startswith(
            b'{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{'
        )


def test_a_path_is_decoded_before_it_is_split(wire: Wire) -> None:
    wire.create_config_map("a")
    for path in ("/api/v1%2Fnamespaces/default%2fconfigmaps/a", "/%61pi/v1/namespaces/default/configmaps/%61"):
        assert wire.get(path).json["metadata"]["name"] == "a"
    assert wire.get("/api%2Fv1").json["kind"] == "APIResourceList"
    below = wire.get("/api/v1/namespaces/default/configmaps/a%2Fb")
    assert below.refusal == (404, "the server could not find the requested resource")
    assert wire.get("/api/v1/namespaces/default/pods/p%2Flog").message == 'pods "p" not found'
    for name, shown, problem in (
        ("a%252Fb", "a%2Fb", "may not contain '%'"),
        ("..", "..", "may not be '..'"),
        ("%2e", ".", "may not be '.'"),
    ):
        refused = wire.get(f"/api/v1/namespaces/default/configmaps/{name}")
        assert refused.refusal == (400, f'Name parameter invalid: "{shown}": {problem}')
    assert (bad := wire.get("/api/v1/namespaces/default/configmaps/%zz")).status == 400
    assert bad.text == "400 Bad Request"
    assert wire.get("/api?x=%zz").status == 200
    assert wire.get("/%2D%2F%2D/info").status == 404
    assert wire.get("%2F-%2Finfo").status in (200, 400)


def test_a_container_that_does_not_run_has_no_log_and_the_error_has_the_reason(wire: Wire) -> None:
    wire.post("/api/v1/nodes", {"metadata": {"name": "n1"}})
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}}
    wire.create("/api/v1/namespaces/default/pods", pod)
    for what in ("log", "exec?command=ls", "attach", "portforward", "proxy"):
        answer = wire.get(f"/api/v1/namespaces/default/pods/p/{what}")
        assert answer.failure == (501, "NotImplemented"), what
        assert "kubedra" in answer.message
    missing = wire.get("/api/v1/namespaces/default/pods/missing/log")
    assert missing.failure == (404, "NotFound")


def test_a_directory_keeps_nothing_in_memory_mode(tmp_path: Path) -> None:
    with Child(tmp_path / "data", "--storage=memory") as child:
        child.wire().create_config_map("a")
    assert not list((tmp_path / "data").glob("*.db*"))


def test_a_flag_adds_the_header_for_https_only_access() -> None:
    with serve("--strict-transport-security-directives=max-age=31536000,includeSubDomains") as running:
        wire = running.wire()
        paths = "/ /healthz /api/v1 /api/v1/namespaces /api/v1/namespaces/default /nope /api/v1/a"
        for path in paths.split():
            assert wire.get(path).headers["strict-transport-security"] == "max-age=31536000; includeSubDomains"
    for wrong in ("max-age", "max-age=1=2", "preload,", "always"):
        with pytest.raises(SettingsError, match="allowed are max-age=SECONDS, includeSubDomains and preload"):
            read([f"--strict-transport-security-directives={wrong}"])


def test_the_way_to_a_node_leads_nowhere(wire: Wire) -> None:
    assert wire.get("/api/v1/nodes/none/proxy/metrics").message == 'nodes "none" not found'
    assert wire.get("/api/v1/nodes/a:b:c:d/proxy").message == 'invalid node request "a:b:c:d"'
    wire.create("/api/v1/nodes", {"metadata": {"name": "there"}})
    answer = wire.get("/api/v1/nodes/https:there:10250/proxy/")
    assert answer.refusal == (501, "kubedra emulates nodes: no kubelet listens on node there")
    assert "nodes/proxy" in {each["name"] for each in wire.get("/api/v1").json["resources"]}


def fields(**headers: str) -> dict[str, str]:
    """Return the headers of the answer to a request with these headers."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    lines = heads.marks(Request("GET", "/version", "", given, b"")).decode().strip().split("\r\n")
    return {name: value for name, _, value in (line.partition(": ") for line in lines)}


def test_the_date_is_the_systems_whichever_way_that_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    # At the end the clock is set back.
    for seconds, shown in ((0.0, "13:20"), (0.9, "13:20"), (1.0, "13:21"), (60.5, "14:20"), (0.5, "13:20")):
        monkeypatch.setattr(time, "time", lambda seconds=seconds: 1_700_000_000 + seconds)
        assert fields()["date"] == f"Tue, 14 Nov 2023 22:{shown} GMT"


def test_each_request_has_its_own_id_or_the_one_in_its_header() -> None:
    made = [fields()["audit-id"] for _ in range(3)]
    assert len(set(made)) == 3
    assert {len(each) for each in made} == {36}
    assert fields(audit_id="mine")["audit-id"] == "mine"


def texts(*said: str) -> list[str]:
    return [value for _, value in warning_headers(said)]


def test_a_warning_is_a_299_without_an_agent() -> None:
    assert warning_headers(["old"]) == (("Warning", '299 - "old"'),)


def test_quotes_and_backslashes_are_escaped() -> None:
    assert texts('unknown field "a\\b"') == ['299 - "unknown field \\"a\\\\b\\""']


def test_warnings_are_unique_and_in_order() -> None:
    assert texts("b", "a", "b", "") == ['299 - "b"', '299 - "a"']


def test_a_warning_with_control_characters_is_dropped() -> None:
    assert texts("a\nb", "fine") == ['299 - "fine"']


def test_beyond_four_kilobytes_every_warning_is_cut_and_the_last_are_dropped() -> None:
    said = texts(*(f"{number:04}" + "x" * 400 for number in range(100)))
    assert len(said) == 16
    assert all(len(text) == len('299 - ""') + 256 for text in said)


@given(st.lists(st.text(max_size=600), max_size=40))
def test_headers_never_hold_more_than_a_client_takes(said: list[str]) -> None:
    headers = texts(*said)
    assert sum(map(len, headers)) <= 2 * (4096 + 256) + 40 * 10
    assert not any("\r" in text or "\n" in text for text in headers)


def test_a_status_write_has_warnings_too() -> None:
    odd = {"podIP": "2001:DB8::1", "podIPs": [{"ip": "2001:DB8::1"}]}
    with serve() as running:
        wire = running.wire()
        pods = "/api/v1/namespaces/default/pods"
        wire.post(pods, {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
        answer = wire.patch(f"{pods}/a/status", {"status": odd})
    assert answer.headers["warning"].startswith('299 - "status.podIPs[0].ip: IPv6 address')
