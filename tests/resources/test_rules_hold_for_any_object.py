"""For any object, rules do not crash, defaulting is stable, and versions keep what they can represent."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apiserver.api.codec.codec import decode
from apiserver.api.objects import Json
from apiserver.api.schema.language import ListOf, MapOf, Struct, Type
from apiserver.cel import compile as compile_expression
from apiserver.cel import device_environment
from apiserver.resources import CATALOG
from tests.resources.conftest import NOW, Judge

# The first compilation sets up the engine, which is no business of a single example.
compile_expression("true", device_environment((1, 36), {}, stored=False))

_WORDS = st.sampled_from(
    [
        "", "a", "a-b", "A", "a/b", "example.com/x", "gpu.example.com", "r", "r/s", "All", "Exists", "In", "true",
        "1", "é", "x" * 70,
    ]
)  # fmt: skip
_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": _WORDS,
    "bool": st.booleans(),
    "int32": st.integers(-2, 300),
    "int64": st.integers(-2, 300),
    "float64": st.integers(0, 9),
    "quantity": st.sampled_from(["0", "1", "-1", "1500m", "2Gi", "1e3"]),
    "time": st.just("2026-01-01T00:00:00Z"),
    "microTime": st.just("2026-01-01T00:00:00.000000Z"),
    "duration": st.just("1s"),
    "intOrString": st.one_of(_WORDS, st.integers(-1, 70000)),
    "bytes": st.sampled_from(["", "AA=="]),
}
_ANY = st.one_of(
    st.none(), st.booleans(), st.dictionaries(_WORDS, st.integers(-(1 << 63), (1 << 63) - 1), max_size=2), st.just([1])
)


#: By type and depth: a strategy costs more to make than to ask.
_made: dict[tuple[int, int], st.SearchStrategy[Any]] = {}


def _values(kind: Type, depth: int) -> st.SearchStrategy[Any]:
    key = id(kind), depth
    if key not in _made:
        _made[key] = _values_of(kind, depth)
    return _made[key]


def _values_of(kind: Type, depth: int) -> st.SearchStrategy[Any]:
    if isinstance(kind, ListOf):
        return st.lists(_values(kind.item, depth - 1), max_size=2)
    if isinstance(kind, MapOf):
        return st.dictionaries(_WORDS, _values(kind.value, depth - 1), max_size=2)
    if isinstance(kind, Struct):
        return _objects(kind, depth - 1)
    return _SCALARS.get(kind.name, _ANY)


def _objects(kind: Struct, depth: int) -> st.SearchStrategy[Any]:
    """Generate some fields of a struct; the deeper, the fewer."""
    if depth <= 0:
        return st.just({})
    fields = {
        name: field.type for name, field in kind.fields.items() if name not in ("managedFields", "kind", "apiVersion")
    }

    @st.composite
    def build(draw: Callable[..., Any]) -> Json:
        chosen = draw(st.lists(st.sampled_from(sorted(fields)), max_size=6, unique=True)) if fields else []
        return {name: draw(_values(fields[name], depth)) for name in chosen}

    return build()


def _whole(schema: Struct) -> st.SearchStrategy[Any]:
    spec = schema.fields.get("spec")
    status = schema.fields.get("status")
    parts: dict[str, st.SearchStrategy[Any]] = {"metadata": st.just({"name": "a"})}
    if spec is not None:
        parts["spec"] = _values(spec.type, 7)
    if status is not None:
        parts["status"] = _values(status.type, 7)
    rest = [name for name in schema.fields if name not in ("metadata", "spec", "status", "kind", "apiVersion")]
    parts.update({name: _values(schema.fields[name].type, 5) for name in rest})
    return st.fixed_dictionaries(parts)


SERVED = [(resource, version) for resource in CATALOG if resource.create is None for version in resource.versions]


@pytest.mark.parametrize(("resource", "version"), SERVED, ids=[f"{r.plural}-{r.group}-{v.name}" for r, v in SERVED])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_rules_answer_for_any_object(resource: Any, version: Any, data: Any) -> None:
    judge = Judge()
    obj = data.draw(_whole(version.schema))
    made = decode(version.schema, deepcopy(obj)).obj
    made["metadata"]["namespace"] = "ns"
    version.fill(made, NOW)
    again = deepcopy(made)
    version.fill(again, NOW)
    assert again == made
    hub = version.to_hub(deepcopy(made))
    strategy = resource.strategy
    ctx = judge.context(resource, version.name)
    stored = deepcopy(hub)
    strategy.prepare_for_create(ctx, stored)
    strategy.validate_first(ctx, stored, None)
    strategy.validate(ctx, stored)
    strategy.canonicalize(ctx, stored)
    strategy.warnings_on_create(ctx, stored)
    new = deepcopy(hub)
    strategy.prepare_for_update(ctx, new, deepcopy(stored))
    strategy.validate_update(ctx, new, stored)
    if resource.has_status:
        ctx = judge.context(resource, version.name, subresource="status", verb="update")
        new = deepcopy(hub)
        strategy.prepare_for_status_update(ctx, new, deepcopy(stored))
        strategy.validate_first(ctx, new, stored)
        strategy.validate_status_update(ctx, new, stored)
    for column in resource.columns:
        column.cell(stored, NOW) if column.timed else column.cell(stored)
    for value in resource.field_labels.values():
        assert isinstance(value(stored), str)


_DEVICES = [(resource, version) for resource, version in SERVED if resource.group == "resource.k8s.io"]


@pytest.mark.parametrize(("resource", "version"), _DEVICES, ids=[f"{r.plural}-{v.name}" for r, v in _DEVICES])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_valid_object_survives_the_way_through_every_version(resource: Any, version: Any, data: Any) -> None:
    judge = Judge()
    hub_version = resource.versions[0]
    made = decode(hub_version.schema, data.draw(_whole(hub_version.schema))).obj
    ctx = judge.context(resource)
    resource.strategy.prepare_for_create(ctx, made)
    if resource.strategy.validate(ctx, made):
        return
    resource.strategy.canonicalize(ctx, made)
    shown = decode(version.schema, version.from_hub(deepcopy(made))).obj
    assert version.to_hub(shown) == made
