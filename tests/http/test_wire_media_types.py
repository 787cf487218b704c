"""Media types on the wire: refusals of upstream's router, and refusals of handlers."""

from __future__ import annotations

import pytest

from tests.support.wire import Wire

pytestmark = pytest.mark.integration

MAPS = "/api/v1/namespaces/default/configmaps"
KNOWN = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
STREAMS = ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize("accept", ["text/html", "application/*", "text/*", "APPLICATION/JSON", "application/cbor"])
def test_the_router_refuses_an_unknown_accept_with_the_forms_of_the_route(wire: Wire, accept: str) -> None:
    one, many = wire.get(f"{MAPS}/absent", Accept=accept), wire.get(MAPS, Accept=accept)
    assert (one.status, one.reason, one.json["details"]) == (406, "NotAcceptable", {})
    assert one.message == f"406: Not Acceptable\n\nAvailable representations: {KNOWN}"
    assert many.message == f"406: Not Acceptable\n\nAvailable representations: {KNOWN}{STREAMS}"


def test_one_known_alternative_passes_the_router(wire: Wire) -> None:
    assert wire.get(MAPS, Accept="text/html, application/json;q=0.1").status == 200


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "application/Merge-Patch+json"])
def test_the_router_refuses_an_unknown_patch_type_before_the_object_is_read(wire: Wire, content_type: str) -> None:
    answer = wire.request("PATCH", f"{MAPS}/absent", b"{}", {"Content-Type": content_type})
    assert (answer.status, answer.message, answer.json["details"]) == (415, "415: Unsupported Media Type", {})


def test_metadata_of_one_object_is_no_form_of_a_list_nor_the_other_way_round(wire: Wire) -> None:
    wire.create_config_map("formed")
    of_list = wire.get(MAPS, Accept=PARTIAL)
    of_one = wire.get(f"{MAPS}/formed", Accept=PARTIAL.replace("Metadata", "MetadataList"))
    assert (of_list.status, of_one.status) == (406, 406)
    assert (
        of_list.message
        == "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)"
    )
    assert (
        of_one.message
        == "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)"
    )


def test_an_empty_list_of_metadata_has_no_items(wire: Wire) -> None:
    answer = wire.get(f"{MAPS}?labelSelector=none", Accept=PARTIAL.replace("Metadata", "MetadataList"))
    assert answer.json["items"] is None


def test_include_object_is_one_of_three_values(wire: Wire) -> None:
    answer = wire.get(f"{MAPS}?includeObject=nope", Accept=TABLE)
    wrong = "includeObject: Invalid value: \"nope\": must be 'Metadata', 'Object', 'None', or empty"
    assert answer.refusal == (400, f"Unable to convert to Table as requested: {wrong}")
    assert wire.get(f"{MAPS}?includeObject=nope").status == 200


@pytest.mark.parametrize("content_type", ["application/json-patch+json", "application/merge-patch+json"])
def test_a_patched_document_without_apiversion_is_the_hubs_own_type_which_has_no_name_there(
    wire: Wire, content_type: str
) -> None:
    wire.create_config_map(f"bare-{content_type[12]}", a="1")
    patch = b'{"apiVersion":null}' if "merge" in content_type else b'[{"op":"remove","path":"/apiVersion"}]'
    name = f"bare-{content_type[12]}"
    answer = wire.request("PATCH", f"{MAPS}/{name}", patch, {"Content-Type": content_type})
    assert answer.refusal == (
        400,
        f"the name of the object ({name} based on URL) was undeterminable: name must be provided",
    )
    assert [text for name, text in answer.all_headers if name == "warning"] == [
        f'299 - "unknown field \\"{name}\\""' for name in ("data", "metadata")
    ]


def test_a_body_of_any_kind_but_deleteoptions_deletes_nothing(wire: Wire) -> None:
    wire.create_config_map("kept")
    refused = wire.delete(f"{MAPS}/kept", {"kind": "Pod", "apiVersion": "v1"})
    scheme = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"
    assert refused.refusal == (400, f'no kind "Pod" is registered for version "v1" in scheme "{scheme}"')
    for version, kind, package in (
        ("v1", "Status", "v1"),
        ("nope.io/v1", "CreateOptions", "v1"),
        ("meta.k8s.io/v1", "ListOptions", "v1"),
        ("", "Table", "v1"),
        ("meta.k8s.io/v1beta1", "PartialObjectMetadataList", "v1beta1"),
    ):
        known = wire.delete(f"{MAPS}/kept", {"kind": kind, "apiVersion": version})
        assert known.refusal == (400, f"converting ({package}.{kind}) to (v1.DeleteOptions): unknown conversion")
    unknown = wire.delete(f"{MAPS}/kept", {"kind": "ListOptions", "apiVersion": "v1"})
    assert unknown.refusal == (400, f'no kind "ListOptions" is registered for version "v1" in scheme "{scheme}"')
    assert wire.delete(f"{MAPS}/kept", {"kind": "DeleteOptions", "apiVersion": "nope.io/v1"}).status == 200


