"""Creation and update of the bootstrap policy. An update only adds rights.

An existing object is updated only if its annotation rbac.authorization.kubernetes.io/autoupdate is "true".
Facts: component-helpers/auth/rbac/reconciliation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import orjson

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.authorization.policy import GROUP, policy
from apiserver.authorization.rules import missing_rights
from apiserver.registry.verbs.create import create
from apiserver.registry.verbs.update import update
from apiserver.request.messages import Request, User

if TYPE_CHECKING:
    from apiserver.api.features.gates import Features
    from apiserver.registry.store.store import Registry, Store

__all__ = ["ensure_policy"]


_AUTOUPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"
_HEADERS: Final = {"content-type": "application/json", "user-agent": "kube-apiserver"}
#: Number of concurrent writes; they share commits.
_AT_ONCE: Final = 64


async def ensure_policy(registry: Registry, features: Features, user: User) -> int:
    """Create and update the missing parts of the policy. Return the number of writes.

    `user` must be allowed everything.
    """
    desired = policy(features)
    changes: list[tuple[Store, Json, Json | None]] = []
    for plural, objects, changed in (
        ("clusterroles", desired.cluster_roles, _updated_role),
        ("clusterrolebindings", desired.cluster_bindings, _updated_binding),
        ("roles", desired.roles, _updated_role),
        ("rolebindings", desired.bindings, _updated_binding),
    ):
        changes += _changes(registry.stores[GROUP, plural], objects, changed)
    for start in range(0, len(changes), _AT_ONCE):
        await asyncio.gather(*(_write(store, obj, old, user) for store, obj, old in changes[start : start + _AT_ONCE]))
    return len(changes)


def _changes(
    store: Store, objects: list[Json], update: Callable[[Json, Json], Json | None]
) -> list[tuple[Store, Json, Json | None]]:
    found: list[tuple[Store, Json, Json | None]] = []
    for obj in objects:
        metadata = obj["metadata"]
        entry = store.cache.get(store.key(metadata.get("namespace", ""), metadata["name"]))
        if entry is None:
            found.append((store, obj, None))
        elif (entry.obj["metadata"].get("annotations") or {}).get(_AUTOUPDATE) == "true" and (
            changed := update(obj, entry.obj)
        ) is not None:
            found.append((store, changed, entry.obj))
    return found


def _updated_role(desired: Json, old: Json) -> Json | None:
    """Return the stored role with its missing rights added, or None if it lacks none."""
    if desired.get("aggregationRule"):
        return None if old.get("aggregationRule") else {**old, "aggregationRule": desired["aggregationRule"]}
    rules = old.get("rules") or []
    missing = [] if rules == desired["rules"] else missing_rights(rules, desired["rules"])
    return {**old, "rules": rules + missing} if missing else None


def _updated_binding(desired: Json, old: Json) -> Json | None:
    subjects = old.get("subjects") or []
    missing = [
        subject for subject in desired["subjects"] if not any(_is_same_reference(subject, known) for known in subjects)
    ]
    return {**old, "subjects": subjects + missing} if missing else None


def _is_same_reference(left: Json, right: Json) -> bool:
    return all(left.get(name, "") == right.get(name, "") for name in ("kind", "name", "namespace"))


async def _write(store: Store, obj: Json, old: Json | None, user: User) -> None:
    resource, metadata = store.resource, obj["metadata"]
    body = orjson.dumps({"apiVersion": f"{GROUP}/v1", "kind": resource.kind, **obj})
    verb, name = ("create", "") if old is None else ("update", metadata["name"])
    ctx = store.context(user=user, version="v1", verb=verb, namespace=metadata.get("namespace", ""), name=name)
    request = Request("POST" if old is None else "PUT", "", "", _HEADERS, body)
    try:
        await (create if old is None else update)(store, ctx, request)
    except StatusError as error:
        if error.reason not in ("AlreadyExists", "Conflict"):  # Otherwise another server has made the same change.
            raise
