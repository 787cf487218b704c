"""Addresses and node ports of services: allocated on creation, freed on deletion."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from apiserver.api.objects import Json
from apiserver.options.flags import SettingsError
from apiserver.options.settings import read
from tests.support.server import Running, serve
from tests.support.wire import Answer, Wire

pytestmark = pytest.mark.integration

SERVICES = "/api/v1/namespaces/default/services"
ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"
FLAGS = ("--service-cluster-ip-range=10.9.0.0/29,fd00::/112", "--service-node-port-range=30000-30003")
NAMES = (f"s{number}" for number in itertools.count())


@pytest.fixture
def wire(wire: Wire) -> Iterator[Wire]:
    """Every test begins with only the server's own service."""
    yield wire
    for service in wire.get(SERVICES).json["items"]:
        if service["metadata"]["name"] != "kubernetes":
            assert wire.delete(f"{SERVICES}/{service['metadata']['name']}").status == 200
    assert list_addresses(wire) == ["10.9.0.1"]


def service(name: str = "", **spec: Any) -> Json:
    return {"metadata": {"name": name or next(NAMES)}, "spec": {"ports": [{"port": 80}], **spec}}


def make(wire: Wire, query: str = "", **spec: Any) -> Json:
    made = wire.create(SERVICES + query, service(**spec))
    return {**made["spec"], "name": made["metadata"]["name"]}


def change(wire: Wire, name: str, **spec: Any) -> Answer:
    return wire.patch(f"{SERVICES}/{name}", {"spec": spec})


def list_addresses(wire: Wire) -> list[str]:
    return [item["metadata"]["name"] for item in wire.get(ADDRESSES).json["items"]]


def test_a_service_gets_an_address_which_an_object_holds_for_it(wire: Wire) -> None:
    spec = make(wire)
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    assert spec["ipFamilies"] == ["IPv4"]
    assert spec["ipFamilyPolicy"] == "SingleStack"
    holder = wire.get(f"{ADDRESSES}/{spec['clusterIP']}").json
    assert holder["spec"] == {"parentRef": {"resource": "services", "namespace": "default", "name": spec["name"]}}
    assert holder["metadata"]["labels"] == {
        "ipaddress.kubernetes.io/ip-family": "IPv4",
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    }
    refusal = wire.post(SERVICES, service("again", clusterIP=spec["clusterIP"]))
    assert refusal.message == (
        f'Service "again" is invalid: spec.clusterIPs: Invalid value: ["{spec["clusterIP"]}"]: failed to allocate IP'
        f" {spec['clusterIP']}: provided IP is already allocated"
    )
    outside = wire.post(SERVICES, service("out", clusterIP="10.8.0.1")).message
    assert outside.endswith("failed to allocate IP 10.8.0.1: the provided network does not match the current range")


def test_a_range_is_used_up_and_what_fails_takes_nothing(wire: Wire) -> None:
    made = [make(wire)["clusterIP"] for _ in range(5)]
    assert sorted(made) == [f"10.9.0.{number}" for number in range(2, 7)]
    full = wire.post(SERVICES, service("full"))
    assert full.refusal == (
        500,
        'Internal error occurred: failed to allocate a serviceIP for Service "full": range is full',
    )
    assert wire.delete(f"{SERVICES}/{wire.get(SERVICES).json['items'][-1]['metadata']['name']}").status == 200
    assert wire.post(SERVICES, service("wrong", ports=[{"port": 0}])).status == 422
    assert len(list_addresses(wire)) == 5
    assert make(wire)["clusterIP"] in made


def test_a_service_without_a_name_is_refused_because_its_address_needs_one(wire: Wire) -> None:
    """The words are upstream's, which validates the name after the allocation of addresses."""
    lacks = "is invalid: spec.parentRef.name: Required value"
    asked = wire.post(SERVICES, {"metadata": {}, "spec": {"ports": [{"port": 80}], "clusterIP": "10.9.0.5"}})
    told = f'["10.9.0.5"]: failed to allocate IP 10.9.0.5: IPAddress.networking.k8s.io "10.9.0.5" {lacks}'
    assert asked.refusal == (422, f'Service "" is invalid: spec.clusterIPs: Invalid value: {told}')
    chosen = wire.post(SERVICES, {"spec": {"ports": [{"port": 80}]}})
    assert chosen.status == 422
    assert 'Invalid value: [""]: failed to allocate IP : IPAddress.networking.k8s.io' in chosen.message


