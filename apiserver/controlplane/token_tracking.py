"""The ConfigMap with the day on which this control plane began to record uses of the tokens of Secrets.

A deleted one is stored again, at most once per 30 minutes, so that servers that disagree about it write little.
Facts: pkg/controlplane/controller/legacytokentracking.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime
from typing import TYPE_CHECKING, Final

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.authentication.authenticator import ADMIN
from apiserver.registry.store.changes import set_on_change
from apiserver.registry.verbs.server_writes import create_own, rewrite_own
from apiserver.runtime.clock import Timer, timers
from apiserver.storage import StorageError

if TYPE_CHECKING:
    from apiserver.registry.store.store import Registry
    from apiserver.storage.watchcache.entry import Event

__all__ = ["TokenTracking"]

log = logging.getLogger(__name__)

_SPACE: Final = "kube-system"
_NAME: Final = "kube-apiserver-legacy-service-account-token-tracking"
_SINCE: Final = "since"
#: Seconds between two creations by this server.
_PAUSE: Final = 1800.0


class TokenTracking:
    """Reconciles the ConfigMap of one server."""

    def __init__(self, registry: Registry) -> None:
        self._registry, self._changed = registry, asyncio.Event()
        #: Time of the next allowed creation, on the loop's clock.
        self._next = 0.0

    async def follow(self) -> None:
        """Restore the ConfigMap after changes and deletions, until cancelled."""
        cache = self._registry.stores["", "configmaps"].cache
        key = self._registry.stores["", "configmaps"].key(_SPACE, _NAME)

        def is_it(event: Event) -> bool:
            return event.key == key

        wake = asyncio.create_task(set_on_change(cache, self._changed, is_it))
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                try:
                    await self._restore()
                except (StatusError, StorageError) as error:
                    log.warning("ConfigMap %s/%s is not kept up to date: %s", _SPACE, _NAME, error)
        finally:
            wake.cancel()

    async def _restore(self) -> None:
        if self._registry.lookup("", "configmaps", _SPACE, _NAME) is None:
            with timers(Timer.UPKEEP):
                await asyncio.sleep(max(0.0, self._next - asyncio.get_running_loop().time()))
        await self.ensure()

    async def ensure(self) -> None:
        """Create the ConfigMap if it is missing, and replace a day that is none. Raise StatusError."""
        found = self._registry.lookup("", "configmaps", _SPACE, _NAME)
        today = self._registry.clock().date().isoformat()
        if found is None:
            made = {"metadata": {"name": _NAME, "namespace": _SPACE}, "data": {_SINCE: today}}
            if await create_own(self._registry, ADMIN, "", "configmaps", made):
                self._next = asyncio.get_running_loop().time() + _PAUSE
        elif not _is_day((found.get("data") or {}).get(_SINCE, "")):

            def replace(stored: Json) -> Json:
                return {**stored, "data": {**(stored.get("data") or {}), _SINCE: today}}

            await rewrite_own(self._registry, ADMIN, "", "configmaps", _SPACE, _NAME, replace)


def _is_day(text: str) -> bool:
    try:
        return datetime.strptime(text, "%Y-%m-%d").date().isoformat() == text
    except ValueError:
        return False
