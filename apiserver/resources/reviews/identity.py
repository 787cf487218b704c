"""Serve reviews of the caller's identity and of tokens (authentication.k8s.io). Facts: pkg/registry/authentication."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver.api.errors import status
from apiserver.api.objects import Json
from apiserver.api.values.times import timestamp
from apiserver.registry.verbs.unstored import validate_admission
from apiserver.request.messages import User
from apiserver.resources.reviews.access import answer

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context
    from apiserver.registry.definition.options import WriteOptions
    from apiserver.registry.store.store import Store

__all__ = ["review_self", "review_token"]


def _user_info(user: User) -> Json:
    info: Json = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(user.extra[key]) for key in sorted(user.extra)},
    }
    return {name: value for name, value in info.items() if value}


async def review_self(store: Store, ctx: Context, body: Json, options: WriteOptions) -> Json:
    """Answer a SelfSubjectReview."""
    await validate_admission(store, ctx, body)
    found = {"metadata": {"creationTimestamp": timestamp(ctx.now)}}
    return answer(store, ctx, found, {"userInfo": _user_info(ctx.user)})


async def review_token(store: Store, ctx: Context, body: Json, options: WriteOptions) -> Json:
    """Answer a TokenReview."""
    spec = body["spec"]
    token = spec.get("token", "")
    if not token:
        raise status.bad_request("token is required for TokenReview in authentication")
    await validate_admission(store, ctx, body)
    identity = store.registry.identity
    assert identity is not None, "a server authenticates"
    found = await identity.identify(token, tuple(spec.get("audiences") or ()))
    # Keep the requested status except for the fields that the answer sets.
    outcome: Json = {"user": {}, **(body.get("status") or {})}
    outcome.pop("authenticated", None)
    if found.user is not None:
        outcome |= {"authenticated": True, "user": _user_info(found.user)}
        outcome.pop("audiences", None)
        if found.audiences:
            outcome["audiences"] = list(found.audiences)
    if found.error:
        outcome["error"] = found.error
    return answer(store, ctx, body, outcome)
