"""Settings of authentication: client certificates, front proxies, anonymous requests, tokens of service accounts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """What a front proxy shows, and the lower-case headers in which it says for whom it asks."""

    ca: Path
    names: tuple[str, ...]
    user: tuple[str, ...]
    uid: tuple[str, ...]
    group: tuple[str, ...]
    extra: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AccountKeys:
    """How tokens of service accounts are signed: by who listens at `endpoint`, by a file's key, or by the store's."""

    signing: Path | None = None
    keys: tuple[Path, ...] = ()
    issuers: tuple[str, ...] = ()
    audiences: tuple[str, ...] = ()
    jwks_uri: str = ""
    longest: int = 0
    endpoint: str = ""


@dataclass(frozen=True, slots=True)
class IdentitySettings:
    """`anonymous`: whether requests may come without credentials; None where the authorization modes decide."""

    client_ca: Path | None = None
    proxy: ProxySettings | None = None
    anonymous: bool | None = None
    accounts: AccountKeys = AccountKeys()

    @property
    def certificates(self) -> tuple[Path, ...]:
        """The authorities whose clients' certificates count."""
        return tuple(filter(None, (self.client_ca, self.proxy.ca if self.proxy else None)))

    @property
    def claims(self) -> tuple[str, ...]:
        """How headers begin in which a front proxy says for whom it asks."""
        proxy = self.proxy
        return () if proxy is None else (*proxy.user, *proxy.uid, *proxy.group, *proxy.extra)
