"""Requests for certificates, the same ones each time that a process asks for them."""

from __future__ import annotations

from base64 import b64encode
from functools import lru_cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_SUBJECTS = {
    "u": ("u", ""),
    "masters": ("u", "system:masters"),
    "node": ("system:node:n", "system:nodes"),
    "serving": ("system:node:n", "system:nodes"),
}


@lru_cache
def request_of(subject: str) -> str:
    """Return the `spec.request` for a user, a member of system:masters, a node, or the server of a node."""
    name, organization = _SUBJECTS[subject]
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    if organization:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    asks = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(parts))
    if subject == "serving":
        asks = asks.add_extension(x509.SubjectAlternativeName([x509.DNSName("n")]), critical=False)
    signed = asks.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()
