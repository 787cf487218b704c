"""Verification of signed JSON web tokens (RFC 7515, 7518) by public keys (RFC 7517)."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from typing import Any, Final

import orjson

from apiserver.api.objects import Json

__all__ = ["ALGORITHMS", "InvalidJwt", "Jwt", "decode_base64url", "has_valid_signature", "parse_jwt"]


ALGORITHMS: Final = ("ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512")
_BASE64URL: Final = re.compile("[A-Za-z0-9_-]*", re.ASCII)
_CURVES: Final = {"P-256": "SECP256R1", "P-384": "SECP384R1", "P-521": "SECP521R1"}
_CURVE_OF: Final = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}


class InvalidJwt(ValueError):
    """Error: a string is no signed token. The text gives the reason."""


class Jwt:
    """A parsed token. Its signature is not verified."""

    __slots__ = ("claims", "header", "signature", "signed")

    def __init__(self, header: Json, claims: Json, signed: bytes, signature: bytes) -> None:
        self.header, self.claims, self.signed, self.signature = header, claims, signed, signature


def decode_base64url(text: str) -> bytes:
    """Decode base64url without padding, as tokens and keys are encoded. Raise ValueError."""
    if not _BASE64URL.fullmatch(text):
        raise ValueError("illegal base64 data")
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def parse_jwt(token: str) -> Jwt:
    """Parse a token. Raise NotJwt."""
    parts = token.split(".")
    if len(parts) != 3 or not token.isascii():
        raise InvalidJwt("malformed token")
    try:
        header, claims = (orjson.loads(decode_base64url(part)) for part in parts[:2])
        signature = decode_base64url(parts[2])
    except ValueError as error:
        raise InvalidJwt(f"error decoding token: {error}") from None
    if not isinstance(header, dict) or not isinstance(claims, dict):
        raise InvalidJwt("malformed token")
    return Jwt(header, claims, f"{parts[0]}.{parts[1]}".encode(), signature)


def has_valid_signature(token: Jwt, keys: list[Json]) -> bool:
    """Return whether one of the keys signed the token: the key that it names, or any key if it names none."""
    algorithm, name = token.header.get("alg"), token.header.get("kid")
    candidates = [key for key in keys if not name or key.get("kid") == name]
    return any(_is_signed_by(key, str(algorithm), token) for key in candidates)


def _is_signed_by(key: Json, algorithm: str, token: Jwt) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    digest: Any = getattr(hashes, f"SHA{algorithm[2:]}")()
    try:
        if algorithm.startswith("ES"):
            if key.get("kty") != "EC" or key.get("crv") != _CURVE_OF[algorithm]:
                return False
            curve = getattr(ec, _CURVES[key["crv"]])()
            half = (curve.key_size + 7) // 8
            if len(token.signature) != 2 * half:
                return False
            r, s = (int.from_bytes(part, "big") for part in (token.signature[:half], token.signature[half:]))
            point = ec.EllipticCurvePublicNumbers(_number(key["x"]), _number(key["y"]), curve)
            point.public_key().verify(encode_dss_signature(r, s), token.signed, ec.ECDSA(digest))
            return True
        if key.get("kty") != "RSA":
            return False
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

        public = RSAPublicNumbers(_number(key["e"]), _number(key["n"])).public_key()
        if algorithm.startswith("PS"):
            salted = padding.PSS(padding.MGF1(digest), padding.PSS.AUTO)
            public.verify(token.signature, token.signed, salted, digest)
        else:
            public.verify(token.signature, token.signed, padding.PKCS1v15(), digest)
    except (InvalidSignature, ValueError, KeyError, TypeError):
        return False
    return True


def _number(text: str) -> int:
    return int.from_bytes(decode_base64url(text), "big")
