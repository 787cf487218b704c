"""What the documents say of custom resources; kubectl and generators of clients go by it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.server import Running, serve

Json = dict[str, Any]

REPLICAS = {"type": "integer", "minimum": 0, "maximum": 0, "default": 0}
DEFINITION: Json = {
    "metadata": {"name": "foos.y.x.io"},
    "spec": {
        "group": "y.x.io",
        "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                },
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"replicas": REPLICAS}},
                            "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
                        },
                    }
                },
            }
        ],
    },
}
COLLECTION = "/apis/y.x.io/v1/namespaces/{namespace}/foos"


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serve() as running:
        wire = running.wire()
        assert wire.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION).status == 201
        yield running


@pytest.fixture(scope="module")
def document(server: Running) -> Json:
    answer = server.wire().get("/openapi/v3/apis/y.x.io/v1")
    assert answer.status == 200
    found: Json = answer.json
    return found


def test_no_strategic_patch_is_offered_for_kubectl_would_send_it_and_be_refused(document: Json) -> None:
    patches = [item["patch"] for item in document["paths"].values() if "patch" in item]
    assert len(patches) == 3  # of the object, its status and its scale
    for patch in patches:
        assert list(patch["requestBody"]["content"]) == [
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/apply-patch+yaml",
        ]
        assert list(patch["responses"]) == ["200", "401"]


def test_bodies_and_answers_are_json_or_yaml(document: Json) -> None:
    media = ["application/json", "application/yaml"]
    created = document["paths"][COLLECTION]["post"]
    assert list(created["requestBody"]["content"]) == list(created["responses"]["201"]["content"]) == media
    assert list(document["paths"][COLLECTION]["get"]["responses"]["200"]["content"]) == media
    assert "requestBody" not in document["paths"][COLLECTION]["delete"]


def test_the_group_is_described_by_its_versions_alone(server: Running, document: Json) -> None:
    index = server.wire().get("/openapi/v3").json["paths"]
    assert "apis/y.x.io/v1" in index
    assert "apis/y.x.io" not in index
    assert server.wire().get("/openapi/v3/apis/y.x.io").status == 404
    assert document["info"] == {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
    assert not any("/watch/" in path or path.endswith("/v1/") for path in document["paths"])
    whole = server.wire().get("/openapi/v2").json["paths"]
    assert COLLECTION in whole
    assert not {"/apis/y.x.io/", "/apis/y.x.io/v1/"} & whole.keys()


def test_the_kind_of_a_scale_is_the_custom_one(document: Json) -> None:
    scale = document["paths"][COLLECTION + "/{name}/scale"]["get"]
    assert scale["x-kubernetes-group-version-kind"] == {"group": "y.x.io", "kind": "Foo", "version": "v1"}


def test_limits_of_zero_are_shown(document: Json) -> None:
    kind = document["components"]["schemas"]["io.x.y.v1.Foo"]
    assert kind["properties"]["spec"]["properties"]["replicas"] == REPLICAS
