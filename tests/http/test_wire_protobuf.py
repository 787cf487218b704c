"""Protobuf on the wire: bodies, objects, lists, events, errors and discovery."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apiserver.api import protobuf
from apiserver.api.codec.codec import decode
from apiserver.api.errors.status import expired
from apiserver.api.objects import Json
from apiserver.api.types import meta
from apiserver.http.formats.negotiation import ResponseFormat
from apiserver.http.formats.protobuf import Frames
from apiserver.http.formats.view import View
from apiserver.registry.body.decode import scheme_of
from apiserver.registry.definition.resource import api_version
from apiserver.registry.store.results import WatchEvent
from apiserver.resources import CATALOG
from tests.codec.schema_objects import full
from tests.http.protobufs import (
    BOTH,
    CLAIMS,
    MAPS,
    PROTOBUF,
    _fields,
    claim,
    config_map,
    decode_answer,
    decode_message,
    encode_message,
    read_event,
    schema,
)
from tests.support.patience import run_command
from tests.support.server import Running
from tests.support.wire import Wire

pytestmark = pytest.mark.integration
FLAGS = ("--runtime-config=api/all=true",)


@pytest.fixture
def wire(wire: Wire) -> Wire:
    assert wire.post("/-/reset", None).status == 200
    return wire


def test_an_object_created_in_protobuf_equals_that_in_json(wire: Wire) -> None:
    made = wire.request("POST", MAPS, config_map("a", k="ü"), BOTH)
    assert made.status == 201
    obj = decode_answer(made)
    assert (obj["kind"], obj["metadata"]["name"], obj["data"]) == ("ConfigMap", "a", {"k": "ü"})
    plain = wire.get(f"{MAPS}/a")
    assert (plain.json["data"], plain.json["metadata"]["uid"]) == ({"k": "ü"}, obj["metadata"]["uid"])
    again = wire.get(f"{MAPS}/a", Accept=PROTOBUF)
    assert again.body == made.body == encode_message("v1", "ConfigMap", plain.json)
    obj["data"]["k"] = "2"
    changed = wire.request("PUT", f"{MAPS}/a", encode_message("v1", "ConfigMap", obj), BOTH)
    assert (changed.status, decode_answer(changed)["data"]) == (200, {"k": "2"})


def test_a_patch_stays_json_and_its_answer_is_protobuf(wire: Wire) -> None:
    wire.create_config_map("a", k="1")
    headers = {"Accept": PROTOBUF, "Content-Type": "application/strategic-merge-patch+json"}
    assert decode_answer(wire.request("PATCH", f"{MAPS}/a", b'{"data":{"l":"2"}}', headers))["data"] == {
        "k": "1",
        "l": "2",
    }
    refused = wire.request("PATCH", f"{MAPS}/a", config_map("a"), BOTH)
    assert (refused.status, decode_answer(refused)["reason"]) == (415, "UnsupportedMediaType")


def test_a_claim_in_each_version_is_written_with_that_version_s_message(wire: Wire) -> None:
    assert (
        wire.request(
            "POST", CLAIMS.format("v1"), encode_message("resource.k8s.io/v1", "ResourceClaim", claim("c")), BOTH
        ).status
        == 201
    )
    for version in ("v1", "v1beta2", "v1beta1"):
        path = CLAIMS.format(version) + "/c"
        obj = decode_answer(wire.get(path, Accept=PROTOBUF))
        plain = wire.get(path).json
        assert wire.get(path, Accept=PROTOBUF).body == encode_message(
            f"resource.k8s.io/{version}", "ResourceClaim", plain
        )
        assert (obj["apiVersion"], obj["spec"]["devices"]["requests"][0]["name"]) == (f"resource.k8s.io/{version}", "r")
        assert ("exactly" in obj["spec"]["devices"]["requests"][0]) is (version != "v1beta1")


def test_lists_hold_whole_messages_and_their_metadata(wire: Wire) -> None:
    for name in ("a", "b", "c"):
        wire.create_config_map(name, k="v" * 200)
    for path in (MAPS, f"{MAPS}?limit=2", f"{MAPS}?labelSelector=none"):
        plain = wire.get(path).json
        answer = wire.get(path, Accept=PROTOBUF)
        obj = decode_answer(answer)
        assert (obj["kind"], len(obj.get("items", []))) == ("ConfigMapList", len(plain["items"]))
        token = obj["metadata"].get("continue", "")
        assert bool(token) is ("limit" in path)
        plain["metadata"]["continue"] = token
        assert answer.body == encode_message("v1", "ConfigMapList", plain)


def test_metadata_and_its_list_in_both_versions(wire: Wire) -> None:
    wire.create_config_map("a", k="v")
    one = decode_answer(wire.get(f"{MAPS}/a", Accept=f"{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"))
    assert one["kind"] == "PartialObjectMetadata"
    assert one["metadata"]["name"] == "a"
    assert set(one) == {"kind", "apiVersion", "metadata"}
    many = wire.get(MAPS, Accept=f"{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{PROTOBUF}")
    assert [item["metadata"]["name"] for item in decode_answer(many)["items"]] == ["a"]
    older = protobuf.unwrap(
        wire.get(MAPS, Accept=f"{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1").body
    )
    newer = _fields(protobuf.unwrap(many.body).raw)
    # There items have number 1 and the metadata 2.
    assert (older.api_version, _fields(older.raw)) == ("meta.k8s.io/v1beta1", {1: newer[2], 2: newer[1]})


def test_a_table_has_no_protobuf(wire: Wire) -> None:
    table = "as=Table;g=meta.k8s.io;v=v1"
    refused = wire.get(MAPS, Accept=f"{PROTOBUF};{table}")
    assert refused.failure == (406, "NotAcceptable")
    assert wire.get(MAPS, Accept=f"{PROTOBUF};{table},application/json;{table}").json["kind"] == "Table"
    assert decode_answer(wire.get(MAPS, Accept=f"{PROTOBUF};{table},{PROTOBUF}"))["kind"] == "ConfigMapList"


def test_a_watch_is_frames_of_enveloped_objects(wire: Wire) -> None:
    wire.create_config_map("a", k="1")
    with wire.watch(
        f"{MAPS}?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
        Accept=PROTOBUF,
    ) as watch:
        assert (watch.status, watch.headers["content-type"]) == (200, f"{PROTOBUF};stream=watch")
        kind, obj = read_event(watch)
        assert (kind, obj["kind"], obj["data"]) == ("ADDED", "ConfigMap", {"k": "1"})
        kind, mark = read_event(watch)
        assert kind == "BOOKMARK"
        assert mark["kind"] == "ConfigMap"
        assert mark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        with wire.watch(
            f"{MAPS}?watch=true&resourceVersion={mark['metadata']['resourceVersion']}",
            Accept=f"{PROTOBUF};stream=watch",
        ) as second:
            wire.create_config_map("b", k="x" * 300)
            assert read_event(watch) == read_event(second)
            wire.delete(f"{MAPS}/a")
            assert read_event(watch)[0] == read_event(second)[0] == "DELETED"


def test_a_watch_of_another_version_and_of_metadata(wire: Wire) -> None:
    wire.create(CLAIMS.format("v1"), claim("c"))
    with wire.watch(CLAIMS.format("v1beta1") + "?watch=true", Accept=PROTOBUF) as watch:
        kind, obj = read_event(watch)
    assert (kind, obj["apiVersion"]) == ("ADDED", "resource.k8s.io/v1beta1")
    assert obj["spec"]["devices"]["requests"][0]["deviceClassName"] == "gpu.example.com"
    with wire.watch(
        CLAIMS.format("v1") + "?watch=true", Accept=f"{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    ) as watch:
        kind, obj = read_event(watch)
    assert kind == "ADDED"
    assert obj["kind"] == "PartialObjectMetadata"
    assert obj["apiVersion"] == "meta.k8s.io/v1"
    assert obj["metadata"]["name"] == "c"


def test_a_watch_ends_with_a_status_when_what_it_wants_is_gone() -> None:
    resource = next(resource for resource in CATALOG if resource.plural == "configmaps")
    status = expired("too old resource version: 1 (2)").to_dict()
    frame = Frames(View(resource, resource.versions[0]), ResponseFormat(PROTOBUF)).lines(
        [WatchEvent("ERROR", status=status)], datetime.now(UTC)
    )
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    outer = _fields(frame[4:])
    found = decode_message(_fields(outer[2])[1])
    assert outer[1] == b"ERROR"
    assert found["kind"] == "Status"
    assert found["message"] == status["message"]
    assert found["reason"] == "Expired"
    assert found["code"] == 410


def test_errors_come_in_the_requested_form(wire: Wire) -> None:
    for answer, code, reason in (
        (wire.get(f"{MAPS}/missing", Accept=PROTOBUF), 404, "NotFound"),
        (wire.request("POST", MAPS, config_map("Bad_Name"), BOTH), 422, "Invalid"),
        (wire.request("POST", MAPS, b"not a message", BOTH), 400, "BadRequest"),
        (wire.get("/api/v1/nonsense", Accept=PROTOBUF), 404, "NotFound"),
    ):
        status = decode_answer(answer)
        assert (answer.status, status["kind"], status["code"], status["reason"]) == (code, "Status", code, reason)
    invalid = decode_answer(wire.request("POST", MAPS, config_map("Bad_Name"), BOTH))
    assert invalid["details"]["causes"][0]["field"] == "metadata.name"


UNRECOGNIZED = "the object provided is unrecognized (must be of type ConfigMap): "
UNHANDLED = '{0} in version "v1" cannot be handled as a ConfigMap: '


@pytest.mark.parametrize(
    ("body", "start", "words"),
    [
        (b"", UNRECOGNIZED, "empty data (<empty>)"),
        (b"k8s\x00", UNRECOGNIZED, "empty body (6b387300)"),
        (b"k8s\x00\x0a\x09", UNRECOGNIZED, "unexpected EOF (6b3873000a09)"),
        (protobuf.wrap("v1", "ConfigMap", b"\x0a\x05"), UNHANDLED.format("ConfigMap"), "unexpected EOF"),
        (
            protobuf.wrap("v1", "Nothing", b""),
            UNHANDLED.format("Nothing"),
            f'no kind "Nothing" is registered for version "v1" in scheme "{scheme_of("")}"',
        ),
        (
            protobuf.wrap("v1", "Secret", b"\x0a\x00"),
            UNHANDLED.format("Secret"),
            "converting (v1.Secret) to (core.ConfigMap): unknown conversion",
        ),
    ],
)
def test_a_body_that_is_not_such_an_object_is_a_400_with_the_reason(
    wire: Wire, body: bytes, start: str, words: str
) -> None:
    answer = wire.request("POST", MAPS, body, {"Content-Type": PROTOBUF})
    assert answer.refusal == (400, start + words)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_damaged_message_is_taken_or_refused_but_never_fails(running: Running, data: st.DataObject) -> None:
    resource = data.draw(
        st.sampled_from(
            [
                resource
                for resource in CATALOG
                if resource.plural in ("pods", "services", "resourceclaims", "resourceslices")
            ]
        )
    )
    kind, version = resource.versions[0].schema, api_version(resource.group, resource.versions[0].name)
    obj = decode(kind, full(kind)).obj
    obj["metadata"] = {"name": "x"}
    raw = bytearray(protobuf.encode(kind, obj))
    for _ in range(data.draw(st.integers(0, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path = f"/{'apis' if resource.group else 'api'}/{version}{'/namespaces/default' if resource.namespaced else ''}/{resource.plural}?dryRun=All"
    answer = running.wire().request("POST", path, protobuf.wrap(version, resource.kind, bytes(raw)), BOTH)
    assert answer.status < 500, answer.body
    assert decode_answer(answer)["kind"] == ("Status" if answer.status >= 400 else resource.kind)


def test_an_envelope_without_a_kind_is_of_the_kind_that_is_expected(wire: Wire) -> None:
    raw = protobuf.encode(schema("v1", "ConfigMap"), {"metadata": {"name": "a"}})
    made = wire.request("POST", MAPS, protobuf.wrap("", "", raw), {"Content-Type": PROTOBUF})
    assert (made.status, made.json["kind"]) == (201, "ConfigMap")


def test_unknown_fields_are_not_reported_even_when_strict(wire: Wire) -> None:
    raw = protobuf.encode(schema("v1", "ConfigMap"), {"metadata": {"name": "a"}}) + b"\xfa\x06\x01x"
    made = wire.request(
        "POST", f"{MAPS}?fieldValidation=Strict", protobuf.wrap("v1", "ConfigMap", raw), {"Content-Type": PROTOBUF}
    )
    assert (made.status, "warning" in made.headers) == (201, False)


def test_delete_options_in_protobuf(wire: Wire) -> None:
    wire.create_config_map("a")
    wrong = protobuf.wrap(
        "v1", "DeleteOptions", protobuf.encode(meta.DeleteOptions, {"preconditions": {"uid": "other"}})
    )
    refused = wire.request("DELETE", f"{MAPS}/a", wrong, BOTH)
    assert (refused.status, decode_answer(refused)["reason"]) == (409, "Conflict")
    right = protobuf.wrap(
        "v1", "DeleteOptions", protobuf.encode(meta.DeleteOptions, {"propagationPolicy": "Background"})
    )
    gone = decode_answer(wire.request("DELETE", f"{MAPS}/a", right, BOTH))
    assert (gone["kind"], gone["status"], gone["details"]["name"]) == ("Status", "Success", "a")
    assert wire.request("DELETE", f"{MAPS}/a", b"k8s\x00\xff", BOTH).status == 400


def test_a_binding_in_protobuf(wire: Wire) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert wire.request("POST", "/api/v1/namespaces/default/pods", encode_message("v1", "Pod", pod), BOTH).status == 201
    body = encode_message("v1", "Binding", {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}})
    bound = wire.request("POST", "/api/v1/namespaces/default/pods/p/binding", body, BOTH)
    assert (bound.status, decode_answer(bound)["status"]) == (201, "Success")
    assert decode_answer(wire.get("/api/v1/namespaces/default/pods/p", Accept=PROTOBUF))["spec"]["nodeName"] == "n"


@pytest.mark.parametrize("path", ["/api", "/apis", "/api/v1", "/apis/resource.k8s.io/v1"])
def test_discovery_in_protobuf_equals_that_in_json(wire: Wire, path: str) -> None:
    plain = wire.get(path).json
    answer = wire.get(path, Accept=PROTOBUF)
    assert answer.body == encode_message(plain.get("apiVersion", ""), plain["kind"], plain)
    assert decode_answer(answer)["kind"] == plain["kind"]


def test_aggregated_discovery_in_protobuf(wire: Wire) -> None:
    suffix = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    plain, answer = wire.get("/apis", Accept="application/json" + suffix), wire.get("/apis", Accept=PROTOBUF + suffix)
    assert (answer.headers["content-type"], answer.headers["etag"]) == (PROTOBUF + suffix, plain.headers["etag"])
    assert answer.body == encode_message("apidiscovery.k8s.io/v2", "APIGroupDiscoveryList", plain.json)
    groups = [item["metadata"]["name"] for item in decode_message(answer.body)["items"]]
    assert groups == [item["metadata"]["name"] for item in plain.json["items"]]
    assert wire.get("/apis", **{"Accept": PROTOBUF + suffix, "If-None-Match": answer.headers["etag"]}).status == 304


KUBECTL = os.environ.get("KUBECTL") or shutil.which("kubectl")


@pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl")
@pytest.mark.parametrize(
    ("arguments", "path", "holds"),
    [
        ("namespace n", "/api/v1/namespaces/n", {"kind": "Namespace"}),
        ("configmap c --from-literal=a=b", f"{MAPS}/c", {"data": {"a": "b"}}),
        ("secret generic s --from-literal=a=b", "/api/v1/namespaces/default/secrets/s", {"data": {"a": "Yg=="}}),
        ("serviceaccount a", "/api/v1/namespaces/default/serviceaccounts/a", {"kind": "ServiceAccount"}),
        ("service clusterip v --tcp=80:8080", "/api/v1/namespaces/default/services/v", {"kind": "Service"}),
    ],
)
def test_kubectl_creates_without_a_file(wire: Wire, tmp_path: Path, arguments: str, path: str, holds: Json) -> None:
    assert KUBECTL is not None
    command = [KUBECTL, "--server", wire.url, "create", *arguments.split()]
    home = {**os.environ, "HOME": str(tmp_path), "KUBECONFIG": str(tmp_path / "none")}
    done = run_command(command, env=home, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert wire.get(path).json.items() >= holds.items()
