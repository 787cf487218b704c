"""The live catalog: a server's resources, added, replaced and removed while it runs.

    catalog.open(CATALOG)                      before the caches start: the built-in resources
    await catalog.add(resource)                at run time: served, with all stored objects, when this returns
    catalog.replace(resource, served=("v2",))  in a new form: other versions, schema, subresources, rules
    catalog.remove("example.com", "widgets")   no longer served; its stored objects stay in the log
    catalog.subscribe(follow)                  for derived data: routes, discovery, OpenAPI

A resource has one store, indexed by (group, plural), and its kinds in each version. Watches of a resource end when it
is removed. They also end, immediately or soon, when it is replaced, because its clients must learn its new form. Each
server has its own catalog: servers that share a database each add their own resources.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, NamedTuple

from apiserver.registry.body.convert import forms_of
from apiserver.registry.definition.reservations import Reservations
from apiserver.registry.definition.resource import Resource, Version
from apiserver.registry.store.store import Registry, Store
from apiserver.registry.verbs.selection import index_terms

__all__ = ["Catalog", "CatalogError", "CatalogEvent", "Served"]

#: A resource and one of its served versions.
Served = tuple[Resource, Version]


#: Seconds before watches of the former form end (apiextensions-apiserver, tearDown in customresource_handler.go).
_FORMER_SECONDS: Final = 1.0


class CatalogError(ValueError):
    """Error in adding, replacing or removing a resource, in one line."""


class CatalogEvent(NamedTuple):
    """A change of the catalog. `resource` has its new form."""

    type: Literal["added", "replaced", "removed"]
    resource: Resource


class Catalog:
    """The resources of one server.

    `is_served` selects the served versions of a built-in resource (release, gates, runtime-config); for other resources
    the caller of `add` lists them. `reservations`, by group and plural, manage the resources' shared values.
    """

    def __init__(
        self,
        registry: Registry,
        is_served: Callable[[Resource, Version], bool] = lambda *_: True,
        reservations: Mapping[tuple[str, str], Reservations] | None = None,
    ) -> None:
        self._registry, self._is_served, self._reservations = registry, is_served, reservations or {}
        self._versions: dict[tuple[str, str], tuple[Version, ...]] = {}
        self._sharing: dict[str, list[Resource]] = {}
        self._listeners: list[Callable[[CatalogEvent], None]] = []

    def served(self) -> list[Served]:
        """Return each resource with each of its served versions, in the order of their addition."""
        stores = self._registry.stores
        return [
            (stores[key].resource.of_version(version), version)
            for key, versions in self._versions.items()
            for version in versions
        ]

    def subscribe(self, listener: Callable[[CatalogEvent], None]) -> Callable[[], None]:
        """Call `listener` after every change, before other tasks run. Return the function that unsubscribes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def open(self, resources: Iterable[Resource]) -> None:
        """Add the built-in resources before the watch cache starts. Listeners are not called."""
        resources = tuple(resources)
        for resource in resources:
            self._sharing.setdefault(resource.prefix(), []).append(resource)
        for prefix, sharing in self._sharing.items():
            self._registry.cache.add(
                prefix, {name: terms for resource in sharing for name, terms in index_terms(resource).items()}
            )
        for resource in resources:
            self._store_versions(
                resource, tuple(version for version in resource.versions if self._is_served(resource, version))
            )

    async def add(self, resource: Resource, served: Iterable[str] | None = None) -> None:
        """Serve a new resource in the given versions (None: all of its own). Raise CatalogError."""
        versions = self._check_resource(resource, served)
        prefix = resource.prefix()
        if (resource.group, resource.plural) in self._versions:
            raise CatalogError(f"{resource.qualified} is served already; replace it")
        if prefix in self._sharing:
            raise CatalogError(f"{resource.qualified} would be stored under {prefix}, where other objects are")
        self._versions[resource.group, resource.plural] = ()  # Reserved while its objects are read.
        self._sharing[prefix] = [resource]
        cache = self._registry.cache.add(prefix, index_terms(resource), resource.to_current)
        try:
            await self._registry.cache.load(cache)
        except BaseException:
            self._registry.cache.remove(prefix)
            del self._versions[resource.group, resource.plural], self._sharing[prefix]
            raise
        self._store_versions(resource, versions)
        self._notify("added", resource)

    def replace(self, resource: Resource, served: Iterable[str] | None = None) -> None:
        """Serve a resource in a new form, without a gap. Its watches end.

        Watches of a kind with the same `to_former` form continue for a short time, like upstream's.
        Raises CatalogError.
        """
        versions = self._check_resource(resource, served)
        before = self._store(resource.group, resource.plural).resource
        prefix = resource.prefix()
        if before.prefix() != prefix or before.namespaced is not resource.namespaced:
            raise CatalogError(f"{resource.qualified} cannot change where or in which scope its objects are stored")
        sharing = self._sharing[prefix]
        sharing[sharing.index(before)] = resource
        self._registry.kinds.remove(before)
        end = self._registry.cache[prefix].change_form(
            {name: terms for each in sharing for name, terms in index_terms(each).items()},
            resource.to_current,
            before.to_former,
        )
        if before.to_former is not None:
            asyncio.get_running_loop().call_later(_FORMER_SECONDS, end)
        self._store_versions(resource, versions)
        self._notify("replaced", resource)

    def remove(self, group: str, plural: str) -> None:
        """Stop serving a resource and end its watches. Raise CatalogError."""
        resource = self._store(group, plural).resource
        del self._registry.stores[group, plural], self._versions[group, plural]
        self._registry.kinds.remove(resource)
        sharing = self._sharing[resource.prefix()]
        sharing.remove(resource)
        if not sharing:
            del self._sharing[resource.prefix()]
            self._registry.cache.remove(resource.prefix())
        self._notify("removed", resource)

    def _store(self, group: str, plural: str) -> Store:
        store = self._registry.stores.get((group, plural))
        if store is None:
            raise CatalogError(f"{plural}.{group} is not served" if group else f"{plural} is not served")
        return store

    def _check_resource(self, resource: Resource, served: Iterable[str] | None) -> tuple[Version, ...]:
        """Return the versions to serve. Raise CatalogError for names and kinds of another resource."""
        wanted = {version.name for version in resource.versions} if served is None else set(served)
        unknown = wanted - {version.name for version in resource.versions}
        if unknown:
            raise CatalogError(f"{resource.qualified} has no version {', '.join(sorted(unknown))}")
        for store in self._registry.stores.values():
            other = store.resource
            if other.group == resource.group and other.plural != resource.plural and other.kind == resource.kind:
                raise CatalogError(f"the kind {resource.kind} of {resource.qualified} is that of {other.qualified}")
        return tuple(version for version in resource.versions if version.name in wanted)

    def _store_versions(self, resource: Resource, versions: tuple[Version, ...]) -> None:
        registry, sharing = self._registry, self._sharing[resource.prefix()]
        key = (resource.group, resource.plural)
        self._versions[key] = versions
        registry.kinds.add(resource)
        # Custom objects may have managers of unserved versions.
        forms = forms_of((resource,), self._is_in_use if not resource.custom else lambda *_: True)
        cache, reservations = registry.cache[resource.prefix()], self._reservations.get(key)
        store = Store(registry, resource, cache, forms, sharing[0].group, reservations)
        registry.stores[key] = store
        registry.watch_configuration(store)

    def _is_in_use(self, resource: Resource, version: Version) -> bool:
        versions = self._versions.get((resource.group, resource.plural))
        return self._is_served(resource, version) if versions is None else version in versions

    def _notify(self, type: Literal["added", "replaced", "removed"], resource: Resource) -> None:
        for listener in list(self._listeners):
            listener(CatalogEvent(type, resource))
