"""Requests that the parser accepts but Go's server refuses: differences that request smuggling exploits.

Facts: Go, net/http (server.go: readRequest and serve; request.go; transfer.go: parseTransferEncoding), httpguts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

from apiserver.request.messages import Response

__all__ = ["PLAIN_TEXT", "refusal"]

PLAIN_TEXT: Final = "text/plain; charset=utf-8"
#: A percent sign in a path that begins no escape.
_BAD_ESCAPE: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_HOST: Final = re.compile(r"[0-9A-Za-z!$%&()*+,\-.:;=\['\]_~]*", re.ASCII)


def refusal(
    line: bytes, head: bytes, version: str, headers: Mapping[str, str], repeated: Mapping[str, Sequence[str]]
) -> Response | None:
    """Return the response to a head that Go's server refuses, else None.

    Args:
        line: The request line up to the version, as the parser understood it.
        head: The received bytes with the head.
        version: That of HTTP.
        headers: The header fields; of repeated ones the first value.
        repeated: All values of the repeated header fields.
    """
    if line not in head or "host" in repeated or _BAD_ESCAPE.search(line.partition(b"?")[0]):
        return Response(400, b"400 Bad Request", PLAIN_TEXT)
    encoding = headers.get("transfer-encoding")
    if encoding is not None and version == "1.1" and ("transfer-encoding" in repeated or encoding.lower() != "chunked"):
        return Response(501, b"Unsupported transfer encoding", PLAIN_TEXT)
    if version not in ("1.0", "1.1"):
        return _explain(505, "unsupported protocol version")
    host = headers.get("host")
    if host is None:
        if version == "1.1" and not line.startswith(b"CONNECT "):
            return _explain(400, "missing required Host header")
    elif not _HOST.fullmatch(host):
        return _explain(400, "malformed Host header")
    return None


def _explain(code: int, reason: str) -> Response:
    return Response(code, f"{code} {HTTPStatus(code).phrase}: {reason}".encode(), PLAIN_TEXT)
