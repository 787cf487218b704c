"""The kinds that a server serves: each resource once, in the first version of its group that has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import orjson

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.runtime.client import Client
from controllers.runtime.kinds import Kind

#: Aggregated discovery takes two requests. Servers before 1.26 answer with the legacy documents.
_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


class ServedKinds:
    """The kinds that support all of `verbs`, for callers that read them often: only changed documents are parsed."""

    def __init__(self, client: Client, verbs: Iterable[str] = ()) -> None:
        self._client, self._needed = client, frozenset(verbs)
        self._documents: tuple[bytes, bytes] | None = None
        self._kinds: list[Kind] = []

    async def read(self) -> list[Kind]:
        """Return the kinds, the core group's first, without subresources; the same list while nothing changes."""
        core = await self._client.request_bytes("GET", "/api", accept=_AGGREGATED)
        groups = await self._client.request_bytes("GET", "/apis", accept=_AGGREGATED)
        if (core, groups) != self._documents:
            kinds = await _parse(self._client, orjson.loads(core), orjson.loads(groups), self._needed)
            # The legacy documents do not list the kinds.
            aggregated = b"APIGroupDiscoveryList" in groups[:200]
            self._documents, self._kinds = (core, groups) if aggregated else None, kinds
        return self._kinds


async def served_kinds(client: Client, verbs: Iterable[str] = ()) -> list[Kind]:
    """Return the kinds that support all of `verbs`, the core group's first, without subresources."""
    return await ServedKinds(client, verbs).read()


async def _parse(client: Client, core: Json, groups: Json, needed: frozenset[str]) -> list[Kind]:
    if core.get("kind") == groups.get("kind") == "APIGroupDiscoveryList":
        resources = [*_parse_aggregated(core), *_parse_aggregated(groups)]
    else:
        resources = await _list_versions(client, groups)
    kinds: dict[tuple[str, str], Kind] = {}
    for kind, supported in resources:
        if needed <= supported:
            kinds.setdefault((kind.group, kind.plural), kind)
    return list(kinds.values())


def _parse_aggregated(document: Json) -> Iterator[tuple[Kind, set[str]]]:
    """Yield the kinds and verbs of an aggregated document, in its order: preferred versions first."""
    for group in document.get("items") or ():
        name = group["metadata"].get("name", "")
        for version in group.get("versions") or ():
            for info in version.get("resources") or ():
                kind = info["responseKind"]["kind"]
                namespaced = info["scope"] == "Namespaced"
                yield Kind(name, version["version"], info["resource"], kind, namespaced), set(info["verbs"])


async def _list_versions(client: Client, groups: Json) -> list[tuple[Kind, set[str]]]:
    kinds = []
    versions = [version for group in groups.get("groups") or () for version in _versions(group)]
    for version in ["v1", *(version["groupVersion"] for version in versions)]:
        group, _, name = version.rpartition("/")
        listing = await client.request("GET", f"/apis/{version}" if group else f"/api/{version}")
        kinds += [
            (Kind(group, name, info["name"], info["kind"], info["namespaced"]), set(info["verbs"]))
            for info in listing.get("resources") or ()
            if "/" not in info["name"]
        ]
    return kinds


def _versions(group: Json) -> list[Json]:
    """Return the versions of a group, the preferred one first."""
    preferred = group["preferredVersion"]
    return [preferred, *(version for version in group["versions"] if version != preferred)]


async def served_at(client: Client, api_version: str, kind: str) -> Kind | None:
    """Return the kind of that name in one group and version (`apps/v1`); None if it is not served."""
    for info in await _resources(client, api_version):
        if info["kind"] == kind and "/" not in info["name"]:
            group, _, version = api_version.rpartition("/")
            return Kind(group, version, info["name"], kind, info["namespaced"])
    return None


async def serves(client: Client, kind: Kind, subresource: str) -> bool:
    """Return whether the kind has that subresource."""
    name = f"{kind.plural}/{subresource}"
    return any(info["name"] == name for info in await _resources(client, kind.api_version))


async def _resources(client: Client, api_version: str) -> list[Json]:
    """Return the resources of one group and version; nothing if it is not served."""
    path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    try:
        listing = await client.request("GET", path)
    except StatusError as error:
        if error.code == 404:
            return []
        raise
    resources: list[Json] = listing.get("resources") or []
    return resources
