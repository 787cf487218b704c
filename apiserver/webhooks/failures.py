"""Error texts of failed calls, as Go's HTTP client and client-go word them.

Facts: net/http, crypto/tls, client-go/rest/request.go, apimachinery/pkg/api/errors (NewGenericServerResponse).
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Iterator
from typing import Any, Final

from apiserver.api.codec.codec import DecodeError, decode, interpret, loads
from apiserver.api.errors.field_errors import go_quote
from apiserver.api.types.meta import Status

__all__ = ["WebhookError", "answer_text", "connection_text", "response_error"]

#: Maximum bytes of a plain text response that are quoted.
_SHOWN: Final = 2048
_TEXTS: Final = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}
#: OpenSSL's codes for a certificate of an unknown signer, outside its validity, and for another name.
_UNKNOWN_SIGNERS: Final = (2, 18, 19, 20, 21, 24)
_OUT_OF_TIME: Final = (9, 10)
WRONG_NAME: Final = (62, 64)


class WebhookError(Exception):
    """A webhook could not be called, or its response is invalid.

    `code` is the response's status code for metrics, 503 if there was no response.
    """

    def __init__(self, text: str, code: int = 503) -> None:
        super().__init__(text)
        self.code = code


def response_error(code: int, content_type: str, body: bytes) -> WebhookError | None:
    """Return the error of an unsuccessful response: the Status in it, or the text for its code. None for success."""
    if 200 <= code <= 206:
        return None
    try:
        read = loads(body)
        if interpret(read) == ("v1", "Status"):
            status = decode(Status, read.value).obj
            if status.get("status") == "Failure":
                return WebhookError(status.get("message", ""), status.get("code", code))
    except DecodeError:
        pass
    body_text = "unknown"
    if not content_type or content_type.partition(";")[0].strip().lower().startswith("text/"):
        body_text = body[:_SHOWN].decode(errors="replace").strip()
    return WebhookError(answer_text(code, body_text), code)


def answer_text(code: int, body_text: str) -> str:
    """Return client-go's text for an unsuccessful response; `body_text` is its body."""
    if code in (403, 415):
        return body_text
    if code == 406:
        return (
            "the server was unable to respond with a content type that the client supports"
            if body_text in ("", "unknown")
            else body_text
        )
    text = _TEXTS.get(code)
    if text is None and code >= 500:
        return f"an error on the server ({go_quote(body_text)}) has prevented the request from succeeding"
    return text or f"the server responded with the status code {code} but did not return more information"


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        found = todo.pop(0)
        if found is None or id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        todo += [*getattr(found, "exceptions", ()), found.__cause__, found.__context__]


def connection_text(error: BaseException, host: str, address: str) -> str:
    """Return why there was no response. `address` is the connection's host:port, `host` the expected name."""
    for cause in causes_of(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"tls: failed to verify certificate: {_describe_certificate_error(cause)}"
        if isinstance(cause, ssl.SSLError):
            if cause.reason == "WRONG_VERSION_NUMBER" or cause.reason == "HTTP_REQUEST":
                return "http: server gave HTTP response to HTTPS client"
            return f"tls: {(cause.reason or str(cause)).replace('_', ' ').lower()}"
        if isinstance(cause, socket.gaierror):
            return f"dial tcp: lookup {host}: no such host"
        if isinstance(cause, OSError) and cause.errno and cause.errno > 0:
            if cause.errno in (errno.ECONNRESET, errno.EPIPE):
                return f"read tcp {address}: read: connection reset by peer"
            return f"dial tcp {address}: connect: {os.strerror(cause.errno).lower()}"
    return "EOF" if "disconnected" in str(error) else str(error) or "EOF"


def _describe_certificate_error(error: ssl.SSLCertVerificationError) -> str:
    code: Any = error.verify_code
    if code in _UNKNOWN_SIGNERS:
        return "x509: certificate signed by unknown authority"
    if code in _OUT_OF_TIME:
        return f"x509: certificate has expired or is not yet valid: {error.verify_message}"
    return f"x509: {error.verify_message}"


def format_name_mismatch(host: str, names: list[str]) -> str:
    """Return the text for a certificate that is valid for other names than the expected one."""
    if not names:
        return f"x509: certificate is not valid for any names, but wanted to match {host}"
    return f"x509: certificate is valid for {', '.join(names)}, not {host}"
