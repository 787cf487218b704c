"""A request in the view of policies and webhooks of admissionregistration.k8s.io.

A rule names a resource in a version, and the request may use another one. A `RequestScope` is the scope of a request,
or its equivalent in another version. A `View` is the request in a scope: its kind, and its objects in that version.
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

__all__ = [
    "EXEMPT",
    "GroupVersionKind",
    "RequestScope",
    "View",
    "equivalents",
    "get_request_scope",
    "is_exempt",
    "namespace_of",
]


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


class RequestScope(NamedTuple):
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


def get_request_scope(attributes: Attributes) -> RequestScope:
    """Return the scope of a request."""
    resource = attributes.resource
    return RequestScope(resource.group, attributes.ctx.version, resource.plural, attributes.subresource)


def equivalents(registry: Registry, scope: RequestScope) -> tuple[RequestScope, ...]:
    """Return the other scopes of the same objects: all served versions in every group that has them."""
    own = registry.stores[scope.group, scope.resource]
    prefix = own.resource.storage_prefix
    same = (store for store in registry.stores.values() if store is not own and store.resource.storage_prefix == prefix)
    others = [
        RequestScope(store.resource.group, name.rpartition("/")[2], store.resource.plural, scope.subresource)
        for store in (own, *same)
        for name in store.forms
    ]
    return tuple(other for other in others if other != scope and _has(registry, other))


def _has(registry: Registry, scope: RequestScope) -> bool:
    store = registry.stores.get((scope.group, scope.resource))
    if store is None or scope.version not in store.variants:
        return False
    return not scope.subresource or _subresource(registry, scope) is not None


def _subresource(registry: Registry, scope: RequestScope) -> Subresource | None:
    variant = registry.stores[scope.group, scope.resource].variants[scope.version]
    return next((item for item in variant.subresources if item.name == scope.subresource), None)


def namespace_of(attributes: Attributes) -> str:
    """Return the namespace of a request. For a Namespace it is the object's name."""
    if attributes.resource.plural == "namespaces" and not attributes.resource.group:
        metadata = attributes.obj["metadata"] if attributes.obj is not None and not attributes.subresource else {}
        return attributes.name or metadata.get("name", "")
    return attributes.namespace


