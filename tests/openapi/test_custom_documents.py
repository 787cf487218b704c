"""OpenAPI documents of custom resources, as kubectl and generators of clients read them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from apiserver.api.features.gates import RELEASES
from apiserver.api.objects import Json
from apiserver.http.documents.openapi import OpenApi
from apiserver.http.documents.openapi_documents import ServedDocuments
from apiserver.request.messages import Request
from apiserver.resources import CATALOG
from tests.support.extensions import make_definition, make_version
from tests.support.server import Running, serve

REPLICAS = {"type": "integer", "minimum": 0, "maximum": 0, "default": 0}
EITHER = [{"type": "integer"}, {"type": "string"}]
PATTERN = {"pattern": "a"}
CHOICES = [{"minimum": 3}, PATTERN]
#: Schemas beside x-kubernetes-int-or-string, and their form in documents.
EITHERS: dict[str, tuple[Json, Json]] = {
    "nothing": ({}, {"anyOf": EITHER}),
    "the types": ({"anyOf": EITHER}, {"anyOf": EITHER}),
    "the types and more": ({"allOf": [{"anyOf": EITHER}, PATTERN]}, {"allOf": [{"anyOf": EITHER}, PATTERN]}),
    "choices": ({"anyOf": CHOICES}, {"anyOf": CHOICES, "allOf": [{"anyOf": EITHER}]}),
    "both": ({"anyOf": CHOICES, "allOf": [PATTERN]}, {"anyOf": CHOICES, "allOf": [{"anyOf": EITHER}, PATTERN]}),
    "terms": ({"allOf": [PATTERN]}, {"allOf": [PATTERN], "anyOf": EITHER}),
}
INT_OR_STRING: Json = {"x-kubernetes-int-or-string": True}
SPEC: Json = {"color": {"type": "string"}, **{name: INT_OR_STRING | said for name, (said, _) in EITHERS.items()}}
PROPERTIES: Json = {
    "spec": {"type": "object", "properties": {"replicas": REPLICAS, **SPEC}},
    "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
}
SCALE = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
VERSION = make_version(
    "v1",
    {"type": "object", "properties": PROPERTIES},
    selectableFields=[{"jsonPath": ".spec.color"}],
    subresources={"status": {}, "scale": SCALE},
)
DEFINITION = make_definition("foos", "Foo", VERSION, group="y.x.io")
DEFINITION["spec"]["names"]["listKind"] = "FooHerd"
COLLECTION = "/apis/y.x.io/v1/namespaces/{namespace}/foos"


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serve() as running:
        wire = running.wire()
        wire.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
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


def test_the_group_is_described_only_by_its_versions(server: Running, document: Json) -> None:
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


def test_lists_have_the_name_of_the_definition_and_can_be_selected_from_like_their_kind(document: Json) -> None:
    schemas = document["components"]["schemas"]
    herd = schemas["io.x.y.v1.FooHerd"]
    assert herd["description"] == "FooHerd is a list of Foo"
    assert herd["x-kubernetes-group-version-kind"] == [{"group": "y.x.io", "kind": "FooHerd", "version": "v1"}]
    assert herd["x-kubernetes-selectable-fields"] == [{"fieldPath": "spec.color"}]
    assert schemas["io.x.y.v1.Foo"]["x-kubernetes-selectable-fields"] == [{"fieldPath": "spec.color"}]
    assert herd["required"] == ["items"]
    assert herd["properties"]["items"]["items"] == {"$ref": "#/components/schemas/io.x.y.v1.Foo"}
    assert herd["properties"]["metadata"].keys() == {"description", "allOf"}
    listed = document["paths"][COLLECTION]["get"]
    assert listed["description"] == "list objects of kind Foo"
    assert listed["responses"]["200"]["content"]["application/json"]["schema"]["$ref"].endswith(".FooHerd")


def test_an_integer_or_a_string_is_described_as_two_types_once(document: Json) -> None:
    fields = document["components"]["schemas"]["io.x.y.v1.Foo"]["properties"]["spec"]["properties"]
    assert {name: fields[name] for name in EITHERS} == {
        name: INT_OR_STRING | told for name, (_, told) in EITHERS.items()
    }


def test_options_of_deletion_belong_to_all_that_clients_know(server: Running, document: Json) -> None:
    name = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
    kinds = document["components"]["schemas"][name]["x-kubernetes-group-version-kind"]
    groups = {kind["group"] for kind in kinds}
    assert {"", "apps", "extensions"} <= groups
    assert not {"y.x.io", "apiregistration.k8s.io"} & groups
    whole = server.wire().get("/openapi/v2").json["definitions"][name]["x-kubernetes-group-version-kind"]
    assert "apiregistration.k8s.io" in {kind["group"] for kind in whole}


def test_a_changed_definition_builds_its_own_part_and_keeps_all_other_documents() -> None:
    resources = [resource for resource in CATALOG if resource.group in ("resource.k8s.io", "batch")]
    served = [(resource, version) for resource in resources for version in resource.versions]
    first = ServedDocuments((), {}, RELEASES[-1]).serving(served)
    before = {name: first.document(name) for name in ("v3/apis__batch__v1.json", "v3/apis__resource.k8s.io__v1.json")}
    assert b"jobs" in first.document("v2.json")[0]
    changed = next(resource for resource in resources if resource.plural == "jobs")
    without = [each for each in served if each[0] is not changed]
    later = first.serving([*without, *((replace(changed), version) for version in changed.versions)])
    assert list(later.documents) == ["v3/apis__resource.k8s.io__v1.json"], "version 2 and the changed one are built"
    assert set(later.parts.values()) & set(first.parts.values()) == {
        part for part in first.parts.values() if part.resource is not changed
    }
    assert {name: later.document(name) for name in before} == before
    assert later.document("v2.json") == first.document("v2.json")
    gone = later.serving(without)
    assert b"/jobs" not in gone.document("v3/apis__batch__v1.json")[0]
    assert b"/jobs" not in gone.document("v2.json")[0]


async def test_documents_are_built_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set()
    built = ServedDocuments.document

    def document(self: ServedDocuments, name: str) -> tuple[bytes, str]:
        threads.add(threading.current_thread())
        return built(self, name)

    monkeypatch.setattr(ServedDocuments, "document", document)
    served = [(resource, version) for resource in CATALOG for version in resource.versions]
    openapi = OpenApi(served, CATALOG, RELEASES[-1])
    for path in ("/openapi/v2", "/openapi/v3", "/openapi/v3/apis/batch/v1"):
        answer = await openapi.answer(Request("GET", path, "", {}, b""))
        assert answer is not None
        assert answer.status == 200
    assert threads
    assert threading.current_thread() not in threads
