"""Settings of TLS: certificates by name, cipher suites, versions and curves."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class NamedPair(NamedTuple):
    """A certificate and its key for those who ask for one of `names`, which may begin with `*.`; without `names` for
    those of the certificate itself.
    """

    certificate: Path
    key: Path
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """`suites` by OpenSSL's names, empty where all are allowed; `curve` likewise. `rsa`: whether the server's own
    certificate has to have an RSA key. `named`: certificates besides the server's own."""

    suites: tuple[str, ...] = ()
    minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    curve: str = ""
    rsa: bool = False
    named: tuple[NamedPair, ...] = ()

    def restrict(self, context: ssl.SSLContext) -> None:
        """Allows what the flags do. Raises ValueError where this OpenSSL has none of it."""
        context.minimum_version = self.minimum
        try:
            if self.suites:
                context.set_ciphers(":".join(self.suites))
            if self.curve:
                context.set_ecdh_curve(self.curve)
        except (ssl.SSLError, ValueError) as error:
            what = f"--tls-curve-preferences {self.curve}" if self.curve else "--tls-cipher-suites"
            raise ValueError(f"{what}: {ssl.OPENSSL_VERSION} has none of these ({error})") from None
