"""Parse URLs like Go's net/url."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from apiserver.api.errors.field_errors import go_quote
from apiserver.cel.language.declarations import Function, function, method, overload
from apiserver.cel.language.types import BOOL, STRING, list_of, map_of, struct
from apiserver.cel.language.values import CelError, LibraryValue

URL_TYPE: Final = struct("kubernetes.URL")

_SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.\-]*):")
_HEX: Final = re.compile(r"%[0-9a-fA-F]{2}")
_BAD_HOST: Final = re.compile(r"[^A-Za-z0-9\-_.~!$&'()*+,;=:\[\]<>\"%\x80-\U0010ffff]")
_PATH_PLAIN: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~$&+,/:;=@")
_PATH_VALID: Final = _PATH_PLAIN | frozenset("!'()*[]%")


class URL(LibraryValue):
    """A parsed absolute URL or absolute path."""

    __slots__ = ("host", "path", "query", "scheme", "text")
    type_name = "kubernetes.URL"

    def __init__(self, text: str, scheme: str, host: str, path: str, query: str) -> None:
        self.text, self.scheme, self.host, self.path, self.query = text, scheme, host, path, query

    def __eq__(self, other: object) -> bool:
        return isinstance(other, URL) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    @property
    def hostname(self) -> str:
        """The host without port and brackets."""
        host = self.host
        if host.startswith("["):
            return host[1 : host.find("]")]
        return host.rpartition(":")[0] if ":" in host else host

    @property
    def port(self) -> str:
        """The port's digits."""
        rest = self.host[self.host.find("]") + 1 :] if self.host.startswith("[") else self.host
        return rest.rpartition(":")[2] if ":" in rest else ""

    @property
    def escaped_path(self) -> str:
        """The path as sent."""
        if all(char in _PATH_VALID for char in self.path):
            return self.path
        raw = _unescape(self.path).encode()
        return "".join(chr(byte) if chr(byte) in _PATH_PLAIN else f"%{byte:02X}" for byte in raw)

    @property
    def parameters(self) -> dict[str, list[str]]:
        """The query's values by name; unparsable parts are omitted."""
        result: dict[str, list[str]] = {}
        for part in self.query.split("&"):
            if not part or ";" in part:
                continue
            key, _, value = part.partition("=")
            if _broken_escape(key) or _broken_escape(value):
                continue
            result.setdefault(_unescape(key.replace("+", " ")), []).append(_unescape(value.replace("+", " ")))
        return result


def _broken_escape(text: str) -> str:
    """Return the first percent sign that begins no escape, with up to two following characters."""
    at = text.find("%")
    while at >= 0:
        if not _HEX.match(text, at):
            return text[at : at + 3]
        at = text.find("%", at + 3)
    return ""


def _unescape(text: str) -> str:
    if "%" not in text:
        return text
    raw = re.sub(
        rb"%([0-9a-fA-F]{2})", lambda found: bytes([int(found[1], 16)]), text.encode("utf-8", "surrogateescape")
    )
    return raw.decode("utf-8", "surrogateescape")


def parse_request_uri(text: str) -> URL:
    """Parse a URL with a scheme, or an absolute path. Raise ValueError with the reason if it is neither."""

    def wrong(reason: str) -> ValueError:
        return ValueError(f"parse {go_quote(text)}: {reason}")

    if any(ord(char) < 0x20 or ord(char) == 0x7F for char in text):
        raise wrong("net/url: invalid control character in URL")
    if not text:
        raise wrong("empty url")
    if text == "*":
        return URL(text, "", "", "*", "")
    if text.startswith(":"):
        raise wrong("missing protocol scheme")
    found = _SCHEME.match(text)
    scheme = found[1].lower() if found else ""
    rest = text[found.end() :] if found else text
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return URL(text, scheme, "", "", query)
        raise wrong("invalid URI for request")
    host = ""
    if scheme and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        try:
            host = _parse_authority(authority)
        except ValueError as error:
            raise wrong(str(error)) from None
    if broken := _broken_escape(rest):
        raise wrong(f"invalid URL escape {go_quote(broken)}")
    return URL(text, scheme, host, rest, query)


def _parse_authority(authority: str) -> str:
    user, at, host = authority.rpartition("@")
    if at and re.search(r"[^A-Za-z0-9\-._:~!$&'()*+,;=%@]", user):
        raise ValueError("net/url: invalid userinfo")
    if host.startswith("["):
        close = host.rfind("]")
        if close < 0:
            raise ValueError("missing ']' in host")
        tail = host[close + 1 :]
    else:
        colon = host.rfind(":")
        tail = host[colon:] if colon >= 0 else ""
    if tail and (tail[0] != ":" or not all(char in "0123456789" for char in tail[1:])):
        raise ValueError(f"invalid port {go_quote(tail)} after host")
    broken = _broken_escape(host)
    if broken:
        raise ValueError(f"invalid URL escape {go_quote(broken)}")
    escape = re.search(r"%[0-7][0-9a-fA-F]", host)
    if escape and not host.startswith("["):
        raise ValueError(f"invalid URL escape {go_quote(escape[0])}")
    bad = _BAD_HOST.search(host)
    if bad:
        raise ValueError(f"invalid character {go_quote(bad[0])} in host name")
    return _unescape(host)


def _to_url(text: str) -> URL:
    try:
        parsed = parse_request_uri(text)
    except ValueError as error:
        raise CelError(f"URL parse error during conversion from string: {error}") from None
    before, hash_sign, _ = text.partition("#")
    if not hash_sign:
        return parsed
    if not before:
        return URL(text, "", "", "", "")
    again = parse_request_uri(before)
    return URL(text, again.scheme, again.host, again.path, again.query)


def _is_url(text: str) -> bool:
    try:
        parse_request_uri(text)
    except ValueError:
        return False
    return True


def library() -> list[Function]:
    """Return the declarations of url, isURL and the parts of URLs."""

    def part(name: str, id: str, read: Callable[[URL], str]) -> Function:
        return function(name, method(id, (URL_TYPE,), STRING, read))

    return [
        function("url", overload("string_to_url", (STRING,), URL_TYPE, _to_url)),
        part("getScheme", "url_get_scheme", lambda value: value.scheme),
        part("getHost", "url_get_host", lambda value: value.host),
        part("getHostname", "url_get_hostname", lambda value: value.hostname),
        part("getPort", "url_get_port", lambda value: value.port),
        part("getEscapedPath", "url_get_escaped_path", lambda value: value.escaped_path),
        function(
            "getQuery",
            method("url_get_query", (URL_TYPE,), map_of(STRING, list_of(STRING)), lambda value: value.parameters),
        ),
        function("isURL", overload("is_url_string", (STRING,), BOOL, _is_url)),
    ]
