"""Fills the Secrets of type kubernetes.io/service-account-token, and deletes those without account.

The server signs the tokens: its key may be in its database.

Facts: upstream's pkg/controller/serviceaccount/tokens_controller.go.
"""

from __future__ import annotations

import asyncio
import json
import logging
from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Final

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import ComponentOfSeveral, Controller
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import SECRETS, SERVICE_ACCOUNTS

__all__ = ["ACCOUNT_NAME", "ACCOUNT_UID", "OF_ACCOUNTS", "build"]

NAME: Final = "serviceaccount-token-controller"
#: The field selector of the Secrets.
OF_ACCOUNTS: Final = "type=kubernetes.io/service-account-token"
ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"
ACCOUNT_UID: Final = "kubernetes.io/service-account.uid"
_SIGN: Final = "/openid/v1/secret-tokens"
_QUEUE: Final = "serviceaccount_tokens_service"
_RETRIES: Final = 10
_CONFLICTS: Final = 10
#: Seconds between attempts to change an account that others change, too.
_PAUSE: Final = 0.1
log = logging.getLogger(__name__)


def build(client: Client, informers: Informers, options: Options) -> Tokens:
    """Build the component for the manager."""
    return Tokens(client, informers, options)


def _account_key(account: Json) -> tuple[str]:
    meta = account["metadata"]
    return (json.dumps([meta["namespace"], meta["name"], meta["uid"]]),)


def _secret_key(secret: Json) -> tuple[str, ...]:
    """Return the key of a Secret with an account name. It also has what is needed once the Secret is gone."""
    meta = secret["metadata"]
    annotations = meta.get("annotations") or {}
    account = annotations.get(ACCOUNT_NAME, "")
    parts = [meta["namespace"], meta["name"], meta["uid"], account, annotations.get(ACCOUNT_UID, "")]
    return (json.dumps(parts),) if account else ()