class View:
    """One request in one scope."""

    def __init__(self, registry: Registry, attributes: Attributes, scope: RequestScope) -> None:
        self._registry, self.attributes, self.scope = registry, attributes, scope

    def _kind_in(self, scope: RequestScope) -> GroupVersionKind:
        sub = _subresource(self._registry, scope) if scope.subresource else None
        resource = self._registry.stores[scope.group, scope.resource].resource
        if sub is not None and sub.projection is not None:
            shown = sub.projection
            return GroupVersionKind(shown.kind.group, shown.version.name, shown.kind.kind)
        if sub is not None and sub.kind:
            group = resource.group if sub.group is None else sub.group
            return GroupVersionKind(group, sub.version or scope.version, sub.kind)
        return GroupVersionKind(resource.group, scope.version, resource.kind)

    @cached_property
    def kind(self) -> GroupVersionKind:
        """Return the kind of the objects."""
        return self._kind_in(self.scope)

    @property
    def schema(self) -> Struct:
        """The type of the objects."""
        scope = self.scope
        sub = _subresource(self._registry, scope) if scope.subresource else None
        if sub is not None and sub.projection is not None:
            return sub.projection.version.schema
        if sub is not None and sub.schema is not None and sub.kind:
            return sub.schema
        version = self._registry.stores[scope.group, scope.resource].resource.version(scope.version)
        assert version is not None, "the version exists"
        return version.schema

    @cached_property
    def object(self) -> Json | None:
        """Return the new object, or None for a deletion. It is a copy."""
        return self._convert_object(self.attributes.obj)

    @cached_property
    def old(self) -> Json | None:
        """Return the old object, or None for a creation."""
        return self._convert_object(self.attributes.old)

    def _convert_object(self, obj: Json | None) -> Json | None:
        if obj is None:
            return None
        scope, header = self.scope, {"kind": self.kind.kind, "apiVersion": self.kind.api_version}
        sub = _subresource(self._registry, scope) if scope.subresource else None
        resource = self._registry.stores[scope.group, scope.resource].resource
        if sub is not None and sub.projection is not None:
            now = timestamp(self.attributes.ctx.now) if obj is self.attributes.obj else None
            projector = self._registry.stores[scope.group, scope.resource].projectors[scope.version, scope.subresource]
            return {**header, **projector.project_object(copy_of(obj), now)}
        if sub is not None and sub.schema is not None and sub.kind:
            return {**header, **copy_of(obj)}
        if self.attributes.operation == "CONNECT":
            return {**header, **obj}
        if resource.custom:
            return {**self._convert_custom(resource, copy_of(obj)), **header}
        version = resource.version(scope.version)
        assert version is not None, "the version exists"
        return to_version(resource, version, Hub(copy_of(strip_empty(resource.hub_schema, obj))))

    def _convert_custom(self, resource: Resource, obj: Json) -> Json:
        """Convert a custom object from the request's version to that of the scope.

        Without a conversion webhook only the apiVersion changes.
        """
        own = self.attributes.ctx.version
        if resource.conversion is None or own == self.scope.version:
            return obj
        return resource.conversion.convert(obj, own, self.scope.version)

    def precompute(self) -> None:
        """Compute all cached values early, because a conversion cannot be awaited at their first use."""
        _ = self.object, self.old, self.request

    @cached_property
    def request(self) -> Json:
        """Return the request in the form of an AdmissionReview, without its UID and objects."""
        attributes, ctx, own = self.attributes, self.attributes.ctx, get_request_scope(self.attributes)
        out: Json = {"kind": self.kind._asdict(), "resource": _resource(self.scope)}
        if self.scope.subresource:
            out["subResource"] = self.scope.subresource
        out |= {"requestKind": self._kind_in(own)._asdict(), "requestResource": _resource(own)}
        if own.subresource:
            out["requestSubResource"] = own.subresource
        if attributes.name:
            out["name"] = attributes.name
        if namespace := namespace_of(attributes):
            out["namespace"] = namespace
        out |= {"operation": attributes.operation, "userInfo": _user(ctx.user), "dryRun": ctx.dry_run}
        options = _options(attributes)
        if options is not None:
            out["options"] = options
        return out


def _resource(scope: RequestScope) -> Json:
    return {"group": scope.group, "version": scope.version, "resource": scope.resource}


def _user(user: Any) -> Json:
    out: Json = {"username": user.name} if user.name else {}
    if user.uid:
        out["uid"] = user.uid
    if user.groups:
        out["groups"] = list(user.groups)
    if user.extra:
        out["extra"] = {key: list(values) for key, values in user.extra.items()}
    return out


def _options(attributes: Attributes) -> Json | None:
    options = attributes.ctx.options
    kind = f"{attributes.operation.title()}Options"
    out: Json = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    if isinstance(options, DeleteOptions):
        return out | _deletion(options)
    if not isinstance(options, WriteOptions):
        return None
    if options.dry_run:
        out["dryRun"] = ["All"]
    if options.field_manager:
        out["fieldManager"] = options.field_manager
    if options.field_validation:
        out["fieldValidation"] = options.field_validation
    return out


def _deletion(options: DeleteOptions) -> Json:
    out: Json = {}
    if options.grace_period is not None:
        out["gracePeriodSeconds"] = options.grace_period
    if (given := options.preconditions) is not None:
        named = {"uid": given.uid, "resourceVersion": given.resource_version}
        out["preconditions"] = {key: value for key, value in named.items() if value is not None}
    if options.orphan is not None:
        out["orphanDependents"] = options.orphan
    if options.propagation:
        out["propagationPolicy"] = options.propagation
    if options.dry_run:
        out["dryRun"] = ["All"]
    return out
