"""Every type and field has a description of its own for `kubectl explain`."""

from __future__ import annotations

import importlib
import pkgutil
from collections import defaultdict
from collections.abc import Iterator

import pytest

from apiserver.api import types
from apiserver.api.schema.language import Field, ListOf, MapOf, Struct, Type
from apiserver.api.types.meta import ObjectMeta, TypeMeta
from apiserver.resources.customresources.published import METADATA

#: A description is read in a terminal, beside others.
LONGEST = 300


def modules() -> Iterator[str]:
    for module in pkgutil.walk_packages(types.__path__, types.__name__ + "."):
        yield module.name


def reachable() -> list[Struct]:
    """Return every struct of every module of types, nested ones included."""
    found: dict[int, Struct] = {}
    todo: list[Type] = [
        value
        for name in modules()
        for value in vars(importlib.import_module(name)).values()
        if isinstance(value, Struct)
    ]
    while todo:
        item = todo.pop()
        if isinstance(item, ListOf):
            todo.append(item.item)
        elif isinstance(item, MapOf):
            todo.append(item.value)
        elif isinstance(item, Struct) and id(item) not in found:
            found[id(item)] = item
            todo += [field.type for field in item.declared]
    return list(found.values())


STRUCTS = reachable()


def described() -> Iterator[tuple[Struct, Field]]:
    """Return every named field. A field without a name is an embedded struct with descriptions of its own."""
    for struct in STRUCTS:
        yield from ((struct, field) for field in struct.declared if not field.inline)


@pytest.mark.parametrize("name", sorted(modules()))
def test_a_type_is_described_by_a_sentence_that_begins_with_its_name(name: str) -> None:
    for struct in vars(importlib.import_module(name)).values():
        if isinstance(struct, Struct):
            assert struct.doc.startswith(struct.kind + " "), struct
            assert struct.doc.endswith("."), struct
            assert len(struct.doc) <= LONGEST, struct


def test_every_field_is_described_in_a_full_sentence_that_fits_a_terminal() -> None:
    for struct, field in described():
        assert field.doc, f"{struct}: {field} has no description"
        assert field.doc.endswith("."), f"{struct}: {field}: {field.doc}"
        assert field.doc == field.doc.strip(), f"{struct}: {field}: {field.doc}"
        assert "  " not in field.doc, f"{struct}: {field}: {field.doc}"
        assert len(field.doc) <= LONGEST, f"{struct}: {field}: {len(field.doc)} characters"


def test_a_field_that_is_embedded_has_no_description_because_it_is_not_shown() -> None:
    for struct in STRUCTS:
        assert not [field for field in struct.declared if field.inline and (field.name or field.doc)], struct


def test_only_fields_of_one_name_share_a_sentence() -> None:
    names: dict[str, set[str]] = defaultdict(set)
    for _, field in described():
        names[field.doc].add(field.name)
    assert {doc: sorted(shared) for doc, shared in names.items() if len(shared) > 1} == {}


def test_fields_of_one_type_say_different_things() -> None:
    for struct in STRUCTS:
        docs = [field.doc for field in struct.fields.values()]
        assert len(docs) == len(set(docs)), struct


def test_what_every_object_has_begins_as_the_conformance_suite_asks() -> None:
    """`CustomResourcePublishOpenAPI works for CRD with validation schema` reads it in `kubectl explain`."""
    fields = {**TypeMeta.fields, **ObjectMeta.fields}
    assert fields["apiVersion"].doc.startswith("APIVersion defines ")
    assert fields["creationTimestamp"].doc.startswith("CreationTimestamp is a timestamp ")
    assert METADATA.startswith("Standard object's metadata")
