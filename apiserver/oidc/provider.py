"""An OpenID Connect provider: its discovery document and its keys, fetched when a token needs them.

Facts: OpenID Connect Discovery 1.0; go-oidc, as upstream uses it (which keys are fetched again, and when).
"""

from __future__ import annotations

import ssl
import sys
from asyncio import to_thread
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from apiserver.clock import Timer, now, outside, timers

if TYPE_CHECKING:
    import httpx

__all__ = ["Provider", "ProviderError"]

Json = dict[str, Any]

_WELL_KNOWN: Final = "/.well-known/openid-configuration"
_TIMEOUT: Final = 30.0
#: Seconds after which a provider that could not be asked is asked again.
_AGAIN: Final = 10.0


class ProviderError(Exception):
    """A provider could not be asked, or its answer is of no use."""


class Provider:
    """`authority` is PEM, empty for the system's authorities."""

    def __init__(self, issuer: str, discovery: str = "", authority: str = "") -> None:
        self.issuer = issuer
        self._discovery = discovery or issuer.rstrip("/") + _WELL_KNOWN
        self._trust = ssl.create_default_context(cadata=authority or None)
        self._trust.verify_flags &= ~ssl.VERIFY_X509_STRICT
        self._keys_at = ""
        self._failed: tuple[float, str] | None = None
        #: The keys, as they were last fetched; None before.
        self.keys: list[Json] | None = None

    def knows(self, name: object) -> bool:
        """Whether there is a key of that name."""
        return self.keys is not None and (not name or any(key.get("kid") == name for key in self.keys))

    async def fetch(self) -> None:
        """Fetches the keys. Raises ProviderError."""
        if self._failed is not None and now().timestamp() < self._failed[0]:
            raise ProviderError(self._failed[1])
        try:
            if not self._keys_at:
                self._keys_at = await self._discover()
            found = await self._get(self._keys_at)
            keys = found.get("keys")
            if not isinstance(keys, list):
                raise ProviderError("failed to decode keys")
            self.keys = [key for key in keys if isinstance(key, dict) and key.get("use", "sig") == "sig"]
            self._failed = None
        except ProviderError as error:
            if not self._keys_at:
                self._failed = now().timestamp() + _AGAIN, str(error)
            raise

    async def _discover(self) -> str:
        found = await self._get(self._discovery)
        if found.get("issuer") != self.issuer:
            raise ProviderError(
                f'oidc: issuer did not match the issuer returned by provider, expected "{self.issuer}" got'
                f' "{found.get("issuer", "")}"'
            )
        where = found.get("jwks_uri")
        if not isinstance(where, str) or not where:
            raise ProviderError("provider did not return JWKS URL")
        return where

    async def _get(self, url: str) -> Json:
        if "httpx" not in sys.modules:
            await to_thread(import_module, "httpx")
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
        return found if isinstance(found, dict) else {}

    def _client(self) -> httpx.AsyncClient:
        import httpx

        return httpx.AsyncClient(verify=self._trust, timeout=_TIMEOUT, trust_env=False, follow_redirects=True)
