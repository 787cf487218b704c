"""What a server serves, as kinds: each resource once, in the first of its group's versions that has it."""

from __future__ import annotations

from collections.abc import Iterable

from controllers.runtime.client import Client
from controllers.runtime.kinds import Json, Kind


async def served_kinds(client: Client, verbs: Iterable[str] = ()) -> list[Kind]:
    """Kinds that support all of `verbs`, the core group's first. Subresources are not among them."""
    needed = set(verbs)
    groups = (await client.request("GET", "/apis")).get("groups") or ()
    found: list[Kind] = []
    seen: set[tuple[str, str]] = set()
    for version in ["v1", *(version["groupVersion"] for group in groups for version in _versions(group))]:
        group, _, name = version.rpartition("/")
        listing = await client.request("GET", f"/apis/{version}" if group else f"/api/{version}")
        infos = [
            info for info in listing.get("resources") or () if "/" not in info["name"] and needed <= set(info["verbs"])
        ]
        found += [
            Kind(group, name, info["name"], info["kind"], info["namespaced"])
            for info in infos
            if (group, info["name"]) not in seen
        ]
        seen |= {(group, info["name"]) for info in infos}
    return found


def _versions(group: Json) -> list[Json]:
    """The versions of a group, the preferred one first."""
    preferred = group["preferredVersion"]
    return [preferred, *(version for version in group["versions"] if version != preferred)]
