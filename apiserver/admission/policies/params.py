"""The parameter objects of a policy. Facts: apiserver, pkg/admission/plugin/policy/generic."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from apiserver.api.objects import Hub, Json
from apiserver.api.selectors.selectors import LabelSelector, from_object
from apiserver.registry.body.convert import copy_of, to_version
from apiserver.registry.definition.resource import same_form

if TYPE_CHECKING:
    from apiserver.registry.definition.resource import Version
    from apiserver.registry.store.store import Registry, Store
    from apiserver.storage.watchcache.entry import Entry

__all__ = ["ParamError", "ParamKind", "params_of"]


class ParamError(Exception):
    """Error: parameters are unavailable. The text gives the reason."""


class ParamKind(NamedTuple):
    """The store and version of a kind of parameters."""

    store: Store
    version: Version

    @classmethod
    def of(cls, registry: Registry, kind: Json) -> ParamKind:
        """Find the served version of a kind. Raise ParamError if there is none."""
        group, _, name = kind.get("apiVersion", "").rpartition("/")
        resource = registry.resource_of(group, name, kind.get("kind", ""))
        version = None if resource is None else resource.version(name)
        if resource is None or version is None:
            convert = f"{group}/{name}, Kind={kind.get('kind', '')}"
            raise ParamError(f"failed to find resource referenced by paramKind: '{convert}'")
        return cls(registry.stores[group, resource.plural], version)

    def convert(self, entry: Entry) -> Json:
        """Return a parameter in its version, read-only."""
        resource = self.store.resource
        if self.version.from_hub is same_form:
            kind = f"{resource.group}/{self.version.name}" if resource.group else self.version.name
            return {"kind": resource.kind, "apiVersion": kind, **entry.obj}
        return to_version(resource, self.version, Hub(copy_of(entry.obj)))


def params_of(kind: ParamKind | None, ref: Json | None, namespace: str) -> list[Json | None]:
    """Return a binding's parameters for an object in a namespace; one None to evaluate without any.

    Raises ParamError.
    """
    if kind is None or ref is None:
        return [None]
    resource = kind.store.resource
    if resource.namespaced:
        namespace = ref.get("namespace") or namespace
        if not namespace:
            raise ParamError("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
    elif ref.get("namespace"):
        raise ParamError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    else:
        namespace = ""
    found = _find_params(kind, ref, namespace)
    if not found and ref.get("parameterNotFoundAction") == "Deny":
        raise ParamError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return [kind.convert(entry) for entry in found]


def _find_params(kind: ParamKind, ref: Json, namespace: str) -> list[Entry]:
    store = kind.store
    if name := ref.get("name"):
        entry = store.cache.get(store.key(namespace, name))
        return [] if entry is None else [entry]
    selector: LabelSelector = from_object(ref.get("selector"))
    return [
        entry
        for entry in store.cache.list(store.resource.prefix(namespace)).entries
        if selector.matches(entry.obj["metadata"].get("labels"))
    ]
