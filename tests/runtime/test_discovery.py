"""What a server serves, asked in the aggregated form and, of servers that do not know it, document by document."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import pytest

from controllers.runtime.client import Client
from controllers.runtime.discovery import served_kinds
from controllers.runtime.transport import Headers, Transport
from tests.scheduler.world import World

pytestmark = pytest.mark.integration


class OfAnOldServer:
    """A transport to a server that knows one form of JSON."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.asked: list[str] = []

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Headers, bytes]:
        self.asked.append(path)
        return await self._transport.request(method, path, query, {**headers, "accept": "application/json"}, body)

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str], deadline: float | None = None
    ) -> tuple[int, Headers, AsyncIterator[bytes]]:
        return await self._transport.stream(method, path, query, headers, deadline)

    async def close(self) -> None: ...


@pytest.mark.real_time
async def test_old_and_new_servers_are_understood_alike() -> None:
    async with World() as world:
        transport = world.client.transport
        old = OfAnOldServer(transport)
        kinds = await served_kinds(Client(transport), verbs=("list", "delete"))
        assert kinds == await served_kinds(Client(old), verbs=("list", "delete"))
        assert "/apis/resource.k8s.io/v1beta1" in old.asked
        found = {str(kind): kind for kind in kinds}
        assert kinds[0].group == ""
        assert found["resourceclaims.resource.k8s.io"].version == "v1"
        assert found["resourcepoolstatusrequests.resource.k8s.io"].version == "v1alpha3"
        assert not found["nodes"].namespaced
        assert "bindings" not in found
