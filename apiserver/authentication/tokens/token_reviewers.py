"""Reviewers of foreign tokens: a webhook, and the secrets of joining nodes.

Flags: --authentication-token-webhook-config-file and --enable-bootstrap-token-auth.

Facts: apiserver, plugin/pkg/authenticator/token/webhook; plugin/pkg/auth/authenticator/token/bootstrap.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from apiserver.api.objects import Json
from apiserver.api.values.times import parse_time
from apiserver.registry.definition.authority import AuthenticationResult
from apiserver.request.messages import User
from apiserver.runtime.clock import now
from apiserver.runtime.offload import on_loop
from apiserver.webhooks.failures import WebhookError
from apiserver.webhooks.reviewers import Reviewer

__all__ = ["BootstrapTokens", "WebhookTokens"]

Lookup = Callable[[str, str, str, str], Json | None]

_MOST: Final = 4096
_TIMEOUT: Final = 30.0
_BOOTSTRAP: Final = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_GROUP: Final = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")
_TYPE: Final = "bootstrap.kubernetes.io/token"


class WebhookTokens:
    """Token reviews of a webhook, cached for `ttl` seconds."""

    def __init__(self, reviewer: Reviewer, version: str, ttl: float) -> None:
        self._reviewer, self._version, self._ttl = reviewer, version, ttl
        # Keys are digests, because a token under review may have megabytes.
        self._known: OrderedDict[tuple[bytes, tuple[str, ...]], tuple[datetime, Json]] = OrderedDict()

    async def identify(
        self, token: str, request_audiences: tuple[str, ...], own: tuple[str, ...]
    ) -> AuthenticationResult:
        """Return the owner of a token for one of the `request_audiences` audiences.

        `own` are this server's audiences; they count if the webhook returns none.
        """
        key = hashlib.sha256(token.encode(errors="surrogatepass")).digest(), request_audiences
        known = self._known.get(key)
        if known is not None and known[0] > now():
            status = known[1]
        else:
            found = await self._ask(key, token)
            if isinstance(found, WebhookError):
                return AuthenticationResult(None, (), str(found))
            status = found
        good_for = tuple(audience for audience in request_audiences if audience in (status.get("audiences") or own))
        if not good_for:
            return AuthenticationResult(None)
        if not status.get("authenticated"):
            return AuthenticationResult(None, (), status.get("error", ""))
        user_info = status.get("user") or {}
        extra = {key: tuple(values) for key, values in (user_info.get("extra") or {}).items()}
        user = User(
            user_info.get("username", ""), user_info.get("uid", ""), tuple(user_info.get("groups") or ()), extra
        )
        return AuthenticationResult(user, good_for)

    @on_loop
    async def _ask(self, key: tuple[bytes, tuple[str, ...]], token: str) -> Json | WebhookError:
        spec = {"token": token, "audiences": list(key[1])}
        try:
            status = await self._reviewer.review(self._version, {"metadata": {}, "spec": spec}, _TIMEOUT)
        except WebhookError as error:
            return error
        if self._ttl:
            self._known[key] = now() + timedelta(seconds=self._ttl), status
            if len(self._known) > _MOST:
                self._known.popitem(last=False)
        return status


class BootstrapTokens:
    """Bootstrap tokens: secrets of kube-system for joining nodes. `lookup` returns stored objects."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def identify(self, token: str) -> User | None:
        parts = _BOOTSTRAP.fullmatch(token)
        if parts is None:
            return None
        name, secret = parts.groups()
        found = self._lookup("", "secrets", "kube-system", f"bootstrap-token-{name}")
        if found is None or found.get("type") != _TYPE or found["metadata"].get("deletionTimestamp"):
            return None
        data = {key: b64decode(value).decode(errors="replace") for key, value in (found.get("data") or {}).items()}
        groups = [group for group in data.get("auth-extra-groups", "").split(",") if group]
        good = (
            hmac.compare_digest(data.get("token-secret", "").encode(), secret.encode())
            and data.get("token-id") == name
            and _is_current(data.get("expiration", ""))
            and data.get("usage-bootstrap-authentication") == "true"
            and all(_GROUP.fullmatch(group) for group in groups)
        )
        return User(f"system:bootstrap:{name}", "", tuple(sorted({"system:bootstrappers", *groups}))) if good else None


def _is_current(expiration: str) -> bool:
    if not expiration:
        return True
    try:
        return parse_time(expiration) > now()
    except ValueError:
        return False
