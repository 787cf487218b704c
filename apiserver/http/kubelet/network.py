"""Kubelets reached over the network, at the address in their node's status.

They serve containers' logs, and protocols that take the connection over (exec, attach, port-forward).
Facts: pkg/kubelet/client, pkg/registry/core/pod (LogLocation), apiserver/pkg/registry/generic/rest (streamer.go).
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from apiserver.api.errors.status import StatusError, bad_request, internal_error
from apiserver.http.kubelet.settings import KubeletSettings
from apiserver.registry.definition.kubelets import Place
from apiserver.request.connection_upgrade import InvalidResponse, close_writer, forward_upgrade, send_request
from apiserver.request.messages import Request, Response, Stream
from apiserver.runtime.clock import Timer, outside, timers
from apiserver.runtime.reloading import stamp
from apiserver.webhooks.client import trust_of
from apiserver.webhooks.failures import answer_text, connection_text
from kubedra.kubeconfig.credentials import Credentials

if TYPE_CHECKING:
    import h11

__all__ = ["KubeletEndpoints"]

Json = Mapping[str, Any]

#: The node's annotation with the SHA-256 of its kubelet's certificate, in hexadecimal.
CERTIFICATE: Final = "kubelet.kubedra.dev/certificate"
#: Maximal bytes of a response that are repeated in an error.
_SHOWN: Final = 50000
#: Maximal seconds until a kubelet begins to answer.
_LONGEST_SECONDS: Final = 60.0
#: Request headers passed to the kubelet: the protocol to use.
_PASSED: Final = ("connection", "upgrade", "x-stream-protocol-version", "user-agent", "accept")
_PASSED_STARTS: Final = "sec-websocket-"
_REASONS: Final = {401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed", 409: "Conflict",
                   429: "TooManyRequests", 503: "ServiceUnavailable", 504: "Timeout"}  # fmt: skip


class _WrongCertificate(OSError):
    """Another process listens at the kubelet's address."""


class KubeletEndpoints:
    """A connection for each request; credentials are reloaded when their files change."""

    def __init__(self, settings: KubeletSettings, issue: Callable[[str], str]) -> None:
        """Create the connections. `issue` returns a token for the kubelet with a certificate of this SHA-256."""
        self._settings, self._issue = settings, issue
        self._trusts: dict[bool, tuple[object, ssl.SSLContext]] = {}

    def place(self, node: Json) -> Place | None:
        """Return the address of a node's kubelet; None if the status has none."""
        status = node.get("status") or {}
        port: int = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port", 0)
        for kind in self._settings.addresses if port else ():
            for each in status.get("addresses") or ():
                if each.get("type") == kind and each.get("address"):
                    annotations = node["metadata"].get("annotations") or {}
                    return Place(each["address"], port, annotations.get(CERTIFICATE, ""))
        return None

    async def log(self, place: Place, target: str, pod: str, *, insecure: bool = False) -> Stream:
        """Stream a container's log. Raise upstream's errors."""
        host, port = place.host, place.port
        try:
            with outside(), timers(Timer.MACHINE):
                async with asyncio.timeout(_LONGEST_SECONDS):
                    reader, writer = await asyncio.open_connection(
                        host, port, ssl=self._trust(insecure), server_hostname=host
                    )
                    try:
                        headers = [(b"Host", f"{host}:{port}".encode()), *self._identify(place, writer)]
                    except _WrongCertificate:
                        writer.transport.abort()
                        raise
                    connection, answer = await send_request(reader, writer, "GET", target.encode("latin-1"), headers)
        except (OSError, ssl.SSLError, TimeoutError, InvalidResponse) as error:
            raise _build_error(error, place, target) from None
        stream = Stream(200, "text/plain")
        stream.chunks = _pieces(connection, reader, writer, stream)
        stream.when_ended.append(writer.transport.abort)
        if not 200 <= answer.status_code <= 206:
            raise await _refusal(answer.status_code, stream, pod)
        return stream

    async def switch(self, place: Place, target: str, request: Request) -> Response | Stream:
        """Return the kubelet's response to an upgrade request. Raise 400 and 500."""
        if "upgrade" not in request.headers:
            raise bad_request("Upgrade request required")
        host, port = place.host, place.port
        pairs = [
            (name.encode(), value.encode("latin-1"))
            for name, value in (*request.headers.items(), ("Host", f"{host}:{port}"))
            if name in (*_PASSED, "Host") or name.startswith(_PASSED_STARTS)
        ]
        try:
            with outside(), timers(Timer.MACHINE):
                async with asyncio.timeout(_LONGEST_SECONDS):
                    return await forward_upgrade(
                        (host, port), self._trust(False), host, request.method, target.encode("latin-1"), pairs, b"",
                        lambda writer: self._identify(place, writer),
                    )  # fmt: skip
        except (OSError, ssl.SSLError, TimeoutError, InvalidResponse) as error:
            raise _build_error(error, place, target) from None

    def _identify(self, place: Place, writer: asyncio.StreamWriter) -> list[tuple[bytes, bytes]]:
        """Return the header that identifies this server to a kubelet that names its certificate.

        Other kubelets get a client certificate or nothing. Raise _WrongCertificate.
        """
        if not place.certificate:
            return []
        certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        if hashlib.sha256(certificate).hexdigest() != place.certificate:
            raise _WrongCertificate
        return [(b"Authorization", f"Bearer {self._issue(place.certificate)}".encode())]

    def _trust(self, insecure: bool) -> ssl.SSLContext:
        """Return the TLS context. Raise OSError."""
        authority, shown = self._settings.authority, self._settings.shown or ()
        files: tuple[Path, ...] = (*shown, *((authority,) if authority is not None and not insecure else ()))
        mark = [stamp(file) for file in files]
        known = self._trusts.get(insecure)
        if known is None or known[0] != mark:
            certificate, key = (file.read_bytes() for file in shown) if shown else (b"", b"")
            anyone = authority is None or insecure
            credentials = Credentials(certificate=certificate, key=key, insecure=anyone)
            trust = trust_of(b"" if anyone or authority is None else authority.read_bytes(), credentials)
            known = self._trusts[insecure] = mark, trust
        return known[1]


def _build_error(error: BaseException, place: Place, target: str) -> StatusError:
    host, port, _ = place
    if isinstance(error, TimeoutError):
        text = "context deadline exceeded"
    elif isinstance(error, _WrongCertificate):
        text = "the certificate is not the one that the node's kubelet announced"
    else:
        text = connection_text(error, host, f"{host}:{port}")
    return StatusError(500, "", f'Get "https://{host}:{port}{target}": {text}')


async def _refusal(code: int, stream: Stream, pod: str) -> StatusError:
    """Convert a kubelet's error response to the client's error."""
    body = b""
    try:
        async for piece in stream.chunks:
            body += piece
            if len(body) >= _SHOWN:
                break
    finally:
        await stream.close()
    text = body[:_SHOWN].decode(errors="replace")
    if code == 500:
        return internal_error(text)
    if code == 400:
        return bad_request(text)
    reason = _REASONS.get(code, "InternalError" if code > 500 else "")
    return StatusError(code, reason, f"{answer_text(code, text)} ( pods/log {pod})", {"name": pod, "kind": "pods/log"})


async def _pieces(
    connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stream: Stream
) -> AsyncIterator[bytes]:
    import h11

    try:
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(await reader.read(64 * 1024))
            elif isinstance(event, h11.Data):
                stream.sent += len(event.data)
                yield bytes(event.data)
            else:
                break
    except (OSError, h11.RemoteProtocolError):
        return  # the log ends with the connection
    finally:
        await close_writer(writer)
        stream.finish()
