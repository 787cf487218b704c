"""Keys for service account tokens: a key pair of the store, or keys of files.

The public halves are published.

Facts: pkg/serviceaccount (jwt.go: algorithms and key ids; openidmetadata.go: documents).
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from apiserver.api.objects import Json
from apiserver.runtime.offload import on_loop

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

    from apiserver.runtime.metrics import Family

    Private = EllipticCurvePrivateKey | RSAPrivateKey
    Public = EllipticCurvePublicKey | RSAPublicKey

__all__ = [
    "KeyFileError",
    "KeyPairs",
    "Keys",
    "SharedKey",
    "StoreKeys",
    "can_sign_tokens",
    "encode",
    "generate_key",
    "is_valid_signature",
    "read_key_files",
    "to_jwk",
]


#: Algorithm and size of a coordinate in bytes, by curve.
_CURVES: Final = {
    "secp256r1": ("ES256", 32, "P-256"),
    "secp384r1": ("ES384", 48, "P-384"),
    "secp521r1": ("ES512", 66, "P-521"),
}
#: Cache lifetime of the public keys in seconds. The keys do not change while the server runs.
_FRESH: Final = 3600
_HASHES: Final = {"RS256": "SHA256", "ES256": "SHA256", "ES384": "SHA384", "ES512": "SHA512"}


class KeyFileError(ValueError):
    """Error in a key file, in one line."""


class Keys:
    """Keys that sign and verify tokens. The base class is for keys that never change while the server runs."""

    #: Maximum lifetime of a token in seconds; 0: no limit.
    longest: int = 0

    @property
    def max_age(self) -> int:
        """Cache lifetime of the public keys in seconds."""
        return _FRESH

    async def token(self, claims: bytes) -> str:
        """Sign JSON claims and return the token."""
        raise NotImplementedError

    async def knows(self, header: Json, text: bytes, signature: bytes) -> bool:
        """Return whether one of the keys made this signature."""
        raise NotImplementedError

    async def public(self) -> list[Json]:
        """Return the public halves as JSON web keys."""
        raise NotImplementedError

    def subscribe(self, notify: Callable[[], None]) -> None:
        """Call `notify` after every change of the keys."""

    def families(self) -> list[Family]:
        """Return the metric families; may be empty."""
        return []

    async def follow(self) -> None:
        """Keep the keys up to date until cancelled."""

    async def close(self) -> None:
        """Close the connection to the signer."""


def encode(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _build_token(header: Json, claims: bytes, sign: Callable[[bytes], bytes]) -> str:
    signed = f"{encode(orjson.dumps(header))}.{encode(claims)}"
    return f"{signed}.{encode(sign(signed.encode()))}"


class SharedKey(Keys):
    """A shared secret of the store (HMAC, SHA-256). It has no public half."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.header: Json = {"alg": "HS256", "typ": "JWT"}

    async def token(self, claims: bytes) -> str:
        return _build_token(self.header, claims, self.sign)

    def sign(self, text: bytes) -> bytes:
        return hmac.new(self._key, text, hashlib.sha256).digest()

    async def knows(self, header: Json, text: bytes, signature: bytes) -> bool:
        return header.get("alg") == "HS256" and hmac.compare_digest(self.sign(text), signature)

    async def public(self) -> list[Json]:
        return []


class KeyPairs(Keys):
    """A private key for signing, and the public keys for verification."""

    def __init__(self, signing: Private, taken: Iterable[Private | Public]) -> None:
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

        self._key = signing
        self._public: dict[str, Public] = {}
        for found in taken:
            half = found.public_key() if isinstance(found, EllipticCurvePrivateKey | RSAPrivateKey) else found
            self._public[_name(half)] = half
        self.header: Json = {"alg": _algorithm(signing.public_key()), "kid": _name(signing.public_key())}

    async def token(self, claims: bytes) -> str:
        return _build_token(self.header, claims, self.sign)

    def sign(self, text: bytes) -> bytes:
        from cryptography.hazmat.primitives.asymmetric import ec, padding
        from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

        digest = _hash(self.header["alg"])
        if isinstance(self._key, ec.EllipticCurvePrivateKey):
            size = _CURVES[self._key.curve.name][1]
            r, s = decode_dss_signature(self._key.sign(text, ec.ECDSA(digest)))
            return r.to_bytes(size, "big") + s.to_bytes(size, "big")
        return self._key.sign(text, padding.PKCS1v15(), digest)

    async def knows(self, header: Json, text: bytes, signature: bytes) -> bool:
        named = self._public.get(header.get("kid", ""))
        candidates = [named] if named is not None else list(self._public.values())
        return any(is_valid_signature(key, header, text, signature) for key in candidates)

    async def public(self) -> list[Json]:
        return [to_jwk(name, key) for name, key in self._public.items()]


def read_key_files(signing: Path, files: tuple[Path, ...]) -> KeyPairs:
    """Read --service-account-signing-key-file and --service-account-key-file. Raise KeyFileError."""
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

    key = _load("--service-account-signing-key-file", signing)[0]
    if not isinstance(key, EllipticCurvePrivateKey | RSAPrivateKey):
        raise KeyFileError(f"--service-account-signing-key-file {signing}: not a private key")
    return KeyPairs(key, [found for path in files for found in _load("--service-account-key-file", path)])


