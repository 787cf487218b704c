"""Whether a certificate of a client leads to an authority: chains, times and uses, as Go's crypto/x509 sees them.

OpenSSL builds the chain and looks at times, signatures and what an authority may sign. Go looks at more: each
certificate of the chain has to be for clients, where it says what it is for, and SHA-1 and MD5 sign nothing.
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

__all__ = ["UNREADABLE", "verified"]

#: What is raised by reading a part of a certificate that is not well formed, or that cryptography does not know. Some
#: parts are not read before they are asked for.
UNREADABLE: Final = (
    ValueError, UnsupportedAlgorithm, InvalidVersion, DuplicateExtension, UnsupportedGeneralNameType,
)  # fmt: skip

_FOR_CLIENTS: Final = frozenset((ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE))
_BROKEN: Final = (hashes.SHA1, hashes.MD5)


def verified(shown: Sequence[Certificate], authorities: Sequence[Certificate], at: datetime) -> bool:
    """Whether the first of what was shown leads to one of the authorities at a time, by those that follow it. An
    authority counts whoever has signed it. Raises what `UNREADABLE` names.
    """
    store = X509Store()
    store.set_flags(X509StoreFlags.PARTIAL_CHAIN)
    store.set_time(at)
    for authority in authorities:
        store.add_cert(X509.from_cryptography(authority))
    certificate, *others = map(X509.from_cryptography, shown)
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
