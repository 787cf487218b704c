"""The servers behind this one, put together: their client, who follows them, and the handler that passes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from apiserver.aggregation.client import RemoteClient
from apiserver.aggregation.remotes import Addresses
from apiserver.aggregation.servers import RemoteServers, Server
from apiserver.http.handlers.aggregated import Aggregated

if TYPE_CHECKING:
    from apiserver.http.handlers.chain import HandlerChain
    from apiserver.options.settings import Settings
    from apiserver.registry.store.store import Registry
    from apiserver.request.messages import User

__all__ = ["Aggregation"]


class Aggregation:
    """`show` is told of the servers whenever something about them changed."""

    def __init__(
        self, registry: Registry, settings: Settings, user: User, show: Callable[[Iterable[Server]], None]
    ) -> None:
        client = RemoteClient(settings.network.proxy_client)
        addresses = Addresses(settings.service_addresses, registry.lookup, registry.all_of)
        self._servers = RemoteServers(registry, addresses, client, user, self._changed)
        self._link, self._linked, self._show = Aggregated(self._servers, client), False, show
        self._chain: HandlerChain | None = None

    async def start(self, chain: HandlerChain) -> None:
        """Joins the chain as soon as, and as long as, there is a server to ask."""
        self._chain = chain
        await self._servers.start()

    async def stop(self) -> None:
        await self._servers.stop()

    def _changed(self) -> None:
        chain, wanted = self._chain, bool(self._servers.known)
        assert chain is not None, "nothing is followed before the start"
        if wanted and not self._linked:
            chain.put_last(self._link)
        elif self._linked and not wanted:
            chain.take_out(self._link)
        self._linked = wanted
        self._show(self._servers.known.values())
