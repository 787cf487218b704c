"""Opaque parameters keep their bytes: other blanks or another order of keys are a change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.wire import Answer, Wire

pytestmark = pytest.mark.integration
FLAGS = ("--runtime-config=api/all=true",)

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"


def claim(name: str, parameters: str, version: str = "v1") -> str:
    config = '{"opaque":{"driver":"gpu.example.com","parameters":' + parameters + "}}"
    return f'{{"apiVersion":"resource.k8s.io/{version}","kind":"ResourceClaim","metadata":{{{name}}},"spec":{{"devices":{{"config":[{config}]}}}}}}'


def send(wire: Wire, method: str, path: str, body: str, media: str = "application/json") -> Answer:
    return wire.request(method, path, body.encode(), {"content-type": media})


def parameters_of(answer: Answer) -> Any:
    assert answer.status in (200, 201), answer.text
    return answer.json["spec"]["devices"]["config"][0]["opaque"]["parameters"]


@pytest.mark.parametrize(
    ("name", "written"),
    [("compact", '{"a":1,"b":2}'), ("blanks", '{"a": 1, "b": 2}'), ("lines", '{\n\t"a": 1,\n\t"b": 2\n}')],
)
def test_the_same_bytes_are_no_change_and_others_are(wire: Wire, name: str, written: str) -> None:
    body = claim(f'"name":"{name}"', written)
    created = send(wire, "POST", CLAIMS, body)
    assert parameters_of(created) == {"a": 1, "b": 2}
    assert b"\n\t" not in wire.get(f"{CLAIMS}/{name}").body
    again = send(wire, "PUT", f"{CLAIMS}/{name}", body)
    assert again.json["metadata"]["resourceVersion"] == created.json["metadata"]["resourceVersion"]
    for other in ('{"b":2,"a":1}', '{"a":1,  "b":2}', '{"a":1,"b":2.0}'):
        refused = send(wire, "PUT", f"{CLAIMS}/{name}", claim(f'"name":"{name}"', other))
        assert refused.status == 422
        assert refused.message.endswith("field is immutable")


def test_bytes_are_kept_by_writes_that_are_about_something_else(wire: Wire) -> None:
    body = claim('"name":"kept"', '{"a": 1}')
    send(wire, "POST", CLAIMS, body)
    assert send(wire, "PUT", f"{CLAIMS}/kept/status", claim('"name":"kept","labels":{"x":"y"}', "{}")).status == 200
    assert send(wire, "PUT", f"{CLAIMS}/kept", claim('"name":"kept","labels":{"a":"b"}', '{"a": 1}')).status == 200
    older = claim('"name":"kept","labels":{"a":"c"}', '{"a": 1}', "v1beta1")
    assert send(wire, "PUT", f"{CLAIMS.replace('/v1/', '/v1beta1/')}/kept", older).status == 200
    assert parameters_of(wire.get(f"{CLAIMS}/kept")) == {"a": 1}


def test_a_patch_sees_compact_parameters(wire: Wire) -> None:
    label = json.dumps({"metadata": {"labels": {"a": "b"}}})
    for name, written, status in (("spaced", '{"a": 1}', 422), ("tight", '{"a":1}', 200)):
        send(wire, "POST", CLAIMS, claim(f'"name":"{name}"', written))
        assert send(wire, "PATCH", f"{CLAIMS}/{name}", label, "application/merge-patch+json").status == status


def test_a_generated_name_keeps_the_bytes(wire: Wire) -> None:
    made = send(wire, "POST", CLAIMS, claim('"generateName":"g-"', '{"a": 1}')).json["metadata"]["name"]
    assert send(wire, "PUT", f"{CLAIMS}/{made}", claim(f'"name":"{made}"', '{"a": 1}')).status == 200
    assert send(wire, "PUT", f"{CLAIMS}/{made}", claim(f'"name":"{made}"', '{"a":1}')).status == 422


def test_other_blanks_are_a_new_generation_of_a_class_and_applying_the_same_is_none(wire: Wire) -> None:
    def put(written: str) -> int:
        head = '{"apiVersion":"resource.k8s.io/v1","kind":"DeviceClass","metadata":{"name":"c"},"spec":{"config":[{"opaque":{"driver":"d","parameters":'
        path = f"{CLASSES}/c" if wire.get(f"{CLASSES}/c").status == 200 else CLASSES
        answer = send(wire, "PUT" if path != CLASSES else "POST", path, head + written + "}}]}}")
        generation: int = answer.json["metadata"]["generation"]
        return generation

    assert [put('{"a": 1}'), put('{"a": 1}'), put('{"a":1}')] == [1, 1, 2]
    put('{"a": 1}')
    config = [{"opaque": {"driver": "d", "parameters": {"a": 1}}}]
    head = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "c"}}
    body = json.dumps({**head, "spec": {"config": config}})
    applied = send(wire, "PATCH", f"{CLASSES}/c?fieldManager=m", body, "application/apply-patch+yaml")
    assert applied.json["metadata"]["generation"] == 3
    assert put('{"a": 1}') == 3


def test_limits_count_blanks(wire: Wire) -> None:
    def padded(size: int) -> str:
        return '{"a":"x"' + " " * (size - 9) + "}"

    assert send(wire, "POST", CLAIMS, claim('"name":"long"', padded(10240))).status == 201
    assert "Too long" in send(wire, "POST", CLAIMS, claim('"name":"longer"', padded(10241))).message


def config_owners(answer: Answer) -> list[tuple[str, bool]]:
    """Return for each manager its version and whether it owns the configuration."""
    assert answer.status in (200, 201), answer.text
    return [
        (entry["apiVersion"].rpartition("/")[2], "f:config" in entry["fieldsV1"].get("f:spec", {}))
        for entry in answer.json["metadata"]["managedFields"]
    ]


def test_another_order_of_keys_is_a_change_only_in_the_version_of_the_request(wire: Wire) -> None:
    def class_of(version: str, parameters: str) -> str:
        config = '[{"opaque":{"driver":"gpu.example.com","parameters":' + parameters + "}}]"
        return f'{{"apiVersion":"resource.k8s.io/{version}","kind":"DeviceClass","metadata":{{"name":"order"}},"spec":{{"config":{config}}}}}'

    send(wire, "POST", CLASSES, class_of("v1", '{"b": 1, "a": 2}'))
    older = send(wire, "PUT", f"{CLASSES.replace('/v1/', '/v1beta2/')}/order", class_of("v1beta2", '{"a": 2, "b": 1}'))
    assert config_owners(older) == [("v1", True), ("v1beta2", True)]
    assert config_owners(send(wire, "PUT", f"{CLASSES}/order", class_of("v1", '{"a": 3}'))) == [("v1", True)]


def test_strategic_merge_rewrites_parameters_and_so_changes_immutable_bytes(wire: Wire) -> None:
    media = "application/strategic-merge-patch+json"
    for name, parameters, status in (("sorted", '{"a":1,"b":2}', 200), ("unsorted", '{"b":2,"a":1}', 422)):
        send(wire, "POST", CLAIMS, claim(f'"name":"{name}"', parameters))
        assert send(wire, "PATCH", f"{CLAIMS}/{name}", '{"metadata":{"labels":{"a":"b"}}}', media).status == status
        assert (
            send(
                wire, "PATCH", f"{CLAIMS}/{name}", '{"metadata":{"labels":{"a":"c"}}}', "application/merge-patch+json"
            ).status
            == 200
        )


def test_a_merge_patch_may_bring_another_version_of_the_kind(wire: Wire) -> None:
    send(wire, "POST", CLAIMS, claim('"name":"versions"', '{"a":1}'))
    other = '{"apiVersion":"resource.k8s.io/v1beta1","metadata":{"labels":{"a":"b"}}}'
    patched = send(wire, "PATCH", f"{CLAIMS}/versions", other, "application/merge-patch+json")
    assert patched.status == 200
    assert (patched.json["apiVersion"], patched.json["metadata"]["labels"]) == ("resource.k8s.io/v1", {"a": "b"})
    unknown = send(
        wire, "PATCH", f"{CLAIMS}/versions", '{"apiVersion":"resource.k8s.io/v9"}', "application/merge-patch+json"
    )
    assert 'no kind \\"ResourceClaim\\" is registered for version \\"resource.k8s.io/v9\\"' in unknown.text


def test_the_status_of_a_claim_is_no_table(wire: Wire) -> None:
    send(wire, "POST", CLAIMS, claim('"name":"tables"', "{}"))
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    assert wire.get(f"{CLAIMS}/tables", Accept=table).json["kind"] == "Table"
    refused = wire.get(f"{CLAIMS}/tables/status", Accept=table)
    assert refused.failure == (406, "NotAcceptable")
    assert wire.get(f"{CLAIMS}/tables/status", Accept=table + ",application/json").json["kind"] == "ResourceClaim"
    assert (
        wire.get(f"{CLAIMS}/tables/status", Accept=table.replace("Table", "PartialObjectMetadata")).json["kind"]
        == "PartialObjectMetadata"
    )
