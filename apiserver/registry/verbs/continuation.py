"""Continue tokens: the next key of a paged list, and its revision.

A token is base64url (without padding) of `{"v":"meta.k8s.io/v1","rv":REVISION,"start":KEY}`. The key is relative to the
listed prefix. A negative revision continues in the present. Form and texts are those of upstream's
k8s.io/apiserver/pkg/storage.
"""

from __future__ import annotations

import base64
import binascii
import json
import posixpath
from typing import Any

import orjson

from apiserver.api.errors.status import bad_request
from apiserver.api.values.go_json import unmarshal_error

__all__ = ["decode_token", "encode_token"]

_VERSION = "meta.k8s.io/v1"
_FIELDS = {"v": (str, "string"), "rv": (int, "int64"), "start": (str, "string")}
_ALPHABET = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def encode_token(key: str, prefix: str, revision: int) -> str:
    """Return the token of a list of `prefix` that continues at `key`."""
    raw = json.dumps(
        {"v": _VERSION, "rv": revision, "start": key.removeprefix(prefix)}, separators=(",", ":"), ensure_ascii=False
    )
    return base64.urlsafe_b64encode(raw.encode()).rstrip(b"=").decode()


def decode_token(token: str, prefix: str) -> tuple[str, int]:
    """Return the key and the revision of a token. Raise 400 for an invalid one."""
    try:
        fields = _fields(token)
    except ValueError as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from None
    version, revision, start = fields.get("v", ""), fields.get("rv", 0), fields.get("start", "")
    if version != _VERSION:
        raise bad_request(
            "invalid continue token: continue key is not valid: server does not recognize this encoded version"
            f" {version}"
        )
    if not revision:
        raise bad_request(
            "invalid continue token: continue key is not valid: incorrect encoded start resourceVersion (version"
            " meta.k8s.io/v1)"
        )
    if not start:
        raise bad_request(
            "invalid continue token: continue key is not valid: encoded start key empty (version meta.k8s.io/v1)"
        )
    key = start if start.startswith("/") else "/" + start
    if posixpath.normpath(key) != key:
        raise bad_request(f"invalid continue token: continue key is not valid: {start}")
    return prefix + key[1:], revision


def _fields(token: str) -> dict[str, Any]:
    for index, char in enumerate(token):
        if char not in _ALPHABET:
            raise ValueError(f"illegal base64 data at input byte {index}")
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except binascii.Error:
        raise ValueError(f"illegal base64 data at input byte {len(token) // 4 * 4}") from None
    try:
        fields = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise ValueError(_go_json_error(raw)) from None
    if fields is not None and not isinstance(fields, dict):
        raise ValueError(unmarshal_error(fields, "storage.continueToken"))
    given = {name: value for name, value in (fields or {}).items() if value is not None}
    for name, (kind, go) in _FIELDS.items():
        value = given.get(name)
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            raise ValueError(unmarshal_error(value, go, f"continueToken.{name}"))
    return given


def _go_json_error(raw: bytes) -> str:
    """Return Go's error for text that is no JSON value. Only its beginning is read."""
    text = raw.decode("latin-1").lstrip(" \t\r\n")
    if not text:
        return "unexpected end of JSON input"
    if text[0] not in '{["-0123456789tfn':
        shown = text[0] if text[0].isprintable() else f"\\x{ord(text[0]):02x}"
        return f"invalid character '{shown}' looking for beginning of value"
    return "unexpected end of JSON input"
