"""Every resource that a server knows, with its store."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from apiserver.registry.body.convert import forms_of
from apiserver.registry.resource import Resource, Version
from apiserver.registry.store import Registry, Store
from apiserver.registry.verbs.selection import index_terms

__all__ = ["add_resources"]


def add_resources(
    registry: Registry,
    resources: Iterable[Resource],
    served: Callable[[Resource, Version], bool] = lambda *_: True,
) -> None:
    """Makes the stores of a server that has not started yet. `served` says in which versions a resource is served. Adds
    a cache for each storage prefix, which the caller starts afterwards.
    """
    sharing: dict[str, list[Resource]] = {}
    for resource in resources:
        registry.kinds.add(resource)
        sharing.setdefault(resource.prefix(), []).append(resource)
    for prefix, group in sharing.items():
        indexes = {name: terms for resource in group for name, terms in index_terms(resource).items()}
        cache, forms = registry.cache.add(prefix, indexes), forms_of(group, served)
        for resource in group:
            registry.stores[resource.group, resource.plural] = Store(registry, resource, cache, forms, group[0].group)
