"""The aggregated API servers: their client, the task that follows them, and the proxying handler."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from apiserver.aggregation.client import RemoteClient
from apiserver.aggregation.remotes import Addresses
from apiserver.aggregation.servers import RemoteServers, Server
from apiserver.http.handlers.aggregated import AggregationHandler

if TYPE_CHECKING:
    from apiserver.http.handlers.chain import HandlerChain
    from apiserver.options.settings import Settings
    from apiserver.registry.store.store import Registry
    from apiserver.request.messages import User

__all__ = ["Aggregation"]


class Aggregation:
    """The aggregated API servers.

    Their handler joins the chain while there are any. `show` is called with the servers after each change.
    """

    def __init__(
        self,
        registry: Registry,
        settings: Settings,
        user: User,
        chain: HandlerChain,
        show: Callable[[Iterable[Server]], None],
    ) -> None:
        client = RemoteClient(settings.network.proxy_client)
        addresses = Addresses(settings.service_addresses, registry.lookup, registry.all_of)
        self._servers = RemoteServers(registry, addresses, client, user, self._update_chain)
        self._link, self._linked, self._chain, self._show = (
            AggregationHandler(self._servers, client),
            False,
            chain,
            show,
        )

    async def start(self) -> None:
        await self._servers.start()

    async def stop(self) -> None:
        await self._servers.stop()

    def _update_chain(self) -> None:
        wanted = bool(self._servers.known)
        if wanted and not self._linked:
            self._chain.append_link(self._link)
        elif self._linked and not wanted:
            self._chain.remove_link(self._link)
        self._linked = wanted
        self._show(self._servers.known.values())
