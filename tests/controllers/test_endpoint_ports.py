"""Ports of EndpointSlices: their order, and the lists that the controllers own."""

from __future__ import annotations

import pytest

from apiserver.api.objects import Json
from controllers.endpoints.slices import _port_hash, in_stored_order
from controllers.runtime.kinds import ENDPOINT_SLICES, SERVICES
from tests.scheduler.world import World
from tests.support.virtual import passes


def make_port(name: str, port: int, protocol: str = "TCP", app: str = "") -> Json:
    return {"name": name, "port": port, "protocol": protocol, **({"appProtocol": app} if app else {})}


HTTP, HTTPS, DNS = make_port("http", 80), make_port("https", 443), make_port("dns", 53, "UDP")
GRPC, UNNAMED = make_port("grpc", 9000, app="grpc"), make_port("", 1)


@pytest.mark.parametrize(
    ("port", "expected"),
    [
        (HTTP, 0xB6C4D325122A5BA6F795B0BBFFCEBB6F),
        (HTTPS, 0x50852F610B5FBBF5129025D35E502185),
        (DNS, 0x1CAF216365B57B5D2659D4BA9F662580),
        (GRPC, 0x964CDA86ECE576C457A91F010F4DFB8F),
        (UNNAMED, 0x572FC4C8800DC26E50EA194CD423C784),
    ],
)
def test_ports_have_the_hashes_of_upstreams_values(port: Json, expected: int) -> None:
    assert _port_hash(port) == expected


def test_ports_are_stored_in_the_order_of_their_hashes() -> None:
    for ports in ([HTTP, HTTPS, DNS], [DNS, HTTPS, HTTP]):
        assert in_stored_order(ports) == [DNS, HTTPS, HTTP]


@pytest.mark.integration
async def test_a_slice_without_endpoints_has_no_owner_of_endpoints_and_ports() -> None:
    metadata = {"name": "web", "namespace": "ns"}
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    async with World("endpointslice-controller") as world:
        await world.create(SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
        await passes(2)
        [slice_] = (await world.client.list(ENDPOINT_SLICES, "ns"))["items"]
    [entry] = slice_["metadata"]["managedFields"]
    assert entry["fieldsV1"].keys() == {"f:addressType", "f:metadata"}
