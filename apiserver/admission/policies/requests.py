"""A request in the view of policies and webhooks of admissionregistration.k8s.io.

A rule names a resource in a version, and the request may use another one. A `Place` is the location of a request, or
its equivalent in another version. A `View` is the request in a place: its kind, and its objects in that version.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from apiserver.api.objects import Hub, Json
from apiserver.api.values.times import timestamp
from apiserver.registry.body.convert import copy_of, strip_empty, to_version
from apiserver.registry.definition.options import DeleteOptions, WriteOptions
from apiserver.registry.definition.resource import api_version

if TYPE_CHECKING:
    from apiserver.api.schema.language import Struct
    from apiserver.registry.definition.resource import Resource, Subresource
    from apiserver.registry.store.admission import Attributes
    from apiserver.registry.store.store import Registry

__all__ = ["EXEMPT", "GroupVersionKind", "Place", "View", "equivalents", "is_exempt", "namespace_of", "place_of"]


_GROUP: Final = "admissionregistration.k8s.io"
#: Kinds that no policy or webhook matches, so that a wrong configuration can be removed.
EXEMPT: Final = frozenset(
    {
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
    }
)


class Place(NamedTuple):
    """A resource, or one of its subresources, in a version."""

    group: str
    version: str
    resource: str
    subresource: str = ""


class GroupVersionKind(NamedTuple):
    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return api_version(self.group, self.version)


def is_exempt(resource: Resource) -> bool:
    """Return whether a resource's requests are exempt from all policies and webhooks."""
    return resource.group == _GROUP and resource.kind in EXEMPT


def place_of(attributes: Attributes) -> Place:
    """Return the place of a request."""
    resource = attributes.resource
    return Place(resource.group, attributes.ctx.version, resource.plural, attributes.subresource)


def equivalents(registry: Registry, place: Place) -> tuple[Place, ...]:
    """Return the other places of the same objects: all served versions in every group that has them."""
    own = registry.stores[place.group, place.resource]
    prefix = own.resource.storage_prefix
    same = (store for store in registry.stores.values() if store is not own and store.resource.storage_prefix == prefix)
    others = [
        Place(store.resource.group, name.rpartition("/")[2], store.resource.plural, place.subresource)
        for store in (own, *same)
        for name in store.forms
    ]
    return tuple(other for other in others if other != place and _has(registry, other))


def _has(registry: Registry, place: Place) -> bool:
    store = registry.stores.get((place.group, place.resource))
    if store is None or place.version not in store.variants:
        return False
    return not place.subresource or _subresource(registry, place) is not None


def _subresource(registry: Registry, place: Place) -> Subresource | None:
    variant = registry.stores[place.group, place.resource].variants[place.version]
    return next((item for item in variant.subresources if item.name == place.subresource), None)


def namespace_of(attributes: Attributes) -> str:
    """Return the namespace of a request. For a Namespace it is the object's name."""
    if attributes.resource.plural == "namespaces" and not attributes.resource.group:
        metadata = attributes.obj["metadata"] if attributes.obj is not None and not attributes.subresource else {}
        return attributes.name or metadata.get("name", "")
    return attributes.namespace


