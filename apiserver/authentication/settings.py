"""Settings of authentication: client certificates, front proxies, anonymous requests, tokens of service accounts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """The certificate names of a front proxy, and the lower-case headers with the proxied user."""

    ca: Path
    names: tuple[str, ...]
    user: tuple[str, ...]
    uid: tuple[str, ...]
    group: tuple[str, ...]
    extra: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AccountKeys:
    """The keys of service account tokens: of an external signer at `endpoint`, of a file, or of the store."""

    signing: Path | None = None
    keys: tuple[Path, ...] = ()
    issuers: tuple[str, ...] = ()
    audiences: tuple[str, ...] = ()
    jwks_uri: str = ""
    longest: int = 0
    endpoint: str = ""


@dataclass(frozen=True, slots=True)
class IdentitySettings:
    """The settings of authentication.

    `client_ca` is the flag's file of authorities, `signer_ca` that of the server's own signer. `anonymous`: whether
    anonymous requests are allowed; None if it depends on the authorization modes.
    """

    client_ca: Path | None = None
    signer_ca: Path | None = None
    proxy: ProxySettings | None = None
    anonymous: bool | None = None
    accounts: AccountKeys = AccountKeys()

    @property
    def user_authorities(self) -> tuple[Path, ...]:
        """The files of certificate authorities for users."""
        return tuple(filter(None, (self.client_ca, self.signer_ca)))

    @property
    def certificates(self) -> tuple[Path, ...]:
        """The files of certificate authorities for client certificates."""
        return (*self.user_authorities, *((self.proxy.ca,) if self.proxy else ()))

    @property
    def claims(self) -> tuple[str, ...]:
        """The prefixes of the front proxy's headers."""
        proxy = self.proxy
        return () if proxy is None else (*proxy.user, *proxy.uid, *proxy.group, *proxy.extra)