def test_a_dry_run_keeps_what_only_storing_takes(wire: Wire) -> None:
    made = wire.post(f"{MAPS}?dryRun=All", {"metadata": {"name": "dry", "resourceVersion": "5"}})
    assert (made.status, made.json["metadata"]["resourceVersion"]) == (201, "5")
    stored = wire.post(MAPS, {"metadata": {"name": "dry", "resourceVersion": "5"}})
    assert stored.refusal == (500, "resourceVersion should not be set on objects to be created")
    wire.create_config_map("linked")
    for query, shown in (("?dryRun=All", "x"), ("", None)):
        patched = wire.patch(f"{MAPS}/linked{query}", b'{"metadata":{"selfLink":"x"}}')
        assert patched.json["metadata"].get("selfLink") == shown


def test_version_zero_in_a_patch_is_none(wire: Wire) -> None:
    wire.create_config_map("zero")
    assert wire.patch(f"{MAPS}/zero", b'{"metadata":{"resourceVersion":"0","labels":{"a":"b"}}}').status == 200


def test_an_unexpected_kind_is_named(wire: Wire) -> None:
    """These are lists, and the kinds that every version has besides its own."""
    for kind in ("List", "ConfigMapList", "Status", "DeleteOptions", "WatchEvent", "ListOptions"):
        answer = wire.post(MAPS, {"apiVersion": "v1", "kind": kind, "items": []})
        assert answer.status == 400
        conversion = f"converting (v1.{kind}) to (core.ConfigMap): unknown conversion"
        assert answer.message == f'{kind} in version "v1" cannot be handled as a ConfigMap: {conversion}'
    scheme = 'scheme "pkg/api/legacyscheme/scheme.go:30"'
    for version, kind, conversion in (
        ("v1", "DeleteOptions", "converting (v1.DeleteOptions) to (apps.Deployment): unknown conversion"),
        ("v9", "Status", "converting (v1.Status) to (apps.Deployment): unknown conversion"),
        ("v9", "DeleteOptions", f'no kind "DeleteOptions" is registered for version "apps/v9" in {scheme}'),
        ("__internal", "Pod", f'no kind "Pod" is registered for the internal version of group "apps" in {scheme}'),
    ):
        body = {"apiVersion": f"apps/{version}", "kind": kind}
        answer = wire.post("/apis/apps/v1/namespaces/default/deployments", body)
        wrong = f'{kind} in version "{version}" cannot be handled as a Deployment: {conversion}'
        assert answer.message == wrong


REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def test_resources_that_are_not_stored_have_no_tables(wire: Wire) -> None:
    answer = wire.post(REVIEWS, {"spec": {}}, Accept=TABLE)
    assert answer.refusal == (406, f"only the following media types are accepted: {KNOWN}")


def test_documents_of_versions_pass_the_router_and_those_of_groups_take_any_method(wire: Wire) -> None:
    refused = wire.get("/apis/resource.k8s.io/v1", Accept="text/html")
    assert refused.message == f"406: Not Acceptable\n\nAvailable representations: {KNOWN}"
    assert [
        wire.request("POST", path).status
        for path in ("/apis", "/apis/resource.k8s.io", "/api", "/apis/resource.k8s.io/v1")
    ] == [200, 200, 405, 405]
    assert wire.request("POST", "/version").reason == "MethodNotAllowed"


def test_a_value_that_occurs_twice_is_written_twice_in_yaml(wire: Wire) -> None:
    text = wire.get("/apis/resource.k8s.io", Accept="application/yaml").text
    assert ("&id" in text, text.count("groupVersion: resource.k8s.io/v1")) == (False, 2)


def test_an_empty_list_that_is_always_written_comes_back_as_null(wire: Wire) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
    assert wire.post(roles, {"metadata": {"name": "empty"}, "rules": []}).json["rules"] is None


def test_an_object_with_a_nameless_item_has_no_managers_and_cannot_be_applied_to(wire: Wire) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    made = wire.post(accounts, {"metadata": {"name": "nameless"}, "secrets": [{"kind": "Secret"}]})
    assert (made.status, "managedFields" in made.json["metadata"]) == (201, False)
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nameless", "labels": {"a": "b"}}}
    applied = wire.patch(f"{accounts}/nameless?fieldManager=m", body, "apply")
    failed = (
        "failed to create manager for existing fields: failed to convert new object (default/nameless; /v1,"
        " Kind=ServiceAccount) to smd typed"
    )
    wrong = (
        'element 0: associative list with keys has an element that omits all key fields ["name"] (and doesn\'t have'
        " default values for any key fields)"
    )
    assert applied.refusal == (500, f"{failed}: .secrets: {wrong}")
