"""Validate keys and certificates of PodCertificateRequests (pkg/apis/certificates/validation).

The rules cover key types, the node's proof of possession, and the issued certificate chain.
"""

from __future__ import annotations

from base64 import b64decode
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from apiserver.api.credentials.certificates import is_signed
from apiserver.api.credentials.pem import blocks
from apiserver.api.errors.field_errors import OMITTED, FieldError, Path, invalid, required, too_long
from apiserver.api.objects import Json
from apiserver.api.values.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from cryptography import x509

__all__ = ["check_issued", "check_key"]

Errors = list[FieldError]
_Signed = TypeVar("_Signed", "x509.CertificateSigningRequest", "x509.Certificate")

_SPEC: Final = Path("spec")
_PKIX: Final = _SPEC / "pkixPublicKey"
_PROOF: Final = _SPEC / "proofOfPossession"
_STUB: Final = _SPEC / "stubPKCS10Request"
_STATUS: Final = Path("status")
_CHAIN: Final = _STATUS / "certificateChain"
_KEY_LIMIT: Final = 10 * 1024
_CHAIN_LIMIT: Final = 100 * 1024
_RSA_BITS: Final = (3072, 4096)
_CURVES: Final = ("P-256", "P-384", "P-521")
#: Go's names of the curves that Go can parse.
_CURVE_NAMES: Final = {"secp224r1": "P-224", "secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}
_UNKNOWN: Final = "unknown public key type; supported types are Ed25519, ECDSA, and RSA"
_ONE_OF: Final = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"
_CLOCKS: Final = timedelta(minutes=5)
_SHORTEST: Final = timedelta(hours=1)
_MARGIN: Final = timedelta(minutes=10)


def check_key(spec: Json) -> Errors:
    """Validate the key of a request, which has one of two forms."""
    stub, key, proof = (spec.get(name) or "" for name in ("stubPKCS10Request", "pkixPublicKey", "proofOfPossession"))
    if stub and not key and not proof:
        return _check_stub(b64decode(stub))
    if key and proof and not stub:
        return _check_pkix(b64decode(key), key, b64decode(proof), spec.get("podUID", "").encode())
    return [invalid(_SPEC, OMITTED, _ONE_OF)]


def _check_stub(data: bytes) -> Errors:
    if len(data) > _KEY_LIMIT:
        return [too_long(_STUB, _KEY_LIMIT)]
    request = _request(data)
    if request is None or not _is_read_by_go(request.public_key()):
        return [invalid(_STUB, OMITTED, "must be a valid PKCS#10 CSR")]
    if errors := _kind_of_key(_STUB, request.public_key(), OMITTED, "P256, P384, or P521"):
        return errors
    try:
        signed = is_signed(request)
    except Exception:  # noqa: BLE001 - the library raises many types for unknown input
        signed = False
    return [] if signed else [invalid(_STUB, OMITTED, "invalid signature")]


def _check_pkix(data: bytes, shown: str, proof: bytes, uid: bytes) -> Errors:
    if len(data) > _KEY_LIMIT:
        return [too_long(_PKIX, _KEY_LIMIT)]
    if len(proof) > _KEY_LIMIT:
        return [too_long(_PROOF, _KEY_LIMIT)]
    key = _public_key(data)
    if key is None or not _is_read_by_go(key):
        return [invalid(_PKIX, shown, "must be a valid PKIX-serialized public key")]
    if errors := _kind_of_key(_PKIX, key, shown, "P256 or P384"):
        return errors
    return (
        [] if _proves(key, proof, uid) else [invalid(_PROOF, OMITTED, "could not verify proof-of-possession signature")]
    )


def _kind_of_key(path: Path, key: Any, shown: Any, curves: str) -> Errors:
    """Reject unsupported key types and sizes. `curves` are the curves that the error lists."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    if isinstance(key, ed25519.Ed25519PublicKey):
        return []
    if isinstance(key, ec.EllipticCurvePublicKey):
        name = _CURVE_NAMES[key.curve.name]
        text = f"elliptic public keys must use curve {curves}"
        return [] if name in _CURVES else [invalid(path, f"curve {name}", text)]
    if isinstance(key, rsa.RSAPublicKey):
        bits = (key.key_size + 7) // 8 * 8
        text = "RSA keys must have modulus size 3072 or 4096"
        return [] if bits in _RSA_BITS else [invalid(path, f"{bits}-bit modulus", text)]
    return [invalid(path, shown, _UNKNOWN)]


def _is_read_by_go(key: Any) -> bool:
    from cryptography.hazmat.primitives.asymmetric import ec

    return not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name in _CURVE_NAMES


def _proves(key: Any, proof: bytes, uid: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding

    digest = hashes.SHA256()
    try:
        if isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(proof, uid)
        elif isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(proof, uid, ec.ECDSA(digest))
        else:
            key.verify(proof, uid, padding.PSS(padding.MGF1(digest), padding.PSS.AUTO), digest)
    except InvalidSignature:
        return False
    return True


def _read(load: Callable[[bytes], _Signed], data: bytes) -> _Signed | None:
    """Load an object with a public key, such as a certificate; return None if it or its key type is invalid."""
    try:
        found = load(data)
        found.public_key()
    except Exception:  # noqa: BLE001 - as above
        return None
    return found


def _request(data: bytes) -> x509.CertificateSigningRequest | None:
    from cryptography import x509

    return _read(x509.load_der_x509_csr, data)


def _certificate(data: bytes) -> x509.Certificate | None:
    from cryptography import x509

    return _read(x509.load_der_x509_certificate, data)


def _public_key(data: bytes) -> Any:
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    try:
        return load_der_public_key(data)
    except Exception:  # noqa: BLE001 - as above
        return None


def check_issued(spec: Json, status: Json, now: datetime) -> Errors:
    """Validate an issued chain: a certificate for the requested key, and its validity period."""
    chain = status.get("certificateChain", "")
    if len(chain.encode()) > _CHAIN_LIMIT:
        return [too_long(_CHAIN, _CHAIN_LIMIT)]
    found = blocks(chain.encode())
    if not found:
        return [invalid(_CHAIN, chain, "issued certificate chain must contain at least one certificate")]
    if found[0].kind != "CERTIFICATE":
        text = "issued certificate chain must consist entirely of CERTIFICATE PEM blocks"
        return [invalid(_CHAIN, chain, text)]
    leaf = _certificate(found[0].data)
    if leaf is None:
        return [invalid(_CHAIN, chain, "leaf certificate does not parse as valid X.509")]
    names = _check_names(leaf)
    if not _is_for(leaf, spec):
        return [*names, invalid(_CHAIN, chain, "leaf certificate was not issued to the requested public key")]
    if errors := names or _check_times(leaf, spec, status, now):
        return errors
    for block in found[1:]:
        if block.kind != "CERTIFICATE":
            # (upstream's own spelling)
            text = "issued certificate chain must consist entirely of CERTFICATE PEM blocks"
            return [invalid(_CHAIN, chain, text)]
        if _certificate(block.data) is None:
            return [invalid(_CHAIN, chain, "intermediate certificate does not parse as valid X.509")]
    return []


def _is_for(leaf: x509.Certificate, spec: Json) -> bool:
    stub = spec.get("stubPKCS10Request")
    request = _request(b64decode(stub)) if stub else None
    key = request.public_key() if request is not None else _public_key(b64decode(spec.get("pkixPublicKey") or ""))
    return bool(key == leaf.public_key())


def _check_names(leaf: x509.Certificate) -> Errors:
    from cryptography import x509

    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    errors: Errors = []
    for name in names.get_values_for_type(x509.DNSName):
        if not name:
            errors.append(invalid(_CHAIN, name, "leaf certificate should not contain empty DNSName"))
        if ".." in name:
            errors.append(invalid(_CHAIN, name, "leaf certificate's DNSName should not contain '..'"))
        if name.startswith(".") or name.endswith("."):
            errors.append(invalid(_CHAIN, name, "leaf certificate's DNSName should not start or end with '.'"))
    for address in names.get_values_for_type(x509.RFC822Name):
        local, _, domain = address.rpartition("@")
        if not local or not domain or " " in address:
            errors.append(invalid(_CHAIN, address, "leaf certificate should not contain invalid EmailAddress"))
    return errors


def _check_times(leaf: x509.Certificate, spec: Json, status: Json, now: datetime) -> Errors:
    own = "must be present and consistent with the issued certificate"
    between = "must be present and in the range [notbefore+10min, notafter-10min]"
    words = {"notBefore": own, "notAfter": own, "beginRefreshAt": between}
    if missing := [required(_STATUS / name, text) for name, text in words.items() if not status.get(name)]:
        return missing
    begin, end, refresh = (parse_time(status[name]) for name in words)
    first, last = leaf.not_valid_before_utc, leaf.not_valid_after_utc

    def wrong(name: str, text: str) -> Errors:
        return [invalid(_STATUS / name, status[name], text)]

    if begin != first:
        return wrong("notBefore", "must be set to the NotBefore time encoded in the leaf certificate")
    if abs(begin - now) >= _CLOCKS:
        return wrong("notBefore", "must be set to within 5 minutes of kube-apiserver's current time")
    if end != last:
        return wrong("notAfter", "must be set to the NotAfter time encoded in the leaf certificate")
    lifetime, most = last - first, spec["maxExpirationSeconds"]
    nanoseconds = lifetime // timedelta(microseconds=1) * 1000
    if lifetime < _SHORTEST:
        return [invalid(_CHAIN, nanoseconds, "leaf certificate lifetime must be >= 1 hour")]
    if lifetime > timedelta(seconds=most):
        text = f"leaf certificate lifetime must be <= spec.maxExpirationSeconds ({most})"
        return [invalid(_CHAIN, nanoseconds, text)]
    if refresh < begin + _MARGIN:
        return wrong("beginRefreshAt", "must be at least 10 minutes after status.notBefore")
    if refresh > end - _MARGIN:
        return wrong("beginRefreshAt", "must be at least 10 minutes before status.notAfter")
    return []
