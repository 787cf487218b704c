"""The OpenAPI documents and how they are served."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from apiserver.api.features.gates import Features
from apiserver.http.documents.openapi import OpenApi
from apiserver.openapi.__main__ import DIRECTORY, main
from apiserver.openapi.gnostic import entries
from apiserver.openapi.phrases import tag_of
from apiserver.registry.catalog.served import list_known
from apiserver.request.messages import Request, Response
from apiserver.resources import CATALOG

WRITTEN = list_known(CATALOG, Features())
#: The committed files; test_the_files_are_current holds that they are what `build_files` returns.
FILES = {str(file.relative_to(DIRECTORY)): file.read_bytes() for file in DIRECTORY.rglob("*.*")}
DOCUMENTS = {name: orjson.loads(content) for name, content in FILES.items() if name.endswith(".json")}
EVERYTHING = [(resource, version) for resource in WRITTEN for version in resource.versions]
RELEASE = (1, 36)
PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


def get(service: OpenApi, path: str, **headers: str) -> Response:
    where, _, query = path.partition("?")
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = asyncio.run(service.answer(Request("GET", where, query, sent, b"")))
    assert answer is not None
    return answer


def names(item: dict[str, Any]) -> list[str]:
    return [parameter["name"] for parameter in item["parameters"]]


def header(answer: Response, name: str) -> str:
    return dict(answer.headers).get(name, "")


def test_the_files_are_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr().err


def test_a_check_names_every_file_that_is_not_current(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--write", "--directory", str(tmp_path)]) == 0
    (tmp_path / "v2.json").write_text("{}")
    (tmp_path / "v3" / "old.json").write_text("{}")
    (tmp_path / "v3" / "api.json").unlink()
    assert main(["--check", "--directory", str(tmp_path)]) == 1
    assert re.findall(r"openapi/(\S+) is not current", capsys.readouterr().err) == [
        "v3/api.json",
        "v2.json",
        "v3/old.json",
    ]
    assert main(["--write", "--directory", str(tmp_path)]) == 0
    assert main(["--check", "--directory", str(tmp_path)]) == 0


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_every_reference_leads_somewhere_and_nothing_is_left_over(name: str) -> None:
    document = DOCUMENTS[name]
    found = set(re.findall(r'"#/(?:definitions|components/schemas)/([^"]+)"', FILES[name].decode()))
    known = document.get("definitions") or document["components"].get("schemas", {})
    assert found == known.keys()


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_operations_have_ids_of_their_own_and_answers(name: str) -> None:
    operations = [
        item for path in DOCUMENTS[name]["paths"].values() for method, item in path.items() if method != "parameters"
    ]
    ids = [item["operationId"] for item in operations]
    assert len(ids) == len(set(ids))
    assert all({"200", "401"} <= item["responses"].keys() for item in operations)


def test_every_served_verb_has_its_operation() -> None:
    methods = {"create": "post", "update": "put", "patch": "patch", "get": "get", "delete": "delete"}
    for resource, version in EVERYTHING:
        root = f"/apis/{resource.group}/{version.name}" if resource.group else f"/api/{version.name}"
        collection = root + ("/namespaces/{namespace}/" if resource.namespaced else "/") + resource.plural
        paths = DOCUMENTS["v2.json"]["paths"]
        for verb in resource.verbs:
            if verb in ("create", "list", "deletecollection"):
                assert {"create": "post", "list": "get", "deletecollection": "delete"}[verb] in paths[collection]
            elif verb != "watch":
                assert methods[verb] in paths[collection + "/{name}"]
        for sub in resource.subresources:
            item = paths[f"{collection}/{{name}}/{sub.name}"]
            assert sub.connect is not None or {methods[verb] for verb in sub.verbs} == item.keys() - {"parameters"}


def test_kubectl_finds_field_validation_at_the_patch_of_every_kind() -> None:
    for resource, version in [pair for pair in EVERYTHING if "patch" in pair[0].verbs]:
        found = [
            item["patch"]
            for item in DOCUMENTS["v2.json"]["paths"].values()
            if "patch" in item
            and item["patch"]["x-kubernetes-group-version-kind"]
            == {"group": resource.group, "kind": resource.kind, "version": version.name}
        ]
        assert found
        assert all("fieldValidation" in {parameter["name"] for parameter in patch["parameters"]} for patch in found)


def test_extensions_define_how_fields_are_merged() -> None:
    for release, schemas in (
        ("v2.json", DOCUMENTS["v2.json"]["definitions"]),
        ("v3", DOCUMENTS["v3/api__v1.json"]["components"]["schemas"]),
    ):
        ports = schemas["io.k8s.api.core.v1.Container"]["properties"]["ports"]
        assert ports["x-kubernetes-list-type"] == "map", release
        assert ports["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
        assert ports["x-kubernetes-patch-merge-key"] == "containerPort"
        assert ports["x-kubernetes-patch-strategy"] == "merge"
        pod = schemas["io.k8s.api.core.v1.Pod"]
        assert pod["x-kubernetes-group-version-kind"] == [{"group": "", "kind": "Pod", "version": "v1"}]
        assert schemas["io.k8s.api.core.v1.NodeSelector"]["x-kubernetes-map-type"] == "atomic"
        expansions = schemas["io.k8s.api.core.v1.PersistentVolumeClaimStatus"]["properties"][
            "allocatedResourceStatuses"
        ]
        assert expansions["x-kubernetes-map-type"] == "granular"
        assert "NodeResizePending" in expansions["additionalProperties"]["enum"]


def test_a_union_maps_fields_to_values() -> None:
    flow, scheduling = (
        DOCUMENTS[f"v3/apis__{name}.json"]["components"]["schemas"]
        for name in ("flowcontrol.apiserver.k8s.io__v1", "scheduling.k8s.io__v1alpha2")
    )
    assert flow["io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationSpec"]["x-kubernetes-unions"] == [
        {"discriminator": "type", "fields-to-discriminateBy": {"exempt": "Exempt", "limited": "Limited"}}
    ]
    assert scheduling["io.k8s.api.scheduling.v1alpha2.PodGroupSchedulingPolicy"]["x-kubernetes-unions"] == [
        {"fields-to-discriminateBy": {"basic": "Basic", "gang": "Gang"}}
    ]


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_every_type_and_property_is_described(name: str) -> None:
    document = DOCUMENTS[name]
    for kind, schema in (document.get("definitions") or document["components"].get("schemas", {})).items():
        assert schema["description"], kind
        for field, item in schema.get("properties", {}).items():
            assert item.get("description"), f"{kind}.{field}"


def test_version_3_shows_defaults_and_version_2_does_not() -> None:
    protocol = "io.k8s.api.core.v1.ContainerPort"
    assert DOCUMENTS["v3/api__v1.json"]["components"]["schemas"][protocol]["properties"]["protocol"]["default"] == "TCP"
    # A field may be called default; then a schema follows.
    assert not re.search(rb'"default":[^{]', FILES["v2.json"])


def test_the_protobuf_form_holds_the_same_paths_and_definitions() -> None:
    parts = dict(entries(FILES["v2.pb"]))
    paths = [next(entries(item))[1].decode() for _, item in entries(parts[8])]
    definitions = {(pair := dict(entries(item)))[1].decode(): pair[2] for _, item in entries(parts[9])}
    assert paths == list(DOCUMENTS["v2.json"]["paths"])
    assert list(definitions) == list(DOCUMENTS["v2.json"]["definitions"])
    properties = dict(entries(definitions["io.k8s.api.core.v1.Pod"]))[25]
    found = [next(entries(item))[1].decode() for _, item in entries(properties)]
    assert found == ["apiVersion", "kind", "metadata", "spec", "status"]


def test_a_server_of_everything_answers_with_the_files_and_names_its_release() -> None:
    service = OpenApi(EVERYTHING, WRITTEN, (1, 34))
    for path, file in (("v2", "v2.json"), ("v3/apis/resource.k8s.io/v1", "v3/apis__resource.k8s.io__v1.json")):
        found, written = orjson.loads(get(service, f"/openapi/{path}").body), DOCUMENTS[file]
        assert found == written | {"info": {"title": "Kubernetes", "version": "1.34"}}
    protobuf = get(service, "/openapi/v2", accept=PROTOBUF).body
    assert protobuf.startswith((DIRECTORY / "v2.pb").read_bytes())
    assert dict(entries(dict(entries(protobuf))[2])) == {1: b"Kubernetes", 2: b"1.34"}


def test_parameters_that_all_operations_of_a_path_have_are_the_paths() -> None:
    paths = DOCUMENTS["v3/api__v1.json"]["paths"]
    bindings, log = paths["/api/v1/namespaces/{namespace}/bindings"], "/api/v1/namespaces/{namespace}/pods/{name}/log"
    assert names(bindings) == ["dryRun", "fieldManager", "fieldValidation", "namespace", "pretty"]
    assert "parameters" not in bindings["post"]
    pods = paths["/api/v1/namespaces/{namespace}/pods"]
    assert names(pods) == ["namespace", "pretty"]
    assert names(pods["post"]) == ["dryRun", "fieldManager", "fieldValidation"]
    assert names(paths["/api/v1/watch/pods"]) == names(paths["/api/v1/pods"])
    assert {"insecureSkipTLSVerifyBackend", "stream"} <= set(names(paths[log]))
    proxied = paths["/api/v1/namespaces/{namespace}/pods/{name}/proxy/{path}"]["parameters"]
    assert [(item["name"], item["in"]) for item in proxied if item["name"] == "path"] == [
        ("path", "path"),
        ("path", "query"),
    ]


def test_documents_name_protobuf_where_the_server_supports_it() -> None:
    pods = DOCUMENTS["v3/api__v1.json"]["paths"]["/api/v1/namespaces/{namespace}/pods"]
    assert list(pods["post"]["responses"]["201"]["content"]) == [
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
    ]
    assert "application/vnd.kubernetes.protobuf;stream=watch" in pods["get"]["responses"]["200"]["content"]


@pytest.mark.parametrize(
    ("group", "tag"),
    [
        ("", "core"),
        ("apps", "apps"),
        ("resource.k8s.io", "resource"),
        ("rbac.authorization.k8s.io", "rbacAuthorization"),
        ("x.io", "xIo"),
        ("a-b.x.io", "aBXIo"),
        ("3d.x.io", "DXIo"),
    ],
)
def test_a_tag_is_made_of_all_labels_of_a_group_but_upstreams_suffix(group: str, tag: str) -> None:
    assert tag_of(group) == tag


def test_operations_are_described_in_upstreams_phrases() -> None:
    told = {
        f"{method} {path}": operation["description"]
        for path, item in DOCUMENTS["v2.json"]["paths"].items()
        for method, operation in item.items()
        if method != "parameters"
    }
    core, one, watch = "/api/v1/namespaces/{namespace}", "{name}", "/api/v1/watch/namespaces/{namespace}"
    assert told["get /api/v1/"] == "get available resources"
    assert told[f"get {core}/pods"] == "list or watch objects of kind Pod"
    assert told["get /api/v1/componentstatuses"] == "list objects of kind ComponentStatus"
    assert told[f"post {core}/events"] == "create an Event"
    assert told[f"delete {core}/endpoints/{one}"] == "delete Endpoints"
    assert told["post /apis/storage.k8s.io/v1/storageclasses"] == "create a StorageClass"
    assert told[f"post {core}/pods/{one}/eviction"] == "create eviction of a Pod"
    assert told[f"patch {core}/pods/{one}/status"] == "partially update status of the specified Pod"
    assert told[f"put {core}/pods/{one}/proxy"] == "connect PUT requests to proxy of Pod"
    assert told[f"get {watch}/pods"].startswith("watch individual changes to a list of Pod. deprecated: ")
    assert told[f"get {watch}/pods/{one}"].startswith("watch changes to an object of kind Pod. deprecated: ")


def test_values_of_several_types_are_definitions_without_a_type() -> None:
    schemas = DOCUMENTS["v2.json"]["definitions"]
    schema = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
    for field, name in (("default", "JSON"), ("items", "JSONSchemaPropsOrArray"), ("additionalItems", "OrBool")):
        reference = schemas[schema]["properties"][field]["$ref"]
        assert reference.endswith(name), field
        assert schemas[reference.rpartition("/")[2]].keys() == {"description"}


def test_the_paths_of_the_token_issuer_are_described() -> None:
    service = OpenApi(EVERYTHING, WRITTEN, RELEASE)
    keys = orjson.loads(get(service, "/openapi/v3/openid/v1/jwks").body)
    answer = keys["paths"]["/openid/v1/jwks/"]["get"]["responses"]["200"]
    assert answer["content"] == {"application/jwk-set+json": {"schema": {"type": "string"}}}
    assert "schemas" not in keys["components"]
    whole = DOCUMENTS["v2.json"]["paths"]["/.well-known/openid-configuration/"]["get"]
    assert whole["produces"] == ["application/json"]
    assert whole["tags"] == ["WellKnown"]


def test_each_client_gets_the_form_that_it_asks_for() -> None:
    service = OpenApi(EVERYTHING, WRITTEN, RELEASE)
    assert get(service, "/openapi/v2").content_type == "application/json"
    assert get(service, "/openapi/v2", accept=f"{PROTOBUF}, application/json").content_type == PROTOBUF.replace(
        "@", "."
    )
    assert get(service, "/openapi/v2", accept="image/png").status == 406
    assert get(service, "/openapi/v3").content_type == "text/plain; charset=utf-8"
    assert get(service, "/openapi/v3/api/v1", accept="image/png").status == 406
    assert get(service, "/openapi/v3/apis/nope/v1").status == 404
    assert asyncio.run(service.answer(Request("GET", "/openapi/v1", "", {}, b""))) is None


def test_the_index_leads_to_documents_that_may_be_kept() -> None:
    service = OpenApi(EVERYTHING, WRITTEN, RELEASE)
    index = orjson.loads(get(service, "/openapi/v3").body)["paths"]
    assert {"api", "apis", "version", "api/v1", "apis/resource.k8s.io", "apis/resource.k8s.io/v1"} <= index.keys()
    for name, item in index.items():
        answer = get(service, item["serverRelativeURL"])
        assert answer.status == 200, name
        assert header(answer, "Cache-Control") == "public, immutable"
        assert item["serverRelativeURL"].endswith(header(answer, "Etag").strip('"'))


def test_an_old_hash_is_sent_on_to_the_present_document() -> None:
    service = OpenApi(EVERYTHING, WRITTEN, RELEASE)
    answer = get(service, "/openapi/v3/api/v1?hash=OLD")
    assert answer.status == 301
    assert get(service, header(answer, "Location")).status == 200


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3/api/v1"])
def test_a_client_that_has_the_document_gets_a_304(path: str) -> None:
    service = OpenApi(EVERYTHING, WRITTEN, RELEASE)
    answer = get(service, path)
    etag, made = header(answer, "Etag"), header(answer, "Last-Modified")
    assert get(service, path, if_none_match=f'"x", {etag}').status == 304
    assert get(service, path, if_none_match='"x"').status == 200
    assert get(service, path, if_modified_since=made).status == 304
    assert get(service, path, if_modified_since=made, if_none_match='"x"').status == 200


@pytest.mark.parametrize(
    ("path", "varies", "names"),
    [
        ("/openapi/v2", ["Accept-Encoding", "Accept"], {"Accept-Ranges", "Etag", "Last-Modified", "Vary"}),
        ("/openapi/v3/api/v1", ["Accept"], {"Accept-Ranges", "Etag", "Last-Modified", "Vary"}),
        ("/openapi/v3", [], {"Accept-Ranges", "Last-Modified"}),
    ],
)
def test_documents_have_upstreams_headers(path: str, varies: list[str], names: set[str]) -> None:
    answer = get(OpenApi(EVERYTHING, WRITTEN, RELEASE), path)
    assert {name for name, _ in answer.headers} == names
    assert [value for name, value in answer.headers if name == "Vary"] == varies
    assert header(answer, "Accept-Ranges") == "bytes"


def test_unserved_resources_are_not_described() -> None:
    served = [pair for pair in EVERYTHING if pair[0].group != "resource.k8s.io" and pair[0].plural != "pods"]
    service = OpenApi(served, WRITTEN, RELEASE)
    text = get(service, "/openapi/v2").body
    document = orjson.loads(text)
    assert b"api.resource.v1" not in text
    assert "io.k8s.api.core.v1.Pod" not in document["definitions"]
    assert "io.k8s.api.core.v1.ConfigMap" in document["definitions"]
    assert not any("/pods" in path or "resource.k8s.io" in path for path in document["paths"])
    protobuf = dict(entries(get(service, "/openapi/v2", accept=PROTOBUF).body))
    assert [dict(entries(item))[1].decode() for _, item in entries(protobuf[9])] == list(document["definitions"])
    assert get(service, "/openapi/v3/apis/resource.k8s.io/v1").status == 404
    core = orjson.loads(get(service, "/openapi/v3/api/v1").body)
    assert "io.k8s.api.core.v1.Pod" not in core["components"]["schemas"]


def test_missing_files_are_named(tmp_path: Path) -> None:
    from apiserver.api.errors.status import StatusError

    with pytest.raises(StatusError, match=r"openapi/v2\.json is missing from this installation"):
        get(OpenApi(EVERYTHING, WRITTEN, RELEASE, tmp_path), "/openapi/v2")


def test_a_reduced_document_has_its_own_hash() -> None:
    fewer: list[tuple[Any, Any]] = [
        (replace(resource), version) for resource, version in EVERYTHING if resource.plural != "nodes"
    ]
    assert header(get(OpenApi(fewer, WRITTEN, RELEASE), "/openapi/v2"), "Etag") != header(
        get(OpenApi(EVERYTHING, WRITTEN, RELEASE), "/openapi/v2"), "Etag"
    )
