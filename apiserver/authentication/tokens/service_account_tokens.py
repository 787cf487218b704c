"""Service account tokens: signed claims, valid while the account and the bound objects exist.

A bound object is a pod, secret or node with the same UID. A token is a JWT signed with a key of the database or of a
file, so every server of a database accepts it.

Facts: pkg/serviceaccount (claims, validation), k8s.io/apiserver/pkg/authentication/serviceaccount (names, groups,
extra).
"""

from __future__ import annotations

import binascii
from collections.abc import Awaitable, Callable, Collection
from datetime import datetime
from typing import Final

import orjson

from apiserver.api.errors.status import not_found
from apiserver.api.objects import Json
from apiserver.authentication.oidc.signatures import decode_base64url
from apiserver.authentication.tokens.secret_tokens import OF_SECRETS, Lookup, SecretTokens, TokenError
from apiserver.authentication.tokens.service_account_keys import Keys
from apiserver.registry.definition.authority import AuthenticationResult
from apiserver.request.messages import User

__all__ = ["ISSUER", "AccountTokens", "TokenError"]

#: The default issuer and the default audience.
ISSUER: Final = "https://kubernetes.default.svc"
_PRIVATE: Final = "kubernetes.io"
_EXTRA: Final = "authentication.kubernetes.io/"
_LEEWAY: Final = 60
_MOST: Final = 4096


def _intersect(audiences: tuple[str, ...], meant_for: Collection[str]) -> tuple[str, ...]:
    """Return the audiences of a token. Raise TokenError if there are none."""
    good_for = tuple(audience for audience in audiences if audience in meant_for)
    if not good_for:
        to_jwk = ['["' + '" "'.join(each) + '"]' for each in (meant_for, audiences)]
        raise TokenError(f"token audiences {to_jwk[0]} is invalid for the target audiences {to_jwk[1]}")
    return good_for


class AccountTokens:
    """Issuer and validator of service account tokens.

    `lookup` returns stored objects; `keys` sign. The first of `issuers` issues new tokens. `audiences` are the default
    ones. `record_use` sets a label of a secret (namespace, name, label, value).
    """

    def __init__(
        self,
        lookup: Lookup,
        clock: Callable[[], datetime],
        keys: Keys,
        issuers: tuple[str, ...] = (ISSUER,),
        audiences: tuple[str, ...] = (),
        record_use: Callable[[str, str, str, str], Awaitable[None]] | None = None,
    ) -> None:
        self._lookup, self._clock, self.keys, self.issuers = lookup, clock, keys, issuers
        self.audiences = audiences
        #: The tokens of Secrets.
        self.of_secrets = SecretTokens(lookup, clock, record_use)
        #: Claims of tokens with a verified signature.
        self._checked: dict[str, Json] = {}
        keys.subscribe(self._checked.clear)

    async def public_keys(self) -> list[Json]:
        """Return the keys that verify tokens."""
        return await self.keys.public()

    def max_age(self) -> int:
        """Return the cache lifetime of the public keys in seconds."""
        return self.keys.max_age

    async def issue(self, claims: Json) -> str:
        return await self.keys.token(orjson.dumps({"iss": self.issuers[0], **claims}))

    async def issue_for_secret(self, namespace: str, name: str) -> str:
        """Return the token of a Secret. Raise StatusError."""
        return await self.issue(self.of_secrets.build_claims(namespace, name))

    async def identify(self, token: str, audiences: tuple[str, ...]) -> AuthenticationResult | None:
        """Return the owner of a token, or None if this server did not issue it. Raise TokenError."""
        claims = self._checked.get(token)
        if claims is None:
            claims = await self._claims(token)
            if claims is None:
                return None
            if len(self._checked) >= _MOST:
                self._checked.clear()
            self._checked[token] = claims
        if claims["iss"] != OF_SECRETS:
            return self._bound(claims, audiences)
        annotations = self.of_secrets.count_use(claims)
        try:
            good_for = _intersect(audiences, self.audiences or self.issuers)
            return await self.of_secrets.check(claims, token, good_for)
        except TokenError as error:
            raise TokenError(str(error), {**annotations, **error.annotations}) from None

    def recall(self, token: str, audiences: tuple[str, ...]) -> User | None:
        """Return the owner of a valid token that was verified before, or None. It never waits; `identify` may."""
        claims = self._checked.get(token)
        if claims is None or claims["iss"] == OF_SECRETS:
            return None
        try:
            return self._bound(claims, audiences).user
        except TokenError:
            return None

    def _bound(self, claims: Json, audiences: tuple[str, ...]) -> AuthenticationResult:
        """Raise TokenError if a verified token is invalid now, or not for these audiences."""
        self._check_times(claims)
        good_for = _intersect(audiences, claims["aud"])
        return AuthenticationResult(self._user(claims), good_for)

    async def _claims(self, token: str) -> Json | None:
        signed, dot, signature = token.rpartition(".")
        if not dot or signed.count(".") != 1 or not token.isascii():
            return None
        try:
            header, claims = (orjson.loads(decode_base64url(part)) for part in signed.split("."))
            if not isinstance(header, dict) or not isinstance(claims, dict):
                return None
            if not isinstance(header.get("kid", ""), str):
                return None
            if claims.get("iss") not in (*self.issuers, OF_SECRETS):
                return None
            if not await self.keys.knows(header, signed.encode(), decode_base64url(signature)):
                return None
        except (ValueError, binascii.Error):
            return None
        return claims

    def _check_times(self, claims: Json) -> None:
        now = self._clock().timestamp()
        if now > claims["exp"] + _LEEWAY:
            raise TokenError("service account token has expired")
        if now < claims["nbf"] - _LEEWAY:
            raise TokenError("service account token is not valid yet")

    def _user(self, claims: Json) -> User:
        """Return the account if it and all bound objects still exist. Raise TokenError otherwise."""
        bound = claims[_PRIVATE]
        namespace, account = bound["namespace"], bound["serviceaccount"]
        found = self._lookup("", "serviceaccounts", namespace, account["name"])
        if found is None:
            raise TokenError(not_found("serviceaccounts", "", account["name"]).message)
        if found["metadata"]["uid"] != account["uid"]:
            raise TokenError(
                f"service account UID ({found['metadata']['uid']}) does not match claim ({account['uid']})"
            )
        pod, node, secret = bound.get("pod"), bound.get("node"), bound.get("secret")
        for kind, reference in (("secret", secret), ("pod", pod), ("node", None if pod else node)):
            if reference is not None:
                self._check_bound(kind, "" if kind == "node" else namespace, reference)
        extra = {_EXTRA + "credential-id": (f"JTI={claims['jti']}",)}
        for kind, reference in (("node", node), ("pod", pod)):
            if reference is not None:
                extra[f"{_EXTRA}{kind}-name"] = (reference["name"],)
                if reference.get("uid"):
                    extra[f"{_EXTRA}{kind}-uid"] = (reference["uid"],)
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        return User(f"system:serviceaccount:{namespace}:{account['name']}", account["uid"], groups, extra)

    def _check_bound(self, kind: str, namespace: str, reference: Json) -> None:
        found = self._lookup("", kind + "s", namespace, reference["name"])
        if found is None:
            raise TokenError("service account token has been invalidated")
        uid = found["metadata"]["uid"]
        if uid != reference["uid"]:
            raise TokenError(f"{kind} UID ({uid}) does not match service account {kind} ref claim ({reference['uid']})")
