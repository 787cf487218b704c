"""Conversion of changes in one version of an object back to the request's object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apiserver.admission.policies.requests import Place
from apiserver.api.codec.codec import DecodeError, decode
from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.api.values.go_json import go_kind
from apiserver.registry.body.decode import scheme_of, unregistered
from apiserver.registry.definition.resource import go_package

if TYPE_CHECKING:
    from apiserver.registry.definition.resource import Resource, Subresource
    from apiserver.registry.store.admission import Attributes
    from apiserver.registry.store.store import Registry

__all__ = ["take_over"]


def take_over(registry: Registry, attributes: Attributes, place: Place, before: Json, after: Any) -> bool:
    """Replace the request's object by `after`. Return whether it differs.

    `before` is the request's object in a place, `after` a changed copy of it.
    Raises DecodeError.
    """
    obj, ctx = attributes.obj, attributes.ctx
    assert obj is not None, "mutated objects are set"
    if not isinstance(after, dict):
        raise DecodeError(f"json: cannot unmarshal {go_kind(after)} into Go value of type {before.get('kind', '')}")
    store = registry.stores[place.group, place.resource]
    sub = _subresource(registry, place)
    if attributes.operation == "CONNECT":
        return _replace(obj, before, after)
    if sub is not None and sub.projection is not None:
        shown = decode(sub.projection.version.schema, after).obj
        store.projectors[place.version, place.subresource].copy_field(obj, shown)
        return bool(shown != before)
    if sub is not None and sub.schema is not None and sub.kind:
        return _replace(obj, before, decode(sub.schema, after).obj)
    _same_kind(registry, store.resource, place.version, after)
    version = store.resource.version(place.version)
    assert version is not None, "places are in versions that there are"
    made = decode(version.schema, after).obj
    changed = bool(made != before)
    bare = {name: value for name, value in made.items() if name not in ("kind", "apiVersion")}
    version.fill(bare, ctx.now)
    conversion = store.resource.conversion
    hub = version.to_hub(bare) if conversion is None else conversion.convert(bare, place.version, ctx.version)
    _fill(obj, hub)
    return changed


def _same_kind(registry: Registry, resource: Resource, version: str, after: Json) -> None:
    """Refuse a change of the object's kind or version; missing values are unchanged.

    Raises DecodeError if the new kind is unknown or the object malformed, StatusError if it is another kind.
    """
    wanted = resource.api_versions[version], resource.kind
    given = str(after.get("apiVersion") or wanted[0]), str(after.get("kind") or wanted[1])
    if given == wanted:
        return
    schema = registry.kinds.scheme(*given)
    if schema is None or resource.custom:
        raise DecodeError(unregistered(given[1], given[0], scheme_of(resource.group)))
    decode(schema, after)
    hub = f"{go_package(resource.group)}.{resource.kind}"
    raise StatusError(500, "", f"converting ({schema.go}) to ({hub}): unknown conversion")


def _subresource(registry: Registry, place: Place) -> Subresource | None:
    variant = registry.stores[place.group, place.resource].variants[place.version]
    return next((item for item in variant.subresources if item.name == place.subresource), None)


def _replace(obj: Json, before: Json, made: Json) -> bool:
    _fill(obj, {name: value for name, value in made.items() if name not in ("kind", "apiVersion")})
    return made != before


def _fill(obj: Json, made: Json) -> None:
    """Replace an object's contents in place, so that every holder of it or of its metadata sees them."""
    metadata, told = obj.get("metadata"), made.get("metadata")
    if isinstance(metadata, dict) and isinstance(told, dict) and told is not metadata:
        told = dict(told)
        metadata.clear()
        metadata.update(told)
        made = {**made, "metadata": metadata}
    obj.clear()
    obj.update(made)
