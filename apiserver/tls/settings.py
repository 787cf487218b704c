"""Settings of TLS: certificates by name, cipher suites, versions and curves."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class SniCertificate(NamedTuple):
    """A certificate and its key for server names, which may begin with `*.`.

    Without `names` it is used for the names of the certificate.
    """

    certificate: Path
    key: Path
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Settings of TLS.

    `suites` are OpenSSL's names, empty if all are allowed; so is `curve`. `rsa`: the server's own certificate needs an
    RSA key. `named` are certificates in addition to the server's own.
    """

    suites: tuple[str, ...] = ()
    minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    curve: str = ""
    rsa: bool = False
    named: tuple[SniCertificate, ...] = ()

    def restrict(self, context: ssl.SSLContext) -> None:
        """Apply the flags to a context. Raise ValueError if this OpenSSL supports none of the values."""
        context.minimum_version = self.minimum
        try:
            if self.suites:
                context.set_ciphers(":".join(self.suites))
            if self.curve:
                context.set_ecdh_curve(self.curve)
        except (ssl.SSLError, ValueError) as error:
            what = f"--tls-curve-preferences {self.curve}" if self.curve else "--tls-cipher-suites"
            raise ValueError(f"{what}: {ssl.OPENSSL_VERSION} supports none of these ({error})") from None
