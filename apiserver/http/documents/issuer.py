"""OpenID metadata for verifying service account tokens: the issuer and the public keys.

Facts: pkg/serviceaccount (openidmetadata.go), pkg/routes/openidmetadata.go.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

import orjson

from apiserver.api.objects import Json
from apiserver.http.formats.negotiation import check_produced
from apiserver.request.messages import Request, Response

log = logging.getLogger(__name__)

_CONFIGURATION: Final = ".well-known/openid-configuration"
_KEYS: Final = "openid/v1/jwks"
PATHS: Final = (_CONFIGURATION, _KEYS)
_KEYS_TYPE: Final = "application/jwk-set+json"


def _find_problem(issuer: str) -> str:
    """Return why OpenID does not allow an issuer's URL, or ""."""
    parts = urlsplit(issuer)
    if parts.scheme != "https":
        return f"issuer URL must use https scheme, got: {issuer}"
    for part, value in (("query", parts.query), ("fragment", parts.fragment)):
        if value:
            return f"issuer URL may not include a {part}, got: {issuer}"
    return ""


class Issuer:
    """The metadata of one issuer.

    `keys` returns the public keys, `max_age` the seconds for which clients may cache them.
    """

    def __init__(
        self, issuer: str, address: str, keys: Callable[[], Awaitable[list[Json]]], max_age: Callable[[], int]
    ) -> None:
        """Create the documents; `address` is the URL of the keys for clients."""
        self._issuer, self._address, self._keys, self._max_age = issuer, address, keys, max_age
        #: The served paths; none if OpenID does not allow the issuer's URL.
        self.paths: tuple[str, ...] = PATHS
        if problem := _find_problem(issuer):
            self.paths = ()
            log.error(
                "Could not construct pre-rendered responses for ServiceAccountIssuerDiscovery endpoints. Endpoints will"
                " not be enabled. Error: %s",
                problem,
            )

    async def answer(self, request: Request, path: str) -> Response:
        """Return the keys or the configuration. Raise 406."""
        wanted = _KEYS_TYPE if path == _KEYS else "application/json"
        check_produced(request.headers.get("accept", ""), wanted)
        body = {"keys": await self._keys()} if path == _KEYS else await self._configuration()
        return Response(200, orjson.dumps(body), wanted, (("Cache-Control", f"public, max-age={self._max_age()}"),))

    async def _configuration(self) -> Json:
        return {
            "issuer": self._issuer,
            "jwks_uri": self._address,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": sorted({key["alg"] for key in await self._keys()}),
        }
