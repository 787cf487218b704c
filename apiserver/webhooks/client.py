"""Client of webhooks: post a review over HTTPS and return the response.

    webhooks = Webhooks(services, exists)
    answer = await webhooks.post(target_of(client_config), body, seconds=10)

Connections are kept in one pool per authority and name. A call waits on the event loop and blocks no other work. The
HTTP library is loaded at the first call.
"""

from __future__ import annotations

import asyncio
import math
import ssl
import sys
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Callable
from importlib import import_module
from posixpath import normpath
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from apiserver.api.objects import Json
from apiserver.runtime.clock import Timer, outside, timers
from apiserver.runtime.offload import on_loop
from apiserver.webhooks.connections import Connections
from apiserver.webhooks.failures import (
    WRONG_NAME,
    WebhookError,
    causes_of,
    connection_text,
    format_name_mismatch,
    response_error,
)
from apiserver.webhooks.services import HTTPS, Service, Services, resolve
from kubedra.kubeconfig.credentials import NO_CREDENTIALS, CredentialHeaders, Credentials

if TYPE_CHECKING:
    import httpx

__all__ = ["Answer", "Target", "Webhooks", "target_of", "trust_of"]


#: Maximum number of pools, the same as upstream's cached clients.
_POOLS: Final = 200
_TIMED_OUT: Final = "context deadline exceeded"


#: The part of the HTTP library that is loaded last.
_LIBRARY: Final = "anyio._backends._asyncio"


def import_library() -> None:
    """Import all of the HTTP library, also what its first request would import."""
    for name in ("httpx", "anyio", _LIBRARY):
        import_module(name)


class Target(NamedTuple):
    """A webhook's address.

    `url` is the URL in messages, `authority` in PEM (empty: the system's). `service` is set for services. `credentials`
    authenticate this server.
    """

    url: str
    host: str
    port: int
    authority: bytes
    service: Service | None
    credentials: Credentials = NO_CREDENTIALS


class Answer(NamedTuple):
    """A successful response."""

    code: int
    content_type: str
    body: bytes


def target_of(config: Json) -> Target:
    """Return the target of a clientConfig in stored form."""
    authority = b64decode(config.get("caBundle") or "").strip()
    service = config.get("service")
    if service is not None:
        of = Service(service["namespace"], service["name"], service.get("port") or HTTPS)
        path = _request_path(service.get("path") or "")
        return Target(f"https://{of.host}:{of.port}{path}", of.host, of.port, authority, of)
    parts = urlsplit(config["url"])
    url = f"{parts.scheme}://{parts.netloc}{_request_path(unquote(parts.path))}"
    return Target(url, parts.hostname or "", parts.port or HTTPS, authority, None)


def _request_path(path: str) -> str:
    """Return the path that is sent: without empty segments, dots and a final slash, encoded as by Go."""
    return quote(normpath(f"/{path.lstrip('/')}"), safe="/$&+,:;=@")


