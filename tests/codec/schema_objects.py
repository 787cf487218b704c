"""Build objects from schemas: one with every field set, and arbitrary ones; and their stored forms."""

from __future__ import annotations

import base64
from typing import Any

from hypothesis import strategies as st

from apiserver.api.objects import Hub
from apiserver.api.schema.language import ListOf, MapOf, Scalar, Struct, Type
from apiserver.registry.body.convert import exact_copy, normalizer_of

#: A value of each scalar in its canonical form.
FULL: dict[str, Any] = {
    "string": "text",
    "bool": True,
    "int32": 2**31 - 1,
    "int64": 2**63 - 1,
    "float64": 1.5,
    "bytes": base64.b64encode(b"bytes").decode(),
    "time": "2024-02-29T23:59:59Z",
    "microTime": "2024-02-29T23:59:59.000001Z",
    "quantity": "100m",
    "intOrString": "50%",
    "raw": {"z": [1, {"y": None}], "a": "raw"},
    "fieldsV1": {"f:spec": {".": {}}},
    "any": [1, "two"],
}


def stored_form(schema: Struct, obj: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of an object in the form in which the codec stores it."""
    made, normalize = exact_copy(Hub(obj)), normalizer_of(schema)
    if normalize is not None:
        normalize(made)
    return made


def full(type: Type, within: tuple[Struct, ...] = ()) -> Any:
    """Build a value with every field set and nothing empty, as the codec decodes it.

    A recursive type contains itself once; `within` has the enclosing types.
    """
    if isinstance(type, Struct):
        inner = (*within, type)
        return {name: full(field.type, inner) for name, field in type.fields.items() if _core(field.type) not in within}
    if isinstance(type, ListOf):
        return [full(type.item, within), full(type.item, within)]
    if isinstance(type, MapOf):
        return {"a": full(type.value, within), "b.example.com/c": full(type.value, within)}
    return {"description": "text"} if type.own is not None else FULL[type.name]


def _core(type: Type) -> Type:
    """Return the item type of nested lists and maps."""
    if isinstance(type, ListOf | MapOf):
        return _core(type.item if isinstance(type, ListOf) else type.value)
    return type


_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(max_size=5),
    "bool": st.booleans(),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "bytes": st.binary(max_size=5).map(lambda value: base64.b64encode(value).decode()),
    "time": st.sampled_from(["2024-01-01T00:00:00Z", "2024-01-01T02:00:00.5+02:00", "0001-01-01T00:00:00Z"]),
    "microTime": st.sampled_from(["2024-01-01T00:00:00.000000Z", "2024-01-01T02:00:00.123456-07:00"]),
    "quantity": st.sampled_from(["0", "1", "1000m", "1.5Gi", "1e3", 5, "1024Ki"]),
    "intOrString": st.one_of(st.integers(0, 99), st.text(max_size=3)),
    "raw": st.dictionaries(st.text(max_size=2), st.integers(0, 9), max_size=2),
    "fieldsV1": st.just({"f:a": {}}),
    "any": st.integers(0, 9),
}


def arbitrary(type: Type, depth: int = 6) -> st.SearchStrategy[Any]:
    """Generate values that upstream's decoder accepts: nulls and empty values anywhere, fields in any order."""
    if isinstance(type, Scalar):
        return st.one_of(st.none(), st.just({"type": "x"}) if type.own is not None else _SCALARS[type.name])
    if depth == 0:
        return st.none()
    if isinstance(type, ListOf):
        return st.one_of(st.none(), st.lists(arbitrary(type.item, depth - 1), max_size=2))
    if isinstance(type, MapOf):
        return st.one_of(st.none(), st.dictionaries(st.text(max_size=3), arbitrary(type.value, depth - 1), max_size=2))
    return st.one_of(st.none(), _objects(type, depth))


@st.composite
def _objects(draw: st.DrawFn, struct: Struct, depth: int) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(list(struct.fields)), max_size=4, unique=True)) if struct.fields else []
    return {name: draw(arbitrary(struct.fields[name].type, depth - 1)) for name in names}
