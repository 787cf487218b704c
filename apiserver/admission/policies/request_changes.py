"""Conversion of changes in one version of an object back to the request's object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apiserver.admission.policies.requests import RequestScope
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

__all__ = ["replace_object"]


def replace_object(registry: Registry, attributes: Attributes, scope: RequestScope, before: Json, after: Any) -> bool:
    """Replace the request's object by `after`. Return whether it differs.

    `before` is the request's object in a scope, `after` a changed copy of it.
    Raises DecodeError.
    """
    obj, ctx = attributes.obj, attributes.ctx
    assert obj is not None, "mutated objects are set"
    if not isinstance(after, dict):
        raise DecodeError(f"json: cannot unmarshal {go_kind(after)} into Go value of type {before.get('kind', '')}")
    store = registry.stores[scope.group, scope.resource]
    sub = _subresource(registry, scope)
    if attributes.operation == "CONNECT":
        return _replace(obj, before, after)
    if sub is not None and sub.projection is not None:
        projected = decode(sub.projection.version.schema, after).obj
        store.projectors[scope.version, scope.subresource].copy_field(obj, projected)
        return bool(projected != before)
    if sub is not None and sub.schema is not None and sub.kind:
        return _replace(obj, before, decode(sub.schema, after).obj)
    _same_kind(registry, store.resource, scope.version, after)
    version = store.resource.version(scope.version)
    assert version is not None, "the version exists"
    new = decode(version.schema, after).obj
    changed = bool(new != before)
    bare = {name: value for name, value in new.items() if name not in ("kind", "apiVersion")}
    version.fill(bare, ctx.now)
    conversion = store.resource.conversion
    hub = version.to_hub(bare) if conversion is None else conversion.convert(bare, scope.version, ctx.version)
    _fill(obj, hub)
    return changed


def _same_kind(registry: Registry, resource: Resource, version: str, after: Json) -> None:
    """Refuse a change of the object's kind or version; missing values are unchanged.

    Raises DecodeError if the new kind is unknown or the object malformed, StatusError if it is another kind.
    """
    expected = resource.api_versions[version], resource.kind
    actual = str(after.get("apiVersion") or expected[0]), str(after.get("kind") or expected[1])
    if actual == expected:
        return
    schema = registry.kinds.scheme(*actual)
    if schema is None or resource.custom:
        raise DecodeError(unregistered(actual[1], actual[0], scheme_of(resource.group)))
    decode(schema, after)
    hub = f"{go_package(resource.group)}.{resource.kind}"
    raise StatusError(500, "", f"converting ({schema.go}) to ({hub}): unknown conversion")


def _subresource(registry: Registry, scope: RequestScope) -> Subresource | None:
    variant = registry.stores[scope.group, scope.resource].variants[scope.version]
    return next((item for item in variant.subresources if item.name == scope.subresource), None)


def _replace(obj: Json, before: Json, new: Json) -> bool:
    _fill(obj, {name: value for name, value in new.items() if name not in ("kind", "apiVersion")})
    return new != before


def _fill(obj: Json, new: Json) -> None:
    """Replace an object's contents in place, so that every holder of it or of its metadata sees them."""
    metadata, new_metadata = obj.get("metadata"), new.get("metadata")
    if isinstance(metadata, dict) and isinstance(new_metadata, dict) and new_metadata is not metadata:
        new_metadata = dict(new_metadata)
        metadata.clear()
        metadata.update(new_metadata)
        new = {**new, "metadata": metadata}
    obj.clear()
    obj.update(new)
