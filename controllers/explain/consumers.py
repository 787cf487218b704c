"""Consumers of claims that no longer exist: a claim that only they reserve keeps its devices for nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.resourceclaims.pods import is_workload
from controllers.runtime.client import Client
from controllers.runtime.discovery import served_kinds

#: Most consumers to look up.
_MOST: Final = 50


async def find_gone(client: Client, claims: Iterable[Json]) -> frozenset[str]:
    """Return the uids of the workloads in `status.reservedFor` that do not exist. Raise TransportError."""
    users: dict[str, tuple[str, Json]] = {}
    for claim in claims:
        for user in (claim.get("status") or {}).get("reservedFor") or ():
            if is_workload(user) and len(users) < _MOST:
                users[user["uid"]] = claim["metadata"]["namespace"], user
    if not users:
        return frozenset()
    try:
        kinds = {(kind.group, kind.plural): kind for kind in await served_kinds(client)}
    except StatusError:
        return frozenset()
    gone: set[str] = set()
    for uid, (namespace, user) in users.items():
        kind = kinds.get((user.get("apiGroup", ""), user["resource"]))
        try:
            found = await client.get(kind, user["name"], namespace) if kind is not None else None
        except StatusError as error:
            if error.code != 404:
                continue
            found = None
        if found is None or found["metadata"]["uid"] != uid:
            gone.add(uid)
    return frozenset(gone)