class StoreKeys(Keys):
    """The store's key pair, shared by all of its servers.

    The pair is generated at its first use, because that takes 0.1 s and a start need not wait for it. Tokens signed
    with the store's secret by older servers stay valid.
    """

    def __init__(self, secret: bytes, load_stored: Callable[[], Awaitable[bytes]]) -> None:
        """Set the sources: the shared secret, and `load_stored`, which returns the stored private key in PEM."""
        self._secret, self._load_stored = SharedKey(secret), load_stored
        self._pair: KeyPairs | None = None

    async def token(self, claims: bytes) -> str:
        return await (await self._key_pair()).token(claims)

    async def knows(self, header: Json, text: bytes, signature: bytes) -> bool:
        keys = self._secret if header.get("alg") == "HS256" else await self._key_pair()
        return await keys.knows(header, text, signature)

    async def public(self) -> list[Json]:
        return await (await self._key_pair()).public()

    @on_loop
    async def _key_pair(self) -> KeyPairs:
        """Return the key pair. The first call reads it from the store."""
        if self._pair is not None:
            return self._pair
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        key: Any = load_pem_private_key(await self._load_stored(), None)
        self._pair = KeyPairs(key, [key])
        return self._pair


def generate_key() -> bytes:
    """Generate a private key in PEM: RSA of 2048 bits, the kind that most clients of tokens support."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(65537, 2048)
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)


def _load(flag: str, path: Path) -> list[Private | Public]:
    """Load the private keys, the public keys and the certificates' keys of a PEM file."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    found: list[Any] = []
    try:
        for block in _blocks(path.read_bytes()):
            if b"PRIVATE KEY" in block.split(b"\n", 1)[0]:
                found.append(serialization.load_pem_private_key(block, None))
            elif b"CERTIFICATE" in block.split(b"\n", 1)[0]:
                found.append(x509.load_pem_x509_certificate(block).public_key())
            elif b"PUBLIC KEY" in block.split(b"\n", 1)[0]:
                found.append(serialization.load_pem_public_key(block))
    except (OSError, ValueError, TypeError) as error:
        raise KeyFileError(f"{flag} {path}: no keys in PEM ({error})") from error
    kinds = (ec.EllipticCurvePrivateKey, ec.EllipticCurvePublicKey, rsa.RSAPrivateKey, rsa.RSAPublicKey)
    keys = [key for key in found if isinstance(key, kinds)]
    if not keys or not all(map(can_sign_tokens, keys)):
        raise KeyFileError(f"{flag} {path}: no RSA key, and none of the curves P-256, P-384 and P-521")
    return keys


def can_sign_tokens(key: Any) -> bool:
    """Return whether a key of this kind can sign tokens."""
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    if isinstance(key, ec.EllipticCurvePrivateKey | ec.EllipticCurvePublicKey):
        return key.curve.name in _CURVES
    return isinstance(key, rsa.RSAPrivateKey | rsa.RSAPublicKey)


def _blocks(text: bytes) -> list[bytes]:
    return [b"-----BEGIN " + part.strip() + b"\n" for part in text.split(b"-----BEGIN ")[1:]]


def _algorithm(key: Public) -> str:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

    return _CURVES[key.curve.name][0] if isinstance(key, EllipticCurvePublicKey) else "RS256"


def _hash(algorithm: str) -> Any:
    from cryptography.hazmat.primitives import hashes

    return getattr(hashes, _HASHES[algorithm])()


def _name(key: Public) -> str:
    """Return a key's id: a digest of its public half."""
    from cryptography.hazmat.primitives import serialization

    public = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return encode(hashlib.sha256(public).digest())


def is_valid_signature(key: Public, header: Json, text: bytes, signature: bytes) -> bool:
    """Return whether the key made a signature with the algorithm of the header."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric import ec, padding
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    algorithm = header.get("alg")
    if algorithm != _algorithm(key):
        return False
    digest = _hash(algorithm)
    try:
        if isinstance(key, ec.EllipticCurvePublicKey):
            half = len(signature) // 2
            parts = (int.from_bytes(part, "big") for part in (signature[:half], signature[half:]))
            key.verify(encode_dss_signature(*parts), text, ec.ECDSA(digest))
        else:
            key.verify(signature, text, padding.PKCS1v15(), digest)
    except InvalidSignature:
        return False
    return True


def to_jwk(name: str, key: Public) -> Json:
    """Return a public key as a JSON web key."""
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

    if isinstance(key, EllipticCurvePublicKey):
        algorithm, size, curve = _CURVES[key.curve.name]
        point = key.public_numbers()
        parts = {"crv": curve, "x": encode(point.x.to_bytes(size, "big")), "y": encode(point.y.to_bytes(size, "big"))}
        return {"use": "sig", "kty": "EC", "kid": name, "alg": algorithm, **parts}
    numbers = key.public_numbers()
    parts = {
        field: encode(number.to_bytes((number.bit_length() + 7) // 8, "big"))
        for field, number in (("n", numbers.n), ("e", numbers.e))
    }
    return {"use": "sig", "kty": "RSA", "kid": name, "alg": "RS256", **parts}
