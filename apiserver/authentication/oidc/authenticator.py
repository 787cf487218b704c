"""Authentication by the tokens of one issuer: verification by its keys, and mapping to users.

Facts: apiserver, plugin/pkg/authenticator/token/oidc; go-oidc (verify.go).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from apiserver.api.errors.field_errors import go_quote
from apiserver.authentication.oidc.mapping import Mapping, MappingError
from apiserver.authentication.oidc.provider import Provider, ProviderError
from apiserver.authentication.oidc.signatures import InvalidJwt, Jwt, has_valid_signature, parse_jwt
from apiserver.request.messages import User
from apiserver.runtime.clock import now

__all__ = ["JwtAuthenticator"]

#: Tolerated clock difference for a token's nbf in seconds.
_LEEWAY: Final = 300
_SIGNATURE: Final = "oidc: verify token: failed to verify signature: "
_UNSIGNED: Final = _SIGNATURE + "failed to verify id token signature"
_GOOGLE: Final = "accounts.google.com"


class JwtAuthenticator:
    """Authenticator for the tokens of one issuer."""

    def __init__(
        self, provider: Provider, audiences: Sequence[str], algorithms: Sequence[str], mapping: Mapping
    ) -> None:
        self._provider, self._audiences, self._mapping = provider, tuple(audiences), mapping
        self._algorithms = frozenset(algorithms)

    @property
    def provider(self) -> Provider:
        """The issuer."""
        return self._provider

    async def identify(self, token: str) -> User | None:
        """Return the owner of a token, or None if another issuer signed it. Raise MappingError if it is invalid."""
        try:
            found = parse_jwt(token)
        except InvalidJwt:
            return None
        issuer = found.claims.get("iss")
        if (f"https://{_GOOGLE}" if issuer == _GOOGLE else issuer) != self._provider.issuer:
            return None
        await self._verify(found)
        if "groups" in (found.claims.get("_claim_names") or ()) and "groups" not in found.claims:
            raise MappingError("oidc: could not expand distributed claims: kubedra does not support them")
        return self._mapping.user(found.claims)

    async def _verify(self, token: Jwt) -> None:
        """Verify a token's audience, signature and times. Raise MappingError."""
        start = "oidc: verify token: oidc: "
        claims, algorithm = token.claims, token.header.get("alg")
        given = claims.get("aud")
        audiences = [given] if isinstance(given, str) else given if isinstance(given, list) else []
        if set(self._audiences).isdisjoint(map(str, audiences)):
            wanted = "[" + " ".join(map(go_quote, sorted(self._audiences))) + "]"
            shown = "[" + " ".join(go_quote(str(each)) for each in audiences) + "]"
            if len(self._audiences) == 1:
                wanted = go_quote(self._audiences[0])
            raise MappingError(
                f"{start}expected audience {'in ' if len(self._audiences) > 1 else ''}{wanted} got {shown}"
            )
        moment = now().timestamp()
        if not isinstance(claims.get("exp"), int | float) or claims["exp"] < moment:
            raise MappingError(f"{start}token is expired")
        if isinstance(claims.get("nbf"), int | float) and claims["nbf"] > moment + _LEEWAY:
            raise MappingError(f"{start}current time is before the nbf (not before) time")
        if algorithm not in self._algorithms:
            shown = " ".join(sorted(self._algorithms))
            raise MappingError(
                f'{start}id token signed with unsupported algorithm, expected [{shown}] got "{algorithm}"'
            )
        provider = self._provider
        if not has_valid_signature(token, provider.keys or []):
            if provider.is_fresh:
                raise MappingError(_UNSIGNED)
            try:
                await provider.fetch()
            except ProviderError as error:
                raise MappingError(
                    f"{_SIGNATURE}fetching keys {error}"
                    if provider.keys is not None
                    else f"oidc: authenticator not initialized: {error}"
                ) from None
            if not has_valid_signature(token, provider.keys or []):
                raise MappingError(_UNSIGNED)
