"""A request as a connection reads it: its target, its header fields, its place in the order of the connection."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

import httptools

from apiserver.api.remembering import remembered
from apiserver.messages import Request, Response


class Pending:
    """A request in the order of a connection. `refusal` is its answer where nobody is to be asked."""

    __slots__ = ("http_1_0", "keep_alive", "raw_path", "refusal", "request")

    def __init__(
        self,
        request: Request,
        raw_path: bytes = b"",
        *,
        keep_alive: bool = False,
        http_1_0: bool = False,
        refusal: Response | None = None,
    ) -> None:
        self.request, self.raw_path, self.refusal = request, raw_path, refusal
        #: HTTP/1.0 has no chunks.
        self.keep_alive, self.http_1_0 = keep_alive, http_1_0


@remembered(1024)
def header_name(name: bytes) -> str:
    """The name of a header field in lower case: the same few over and over."""
    return name.decode("latin-1").lower()


def combined(name: str, values: Sequence[str], apart: tuple[str, ...]) -> str:
    """A repeated header as one: those of lists joined by commas, those that begin with one of `apart` (claims of who
    somebody is) by newlines, which no value can hold.
    """
    return ("\n" if name.startswith(apart) else ", ").join(values)


def split(url: bytes) -> tuple[bytes, bytes]:
    """Path and query of a request's target. Raises httptools.HttpParserInvalidURLError."""
    if url[:1] == b"/" and b"#" not in url:
        path, _, query = url.partition(b"?")
        return path, query
    parsed = httptools.parse_url(url)
    return parsed.path or b"/", parsed.query or b""


def undecoded(raw: bytes) -> str:
    """A path as it was sent. A segment may hold an encoded slash, so `request_info` decodes them one by one."""
    return quote(raw, safe="/%:@!$&'()*+,;=-._~")