class Tokens(ComponentOfSeveral):
    """The token controller, with a queue of accounts and one of Secrets."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        self._client, self._root_ca = client.for_controller("tokens-controller"), options.root_ca
        self._accounts = informers.of(SERVICE_ACCOUNTS)
        self._secrets = informers.of(SECRETS, field_selector=OF_ACCOUNTS)
        self._signs = True
        self._of_accounts = self._build_controller("accounts", self._reconcile_account, options)
        self._controller = self._build_controller("secrets", self._reconcile_secret, options)
        self._of_accounts.follow(self._accounts, _account_key)
        self._controller.follow(self._secrets, _secret_key)
        for controller in self._controllers:
            controller.require(self._accounts)
            controller.require(self._secrets)

    def _build_controller(self, what: str, reconcile: Callable[..., Awaitable[None]], options: Options) -> Controller:
        """Return a controller that retries a failing key 10 times."""

        async def run(key: str) -> None:
            try:
                await reconcile(*json.loads(key))
            except Exception as error:
                if made.queue.retries(key) < _RETRIES:
                    raise
                log.info("%s: %s: %s; given up after %d retries", NAME, key, error, _RETRIES)

        made = Controller(f"{NAME} ({what})", run, workers=options.workers(NAME), queue=_QUEUE)
        self._controllers = (*self._controllers, made)
        return made

    async def _reconcile_account(self, namespace: str, name: str, uid: str) -> None:
        """Delete the Secrets of a deleted account."""
        if self._cached_account(namespace, name, uid) is not None:
            return
        for secret in list(self._secrets.objects.values()):
            meta = secret["metadata"]
            annotations = meta.get("annotations") or {}
            owner = (meta["namespace"], annotations.get(ACCOUNT_NAME))
            if owner == (namespace, name) and annotations.get(ACCOUNT_UID, "") in ("", uid):
                await self._delete(namespace, meta["name"], meta["uid"])

    async def _reconcile_secret(self, namespace: str, name: str, uid: str, account: str, account_uid: str) -> None:
        secret = self._secrets.get(f"{namespace}/{name}")
        if secret is None or secret["metadata"]["uid"] != uid:
            if self._cached_account(namespace, account, account_uid) is not None:
                await self._remove_reference(namespace, account, account_uid, name)
            return
        found = self._cached_account(namespace, account, account_uid)
        found = found or await self._live_account(namespace, account, account_uid)
        if found is None:
            await self._delete(namespace, name, uid)
        else:
            await self._fill(secret, found)

    def _cached_account(self, namespace: str, name: str, uid: str) -> Json | None:
        """Return the account; None if it is missing or has another UID. An empty UID means any."""
        found = self._accounts.get(f"{namespace}/{name}")
        return found if found is not None and uid in ("", found["metadata"]["uid"]) else None

    async def _live_account(self, namespace: str, name: str, uid: str) -> Json | None:
        """Return the server's account, which the informer may lack."""
        try:
            found = await self._client.get(SERVICE_ACCOUNTS, name, namespace)
        except Exception as error:
            if is_reason(error, "NotFound"):
                return None
            raise
        return found if uid in ("", found["metadata"]["uid"]) else None

    async def _delete(self, namespace: str, name: str, uid: str) -> None:
        try:
            await self._client.delete(SECRETS, name, namespace, uid=uid)
        except Exception as error:
            if not is_reason(error, "NotFound", "Conflict"):
                raise

    async def _fill(self, cached: Json, account: Json) -> None:
        """Add the missing data. A Secret that changed meanwhile comes again."""
        if not self._missing(cached):
            return
        namespace, name = cached["metadata"]["namespace"], cached["metadata"]["name"]
        try:
            secret = await self._client.get(SECRETS, name, namespace)
            if secret["metadata"]["resourceVersion"] != cached["metadata"]["resourceVersion"]:
                return
            data = {**(secret.get("data") or {}), **self._missing(secret)}
            if "token" in self._missing(secret):
                token = await self._sign(namespace, name)
                if not token:
                    return
                data["token"] = b64encode(token.encode()).decode()
            meta = account["metadata"]
            owner = {ACCOUNT_NAME: meta["name"], ACCOUNT_UID: meta["uid"]}
            annotations = {**(secret["metadata"].get("annotations") or {}), **owner}
            metadata = {**secret["metadata"], "annotations": annotations}
            await self._client.update(SECRETS, {**secret, "metadata": metadata, "data": data})
        except Exception as error:
            if not is_reason(error, "NotFound", "Conflict"):
                raise

    def _missing(self, secret: Json) -> dict[str, str]:
        """Return the data that a Secret lacks. The token is empty: it is not signed yet."""
        data = secret.get("data") or {}
        ca, namespace = (b64encode(text.encode()).decode() for text in (self._root_ca, secret["metadata"]["namespace"]))
        missing = {"ca.crt": ca} if ca and data.get("ca.crt") != ca else {}
        return missing | {key: value for key, value in (("namespace", namespace), ("token", "")) if not data.get(key)}

    async def _sign(self, namespace: str, name: str) -> str:
        """Return the signed token; "" if the server cannot sign such tokens."""
        if not self._signs:
            return ""
        try:
            answer = await self._client.request("POST", _SIGN, "", {"namespace": namespace, "secret": name})
        except StatusError as error:
            if error.details is not None or error.code >= 500:
                raise
            log.warning("%s: this server does not sign the tokens of Secrets: %s", NAME, error)
            self._signs = False
            return ""
        return str(answer["token"])

    async def _remove_reference(self, namespace: str, name: str, uid: str, secret: str) -> None:
        """Remove a deleted Secret from the account's list."""
        for _ in range(_CONFLICTS):
            account = await self._live_account(namespace, name, uid)
            references = (account or {}).get("secrets") or []
            kept = [each for each in references if each.get("name") != secret]
            if account is None or len(kept) == len(references):
                return
            try:
                await self._client.update(SERVICE_ACCOUNTS, {**account, "secrets": kept})
            except Exception as error:
                if is_reason(error, "NotFound"):
                    return
                if not is_reason(error, "Conflict"):
                    raise
                await asyncio.sleep(_PAUSE)
            else:
                return
