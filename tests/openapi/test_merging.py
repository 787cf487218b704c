"""OpenAPI 2 documents of several servers are merged by the rules of Kubernetes' aggregator."""

from __future__ import annotations

from typing import Any

from apiserver.api.objects import Json
from apiserver.openapi.merging import merge_documents, select_paths

KINDS = "x-kubernetes-group-version-kind"


def leads_to(*names: str, parameter: str = "") -> Json:
    parameters = [{"$ref": f"#/parameters/{parameter}"}] if parameter else []
    return {"get": {"responses": {name: {"schema": {"$ref": f"#/definitions/{name}"}} for name in names}}} | (
        {"parameters": parameters} if parameters else {}
    )


def document(paths: Json, definitions: Json, **more: Json) -> Json:
    return {"swagger": "2.0", "paths": paths, "definitions": definitions, **more}


def test_of_a_document_only_what_is_below_a_path_counts() -> None:
    inner = {"properties": {"b": {"$ref": "#/definitions/B"}}}
    whole = document(
        {"/apis/g/v1/a": leads_to("A"), "/apis/g/v1": leads_to("C"), "/apis/h/v1/c": leads_to("C")},
        {"A": inner, "B": {"type": "string"}, "C": {"type": "object"}, "Nobody's": {}},
    )
    found = select_paths(whole, "/apis/g/v1/")
    assert list(found["paths"]) == ["/apis/g/v1/a"]
    assert list(found["definitions"]) == ["A", "B", "Nobody's"]
    assert select_paths({"swagger": "2.0"}, "/apis/") == {"swagger": "2.0", "paths": {}, "definitions": {}}


def test_a_path_belongs_to_the_first_document_that_has_it() -> None:
    ours = document({"/a": leads_to("A")}, {"A": {"type": "string"}})
    theirs = document({"/a": leads_to("B"), "/b": leads_to("C")}, {"B": {}, "C": {"type": "integer"}})
    assert merge_documents(ours, [theirs]) == document(
        {"/a": leads_to("A"), "/b": leads_to("C")}, {"A": {"type": "string"}, "C": {"type": "integer"}}
    )
    assert merge_documents(ours, [document({"/a": leads_to("Z")}, {"Z": {}})]) == ours


def test_a_conflicting_name_gets_a_number_in_all_references() -> None:
    ours = document({"/a": leads_to("A")}, {"A": {"type": "string"}}, parameters={"P": {"name": "p"}})
    theirs = document(
        {"/b": leads_to("A", "B", parameter="P")},
        {"A": {"type": "integer"}, "B": {"properties": {"a": {"$ref": "#/definitions/A"}}}},
        parameters={"P": {"name": "q"}},
    )
    again = document({"/c": leads_to("A")}, {"A": {"type": "integer"}, "A_v3": {}})
    third = document({"/d": leads_to("A")}, {"A": {"type": "boolean"}})
    found = merge_documents(ours, [theirs, again, third])
    assert found["definitions"] == {
        "A": {"type": "string"},
        "A_v2": {"type": "integer"},
        "A_v3": {},
        "A_v4": {"type": "boolean"},
        "B": {"properties": {"a": {"$ref": "#/definitions/A_v2"}}},
    }
    assert found["parameters"] == {"P": {"name": "p"}, "P_v2": {"name": "q"}}
    assert found["paths"]["/b"]["parameters"] == [{"$ref": "#/parameters/P_v2"}]
    assert found["paths"]["/b"]["get"]["responses"]["A"]["schema"] == {"$ref": "#/definitions/A_v2"}
    assert found["paths"]["/c"] == leads_to("A") | {
        "get": {"responses": {"A": {"schema": {"$ref": "#/definitions/A_v2"}}}}
    }
    assert found["paths"]["/d"]["get"]["responses"]["A"]["schema"] == {"$ref": "#/definitions/A_v4"}


def test_a_definition_of_both_is_shared_with_the_kinds_of_both_whatever_its_words() -> None:
    def options(words: str, *groups: str, **more: Any) -> Json:
        kinds = [{"group": group, "kind": "DeleteOptions", "version": "v1"} for group in groups]
        return {"description": words, "properties": {"description": {"type": "string"}}, KINDS: kinds, **more}

    ours = document({"/a": leads_to("D")}, {"D": options("ours", "", "apps"), "E": {}})
    theirs = document({"/b": leads_to("D", "E")}, {"D": options("theirs", "batch", "aa"), "E": {"description": "e"}})
    found = merge_documents(ours, [theirs])
    assert found["definitions"] == {"D": options("ours", "", "aa", "apps", "batch"), "E": {}}
    assert found["definitions"]["E"] is ours["definitions"]["E"]
    assert [kind["group"] for kind in ours["definitions"]["D"][KINDS]] == ["", "apps"]
    other = document({"/b": leads_to("D")}, {"D": options("theirs", "aa", properties={})})
    assert sorted(merge_documents(ours, [other])["definitions"]) == ["D", "D_v2", "E"]
