"""An OpenID Connect provider: its discovery document and its keys, fetched when a token needs them.

Facts: OpenID Connect Discovery 1.0; go-oidc in upstream's configuration (which keys are fetched again, and when).
"""

from __future__ import annotations

import asyncio
import re
import ssl
import sys
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from apiserver.api.objects import Json
from apiserver.runtime.clock import Timer, now, outside, timers
from apiserver.runtime.offload import on_loop

if TYPE_CHECKING:
    import httpx

__all__ = ["Provider", "ProviderError"]


_WELL_KNOWN: Final = "/.well-known/openid-configuration"
_TIMEOUT: Final = 30.0
#: Seconds between attempts to reach an unreachable provider.
_AGAIN: Final = 10.0
#: Tolerated clock difference to the provider in seconds.
_SKEW: Final = 30.0
_LIFE: Final = {name: re.compile(rf'(?i)(?:^|,)\s*{name}\s*=\s*"?(\d{{1,9}})') for name in ("s-maxage", "max-age")}


class ProviderError(Exception):
    """Error: a provider cannot be reached, or its answer is invalid."""


class Provider:
    """One provider. `authority` is PEM; empty for the system's authorities."""

    def __init__(self, issuer: str, discovery: str = "", authority: str = "") -> None:
        self.issuer = issuer
        self._discovery = discovery or issuer.rstrip("/") + _WELL_KNOWN
        self._trust = ssl.create_default_context(cadata=authority or None)
        self._trust.verify_flags &= ~ssl.VERIFY_X509_STRICT
        self._keys_at = ""
        self._fetching: asyncio.Future[str] | None = None
        self._lasts = 0.0
        self._failed: tuple[float, str] | None = None
        #: The last fetched keys; None before the first fetch.
        self.keys: list[Json] | None = None
        #: The body of the keys' response, and the time of the last fetch (seconds since 1970), successful or not.
        self.answer = b""
        self.fetched: dict[str, float] = {}

    @property
    def is_fresh(self) -> bool:
        """Whether the cached keys have not expired.

        A token with an unknown signature is then no reason to fetch the keys.
        """
        return self.keys is not None and now().timestamp() + _SKEW <= self._lasts

    @on_loop
    async def fetch(self) -> None:
        """Fetch the keys. Concurrent callers share one fetch. Raise ProviderError."""
        if self._fetching is None:
            self._fetching = asyncio.ensure_future(self._problem())
            self._fetching.add_done_callback(self._on_fetched)
        problem = await asyncio.shield(self._fetching)
        if problem:
            raise ProviderError(problem)

    def _on_fetched(self, _: asyncio.Future[str]) -> None:
        self._fetching = None

    async def _problem(self) -> str:
        """Fetch the keys. Return the error message, or "" on success."""
        try:
            await self._fetch()
        except ProviderError as error:
            return str(error)
        return ""

    async def _fetch(self) -> None:
        if self._failed is not None and now().timestamp() < self._failed[0]:
            raise ProviderError(self._failed[1])
        try:
            if not self._keys_at:
                self._keys_at = await self._discover()
            keys, lasts = await self._get_keys(self._keys_at)
            self._lasts = now().timestamp() + lasts
            self.keys = [key for key in keys if isinstance(key, dict) and key.get("use", "sig") == "sig"]
            self._failed = None
        except ProviderError as error:
            if not self._keys_at:
                self._failed = now().timestamp() + _AGAIN, str(error)
            raise

    async def _get_keys(self, url: str) -> tuple[list[Any], float]:
        outcome = "failure"
        try:
            found, lasts, answer = await self._get(url)
            keys = found.get("keys")
            if not isinstance(keys, list):
                raise ProviderError("failed to decode keys")
            outcome, self.answer = "success", answer
            return keys, lasts
        finally:
            self.fetched[outcome] = now().timestamp()

    async def _discover(self) -> str:
        found, _, _ = await self._get(self._discovery)
        if found.get("issuer") != self.issuer:
            raise ProviderError(
                f'oidc: issuer did not match the issuer returned by provider, expected "{self.issuer}" got'
                f' "{found.get("issuer", "")}"'
            )
        where = found.get("jwks_uri")
        if not isinstance(where, str) or not where:
            raise ProviderError("provider did not return JWKS URL")
        return where

    async def _get(self, url: str) -> tuple[Json, float, bytes]:
        """Get a URL. Return the JSON, its lifetime in seconds and the raw body."""
        if "httpx" not in sys.modules:
            await asyncio.to_thread(import_module, "httpx")
        import httpx

        try:
            with outside(), timers(Timer.MACHINE):
                async with self._client() as client:
                    answer = await client.get(url)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ssl.SSLError) as error:
            raise ProviderError(f'Get "{url}": {str(error) or type(error).__name__}') from None
        if answer.status_code != 200:
            raise ProviderError(f"{answer.status_code} {answer.reason_phrase}: {answer.text}")
        try:
            found = answer.json()
        except ValueError as error:
            raise ProviderError(f"oidc: failed to decode provider discovery object: {error}") from None
        return found if isinstance(found, dict) else {}, _lasts(answer.headers), answer.content

    def _client(self) -> httpx.AsyncClient:
        import httpx

        return httpx.AsyncClient(verify=self._trust, timeout=_TIMEOUT, trust_env=False, follow_redirects=True)


def _lasts(headers: Mapping[str, str]) -> float:
    """Return the freshness lifetime of a response in seconds (RFC 9111, 4.2.1); 0 if it sets none."""
    cache_control = headers.get("cache-control", "")
    for pattern in _LIFE.values():
        if life := pattern.search(cache_control):
            return float(life[1])
    try:
        until, date = (parsedate_to_datetime(headers[name]) for name in ("expires", "date"))
        return (until - date).total_seconds()
    except (KeyError, ValueError, TypeError):
        return 0.0
