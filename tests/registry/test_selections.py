"""The selection of a list or a watch, computed before any object is read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.api.selectors.selectors import parse_fields, parse_labels
from apiserver.registry.definition.options import ListOptions
from apiserver.registry.verbs.selection import check_fields, index_terms, labels_of, select


def kind(*, namespaced: bool = True, style: str = "known", **labels: Any) -> Any:
    """Build a resource with its objects under /things/."""
    return SimpleNamespace(
        namespaced=namespaced, field_error_style=style, group="g", kind="Thing", field_labels=labels,
        key=lambda namespace, name: f"/things/{namespace}/{name}" if namespaced else f"/things/{name}",
        prefix=lambda namespace="": f"/things/{namespace}/" if namespace else "/things/",
    )  # fmt: skip


def chosen(resource: Any, labels: str = "", fields: str = "", namespace: str = "n", name: str = "") -> Any:
    options = ListOptions(
        labels=parse_labels(labels) if labels else None, fields=parse_fields(fields) if fields else None
    )
    return select(resource, "v1", namespace, options, name)


def node(obj: Json) -> str:
    found: str = obj.get("node", "")
    return found


@pytest.mark.parametrize(
    ("labels", "fields", "index", "term", "exact"),
    [
        ("a=b", "", "labels", "a=b", True),
        ("a in (b)", "", "labels", "a=b", True),
        ("a", "", "labels", "a", True),
        ("a in (b,c)", "", "labels", "a", False),
        ("!a", "", "", "", False),
        ("a!=b", "", "", "", False),
        ("a notin (b,c)", "", "", "", False),
        ("a=b,c=d", "", "labels", "a=b", False),
        ("!a,c,d=e", "", "labels", "d=e", False),
        ("!a,c", "", "labels", "c", False),
        ("", "node=x", "node", "x", True),
        ("", "node=", "", "", False),
        ("", "node!=x", "", "", False),
        ("", "metadata.name=x", "", "", False),
        ("a=b", "node=x", "node", "x", False),
        ("a=b", "node!=x", "labels", "a=b", False),
    ],
)
def test_an_index_narrows_the_search_and_says_whether_nothing_else_is_asked(
    labels: str, fields: str, index: str, term: str, exact: bool
) -> None:
    found = chosen(kind(node=node), labels, fields)
    assert (found.index, found.term, found.exact) == (index, term, exact)
    assert found.plain is False


@pytest.mark.parametrize(
    ("namespaced", "namespace", "fields", "name", "prefix", "key"),
    [
        (True, "n", "", "", "/things/n/", None),
        (True, "", "", "", "/things/", None),
        (True, "n", "metadata.name=a", "", "/things/n/", "/things/n/a"),
        (True, "n", "metadata.name!=a", "", "/things/n/", None),
        (True, "", "metadata.name=a", "", "/things/", None),
        (True, "", "metadata.name=a,metadata.namespace=m", "", "/things/m/", "/things/m/a"),
        (True, "", "metadata.namespace=m", "", "/things/m/", None),
        (True, "n", "metadata.namespace=m", "", "/things/n/", None),
        (True, "n", "", "a", "/things/n/", "/things/n/a"),
        (True, "n", "metadata.name=a", "a", "/things/n/", "/things/n/a"),
        (False, "", "metadata.name=a", "", "/things/", "/things/a"),
        (False, "", "", "a", "/things/", "/things/a"),
    ],
)
def test_a_name_and_a_namespace_are_found_by_their_key(
    namespaced: bool, namespace: str, fields: str, name: str, prefix: str, key: str | None
) -> None:
    found = chosen(kind(namespaced=namespaced), "", fields, namespace, name)
    assert (found.prefix, found.key, found.plain) == (prefix, key, not fields and not name)


def test_a_watch_of_one_object_takes_no_other_name() -> None:
    for fields in ("metadata.name=b", "metadata.name!=a", "metadata.namespace=n"):
        with pytest.raises(StatusError, match=r"fieldSelector metadata\.name doesn't match requested name"):
            chosen(kind(), "", fields, "n", "a")


@pytest.mark.parametrize(
    ("style", "words"),
    [
        ("known", '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"'),
        ("plain", "field label not supported: spec.x"),
        ("kind", "field label not supported for g/v1, Kind=Thing: spec.x"),
        ("label", 'field label "spec.x" not supported for Thing'),
    ],
)
def test_a_field_by_which_nothing_is_selected_is_refused_as_the_kind_does(style: str, words: str) -> None:
    with pytest.raises(StatusError) as refused:
        chosen(kind(style=style), "", "metadata.name=a,spec.x=1")
    assert (refused.value.code, refused.value.message) == (400, words)


def test_what_has_no_namespace_is_selected_by_none_unless_the_kind_names_what_it_knows() -> None:
    fields = parse_fields("metadata.namespace=n")
    for resource, taken in (
        (kind(style="plain"), True),
        (kind(namespaced=False, style="known"), True),
        (kind(namespaced=False, style="plain"), False),
    ):
        if taken:
            check_fields(resource, "v1", fields)
        else:
            with pytest.raises(StatusError, match=r"metadata\.namespace"):
                check_fields(resource, "v1", fields)
    check_fields(kind(), "v1", None)
    check_fields(kind(node=node), "v1", parse_fields("node=x,metadata.name=y"))


def entry(obj: Json) -> Any:
    return SimpleNamespace(obj=obj, tail=orjson.dumps(obj)[len('{"metadata":{') :])


def test_labels_and_fields_have_to_fit_both() -> None:
    has = entry({"metadata": {"name": "a", "namespace": "n", "labels": {"k": "v"}}, "node": "x"})
    bare = entry({"metadata": {"name": "b"}, "node": "x"})
    for labels, fields, fits in (
        ("k=v", "", [True, False]),
        ("", "node=x", [True, True]),
        ("", "metadata.name=b", [False, True]),
        ("", "metadata.namespace=n", [True, False]),
        ("k=v", "node=x", [True, False]),
        ("k=v", "node!=x", [False, False]),
        ("!k", "node=x", [False, True]),
    ):
        test = chosen(kind(node=node), labels, fields).test
        assert [test(has), test(bare)] == fits, (labels, fields)


def test_labels_are_found_in_the_bytes_where_they_stand_first_and_else_in_the_object() -> None:
    first: Json = {"metadata": {"labels": {"a": "b"}, "ownerReferences": [{"x": 1}]}}
    nested: Json = {"metadata": {"ownerReferences": [{"labels": {"no": "no"}}], "labels": {"a": "b"}}}
    elsewhere: Json = {"metadata": {"name": "x"}, "spec": {"template": {"labels": {"no": "no"}}}}
    brace: Json = {"metadata": {"labels": {"a": "{}", "b": "}"}}}
    for obj, labels in ((first, {"a": "b"}), (nested, {"a": "b"}), (elsewhere, None), (brace, {"a": "{}", "b": "}"})):
        assert labels_of(entry(obj)) == labels
    assert labels_of(entry({"metadata": {"name": "x"}, "spec": {}})) is None


def test_an_object_is_in_the_index_by_each_label_and_by_each_field_that_has_a_value() -> None:
    terms = index_terms(kind(node=node))
    assert set(terms) == {"labels", "node"}
    has = entry({"metadata": {"labels": {"a": "b", "c": ""}}, "node": "x"})
    assert list(terms["labels"](has)) == ["a", "c", "a=b", "c="]
    assert list(terms["node"](has)) == ["x"]
    bare = entry({"metadata": {}})
    assert [list(terms[index](bare)) for index in ("labels", "node")] == [[], []]
