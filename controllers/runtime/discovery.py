"""What a server serves, as kinds: each resource once, in the first of its group's versions that has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.runtime.client import Client
from controllers.runtime.kinds import Kind

#: Everything in two answers; a server that does not know that form (before 1.26) answers with the legacy documents.
_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


async def served_kinds(client: Client, verbs: Iterable[str] = ()) -> list[Kind]:
    """Kinds that support all of `verbs`, the core group's first. Subresources are not among them."""
    needed = set(verbs)
    core = await client.request("GET", "/api", accept=_AGGREGATED)
    groups = await client.request("GET", "/apis", accept=_AGGREGATED)
    if core.get("kind") == groups.get("kind") == "APIGroupDiscoveryList":
        listed = [*_listed(core), *_listed(groups)]
    else:
        listed = await _listed_one_by_one(client, groups)
    found: dict[tuple[str, str], Kind] = {}
    for kind, supported in listed:
        if needed <= supported:
            found.setdefault((kind.group, kind.plural), kind)
    return list(found.values())


def _listed(document: Json) -> Iterator[tuple[Kind, set[str]]]:
    """Kinds and verbs of an aggregated document, which has the preferred versions first."""
    for group in document.get("items") or ():
        name = group["metadata"].get("name", "")
        for version in group.get("versions") or ():
            for info in version.get("resources") or ():
                kind = info["responseKind"]["kind"]
                namespaced = info["scope"] == "Namespaced"
                yield Kind(name, version["version"], info["resource"], kind, namespaced), set(info["verbs"])


async def _listed_one_by_one(client: Client, groups: Json) -> list[tuple[Kind, set[str]]]:
    found = []
    versions = [version for group in groups.get("groups") or () for version in _versions(group)]
    for version in ["v1", *(version["groupVersion"] for version in versions)]:
        group, _, name = version.rpartition("/")
        listing = await client.request("GET", f"/apis/{version}" if group else f"/api/{version}")
        found += [
            (Kind(group, name, info["name"], info["kind"], info["namespaced"]), set(info["verbs"]))
            for info in listing.get("resources") or ()
            if "/" not in info["name"]
        ]
    return found


def _versions(group: Json) -> list[Json]:
    """The versions of a group, the preferred one first."""
    preferred = group["preferredVersion"]
    return [preferred, *(version for version in group["versions"] if version != preferred)]


async def served_at(client: Client, api_version: str, kind: str) -> Kind | None:
    """The kind of that name in one group and version (`apps/v1`); None where it is not served."""
    for info in await _resources(client, api_version):
        if info["kind"] == kind and "/" not in info["name"]:
            group, _, version = api_version.rpartition("/")
            return Kind(group, version, info["name"], kind, info["namespaced"])
    return None


async def serves(client: Client, kind: Kind, subresource: str) -> bool:
    """Whether objects of the kind have that subresource."""
    wanted = f"{kind.plural}/{subresource}"
    return any(info["name"] == wanted for info in await _resources(client, kind.api_version))


async def _resources(client: Client, api_version: str) -> list[Json]:
    """What one group and version has; nothing where it is not served."""
    path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    try:
        listing = await client.request("GET", path)
    except StatusError as error:
        if error.code == 404:
            return []
        raise
    found: list[Json] = listing.get("resources") or []
    return found
