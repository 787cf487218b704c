"""Verification of client certificates: chains, times and key usages, as Go's crypto/x509 verifies them.

OpenSSL builds the chain and verifies times, signatures and the authorities' right to sign. Go has more rules: every
certificate of the chain must allow client authentication if it lists its usages, and SHA-1 and MD5 signatures are
invalid.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.x509 import (
    Certificate,
    DuplicateExtension,
    ExtendedKeyUsage,
    ExtensionNotFound,
    InvalidVersion,
    UnsupportedGeneralNameType,
)
from cryptography.x509.oid import ExtendedKeyUsageOID
from OpenSSL.crypto import X509, X509Store, X509StoreContext, X509StoreContextError, X509StoreFlags

__all__ = ["UNREADABLE", "is_trusted_chain"]

#: Errors from reading a malformed or unsupported part of a certificate. Some parts are parsed on first access.
UNREADABLE: Final = (
    ValueError, UnsupportedAlgorithm, InvalidVersion, DuplicateExtension, UnsupportedGeneralNameType,
)  # fmt: skip

_FOR_CLIENTS: Final = frozenset((ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE))
_BROKEN: Final = (hashes.SHA1, hashes.MD5)


def is_trusted_chain(chain: Sequence[Certificate], authorities: Sequence[Certificate], at: datetime) -> bool:
    """Return whether the first certificate leads to one of the authorities at a time, through the others.

    An authority is trusted whatever its own signature is. Raises the errors in `UNREADABLE`.
    """
    store = X509Store()
    store.set_flags(X509StoreFlags.PARTIAL_CHAIN)
    store.set_time(at)
    for authority in authorities:
        store.add_cert(X509.from_cryptography(authority))
    certificate, *others = map(X509.from_cryptography, chain)
    try:
        found = X509StoreContext(store, certificate, others).get_verified_chain()
    except X509StoreContextError:
        return False
    chain = [each.to_cryptography() for each in found]
    soundly = not any(isinstance(each.signature_hash_algorithm, _BROKEN) for each in chain[:-1])
    return soundly and all(map(_for_clients, chain))


def _for_clients(certificate: Certificate) -> bool:
    try:
        uses = certificate.extensions.get_extension_for_class(ExtendedKeyUsage).value
    except ExtensionNotFound:
        return True
    return not _FOR_CLIENTS.isdisjoint(uses)
