"""Writes docs/reference/kinds/<Kind>.md, pages for the kinds of resource.k8s.io and scheduling.k8s.io: schema, table of
gates, tables below.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apiserver.api.schema.language import Field, Struct, Type
    from apiserver.registry.definition.resource import Resource, Version

DIRECTORY = Path(__file__).with_name("kinds")
GROUPS = ("resource.k8s.io", "scheduling.k8s.io")
_OWN = ("io.k8s.api.resource.", "io.k8s.api.scheduling.")
_HEAD = """\
# {kind}

Written by `python docs/reference/generate.py` from the schema; a test holds it current.

{doc}. {scope}; `kubectl` calls it `{plural}`.

| version | served in | without `--runtime-config` |
|---|---|---|
{versions}
Fields are those of {shown}.{flat} A *gate* is a feature gate that must be on when the field is first written (all of them,
where there are several): without it the field is dropped without an error, unless the stored object has it already (`/-/dropped` tells which were).
*Since* is the release that first had the gate; a
field without one is as old as its kind. Limits are those of validation: a list has at most so many items, a text so many bytes.

| field | type | default | limit | gate | since | meaning |
|---|---|---|---|---|---|---|
"""
_FLAT = {
    "ResourceClaim": " In v1beta1 a request has the fields of `exactly` itself.",
    "ResourceClaimTemplate": " In v1beta1 a request has the fields of `exactly` itself.",
    "ResourceSlice": " In v1beta1 a device has all but its name under `basic`.",
}


def resources() -> list[Resource]:
    from apiserver.resources import CATALOG

    return [resource for resource in CATALOG if resource.group in GROUPS]


def pages() -> dict[str, str]:
    """Pages by file name."""
    return {f"{resource.kind}.md": _page(resource) for resource in resources()}


def _page(resource: Resource) -> str:
    schema = resource.versions[0].schema
    versions = "".join(
        f"| {v.name} | {_span(_since_gate(resource, v), v.removed)} | {_by_default(resource, v)} |\n"
        for v in resource.versions
    )
    head = _HEAD.format(
        kind=resource.kind,
        doc=schema.doc.rstrip("."),
        scope="It lives in a namespace" if resource.namespaced else "It belongs to the whole cluster",
        plural=resource.plural,
        versions=versions,
        shown=resource.versions[0].name,
        flat=_FLAT.get(resource.kind, ""),
    )
    return head + "".join(_row(path, item) for path, _, item in fields(schema))


def _since_gate(resource: Resource, version: Version) -> tuple[int, int]:
    from apiserver.api.features.gates import GATES

    return max(version.introduced, GATES[resource.gate].stages[0][0]) if resource.gate else version.introduced


def _by_default(resource: Resource, version: Version) -> str:
    if version.on_by_default:
        return "served"
    return f"not served; needs the gate `{resource.gate}` as well" if resource.gate else "not served"


def _span(first: tuple[int, int], removed: tuple[int, int] | None) -> str:
    since = "1.33" if first <= (1, 33) else f"{first[0]}.{first[1]}"
    return f"{since} to {removed[0]}.{removed[1] - 1}" if removed else f"{since} and later"


def fields(struct: Struct, at: str = "") -> Iterator[tuple[str, Struct, Field]]:
    """Every field below a type with its path and the type it is declared in, but those of metadata and of other groups'
    types.
    """
    for item in struct.declared:
        if item.inline or item.name in ("kind", "apiVersion", "metadata"):
            if item.inline and item.name == "" and _inner(item.type) is not None:
                yield from fields(_inner(item.type) or struct, at)
            continue
        path = f"{at}{item.name}{_suffix(item.type)}"
        yield path, struct, item
        inner = _inner(item.type)
        if inner is not None:
            yield from fields(inner, f"{path}.")


def _suffix(type: Type) -> str:
    from apiserver.api.schema.language import ListOf, MapOf

    return "[]" if isinstance(type, ListOf) else "{}" if isinstance(type, MapOf) else ""


def _inner(type: Type) -> Struct | None:
    """The type of this group that a field holds, directly or as items."""
    from apiserver.api.schema.language import ListOf, MapOf, Struct

    held = type.item if isinstance(type, ListOf) else type.value if isinstance(type, MapOf) else type
    return held if isinstance(held, Struct) and held.name.startswith(_OWN) else None


def _type(type: Type) -> str:
    from apiserver.api.schema.language import ListOf, MapOf, Struct

    if isinstance(type, ListOf):
        return f"list of {_type(type.item)}"
    if isinstance(type, MapOf):
        return f"map to {_type(type.value)}"
    if isinstance(type, Struct):
        return "object" if type.name.startswith(_OWN) else type.kind
    return {"raw": "JSON object", "bool": "boolean"}.get(type.name, type.name)


def _row(path: str, item: Field) -> str:
    required = " (required)" if item.required else ""
    gates = item.gate.gates if item.gate is not None else ()
    note = _note(item)
    cells = [
        f"`{path}`",
        _type(item.type) + required,
        _default(item.default if item.fills is None else item.fills),
        _limits(item),
        ", ".join(gates) + note,
        _since(gates),
        item.doc,
    ]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def _limits(item: Field) -> str:
    shown = item.limits.shown() if item.limits is not None else ""
    # The least amount is told by its sign alone.
    return shown.replace("at least 1", "more than 0") if getattr(item.type, "name", "") == "quantity" else shown


def _default(value: object) -> str:
    from apiserver.api.schema.language import NOW, When

    if isinstance(value, When):
        return f"{_default(value.then)} with `{value.value or value.field}`"
    if value is NOW:
        return "now"
    if isinstance(value, dict) or value is None:
        return ""
    return f"`{value}`" if isinstance(value, str) else str(value).lower()


def _note(item: Field) -> str:
    """How a gate is another than most."""
    from apiserver.api.features.gates import OWN_GATES

    if item.gate is None:
        return ""
    if OWN_GATES.intersection(item.gate.gates):
        return " (kubedra's own: unknown without it)"
    return " (never dropped)" if item.gate.scope == "never" else ""


def _since(gates: tuple[str, ...]) -> str:
    from apiserver.api.features.gates import GATES

    releases = [GATES[gate].stages[0][0] for gate in gates if gate in GATES]
    return "{}.{}".format(*max(releases)) if releases else ""
