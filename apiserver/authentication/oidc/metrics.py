"""Metrics of the issuers' keys: time of the last fetch, and hash of the key set.

Facts: apiserver, plugin/pkg/authenticator/token/oidc/metrics.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from apiserver.authentication.oidc.authenticator import JwtAuthenticator
from apiserver.runtime.metrics import Family, Gauge
from apiserver.runtime.reloading import digest

__all__ = ["key_families"]

_START: Final = "apiserver_authentication_jwt_authenticator_jwks_fetch_last_"


def key_families(issuers: Sequence[JwtAuthenticator], server: str) -> list[Family]:
    """Return the metric families of the current issuers; `server` is this server's name."""
    times, keys, own = dict[tuple[str, ...], float](), dict[tuple[str, ...], float](), digest(server.encode())
    for issuer in issuers:
        provider = issuer.provider
        name = digest(provider.issuer.encode())
        times |= {(outcome, name, own): moment for outcome, moment in provider.fetched.items()}
        if provider.keys is not None:
            keys[name, own, digest(provider.answer)] = 1
    of_issuer = ("jwt_issuer_hash", "apiserver_id_hash")
    return [
        Gauge(f"{_START}timestamp_seconds", "Time of the last key fetch.", ("result", *of_issuer), lambda: times),
        Gauge(f"{_START}key_set_info", "Hash of the last fetched key set.", (*of_issuer, "hash"), lambda: keys),
    ]