def test_another_range_gives_addresses_as_soon_as_it_is_there(wire: Wire) -> None:
    ranges = "/apis/networking.k8s.io/v1/servicecidrs"
    wire.create(ranges, {"metadata": {"name": "more"}, "spec": {"cidrs": ["10.10.0.0/30"]}})
    assert make(wire, clusterIP="10.10.0.1")["clusterIPs"] == ["10.10.0.1"]
    assert wire.delete(f"{ranges}/more").status == 200
    assert wire.post(SERVICES, service("late", clusterIP="10.10.0.2")).status == 422


def test_a_dry_run_takes_nothing(wire: Wire) -> None:
    assert make(wire, "?dryRun=All", type="NodePort")["clusterIP"] == "10.9.0.0"
    assert list_addresses(wire) == ["10.9.0.1"]
    ports = {make(wire, type="NodePort")["ports"][0]["nodePort"] for _ in range(4)}
    assert ports == {30000, 30001, 30002, 30003}


def test_a_service_may_have_an_address_of_each_family_and_give_the_second_one_back(wire: Wire) -> None:
    spec = make(wire, ipFamilyPolicy="PreferDualStack")
    assert spec["ipFamilies"] == ["IPv4", "IPv6"]
    assert sorted(list_addresses(wire)) == sorted(["10.9.0.1", *spec["clusterIPs"]])
    kept = change(wire, spec["name"], clusterIPs=spec["clusterIPs"][:1], ipFamilies=["IPv4"])
    assert kept.message.count("must be 'SingleStack' to release the secondary") == 2
    single = change(wire, spec["name"], ipFamilyPolicy="SingleStack").json["spec"]
    assert (single["clusterIPs"], single["ipFamilies"]) == (spec["clusterIPs"][:1], ["IPv4"])
    assert sorted(list_addresses(wire)) == sorted(["10.9.0.1", spec["clusterIP"]])
    both = change(wire, spec["name"], ipFamilyPolicy="RequireDualStack").json["spec"]
    assert len(both["clusterIPs"]) == 2
    assert make(wire, clusterIP="None")["ipFamilies"] == ["IPv4", "IPv6"]
    assert make(wire, ipFamilies=["IPv6"])["clusterIP"].startswith("fd00::")


def test_an_external_name_gives_its_address_back(wire: Wire) -> None:
    spec = make(wire)
    named = change(wire, spec["name"], type="ExternalName", externalName="example.com")
    assert "clusterIP" not in named.json["spec"]
    assert list_addresses(wire) == ["10.9.0.1"]
    assert change(wire, spec["name"], type="ClusterIP").json["spec"]["clusterIP"] in list_addresses(wire)


def test_ports_of_one_number_share_a_node_port_and_keep_it_by_name(wire: Wire) -> None:
    ports = [{"name": "a", "port": 53, "protocol": kind} for kind in ("TCP", "UDP")]
    ports[1]["name"] = "b"
    spec = make(wire, type="NodePort", ports=[{"name": "c", "port": 80, "nodePort": 30003}, *ports])
    third, first, second = [port["nodePort"] for port in spec["ports"]]
    assert (first, third) == (second, 30003)
    fewer = change(wire, spec["name"], ports=[{"name": "c", "port": 81}]).json["spec"]["ports"]
    assert fewer[0]["nodePort"] == 30003
    assert make(wire, type="NodePort", ports=[{"port": 1, "nodePort": first}])["ports"][0]["nodePort"] == first
    taken = wire.post(SERVICES, service("t", type="NodePort", ports=[{"port": 1, "nodePort": 30003}]))
    assert taken.message.endswith("nodePort: Invalid value: 30003: provided port is already allocated")
    outside = wire.post(SERVICES, service("t", type="NodePort", ports=[{"port": 1, "nodePort": 80}])).message
    assert outside.endswith("provided port is not in the valid range. The range of valid ports is 30000-30003")


def test_a_balancer_has_a_port_for_health_checks_and_others_only_if_it_wants_them(wire: Wire) -> None:
    local = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}
    spec = make(wire, **local, allocateLoadBalancerNodePorts=False)
    assert "nodePort" not in spec["ports"][0]
    port = spec["healthCheckNodePort"]
    assert wire.post(SERVICES, service("h", **local, healthCheckNodePort=port)).status == 500
    assert change(wire, spec["name"], type="ClusterIP").status == 200
    again = make(wire, **local, allocateLoadBalancerNodePorts=False, healthCheckNodePort=port)
    assert again["healthCheckNodePort"] == port


