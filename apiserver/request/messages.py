"""Requests and answers as all of the server speaks of them: no socket, no encoding of HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from urllib.parse import parse_qsl

from apiserver.request.info import RequestInfo

#: Bytes of a request's body that are accepted (413). What receives bodies keeps of a longer one only as much as shows
#: that it is too long.
MAX_BODY: Final = 3 * 1024 * 1024


class ConnectionClosed(Exception):
    """Instead of an answer, or of the rest of one, the client finds its connection closed."""


@dataclass(frozen=True, slots=True)
class User:
    """Who asks. The anonymous user is `system:anonymous` in group `system:unauthenticated`."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Peer:
    """Whom the certificate names that a client showed: a user, or a `proxy` that may ask for others; `ends` is when it
    does, in seconds since 1970. `refused`: not everybody who verified it found it good, so that its client is nobody,
    and not anonymous, where nothing else says who that is."""

    user: User | None
    proxy: bool = False
    ends: float = 0.0
    refused: bool = False


_NOT_PARSED: Final = RequestInfo("")
_NOTHING: Final[Mapping[str, str]] = {}


class Request:
    """One request. `headers` has lower-case names; `query` is the raw query string, `params` its parsed form (a name
    maps to all its values in order).

    `user` is set by whoever knows it without credentials (clients in this process), else by authentication; `info` by
    the chain of handlers; `warnings`, for Warning headers, and `annotations`, for the record of the request, by what
    answers; `fault` is the injected one; `time` is when a resource's verb began.
    """

    __slots__ = (
        "_params",
        "annotations",
        "audit_id",
        "authorization",
        "body",
        "constraint",
        "fault",
        "headers",
        "impersonator",
        "info",
        "marks",
        "method",
        "path",
        "peer",
        "query",
        "time",
        "user",
        "warnings",
    )

    def __init__(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes, user: User | None = None
    ) -> None:
        self.method, self.path, self.query, self.headers = method, path, query, headers
        self.body, self.user = body, user
        self.info = _NOT_PARSED
        #: who acts as the user, where that is somebody else.
        self.impersonator: User | None = None
        #: the verb of constrained impersonation by which that was allowed.
        self.constraint = ""
        #: annotations about the authorizer's decision, where the request had to wait for it.
        self.authorization: Mapping[str, str] = _NOTHING
        #: who is at the other end of the connection, where it showed a certificate.
        self.peer: Peer | None = None
        self.warnings: Sequence[str] = ()
        self.annotations: Mapping[str, str] = _NOTHING
        self.fault = ""
        #: what tells it from others (`apiserver.request.audit_ids`); further header fields of its answer, as bytes.
        self.audit_id, self.marks = "", b""
        self.time: datetime | None = None
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


@dataclass(slots=True, eq=False)
class Stream:
    """An answer in chunks (a watch), which are set once it is made. `close` ends it; the server ends it by finishing
    the iterator. `sent` counts the bytes of the chunks so far; each of `when_ended` is called once when there are no
    more. `inside`: for a client in this process, which may have the events of a watch with `objects` instead of
    `chunks`, as types and objects that nobody may change; None where there are none, or something was done to the
    chunks. With status 101 it takes the connection over: `incoming` gets what the client sends from then on.
    """

    status: int
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    chunks: AsyncIterator[bytes] = field(init=False)
    sent: int = 0
    incoming: Callable[[bytes], object] | None = None
    inside: bool = False
    objects: Callable[[], AsyncGenerator[list[tuple[str, dict[str, Any]]], None]] | None = None
    when_ended: list[Callable[[], object]] = field(default_factory=list)

    async def close(self) -> None:
        """End the chunks, whether they have begun or not."""
        close = getattr(self.chunks, "aclose", None)
        if close is not None:
            await close()
        self.finish()

    def finish(self) -> None:
        """There are no more chunks. Whoever makes them calls this."""
        calls, self.when_ended = self.when_ended, []
        for call in calls:
            call()
