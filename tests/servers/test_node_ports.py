"""Two servers on one database never give one node port to two services."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from apiserver.resources.services.port_holds import PortHolds
from tests.support.postgres import fresh_schema
from tests.support.server import Running, serve
from tests.support.wire import Answer

pytestmark = pytest.mark.integration

SERVICES = "/api/v1/namespaces/default/services"
SIZE = 40
RANGE = f"30000-{30000 + SIZE - 1}"


@pytest.fixture
def servers(postgres_url: str) -> Iterator[list[Running]]:
    with ExitStack() as stack:
        flags = (f"--storage={fresh_schema(postgres_url)}", f"--service-node-port-range={RANGE}")
        yield [stack.enter_context(serve(*flags)) for _ in range(2)]


def create(server: Running, name: str, port: int = 0) -> Answer:
    ports = [{"port": 80, **({"nodePort": port} if port else {})}]
    return server.wire().post(SERVICES, {"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": ports}})


def node_ports(server: Running) -> Counter[int]:
    services = server.wire().get(SERVICES).json["items"]
    return Counter(port["nodePort"] for item in services for port in item["spec"]["ports"] if "nodePort" in port)


def test_simultaneous_services_of_two_servers_get_ports_of_their_own(servers: list[Running]) -> None:
    with ThreadPoolExecutor(16) as threads:
        made = threads.map(lambda number: create(servers[number % 2], f"s{number}").status, range(SIZE))
        assert set(made) == {201}
    assert node_ports(servers[0]) == dict.fromkeys(range(30000, 30000 + SIZE), 1)


def test_one_of_two_services_gets_a_port_that_both_request(servers: list[Running]) -> None:
    for round_ in range(5):
        with ThreadPoolExecutor(2) as threads:
            answers = list(threads.map(lambda i: create(servers[i], f"r{round_}-{i}", 30000 + round_), (0, 1)))  # noqa: B023
        assert sorted(answer.status for answer in answers) == [201, 422]
        refused = next(answer for answer in answers if answer.status == 422)
        assert "provided port is already allocated" in refused.json["message"]
    assert set(node_ports(servers[1]).values()) == {1}


def test_a_port_is_free_again_when_its_service_is_gone_or_was_refused(servers: list[Running]) -> None:
    for server in servers:
        assert create(server, "Wrong", 30001).status == 422
        assert create(server, "a", 30001).status == 201
        assert server.wire().request("DELETE", f"{SERVICES}/a").status == 200


def test_a_server_that_ended_during_a_write_blocks_its_port_only_for_a_while(servers: list[Running]) -> None:
    log = servers[0].server.log
    servers[0].call(lambda: log.get_or_set_meta("nodeport/30002", b"gone 1"))
    servers[0].call(lambda: log.get_or_set_meta("nodeport/30003", b"gone 99999999999"))
    assert [create(servers[1], f"b{port}", port).status for port in (30002, 30003)] == [201, 422]
    assert servers[0].call(lambda: log.get_meta("nodeport/30002")) is None


def test_a_port_that_another_service_gets_in_the_meantime_is_allocated(
    servers: list[Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    take, second = PortHolds.take, servers[1].server.registry

    async def late(holds: PortHolds, port: int) -> bool:
        if holds._registry is second:
            assert (await asyncio.to_thread(create, servers[0], "first", port)).status == 201
        return await take(holds, port)

    monkeypatch.setattr(PortHolds, "take", late)
    assert create(servers[1], "second", 30001).status == 422