def test_the_servers_own_service_leads_to_it_and_comes_back_with_a_reset(running: Running, wire: Wire) -> None:
    make(wire, type="NodePort")
    before = wire.get(f"{SERVICES}/kubernetes").json
    assert before["spec"]["clusterIP"] == "10.9.0.1"
    assert before["metadata"]["labels"] == {"component": "apiserver", "provider": "kubernetes"}
    assert wire.post("/-/reset", {}).status == 200
    after = wire.get(f"{SERVICES}/kubernetes").json
    assert after["spec"] == before["spec"]
    assert list_addresses(wire) == ["10.9.0.1"]
    (subset,) = wire.get("/api/v1/namespaces/default/endpoints/kubernetes").json["subsets"]
    found = wire.get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes").json
    assert [subset["addresses"][0]["ip"]] == found["endpoints"][0]["addresses"]
    assert found["metadata"]["labels"] == {"kubernetes.io/service-name": "kubernetes"}
    found = wire.get("/apis/networking.k8s.io/v1/servicecidrs/kubernetes").json
    applied = found["metadata"]["managedFields"][0]
    assert (applied["manager"], applied["subresource"]) == ("kubernetes-service-cidr-controller", "status")
    assert [(item["type"], item["status"]) for item in found["status"]["conditions"]] == [("Ready", "True")]


def test_endpoints_go_with_their_service(wire: Wire) -> None:
    name, path = make(wire)["name"], "/api/v1/namespaces/default/endpoints"
    wire.create(path, {"metadata": {"name": name}})
    assert wire.delete(f"{SERVICES}/{name}").status == 200
    assert wire.get(f"{path}/{name}").status == 404


def test_a_start_repairs_what_holds_addresses(running: Running, wire: Wire) -> None:
    server = running.server
    address = make(wire)["clusterIP"]
    assert wire.delete(f"{ADDRESSES}/{address}").status == 200
    labels = {"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}
    for name in ("192.0.2.8", "192.0.2.9"):
        parent = {"resource": "services", "namespace": "default", "name": "gone"}
        sent = {"metadata": {"name": name, "labels": labels}, "spec": {"parentRef": parent}}
        wire.create(ADDRESSES, sent)

    def aged(obj: Any) -> Any:
        return {**obj, "metadata": {**obj["metadata"], "creationTimestamp": "2020-01-01T00:00:00Z"}}

    async def start_again() -> None:
        assert server.registry.rewrite is not None
        await server.registry.rewrite("networking.k8s.io", "ipaddresses", "", "192.0.2.8", aged)
        await server.built_in.ensure()

    running.call(start_again)
    # The other one may be that of a service that is not stored yet.
    assert sorted(list_addresses(wire)) == sorted(["10.9.0.1", address, "192.0.2.9"])
    assert wire.delete(f"{ADDRESSES}/192.0.2.9").status == 200


def test_a_server_starts_without_its_service_where_the_range_of_the_service_is_going(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ranges, service = (
        "/apis/networking.k8s.io/v1/servicecidrs/kubernetes",
        "/api/v1/namespaces/default/services/kubernetes",
    )
    with serve() as running:
        wire = Wire(running.url)
        assert wire.delete(service).status == 200
        # No controller removes the finalizer here.
        assert wire.delete(f"{ranges}?propagationPolicy=Foreground").status == 200
        running.call(running.server.built_in.ensure)
        assert wire.get(service).status == 404
        assert 'Service "kubernetes" is invalid' in caplog.text
        assert wire.patch(ranges, {"metadata": {"finalizers": None}}).status == 200
        running.call(running.server.built_in.ensure)
        assert wire.get(service).json["spec"]["clusterIP"].endswith(".1")


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        ("--service-cluster-ip-range=10.0.0.0/24,10.1.0.0/24", "must be of different IP family"),
        ("--service-cluster-ip-range=x", "not a range in CIDR notation"),
        ("--service-node-port-range=5-4", "the first one not after the last one"),
        ("--advertise-address=here", "not an IP address"),
    ],
)
def test_ranges_that_are_none_are_refused_at_the_start(flag: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        read([flag])