class Webhooks:
    """Calls webhooks.

    `services` are the addresses of services; `exists(namespace, name)` checks for a service in the cluster.
    """

    def __init__(self, services: Services, exists: Callable[[str, str], bool]) -> None:
        self._services, self._exists, self._tokens = services, exists, CredentialHeaders()
        #: Whether admission webhooks are called: not before `start`.
        self.started = False
        self._loading = asyncio.Lock()
        self._pools: OrderedDict[tuple[bytes, str, Credentials], Connections] = OrderedDict()

    def start(self) -> None:
        """Call admission webhooks for writes from now on.

        The server's own objects are stored before, because webhooks may start after the server.
        """
        self.started = True

    async def close(self) -> None:
        pools, self._pools = list(self._pools.values()), OrderedDict()
        for pool in pools:
            await pool.aclose()

    @on_loop
    async def post(self, target: Target, body: bytes, *, seconds: float, timed_out: str = _TIMED_OUT) -> Answer:
        """Post a review.

        Raises:
            WebhookError: Its text follows "failed to call webhook: ". It ends with `timed_out` if there is no response
                within `seconds`.
        """
        url = f"{target.url}{'&' if '?' in target.url else '?'}timeout={math.ceil(seconds)}s"
        if _LIBRARY not in sys.modules:
            async with self._loading:  # calls that wait go on one by one, so that others are served between them
                if _LIBRARY not in sys.modules:
                    await asyncio.to_thread(import_library)
        try:
            with outside(), timers(Timer.MACHINE):
                async with asyncio.timeout(seconds):
                    answer = await self._post(target, url, body)
        except TimeoutError:
            raise WebhookError(f'Post "{url}": {timed_out}') from None
        if (error := response_error(*answer)) is not None:
            raise error
        return answer

    async def _post(self, target: Target, url: str, body: bytes) -> Answer:
        import httpx

        host, port = target.host, target.port
        if target.service is not None:
            try:
                host, port = resolve(self._services, target.service, self._exists)
            except LookupError as error:
                raise WebhookError(f'Post "{url}": {error.args[0]}') from None
        parts = urlsplit(url)
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            shows = await self._tokens.headers(target.credentials)
        except (OSError, ValueError) as error:
            raise WebhookError(f'Post "{url}": the token of this server cannot be read: {error}') from None
        request = httpx.Request(
            "POST",
            f"{parts.scheme}://{place}{parts.path}?{parts.query}",
            headers=[
                ("host", parts.netloc),
                ("accept", "application/json, */*"),
                ("content-type", "application/json"),
                ("user-agent", "kube-apiserver-admission"),
                *shows,
            ],
            content=body,
            extensions={"sni_hostname": target.credentials.server_name or target.host},
        )
        try:
            async with self._pool(target).lend() as transport:
                return await self._send(transport, request)
        except (httpx.TransportError, OSError, ssl.SSLError) as error:
            text = await _failure_text(error, target, host, port, place)
            raise WebhookError(f'Post "{url}": {text}') from None

    async def _send(self, transport: httpx.AsyncHTTPTransport, request: httpx.Request) -> Answer:
        import httpx

        try:
            response = await transport.handle_async_request(request)
        except httpx.RemoteProtocolError:
            # The server may just have closed an idle connection.
            response = await transport.handle_async_request(request)
        try:
            body = await response.aread()
        except BaseException:
            # A caller that stops waiting must release the connection.
            await response.aclose()
            raise
        return Answer(response.status_code, response.headers.get("content-type", ""), body)

    def _pool(self, target: Target) -> Connections:
        """Return the connections to this name with this authority and these credentials."""
        key = (target.authority, target.host, target.credentials)
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = Connections(trust_of(target.authority, target.credentials))
            if len(self._pools) > _POOLS:
                _, oldest = self._pools.popitem(last=False)
                asyncio.ensure_future(oldest.aclose())  # noqa: RUF006 - closed in the background
        else:
            self._pools.move_to_end(key)
        return pool


def trust_of(authority: bytes, credentials: Credentials) -> ssl.SSLContext:
    """Return a context that trusts an authority, or those of the system.

    As in Go, any certificate in a bundle may be the server's own, and only alternative names are checked.
    """
    text = authority.decode(errors="replace")
    try:
        trust = ssl.create_default_context(cadata=text or None)
    except (ssl.SSLError, ValueError):
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts no authority, like Go's pool of a broken bundle
    trust.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    trust.verify_flags &= ~ssl.VERIFY_X509_STRICT
    trust.hostname_checks_common_name = False
    credentials.show(trust)
    return trust


async def _failure_text(error: BaseException, target: Target, host: str, port: int, place: str) -> str:
    """Return the error text of a call without a response."""
    for cause in causes_of(error):
        if isinstance(cause, ssl.SSLCertVerificationError) and cause.verify_code in WRONG_NAME:
            names = await asyncio.to_thread(_names_of, host, port)
            return f"tls: failed to verify certificate: {format_name_mismatch(target.host, names)}"
    return connection_text(error, host, place)


def _names_of(host: str, port: int) -> list[str]:
    """Return the alternative names of a server's certificate, [] if they cannot be read."""
    from cryptography import x509

    try:
        text = ssl.get_server_certificate((host, port), timeout=1.0)
        found = x509.load_pem_x509_certificate(text.encode()).extensions
        names = found.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound):
        return []
    addresses = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    return [*names.get_values_for_type(x509.DNSName), *addresses]
