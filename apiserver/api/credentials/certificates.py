"""Readers of certificates and certificate requests, beyond their PEM (crypto/x509, pkg/apis/certificates)."""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING

from apiserver.api.credentials.pem import blocks

if TYPE_CHECKING:
    from cryptography import x509

__all__ = [
    "RequestError",
    "authority_problem",
    "bundle_problem",
    "certificates_problem",
    "is_signed",
    "organizations",
    "read_request",
    "signer_names",
]


class RequestError(ValueError):
    """An invalid certificate request. The text is upstream's, except for errors of Go's parser."""


def read_request(encoded: str) -> x509.CertificateSigningRequest:
    """Return a certificate request in PEM and base64 after verifying its signature. Raise RequestError."""
    from cryptography import x509  # not needed for most objects

    found = blocks(b64decode(encoded))
    if not found or found[0].kind != "CERTIFICATE REQUEST":
        raise RequestError("PEM block type must be CERTIFICATE REQUEST")
    try:
        request = x509.load_der_x509_csr(found[0].data)
        valid = is_signed(request)
    except Exception as error:  # noqa: BLE001 - the library raises many types for malformed or unknown data
        raise RequestError(f"x509: malformed certificate request: {error}") from None
    if not valid:
        raise RequestError("x509: signature of the certificate request is not valid")
    return request


def is_signed(request: x509.CertificateSigningRequest) -> bool:
    """Return whether a request is signed with its own key. May raise the library's errors for unknown algorithms."""
    return request.is_signature_valid or _signed_by_sha1(request)


def signer_names(signer: str) -> tuple[str, str]:
    """Return the names in `signers` by which a role permits a signer: its own, and that of its whole domain."""
    return signer, f"{signer.partition('/')[0]}/*"


def _signed_by_sha1(request: x509.CertificateSigningRequest) -> bool:
    """Return whether a SHA-1 signature is valid. The library rejects SHA-1; Go accepts it in requests."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

    made_with, key = request.signature_hash_algorithm, request.public_key()
    if not isinstance(made_with, hashes.SHA1):
        return False
    try:
        if isinstance(key, rsa.RSAPublicKey):
            key.verify(request.signature, request.tbs_certrequest_bytes, padding.PKCS1v15(), made_with)
            return True
        if isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(request.signature, request.tbs_certrequest_bytes, ec.ECDSA(made_with))
            return True
    except InvalidSignature:
        pass
    return False


def organizations(request: x509.CertificateSigningRequest) -> list[str]:
    """Return the organizations of the subject. They become groups."""
    from cryptography.x509.oid import NameOID

    return [str(part.value) for part in request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]


def certificates_problem(encoded: str) -> str:
    """Return why certificates in PEM and base64 are invalid, or "" if they are valid."""
    from cryptography import x509

    if not encoded:
        return ""
    found = blocks(b64decode(encoded))
    for block in found:
        if block.kind != "CERTIFICATE":
            return f'only CERTIFICATE PEM blocks are allowed, found "{block.kind}"'
        if block.headers:
            return "no PEM block headers are permitted"
        try:
            x509.load_der_x509_certificate(block.data)
        except Exception as error:  # noqa: BLE001 - as above
            return f"x509: malformed certificate: {error}"
    return "" if found else "must contain at least one CERTIFICATE PEM block"


def bundle_problem(encoded: str) -> str:
    """Return why a CA bundle in base64 is unusable by a webhook client, or "" if one of its certificates parses.

    Source: client-go/transport.
    """
    if not encoded:
        return ""
    from cryptography import x509

    problem, found = "", blocks(b64decode(encoded))
    for block in found:
        if block.kind != "CERTIFICATE" or block.headers:
            continue
        try:
            x509.load_der_x509_certificate(block.data)
        except Exception as error:  # noqa: BLE001 - as above
            problem = problem or f"failed to parse certificate: {error}"
        else:
            return ""
    return f"unable to load root certificates: {problem or 'unable to parse bytes as PEM block'}"


def authority_problem(data: bytes) -> str:
    """Return why a certificate is not one of an authority, or "" if it is."""
    from cryptography import x509

    try:
        certificate = x509.load_der_x509_certificate(data)
    except Exception:  # noqa: BLE001 - as above
        return "does not parse as X.509"
    try:
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except x509.ExtensionNotFound:
        return "does not have the CA bit set"
    except Exception:  # noqa: BLE001 - as above
        return "does not parse as X.509"
    return "" if constraints.ca else "does not have the CA bit set"
