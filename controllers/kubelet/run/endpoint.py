"""The kubelet's endpoint for logs and exec, for an API server in another process: HTTP over TLS on loopback.

`GET /containerLogs/NAMESPACE/POD/CONTAINER?…` returns the log until the connection ends.
`/exec/NAMESPACE/POD/CONTAINER?command=…` becomes a websocket (`exec`). A container without a process returns 404. The
paths are those of upstream's kubelet.

The certificate is made at the start. A caller needs a token that the API server confirms for this certificate, so that
no other user of the machine can read logs or run commands, and no other process can use a token that it received.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import ipaddress
import logging
import ssl
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from apiserver.api.errors.status import StatusError
from apiserver.api.helpers.pod_logs import LogOptions
from apiserver.api.objects import Json
from apiserver.runtime import clock
from controllers.kubelet.run.containers import ProcessContainers
from controllers.kubelet.run.exec import respond, run_in
from controllers.kubelet.run.server import send_log
from controllers.runtime.client import Client
from controllers.runtime.transport import TransportError
from kubedra.runtime import private_files as private

log = logging.getLogger(__name__)
#: Returns the pod with a namespace and a name, and the containers of its node; None if there is none.
FindNamedPod = Callable[[str, str], tuple[Json, ProcessContainers] | None]

ADDRESS: Final = "127.0.0.1"
_AUDIENCE: Final = "kubedra.dev/kubelet/"
#: Beginning of the tokens that a server makes for kubelets.
_START: Final = "kubelet."
_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
#: Maximum size of a request's head in bytes, and of the seconds until it has arrived.
_LONGEST_HEAD, _HEAD_SECONDS = 64 * 1024, 10.0


@dataclass(frozen=True, slots=True)
class Announcement:
    """What the Node says about its kubelet: a port on `ADDRESS`, and the SHA-256 of the certificate."""

    port: int
    certificate: str


class KubeletEndpoint:
    """The endpoint of the kubelet of one node."""

    def __init__(self, client: Client, find: FindNamedPod) -> None:
        """`client` asks the API server about tokens, with the node's credentials."""
        self._client, self._find = client, find
        self._server: asyncio.Server | None = None
        self._fingerprint = ""

    async def start(self) -> Announcement:
        """Listen on a free port. Raise OSError."""
        context, self._fingerprint = await asyncio.to_thread(_context)
        self._server = await asyncio.start_server(self._serve, ADDRESS, 0, ssl=context, limit=_LONGEST_HEAD)
        port: int = self._server.sockets[0].getsockname()[1]
        return Announcement(port, self._fingerprint)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with clock.timers(clock.Timer.MACHINE):
                async with asyncio.timeout(_HEAD_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
            if await self._is_api_server(_token(head)):
                await self._answer(head, reader, writer)
            else:
                await respond(writer, "401 Unauthorized", "Unauthorized")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, TimeoutError):
            pass
        except Exception:
            log.exception("a request for a container failed")
        finally:
            with suppress(ConnectionError, ssl.SSLError):
                writer.close()

    async def _is_api_server(self, token: str) -> bool:
        """Return whether the API server confirms that it made the token for this certificate."""
        if not token.startswith(_START):
            return False  # without a question that any user of the machine could cause
        audience = f"{_AUDIENCE}{self._fingerprint}"
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [audience]},
        }
        try:
            status = (await self._client.request("POST", _REVIEWS, "", body)).get("status") or {}
        except (StatusError, TransportError) as error:
            log.warning("cannot verify a caller: %s", error)
            return False
        return status.get("authenticated") is True and status.get("audiences") == [audience]

    async def _answer(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = urlsplit(head.split(b" ", 2)[1].decode("latin-1"))
        parts = [unquote(part) for part in target.path.strip("/").split("/")]
        if len(parts) != 4 or parts[0] not in ("containerLogs", "exec"):
            await respond(writer, "404 Not Found", "404 page not found")
            return
        what, namespace, pod, container = parts
        params = parse_qs(target.query, keep_blank_values=True)
        found, options = self._find(namespace, pod), LogOptions.parse(params, clock.now())
        previous = what == "containerLogs" and options.previous
        process = None if found is None else found[1].process(found[0], container, previous=previous)
        if process is None:
            await respond(writer, "404 Not Found", f"container {container} has no process")
        elif what == "containerLogs":
            await send_log(writer, process, options)
        elif process.end is not None:
            await respond(writer, "400 Bad Request", f"container {container} is not running")
        else:
            await run_in(process, params, head, reader, writer)


def _token(head: bytes) -> str:
    """Return the bearer token of a request; "" if it has none or several."""
    found = [
        value.strip()
        for name, _, value in (line.partition(":") for line in head.decode("latin-1").split("\r\n")[1:])
        if name.strip().lower() == "authorization"
    ]
    scheme, _, token = found[0].partition(" ") if len(found) == 1 else ("", "", "")
    return token.strip() if scheme.lower() == "bearer" else ""


def _context() -> tuple[ssl.SSLContext, str]:
    """Make a certificate. Return a server's context with it, and its SHA-256 in hexadecimal."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubedra-kubelet")])
    names = [x509.IPAddress(ipaddress.ip_address(ADDRESS)), x509.DNSName("localhost")]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + dt.timedelta(days=3650))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with tempfile.TemporaryDirectory(prefix="kubedra-kubelet-") as directory:
        file = Path(directory) / "tls.pem"
        plain = serialization.NoEncryption()
        pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        private.write(file, pem + certificate.public_bytes(serialization.Encoding.PEM))
        context.load_cert_chain(file)
    return context, hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest()
