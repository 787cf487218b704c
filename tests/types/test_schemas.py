"""Rules of every schema, and the cost of importing all of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from apiserver.api.schema.language import ListOf, MapOf, Scalar, Struct, Type
from apiserver.api.types import apps, authentication, batch, coordination, events, meta, policy, scheduling, version
from apiserver.api.types.core import configuration, namespaces, nodes, pods, services
from apiserver.api.types.core import events as core_events
from apiserver.api.types.resource import v1, v1alpha3, v1beta1, v1beta2

MODULES = (
    apps, authentication, batch, configuration, coordination, core_events, events, meta, namespaces, nodes, pods,
    policy, services, v1, v1alpha3, v1beta1, v1beta2, version, scheduling,
)  # fmt: skip


def reachable() -> dict[str, Struct]:
    """Return every struct of the modules, nested ones included, by name."""
    found: dict[str, Struct] = {}
    todo: list[Type] = [value for module in MODULES for value in vars(module).values() if isinstance(value, Struct)]
    while todo:
        item = todo.pop()
        if isinstance(item, ListOf):
            todo.append(item.item)
        elif isinstance(item, MapOf):
            todo.append(item.value)
        elif isinstance(item, Struct) and item.name not in found:
            found[item.name] = item
            todo += [field.type for field in item.declared]
    return found


STRUCTS = reachable()


def test_the_kinds_are_all_there_with_their_lists() -> None:
    kinds = {struct.gvk for struct in STRUCTS.values() if struct.gvk}
    core = ("Namespace", "Node", "Pod", "Event", "ServiceAccount", "ConfigMap", "Secret", "Service")
    devices = ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass")
    for name in core:
        assert {("", "v1", name), ("", "v1", name + "List")} <= kinds
    for name in devices:
        for release in ("v1", "v1beta2", "v1beta1"):
            assert {("resource.k8s.io", release, name), ("resource.k8s.io", release, name + "List")} <= kinds
    assert {
        ("", "v1", "Binding"),
        ("coordination.k8s.io", "v1", "Lease"),
        ("events.k8s.io", "v1", "Event"),
        ("policy", "v1", "Eviction"),
    } <= kinds


@pytest.mark.parametrize("name", sorted(STRUCTS))
def test_names_and_numbers_of_a_struct_are_its_own(name: str) -> None:
    struct = STRUCTS[name]
    numbers = [field.number for field in struct.declared if field.number]
    assert len(numbers) == len(set(numbers))
    flattened = sum(
        len(field.type.fields) if field.inline and isinstance(field.type, Struct) else 1 for field in struct.declared
    )
    assert len(struct.fields) == flattened


@pytest.mark.parametrize("name", sorted(STRUCTS))
def test_merge_keys_name_fields_of_the_elements(name: str) -> None:
    for field in STRUCTS[name].fields.values():
        if isinstance(field.type, ListOf):
            item = field.type.item
            keys = {*field.type.keys, *([field.type.merge_key] if field.type.merge_key else [])}
            assert not keys or (isinstance(item, Struct) and keys <= item.fields.keys())
            assert (field.type.kind == "map") == bool(field.type.keys)
            assert field.type.kind != "set" or isinstance(item, Scalar)


@pytest.mark.parametrize("name", sorted(STRUCTS))
def test_values_that_go_never_finds_empty_are_always_written(name: str) -> None:
    """A struct, time, quantity or raw value held by value has no empty form, unless its tag is omitzero."""
    left_out = {"creationTimestamp"}
    for field in STRUCTS[name].fields.values():
        by_value = isinstance(field.type, Struct) or (
            isinstance(field.type, Scalar)
            and field.type.name in ("time", "microTime", "quantity", "raw", "fieldsV1", "intOrString")
        )
        if by_value and not field.pointer:
            assert not field.omit or field.name in left_out, field.name


def test_every_field_of_the_device_kinds_is_explained() -> None:
    silent = [
        f"{struct.name}.{field.name}"
        for struct in STRUCTS.values()
        if struct.name.startswith(("io.k8s.api.resource.", "io.k8s.api.scheduling."))
        for field in struct.declared
        if not field.inline and not field.doc and struct.kind[-4:] != "List"
    ]
    assert silent == []


def test_v1beta2_has_the_shape_of_v1() -> None:
    def shape(type: Type, seen: frozenset[str] = frozenset()) -> object:
        if isinstance(type, ListOf):
            return [shape(type.item, seen), type.kind, type.keys, type.strategy]
        if isinstance(type, MapOf):
            return {"": shape(type.value, seen)}
        if isinstance(type, Scalar) or type.name in seen:
            return type.name if isinstance(type, Scalar) else type.kind
        inner = seen | {type.name}
        return {
            name: (field.number, field.omit, field.pointer, field.required, shape(field.type, inner))
            for name, field in type.fields.items()
        }

    for kind in ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass"):
        assert shape(getattr(v1, kind)) == shape(getattr(v1beta2, kind))
    assert shape(v1.ResourceClaim) != shape(v1beta1.ResourceClaim)


_IMPORT_ALL = """
import sys, importlib
from apiserver.api.schema.language import Struct
built = []
whole = Struct.fields.func
Struct.fields = property(lambda self: built.append(self.name) or whole(self))
for name in sys.argv[1:]:
    importlib.import_module(name)
heavy = sorted({"pydantic", "fastapi", "sqlalchemy", "httpx", "yaml", "orjson", "json"} & sys.modules.keys())
print(len(built), ",".join(heavy))
"""


def test_importing_all_types_builds_none_and_pulls_in_nothing_heavy() -> None:
    names = [module.__name__ for module in MODULES]
    done = subprocess.run([sys.executable, "-c", _IMPORT_ALL, *names], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
