"""The front end for sockets: the chain of handlers, and FastAPI for its own paths.

FastAPI is imported in a thread on the first request for one of its paths: its import takes longer than the rest of the
start (docs/adr/0011-handlers.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apiserver.http.handlers.chain import HandlerChain
from apiserver.http.server.coalesce import Coalescer
from apiserver.http.server.relay import AsgiApp
from apiserver.http.server.turns import Turns
from apiserver.http.server.webpages import WebPages

if TYPE_CHECKING:
    from apiserver.authentication.x509.client_certificates import ClientCertificates


@dataclass(slots=True)
class ReadTimeouts:
    """Seconds within which a request must arrive, once earlier ones are answered.

    As upstream, its head in 32 s (the server's ReadHeaderTimeout), all of it in 60 s (--request-timeout).
    """

    head: float = 32.0
    body: float = 60.0


class FrontEnd:
    """The parts shared by all connections.

    `chain` answers Kubernetes requests; `build_admin` imports and builds the FastAPI application. All streams of a
    server share one `coalescer`. `web_pages` refuses possible requests of web pages in a browser, with open access.
    """

    def __init__(
        self,
        chain: HandlerChain,
        build_admin: Callable[[], AsgiApp],
        web_pages: WebPages | None = None,
        certificates: ClientCertificates | None = None,
        claims: tuple[str, ...] = (),
    ) -> None:
        """Create the front end.

        `certificates` maps client certificates to users, None if they are not accepted; `claims` are the prefixes of
        headers in which a front proxy names the user.
        """
        self.chain, self._build_admin, self.web_pages = chain, build_admin, web_pages
        self.certificates, self.claims = certificates, ("impersonate-", *claims)
        self._admin: asyncio.Future[AsgiApp] | None = None
        self.coalescer, self.read_timeouts, self.turns = Coalescer(), ReadTimeouts(), Turns()

    async def admin(self) -> AsgiApp:
        """Return the FastAPI application; the first caller waits for its import."""
        if self._admin is None:
            self._admin = asyncio.ensure_future(asyncio.to_thread(self._build_admin))
        return await asyncio.shield(self._admin)