class View:
    """One request in one place."""

    def __init__(self, registry: Registry, attributes: Attributes, place: Place) -> None:
        self._registry, self.attributes, self.place = registry, attributes, place

    def _kind_in(self, place: Place) -> GroupVersionKind:
        sub = _subresource(self._registry, place) if place.subresource else None
        resource = self._registry.stores[place.group, place.resource].resource
        if sub is not None and sub.projection is not None:
            shown = sub.projection
            return GroupVersionKind(shown.kind.group, shown.version.name, shown.kind.kind)
        if sub is not None and sub.kind:
            group = resource.group if sub.group is None else sub.group
            return GroupVersionKind(group, sub.version or place.version, sub.kind)
        return GroupVersionKind(resource.group, place.version, resource.kind)

    @cached_property
    def kind(self) -> GroupVersionKind:
        """Return the kind of the objects."""
        return self._kind_in(self.place)

    @property
    def schema(self) -> Struct:
        """The type of the objects."""
        place = self.place
        sub = _subresource(self._registry, place) if place.subresource else None
        if sub is not None and sub.projection is not None:
            return sub.projection.version.schema
        if sub is not None and sub.schema is not None and sub.kind:
            return sub.schema
        version = self._registry.stores[place.group, place.resource].resource.version(place.version)
        assert version is not None, "the version exists"
        return version.schema

    @cached_property
    def object(self) -> Json | None:
        """Return the new object, or None for a deletion. It is a copy."""
        return self._shown(self.attributes.obj)

    @cached_property
    def old(self) -> Json | None:
        """Return the old object, or None for a creation."""
        return self._shown(self.attributes.old)

    def _shown(self, obj: Json | None) -> Json | None:
        if obj is None:
            return None
        place, header = self.place, {"kind": self.kind.kind, "apiVersion": self.kind.api_version}
        sub = _subresource(self._registry, place) if place.subresource else None
        resource = self._registry.stores[place.group, place.resource].resource
        if sub is not None and sub.projection is not None:
            now = timestamp(self.attributes.ctx.now) if obj is self.attributes.obj else None
            projector = self._registry.stores[place.group, place.resource].projectors[place.version, place.subresource]
            return {**header, **projector.project_object(copy_of(obj), now)}
        if sub is not None and sub.schema is not None and sub.kind:
            return {**header, **copy_of(obj)}
        if self.attributes.operation == "CONNECT":
            return {**header, **obj}
        if resource.custom:
            return {**self._converted(resource, copy_of(obj)), **header}
        version = resource.version(place.version)
        assert version is not None, "the version exists"
        return to_version(resource, version, Hub(copy_of(strip_empty(resource.hub_schema, obj))))

    def _converted(self, resource: Resource, obj: Json) -> Json:
        """Convert a custom object from the request's version to that of the place.

        Without a conversion webhook only the apiVersion changes.
        """
        own = self.attributes.ctx.version
        if resource.conversion is None or own == self.place.version:
            return obj
        return resource.conversion.convert(obj, own, self.place.version)

    def make(self) -> None:
        """Compute all cached values early, because a conversion cannot be awaited at their first use."""
        _ = self.object, self.old, self.request

    @cached_property
    def request(self) -> Json:
        """Return the request in the form of an AdmissionReview, without its UID and objects."""
        attributes, ctx, own = self.attributes, self.attributes.ctx, place_of(self.attributes)
        made: Json = {"kind": self.kind._asdict(), "resource": _resource(self.place)}
        if self.place.subresource:
            made["subResource"] = self.place.subresource
        made |= {"requestKind": self._kind_in(own)._asdict(), "requestResource": _resource(own)}
        if own.subresource:
            made["requestSubResource"] = own.subresource
        if attributes.name:
            made["name"] = attributes.name
        if namespace := namespace_of(attributes):
            made["namespace"] = namespace
        made |= {"operation": attributes.operation, "userInfo": _user(ctx.user), "dryRun": ctx.dry_run}
        options = _options(attributes)
        if options is not None:
            made["options"] = options
        return made


def _resource(place: Place) -> Json:
    return {"group": place.group, "version": place.version, "resource": place.resource}


def _user(user: Any) -> Json:
    made: Json = {"username": user.name} if user.name else {}
    if user.uid:
        made["uid"] = user.uid
    if user.groups:
        made["groups"] = list(user.groups)
    if user.extra:
        made["extra"] = {key: list(values) for key, values in user.extra.items()}
    return made


def _options(attributes: Attributes) -> Json | None:
    options = attributes.ctx.options
    kind = f"{attributes.operation.title()}Options"
    made: Json = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    if isinstance(options, DeleteOptions):
        return made | _deletion(options)
    if not isinstance(options, WriteOptions):
        return None
    if options.dry_run:
        made["dryRun"] = ["All"]
    if options.field_manager:
        made["fieldManager"] = options.field_manager
    if options.field_validation:
        made["fieldValidation"] = options.field_validation
    return made


def _deletion(options: DeleteOptions) -> Json:
    made: Json = {}
    if options.grace_period is not None:
        made["gracePeriodSeconds"] = options.grace_period
    if (given := options.preconditions) is not None:
        named = {"uid": given.uid, "resourceVersion": given.resource_version}
        made["preconditions"] = {key: value for key, value in named.items() if value is not None}
    if options.orphan is not None:
        made["orphanDependents"] = options.orphan
    if options.propagation:
        made["propagationPolicy"] = options.propagation
    if options.dry_run:
        made["dryRun"] = ["All"]
    return made
