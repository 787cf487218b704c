"""Invalidates and later deletes unused generated Secrets with a service account token.

A Secret is generated if its account lists it. Once a day the cleaner labels those that were not used for the clean-up
period and that no pod refers to. It deletes them after a further period.

Facts: upstream's pkg/controller/serviceaccount/legacy_serviceaccount_token_cleaner.go.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Final

from apiserver.api.helpers.pod_references import secret_names
from apiserver.api.objects import Json
from apiserver.runtime.clock import now
from controllers.cluster.secret_tokens import ACCOUNT_NAME, ACCOUNT_UID, OF_ACCOUNTS
from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import CONFIG_MAPS, PODS, SECRETS, SERVICE_ACCOUNTS
from controllers.runtime.times import parse_time
from controllers.runtime.workqueue import Resync

NAME: Final = "legacy-serviceaccount-token-cleaner-controller"
_TRACKING: Final = "kube-apiserver-legacy-service-account-token-tracking"
_LAST_USED: Final = "kubernetes.io/legacy-token-last-used"
_INVALID: Final = "kubernetes.io/legacy-token-invalid-since"
_EVERY: Final = Resync(hours=24)
_DAY: Final = "%Y-%m-%d"
log = logging.getLogger(__name__)


def build(client: Client, informers: Informers, options: Options) -> Cleaner:
    """Build the component for the manager."""
    return Cleaner(client, informers, options.legacy_token_clean_up)


class Cleaner(ControllerComponent):
    """The cleaner. Its only key stands for all Secrets."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, period: timedelta) -> None:
        self._client, self._period = client.for_controller("legacy-service-account-token-cleaner"), period
        self._accounts, self._pods = informers.of(SERVICE_ACCOUNTS), informers.of(PODS)
        self._secrets = informers.of(SECRETS, field_selector=OF_ACCOUNTS)
        self._controller = Controller(NAME, self.reconcile)
        for informer in (self._accounts, self._pods, self._secrets):
            self._controller.require(informer)
        self._controller.queue.add("")

    async def reconcile(self, _: str) -> timedelta:
        """Clean up, and come again after a day. Errors are logged."""
        try:
            since = await self._tracked_since()
        except Exception as error:  # noqa: BLE001 - as upstream, the next attempt follows after a day
            log.warning("%s: no begin of the tracking of tokens: %s", NAME, error)
            return _EVERY
        if now() < since + self._period:
            return _EVERY
        for secret in list(self._secrets.objects.values()):
            try:
                await self._clean(secret)
            except Exception as error:  # noqa: BLE001 - the others follow
                if not is_reason(error, "NotFound", "Conflict"):
                    log.warning("%s: Secret %s: %s", NAME, secret["metadata"]["name"], error)
        return _EVERY

    async def _tracked_since(self) -> datetime:
        """Return the end of the day on which the tracking began. Raise ValueError, KeyError and StatusError."""
        found = await self._client.get(CONFIG_MAPS, _TRACKING, "kube-system")
        return _parse_day(found["data"]["since"]) + timedelta(days=1)

    async def _clean(self, secret: Json) -> None:
        """Label or delete one Secret."""
        meta, oldest = secret["metadata"], now() - self._period
        labels = meta.get("labels") or {}
        if parse_time(meta["creationTimestamp"]) >= oldest or "deletionTimestamp" in meta:
            return
        last_used = labels.get(_LAST_USED)
        if last_used is not None and not (_is_day(last_used) and last_used < f"{oldest:{_DAY}}"):
            return
        if not self._is_generated(secret) or self._is_mounted(secret):
            return
        namespace, name, invalid = meta["namespace"], meta["name"], labels.get(_INVALID, "")
        if not _is_day(invalid):
            change = {"metadata": {"uid": meta["uid"], "labels": {_INVALID: f"{now():{_DAY}}"}}}
            log.info("%s: Secret %s/%s is marked as invalid", NAME, namespace, name)
            await self._client.patch(SECRETS, name, change, namespace, type="merge")
        elif invalid < f"{oldest:{_DAY}}":
            log.info("%s: Secret %s/%s is deleted", NAME, namespace, name)
            await self._client.delete(SECRETS, name, namespace, resource_version=meta["resourceVersion"])

    def _is_generated(self, secret: Json) -> bool:
        """Return whether the Secret's account lists it."""
        annotations = secret["metadata"].get("annotations") or {}
        account = self._accounts.get(f"{secret['metadata']['namespace']}/{annotations.get(ACCOUNT_NAME, '')}")
        if account is None or annotations.get(ACCOUNT_UID, "") not in ("", account["metadata"]["uid"]):
            return False
        return any(each.get("name") == secret["metadata"]["name"] for each in account.get("secrets") or ())

    def _is_mounted(self, secret: Json) -> bool:
        namespace, name = secret["metadata"]["namespace"], secret["metadata"]["name"]
        return any(
            name in secret_names(pod["spec"])
            for pod in self._pods.objects.values()
            if pod["metadata"]["namespace"] == namespace
        )


def _parse_day(text: str) -> datetime:
    """Parse a day such as 2026-01-31. Raise ValueError."""
    if len(text) != len("2026-01-31"):
        raise ValueError(f"not a day: {text}")
    return datetime.strptime(text, _DAY).replace(tzinfo=UTC)


def _is_day(text: str) -> bool:
    try:
        _parse_day(text)
    except ValueError:
        return False
    return True
