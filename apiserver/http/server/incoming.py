"""Requests as a connection reads them: target, header fields, body, and order in the connection."""

from __future__ import annotations

import asyncio
import re
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote_to_bytes

import httptools

from apiserver.api.values.bounded_cache import remembered
from apiserver.http.server.strictness import refusal
from apiserver.request.messages import MAX_BODY, Request, Response

if TYPE_CHECKING:
    from apiserver.authentication.x509.client_certificates import PresentedCertificates

#: The request line of a method that the parser may not support.
_ANY_METHOD: Final = re.compile(rb"([A-Z]+) /[!-~]* HTTP/1\.[01]\r\n")


class Pending:
    """A request in the order of a connection. `refusal` is its response if no handler is to be called."""

    __slots__ = ("http_1_0", "keep_alive", "raw_path", "refusal", "request")

    def __init__(
        self,
        request: Request,
        raw_path: bytes = b"",
        keep_alive: bool = False,
        http_1_0: bool = False,
        refusal: Response | None = None,
    ) -> None:
        self.request, self.raw_path, self.refusal = request, raw_path, refusal
        #: HTTP/1.0 has no chunks.
        self.keep_alive, self.http_1_0 = keep_alive, http_1_0


@remembered(1024)
def header_name(name: bytes) -> str:
    """Return the name of a header field in lower case; the few common names are cached."""
    return name.decode("latin-1").lower()


def join_header_values(name: str, values: Sequence[str], newline_prefixes: tuple[str, ...]) -> str:
    """Join the values of a repeated header.

    Lists are joined by commas. Headers with a prefix in `newline_prefixes` (identity claims) are joined by newlines,
    because no value contains one.
    """
    return ("\n" if name.startswith(newline_prefixes) else ", ").join(values)


def split(url: bytes) -> tuple[bytes, bytes]:
    """Split a request's target into path and query. Raise httptools.HttpParserInvalidURLError."""
    if url[:1] == b"/" and b"#" not in url:
        path, _, query = url.partition(b"?")
        return path, query
    parsed = httptools.parse_url(url)
    return parsed.path or b"/", parsed.query or b""


def quote_raw_path(raw: bytes) -> str:
    """Return a path with escapes only where they are needed.

    As in Go's server, which decodes a path before it splits it, an encoded slash separates segments.
    """
    return quote(unquote_to_bytes(raw), safe="/:@!$&'()*+,;=-._~")


class RequestReader:
    """The reading half of a connection: parser events become requests, and these are `_enqueue`d.

    `claims` are the prefixes of header fields with identity claims.
    """

    def __init__(self, claims: tuple[str, ...]) -> None:
        self._claims = claims
        self._client_certificates: PresentedCertificates | None = None  # the client's certificate
        self._parser = self._new_parser()
        self._method = b""  # the real one if the parser was given another
        #: Whether the input has ended.
        self._input_ended = False
        self._continue_owed = False  # a client waits for 100 Continue
        #: Ends the wait for a request that has begun.
        self._deadline: asyncio.TimerHandle | None = None
        # The request that is being parsed.
        self._incomplete = False  # it has begun but not ended
        self._in_head, self._head_size = False, 0
        self._piece, self._head = b"", bytearray()  # the data of this call and, within a head, of earlier ones
        #: Bytes of the body, and of chunk sizes, chunk extensions and trailers.
        self._received = self._framing = 0
        self._completed_one = False  # of the present data
        self._url = b""
        self._headers: dict[str, str] = {}
        self._repeated: dict[str, list[str]] = {}  # the values of repeated header fields
        self._body = bytearray()
        self._body_size = 0

    @abstractmethod
    def _enqueue(self, pending: Pending) -> None:
        """Add a complete request."""

    @abstractmethod
    def _refuse(self, answer: Response) -> None:
        """Add the last response of a connection."""

    @abstractmethod
    def _send_continue(self) -> None:
        """Send 100 Continue if `_continue_owed` and no earlier request is pending."""

    @abstractmethod
    def _end_deadline(self) -> None:
        """Cancel the deadline: the request is complete."""

    def _new_parser(self) -> Any:
        parser: Any = httptools.HttpRequestParser(self)
        # Data after a request that closes the connection is ignored; it must not spoil the response.
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser

    def _feed(self, data: bytes | memoryview) -> bytes | memoryview:
        """Parse data; return the rest after a request for an unsupported protocol."""
        if self._in_head:
            self._head += self._piece
        self._piece = bytes(data)
        rest: bytes | memoryview = b""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            rest = data[upgrade.args[0] :]
        if not self._in_head:
            self._piece = b""
        return rest

    def _replace_unknown_method(self, data: bytes | memoryview, rest: bytes | memoryview) -> bytes | None:
        """Return input with POST in place of a method unknown to the parser; the endpoint decides about the method.

        Return None if the input, some data and the rest, is no such request.
        """
        if self._url or self._completed_one or self._method:
            return None
        whole = bytes(data) + rest
        found = _ANY_METHOD.match(whole)
        if found is None:
            return None
        self._method = found[1]
        self._parser = self._new_parser()
        return b"POST" + whole[found.end(1) :]

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        self._in_head, self._head_size, self._incomplete = True, 0, True
        self._received = self._framing = 0
        self._url, self._headers, self._body, self._body_size = b"", {}, bytearray(), 0
        if self._head:
            self._head = bytearray()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # trailers are ignored
        key, text = header_name(name), value.decode("latin-1")
        if key not in self._headers:
            self._headers[key] = text
        elif key in self._repeated:
            self._repeated[key].append(text)
        else:
            self._repeated[key] = [self._headers[key], text]

    def on_headers_complete(self) -> None:
        self._in_head = False
        parser = self._parser
        line = b"%b %b HTTP/" % (parser.get_method(), self._url)
        head = bytes(self._head) + self._piece if self._head else self._piece
        refused = refusal(line, head, parser.get_http_version(), self._headers, self._repeated)
        if refused is not None:
            self._repeated = {}
            self._refuse(refused)
            return
        if self._repeated:
            for key, values in self._repeated.items():
                self._headers[key] = join_header_values(key, values, self._claims)
            self._repeated = {}
        expected = self._headers.get("expect", "")
        if expected.lower() == "100-continue":
            self._continue_owed = True
            self._send_continue()
        elif expected:
            self._refuse(Response(417, b"", ""))

    def on_body(self, body: bytes) -> None:
        self._received += len(body)
        if self._body_size <= MAX_BODY:
            self._body += body
            self._body_size += len(body)

    def on_message_complete(self) -> None:
        self._continue_owed, self._completed_one, self._incomplete = False, True, False
        if self._deadline is not None:
            self._end_deadline()
        if self._input_ended:
            return
        parser = self._parser
        raw_path, query = split(self._url)
        path = raw_path.decode("ascii") if b"%" not in raw_path else quote_raw_path(raw_path)
        http_1_0 = parser.get_http_version() == "1.0"
        # As in Go's server, HTTP/1.0 has no chunks.
        body = b"" if http_1_0 and "transfer-encoding" in self._headers else bytes(self._body)
        self._body, self._body_size = bytearray(), 0
        method, self._method = self._method or parser.get_method(), b""
        request = Request(method.decode("ascii"), path, query.decode("latin-1"), self._headers, body)
        if self._client_certificates is not None:
            request.peer = self._client_certificates.peer()
        keep_alive = not http_1_0 and parser.should_keep_alive()
        self._enqueue(Pending(request, raw_path, keep_alive, http_1_0))
