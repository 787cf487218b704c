"""What is served on sockets: the chain of handlers, and FastAPI for the paths that are its own.

FastAPI is imported when the first of its paths is asked for, in a thread: its import takes longer than the rest of the
start (docs/adr/0011-handlers.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apiserver.http.handlers.chain import HandlerChain
from apiserver.http.server.coalesce import Pace
from apiserver.http.server.relay import AsgiApp
from apiserver.http.server.webpages import WebPages

if TYPE_CHECKING:
    from apiserver.authentication.x509.client_certificates import ClientCertificates


@dataclass(slots=True)
class Patience:
    """Seconds within which a request has to arrive, once those before it are answered: as upstream, its head in 32 (its
    server's ReadHeaderTimeout), all of it in 60 (--request-timeout).
    """

    head: float = 32.0
    body: float = 60.0


class FrontEnd:
    """`chain` answers Kubernetes requests; `make_admin` imports and builds the FastAPI application. All streams of a
    server keep one `pace`. `web_pages` refuses what may come from a page in a browser, where access is open.
    """

    def __init__(
        self,
        chain: HandlerChain,
        make_admin: Callable[[], AsgiApp],
        web_pages: WebPages | None = None,
        certificates: ClientCertificates | None = None,
        claims: tuple[str, ...] = (),
    ) -> None:
        """`certificates` says whom a client's certificate names, where that counts; `claims` are how headers begin in
        which a front proxy says for whom it asks.
        """
        self.chain, self._make_admin, self.web_pages = chain, make_admin, web_pages
        self.certificates, self.claims = certificates, ("impersonate-", *claims)
        self._admin: asyncio.Future[AsgiApp] | None = None
        self.pace, self.patience = Pace(), Patience()

    async def admin(self) -> AsgiApp:
        """The FastAPI application; the first to ask waits for its import."""
        if self._admin is None:
            self._admin = asyncio.ensure_future(asyncio.to_thread(self._make_admin))
        return await asyncio.shield(self._admin)
