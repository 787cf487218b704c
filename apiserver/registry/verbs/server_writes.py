"""Writes of the server's own objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import orjson

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.registry.definition.options import delete_options
from apiserver.registry.definition.resource import api_version
from apiserver.registry.verbs.create import create
from apiserver.registry.verbs.delete import delete_object
from apiserver.registry.verbs.patch import patch
from apiserver.registry.verbs.replace import replace_object
from apiserver.request.messages import Request

if TYPE_CHECKING:
    from apiserver.registry.store.store import Registry
    from apiserver.request.messages import User

__all__ = ["apply_own", "create_own", "delete_own", "rewrite_own"]


_MANAGER: Final = "kube-apiserver"
_HEADERS: Final = {"content-type": "application/json", "user-agent": _MANAGER}


async def create_own(registry: Registry, user: User, group: str, plural: str, obj: Json, *, manager: str = "") -> bool:
    """Create an object managed by the server or by `manager`.

    Returns False if an object of that name exists.
    Raises StatusError.
    """
    store = registry.stores[group, plural]
    version = store.resource.versions[0].name
    body = orjson.dumps({"apiVersion": api_version(group, version), "kind": store.resource.kind, **obj})
    ctx = store.context(user=user, version=version, verb="create", namespace=obj["metadata"].get("namespace", ""))
    try:
        await create(store, ctx, Request("POST", "", f"fieldManager={manager}" if manager else "", _HEADERS, body))
    except StatusError as error:
        if error.reason != "AlreadyExists":
            raise
        return False
    return True


async def apply_own(
    registry: Registry, user: User, group: str, plural: str, obj: Json, *, manager: str, subresource: str = ""
) -> None:
    """Apply a configuration and take its fields from other managers. Raise StatusError."""
    store = registry.stores[group, plural]
    version, name = store.resource.versions[0].name, obj["metadata"]["name"]
    body = orjson.dumps({"apiVersion": api_version(group, version), "kind": store.resource.kind, **obj})
    namespace = obj["metadata"].get("namespace", "")
    ctx = store.context(
        user=user, version=version, verb="patch", namespace=namespace, name=name, subresource=subresource
    )
    headers = {**_HEADERS, "content-type": "application/apply-patch+yaml"}
    await patch(store, ctx, Request("PATCH", "", f"fieldManager={manager}&force=true", headers, body))


async def delete_own(registry: Registry, user: User, group: str, plural: str, namespace: str, name: str) -> None:
    """Delete an object; a missing one is no error. Raise StatusError."""
    store = registry.stores[group, plural]
    version = store.resource.versions[0].name
    ctx = store.context(user=user, version=version, verb="delete", namespace=namespace, name=name)
    try:
        await delete_object(store, ctx, delete_options())
    except StatusError as error:
        if error.reason != "NotFound":
            raise


async def rewrite_own(
    registry: Registry,
    user: User,
    group: str,
    plural: str,
    namespace: str,
    name: str,
    func: Callable[[Any], Any],
    *,
    subresource: str = "",
) -> None:
    """Store a function's change of an object, as the server's update of it or of a subresource.

    A missing object is no error.
    Raises StatusError.
    """
    store = registry.stores[group, plural]
    version = store.resource.versions[0].name
    ctx = store.context(
        user=user, version=version, verb="update", namespace=namespace, name=name, subresource=subresource
    )
    ctx.manager = _MANAGER
    try:
        await replace_object(store, ctx, func, tracked=True)
    except StatusError as error:
        if error.reason != "NotFound":
            raise
