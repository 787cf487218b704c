"""What a server serves, as kinds: each resource once, in its group's preferred version."""

from __future__ import annotations

from collections.abc import Iterable

from controllers.runtime.client import Client
from controllers.runtime.kinds import Kind


async def served_kinds(client: Client, verbs: Iterable[str] = ()) -> list[Kind]:
    """Kinds that support all of `verbs`, the core group's first. Subresources are not among them."""
    needed = set(verbs)
    groups = (await client.request("GET", "/apis")).get("groups") or ()
    found: list[Kind] = []
    for version in ["v1", *(group["preferredVersion"]["groupVersion"] for group in groups)]:
        group, _, name = version.rpartition("/")
        listing = await client.request("GET", f"/apis/{version}" if group else f"/api/{version}")
        infos = [info for info in listing.get("resources") or () if "/" not in info["name"] and needed <= set(info["verbs"])]
        found += [Kind(group, name, info["name"], info["kind"], info["namespaced"]) for info in infos]
    return found
