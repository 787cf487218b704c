"""Requests and answers, independent of the socket: the ASGI adapter and the in-process client both speak these."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl


@dataclass(frozen=True, slots=True)
class User:
    """Who asks. The anonymous user is `system:anonymous` in group `system:unauthenticated`."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def joined(name: str, before: str, value: str) -> str:
    """A repeated header as one: those of lists joined by commas, claims of impersonation by newlines, which no value
    can hold.
    """
    return f"{before}\n{value}" if name.startswith("impersonate-") else f"{before}, {value}"


class Request:
    """One request. `headers` has lower-case names; `query` is the raw query string, `params` its parsed form (last
    value wins is never wanted: a name maps to all its values in order)."""

    __slots__ = ("_params", "body", "headers", "method", "path", "query", "user")

    def __init__(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes, user: User | None = None
    ) -> None:
        self.method, self.path, self.query, self.headers, self.body, self.user = (
            method,
            path,
            query,
            headers,
            body,
            user,
        )
        self._params: dict[str, list[str]] | None = None

    @property
    def params(self) -> dict[str, list[str]]:
        if self._params is None:
            self._params = {}
            if self.query:
                for name, value in parse_qsl(self.query, keep_blank_values=True):
                    self._params.setdefault(name, []).append(value)
        return self._params


@dataclass(slots=True)
class Response:
    """A whole answer."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Stream:
    """An answer in chunks (a watch). Closing `chunks` (aclose) ends it; the server ends it by finishing the
    iterator.
    """

    status: int
    chunks: AsyncIterator[bytes]
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
