"""The messages between the server and an external signer of service account tokens.

Facts: k8s.io/externaljwt (apis/v1/api.proto). Decoding raises `wire.WireError`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from kubedra.driver import wire
from kubedra.driver.messages import Empty  # FetchKeysRequest, MetadataRequest

__all__ = ["SERVICE", "Empty", "PublicKey", "PublicKeys", "SignRequest", "Signature", "SignerMetadata"]

SERVICE: Final = "v1.ExternalJWTSigner"


@dataclass(frozen=True, slots=True)
class SignRequest:
    """SignJWTRequest: the claims, encoded as the second part of a token."""

    claims: str = ""

    def encode(self) -> bytes:
        return wire.field(1, self.claims)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        found = dict(wire.fields(data))
        return cls(wire.text(found.get(1, b"")))


@dataclass(frozen=True, slots=True)
class Signature:
    """SignJWTResponse: the first and the third part of a token."""

    header: str = ""
    signature: str = ""

    def encode(self) -> bytes:
        return wire.field(1, self.header) + wire.field(2, self.signature)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        found = dict(wire.fields(data))
        return cls(wire.text(found.get(1, b"")), wire.text(found.get(2, b"")))


@dataclass(frozen=True, slots=True)
class PublicKey:
    """Key: `key` is a SubjectPublicKeyInfo.

    A `hidden` key does not sign new tokens and is not published.
    """

    id: str = ""
    key: bytes = b""
    hidden: bool = False

    def encode(self) -> bytes:
        return wire.field(1, self.id) + wire.field(2, self.key) + wire.field(3, int(self.hidden))

    @classmethod
    def decode(cls, data: bytes) -> Self:
        found = dict(wire.fields(data))
        return cls(wire.text(found.get(1, b"")), wire.body(found.get(2, b"")), bool(wire.number(found.get(3, 0))))


@dataclass(frozen=True, slots=True)
class PublicKeys:
    """FetchKeysResponse: keys, their time and the refresh interval in seconds.

    The time is in seconds since 1970, None if unset.
    """

    keys: tuple[PublicKey, ...] = ()
    at: float | None = None
    seconds: int = 0

    def encode(self) -> bytes:
        whole = int(self.at or 0)
        time = wire.field(1, whole) + wire.field(2, round(((self.at or 0) - whole) * 1e9))
        at = b"" if self.at is None else wire.message(2, time)
        return wire.repeated(1, (key.encode() for key in self.keys)) + at + wire.field(3, self.seconds)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        keys: list[PublicKey] = []
        at, seconds = None, 0
        for number, value in wire.fields(data):
            if number == 1:
                keys.append(PublicKey.decode(wire.body(value)))
            elif number == 2:
                time = dict(wire.fields(wire.body(value)))
                at = wire.number(time.get(1, 0)) + wire.number(time.get(2, 0)) / 1e9
            elif number == 3:
                seconds = wire.number(value)
        return cls(tuple(keys), at, seconds)


@dataclass(frozen=True, slots=True)
class SignerMetadata:
    """MetadataResponse: the maximum lifetime of tokens in seconds."""

    longest: int = 0

    def encode(self) -> bytes:
        return wire.field(1, self.longest)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        found = dict(wire.fields(data))
        return cls(wire.number(found.get(1, 0)))
