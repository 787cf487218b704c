"""Serve POST serviceaccounts/NAME/token: issue a token for audiences and a lifetime, optionally bound to an object.

Facts: pkg/registry/core/serviceaccount/storage (token), pkg/apis/authentication/validation.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from apiserver.api.errors import status
from apiserver.api.errors.field_errors import FieldError, Path, go_quote, invalid
from apiserver.api.objects import Json
from apiserver.api.types.authentication import TokenRequest
from apiserver.api.values.times import timestamp
from apiserver.registry.store.admission import Attributes
from apiserver.registry.verbs.pipeline import admit, validate
from apiserver.registry.verbs.unstored import build_manager_setter

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context
    from apiserver.registry.definition.options import WriteOptions
    from apiserver.registry.store.store import Store

__all__ = ["request_token"]


_VERSION: Final = "authentication.k8s.io/v1"
_SHORTEST, _LONGEST, _DEFAULT = 600, 1 << 32, 3600
#: The lifetime that pods request, and the actual lifetime (1 year) of their tokens, in seconds.
_WARNED, _EXTENDED = 3607, 365 * 24 * 3600
_SECONDS: Final = Path("spec") / "expirationSeconds"
#: The kinds of objects that a token can be bound to.
_BOUND: Final = {"Pod": "pods", "Node": "nodes", "Secret": "secrets"}


_NOTE_MANAGER: Final = build_manager_setter(TokenRequest, _VERSION, "status")


async def request_token(store: Store, ctx: Context, body: Json, options: WriteOptions) -> Json:
    spec = body["spec"]
    if spec.get("expirationSeconds") is None:
        spec["expirationSeconds"] = _DEFAULT
    _NOTE_MANAGER(ctx, body)
    await store.registry.consistent()
    attributes = Attributes("CREATE", ctx, ctx.name, body)
    handlers = store.handlers("CREATE", ctx)
    await admit(handlers, attributes)
    account = _account(ctx, body)
    identity = store.registry.identity
    assert identity is not None, "a server authenticates"
    metadata = body["metadata"]
    spec["audiences"] = spec.get("audiences") or list(identity.audiences)
    errors = _errors(spec["expirationSeconds"])
    if errors:
        raise status.invalid("TokenRequest", "authentication.k8s.io", "", errors)
    metadata |= {
        "name": ctx.name,
        "namespace": ctx.namespace,
        "uid": account["metadata"]["uid"],
        "creationTimestamp": timestamp(ctx.now),
    }
    await validate(handlers, attributes)
    bound = _bound(ctx, spec.get("boundObjectRef"))
    begin, seconds = int(ctx.now.timestamp()), _granted(ctx, spec["expirationSeconds"], identity.max_lifetime)
    lasts = seconds
    if "pod" in bound and seconds == _WARNED and set(spec["audiences"]) <= set(identity.audiences):
        # A pod's token: the client should renew it in time, but the token stays valid for up to a year.
        lasts = min(_EXTENDED, identity.max_lifetime or _EXTENDED)
        bound["warnafter"] = begin + seconds
    token = await identity.issue({
        "aud": spec["audiences"], "exp": begin + lasts, "iat": begin, "nbf": begin, "jti": store.registry.new_uid(),
        "kubernetes.io": {"namespace": ctx.namespace, **bound, "serviceaccount": _reference(account)},
        "sub": f"system:serviceaccount:{ctx.namespace}:{ctx.name}",
    })  # fmt: skip
    return {
        "kind": "TokenRequest",
        "apiVersion": _VERSION,
        "metadata": metadata,
        "spec": {
            "audiences": spec["audiences"],
            "expirationSeconds": seconds,
            "boundObjectRef": spec.get("boundObjectRef"),
        },
        "status": {"token": token, "expirationTimestamp": timestamp(ctx.now + timedelta(seconds=seconds))},
    }


def _granted(ctx: Context, seconds: int, longest: int) -> int:
    """Return the lifetime of a token in seconds: as requested, limited by the server's maximum (0: unlimited)."""
    if not longest or seconds <= longest:
        return seconds
    ctx.warnings.append(f"requested expiration of {seconds} seconds shortened to {longest} seconds")
    return longest


def _reference(obj: Json) -> Json:
    return {"name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"]}


def _account(ctx: Context, body: Json) -> Json:
    """Return the account of the path. Raise an error if the body contradicts it."""
    metadata = body["metadata"]
    for field, wanted in (("name", ctx.name), ("namespace", ctx.namespace)):
        given = metadata.get(field, "")
        if given and given != wanted:
            wrong = invalid(Path("metadata") / field, given, f"must match the service account {field} if specified")
            raise status.invalid("TokenRequest", "authentication.k8s.io", ctx.name, [wrong])
    account = ctx.lookup("", "serviceaccounts", ctx.namespace, ctx.name)
    if account is None:
        raise status.not_found("serviceaccounts", "", ctx.name)
    given, uid = metadata.get("uid", ""), account["metadata"]["uid"]
    if given and given != uid:
        cause = f"the UID in the token request ({given}) does not match the UID of the service account ({uid})"
        if ctx.features.enabled("TokenRequestServiceAccountUIDValidation"):
            raise status.conflict("TokenRequest", "authentication.k8s.io", ctx.name, cause)
        gate = (
            "TokenRequestServiceAccountUIDValidation is not enabled. In the future, this will return a conflict error"
        )
        ctx.warnings.append(f"{cause} but {gate}")
    return account


def _errors(seconds: int) -> list[FieldError]:
    if seconds < _SHORTEST:
        return [invalid(_SECONDS, seconds, "may not specify a duration less than 10 minutes")]
    return (
        [invalid(_SECONDS, seconds, "may not specify a duration larger than 2^32 seconds")]
        if seconds > _LONGEST
        else []
    )


def _bound(ctx: Context, reference: Json | None) -> Json:
    """Return the claims about the object that bounds the token's life."""
    if not reference:
        return {}
    kind, version, name = reference.get("kind", ""), reference.get("apiVersion", ""), reference.get("name", "")
    group, _, short = version.rpartition("/")
    plural = None if group else _BOUND.get(kind)
    if plural is None:
        raise status.bad_request(f"cannot bind token to object of type {group}/{short}, Kind={kind}")
    found = ctx.lookup("", plural, "" if kind == "Node" else ctx.namespace, name)
    if found is None:
        raise status.not_found(plural, "", name)
    claims = {kind.lower(): _reference(found)}
    if kind == "Pod":
        if found["spec"].get("serviceAccountName", "") != ctx.name:
            text = (
                f"cannot bind token for serviceaccount {go_quote(ctx.name)} to pod running with different"
                " serviceaccount name."
            )
            raise status.bad_request(text)
        node = found["spec"].get("nodeName")
        if node and ctx.features.enabled("ServiceAccountTokenPodNodeInfo"):
            obj = ctx.lookup("", "nodes", "", node)
            claims["node"] = {"name": node} if obj is None else _reference(obj)
    uid, given = found["metadata"]["uid"], reference.get("uid", "")
    if given and given != uid:
        cause = (
            f"the UID in the bound object reference ({given}) does not match the UID in record. The object might have"
            " been deleted and then recreated"
        )
        raise status.conflict(kind, group, name, cause)
    return claims
