"""Tokens of Secrets of type kubernetes.io/service-account-token: without audience and expiry.

A token is valid while its Secret has it, and its account exists. The Secret's labels record the day of its last use.

Facts: pkg/serviceaccount/legacy.go (claims, validation, labels), metrics.go.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from apiserver.api.errors.status import not_found
from apiserver.api.objects import Json
from apiserver.registry.definition.authority import AuthenticationResult
from apiserver.request.messages import User
from apiserver.runtime.metrics import Counter

if TYPE_CHECKING:
    from apiserver.runtime.metrics import Family

__all__ = ["OF_SECRETS", "Lookup", "SecretTokens", "TokenError"]

Lookup = Callable[[str, str, str, str], Json | None]
#: Sets a label of a Secret: namespace, name, label, value.
RecordUse = Callable[[str, str, str, str], Awaitable[None]]

#: The issuer of these tokens.
OF_SECRETS: Final = "kubernetes/serviceaccount"
_TYPE: Final = "kubernetes.io/service-account-token"
_ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"
_ACCOUNT_UID: Final = "kubernetes.io/service-account.uid"
_INVALID: Final = "kubernetes.io/legacy-token-invalid-since"
_LAST_USED: Final = "kubernetes.io/legacy-token-last-used"
_ANNOTATION: Final = "authentication.k8s.io/legacy-token"
_USER: Final = "system:serviceaccount:"
_GENERATED: Final = (
    "Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated"
    " secret-based tokens."
)
#: Required claims and their names in errors, in the order of validation.
_CLAIMS: Final = {
    "sub": "sub",
    "kubernetes.io/serviceaccount/namespace": "namespace",
    "kubernetes.io/serviceaccount/secret.name": "secretName",
    "kubernetes.io/serviceaccount/service-account.name": "serviceAccountName",
    "kubernetes.io/serviceaccount/service-account.uid": "serviceAccountUID",
}


class TokenError(Exception):
    """Error: a token of this server is invalid. The text may be returned to the client.

    `annotations` are for the audit event of the request.
    """

    def __init__(self, message: str, annotations: Mapping[str, str] = MappingProxyType({})) -> None:
        super().__init__(message)
        self.annotations = annotations


class SecretTokens:
    """Claims and validation of the tokens of Secrets.

    `lookup` returns stored objects; `record_use` sets a label of a Secret.
    """

    def __init__(self, lookup: Lookup, clock: Callable[[], datetime], record_use: RecordUse | None) -> None:
        self._lookup, self._clock, self._record_use = lookup, clock, record_use
        start, uses = "serviceaccount_", "token_uses_total"
        self._tokens = Counter(f"{start}legacy_tokens_total", "Uses of tokens of Secrets.")
        self._manual = Counter(f"{start}legacy_manual_{uses}", "Uses of tokens of manually created Secrets.")
        self._generated = Counter(f"{start}legacy_auto_{uses}", "Uses of tokens of generated Secrets.")
        self._invalid = Counter(f"{start}invalid_legacy_auto_{uses}", "Uses of tokens of Secrets marked as invalid.")

    def families(self) -> list[Family]:
        """Return the metric families."""
        return [self._tokens, self._manual, self._generated, self._invalid]

    def build_claims(self, namespace: str, name: str) -> Json:
        """Return the claims of a Secret's token. Raise NotFound unless the Secret and its account exist."""
        secret = self._lookup("", "secrets", namespace, name)
        if secret is None or secret.get("type") != _TYPE:
            raise not_found("secrets", "", name)
        annotations = secret["metadata"].get("annotations") or {}
        account = self._lookup("", "serviceaccounts", namespace, annotations.get(_ACCOUNT_NAME, ""))
        if account is None or annotations.get(_ACCOUNT_UID, "") not in ("", account["metadata"]["uid"]):
            raise not_found("serviceaccounts", "", annotations.get(_ACCOUNT_NAME, ""))
        meta = account["metadata"]
        values = (f"{_USER}{namespace}:{meta['name']}", namespace, name, meta["name"], meta["uid"])
        return {"iss": OF_SECRETS, **dict(zip(_CLAIMS, values, strict=True))}

    def count_use(self, claims: Json) -> dict[str, str]:
        """Count a token with a verified signature; return the annotations of its request."""
        self._tokens.inc()
        return {_ANNOTATION: str(claims.get("sub", ""))}

    async def check(self, claims: Json, token: str, audiences: tuple[str, ...]) -> AuthenticationResult:
        """Return the token's account. Raise TokenError if the token is invalid now."""
        namespace, secret_name, name, uid = _check_claims(claims)
        annotations = {_ANNOTATION: claims["sub"]}
        secret = self._find_secret(namespace, secret_name, token)
        account = self._find_account(namespace, name, uid)
        meta = secret["metadata"]
        if (meta.get("labels") or {}).get(_INVALID):
            self._invalid.inc()
            await self._label(secret)
            annotations[f"{_ANNOTATION}-invalidated"] = f"{secret_name}/{namespace}"
            raise TokenError(_invalid_text(namespace, secret_name, name), annotations)
        generated = any(each.get("name") == secret_name for each in account.get("secrets") or ())
        (self._generated if generated else self._manual).inc()
        annotations[f"{_ANNOTATION}-{'autogenerated' if generated else 'manual'}-secret"] = secret_name
        await self._label(secret)
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        user = User(f"{_USER}{namespace}:{name}", uid, groups)
        return AuthenticationResult(user, audiences, "", (_GENERATED,) if generated else (), annotations)

    def _find_secret(self, namespace: str, name: str, token: str) -> Json:
        """Return the Secret if it has the token. Raise TokenError."""
        secret = self._lookup("", "secrets", namespace, name)
        if secret is None or secret["metadata"].get("deletionTimestamp"):
            raise TokenError("Token has been invalidated")
        if b64decode((secret.get("data") or {}).get("token") or "") != token.encode():
            raise TokenError("Token does not match server's copy")
        return secret

    def _find_account(self, namespace: str, name: str, uid: str) -> Json:
        """Return the account of that UID. Raise TokenError."""
        account = self._lookup("", "serviceaccounts", namespace, name)
        if account is None:
            raise TokenError(not_found("serviceaccounts", "", name).message)
        if account["metadata"].get("deletionTimestamp"):
            raise TokenError(f"ServiceAccount {namespace}/{name} has been deleted")
        if account["metadata"]["uid"] != uid:
            raise TokenError(f"ServiceAccount UID ({account['metadata']['uid']}) does not match claim ({uid})")
        return account

    async def _label(self, secret: Json) -> None:
        """Write the date of the token's last use into its Secret, so that unused tokens can be found."""
        now, meta = self._clock(), secret["metadata"]
        days = [f"{now + timedelta(days=number):%Y-%m-%d}" for number in (0, 1)]
        if self._record_use is not None and (meta.get("labels") or {}).get(_LAST_USED) not in days:
            await self._record_use(meta["namespace"], meta["name"], _LAST_USED, days[0])


def _check_claims(claims: Json) -> tuple[str, str, str, str]:
    """Return the namespace, the Secret's name, and the account's name and UID. Raise TokenError."""
    for claim, name in _CLAIMS.items():
        if not isinstance(claims.get(claim), str) or not claims[claim]:
            raise TokenError(f"{name} claim is missing")
    subject, namespace, secret, account, uid = (claims[claim] for claim in _CLAIMS)
    if subject != f"{_USER}{namespace}:{account}":
        raise TokenError("sub claim is invalid")
    return namespace, secret, account, uid


def _invalid_text(namespace: str, secret: str, account: str) -> str:
    return (
        f"the token in secret {namespace}/{secret} for service account {namespace}/{account} has been marked invalid."
        " Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the"
        f" '{_INVALID}' label from the secret to temporarily allow use of this token"
    )
