"""Services have the addresses of their pods, in slices and in Endpoints. The server is real, time is virtual."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from apiserver.runtime.clock import now
from controllers.endpoints.slices import (
    Endpoints,
    Plan,
    key_of_endpoint,
    key_of_ports,
    new_slice,
    plan_family,
)
from controllers.endpoints.subsets import repack, truncate
from controllers.runtime.kinds import ENDPOINT_SLICES, ENDPOINTS, NODES, PODS, SERVICES
from controllers.runtime.times import go_time
from tests.scheduler.world import World
from tests.support.objects import make_pod
from tests.support.virtual import passes

pytestmark = pytest.mark.integration

COMPONENTS = ("endpoints-controller", "endpointslice-controller", "endpointslice-mirroring-controller")


def a_service(name: str = "web", selector: Json | None = None, **spec: Any) -> Json:
    ports = [{"name": "http", "port": 80, "targetPort": "web"}]
    metadata = {"name": name, "namespace": "ns", "labels": {"team": "a"}}
    selected = {"selector": {"app": "web"} if selector is None else selector} if selector != {} else {}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports, **selected, **spec}}


async def node(world: World, name: str, zone: str) -> None:
    labels = {"topology.kubernetes.io/zone": zone}
    await world.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})


async def pod(world: World, name: str, number: int, *, ready: bool = True, on: str = "n1", port: int = 8080) -> None:
    ports = [{"name": "web", "containerPort": port}]
    made = await world.create(PODS, make_pod(name, labels={"app": "web"}, ports=ports))
    await world.client.bind("ns", name, made["metadata"]["uid"], on)
    await report(world, name, number, ready=ready)


async def report(world: World, name: str, number: int, *, ready: bool) -> None:
    fresh = await world.client.get(PODS, name, "ns")
    condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": go_time(now())}
    address = f"10.0.0.{number}"
    status = {"phase": "Running", "conditions": [condition], "podIP": address, "podIPs": [{"ip": address}]}
    await world.client.update_status(PODS, {**fresh, "status": status})


async def slices(world: World) -> list[Json]:
    await passes(2)
    return list((await world.client.list(ENDPOINT_SLICES, "ns"))["items"])


async def conditions_by_address(world: World) -> dict[str, str]:
    """Return the conditions of the only slice's endpoints by address, one letter each."""
    (one,) = await slices(world)
    return {
        each["addresses"][0]: "".join(name[0] for name, holds in each["conditions"].items() if holds)
        for each in one["endpoints"]
    }


async def test_a_service_has_the_addresses_of_its_pods_as_they_come_become_ready_and_go() -> None:
    async with World(*COMPONENTS) as world:
        await node(world, "n1", "east")
        await world.create(SERVICES, a_service())
        (empty,) = await slices(world)
        assert (empty.get("endpoints") or [], empty.get("ports") or []) == ([], [])
        await pod(world, "a", 1)
        await pod(world, "b", 2, ready=False)
        assert await conditions_by_address(world) == {"10.0.0.1": "rs", "10.0.0.2": ""}
        (one,) = await slices(world)
        assert one["metadata"]["name"] == empty["metadata"]["name"]
        assert one["metadata"]["labels"] == {
            "team": "a", "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        }  # fmt: skip
        assert one["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
        endpoint = next(each for each in one["endpoints"] if each["addresses"] == ["10.0.0.1"])
        assert (endpoint["nodeName"], endpoint["zone"], endpoint["targetRef"]["name"]) == ("n1", "east", "a")
        subsets = (await world.client.get(ENDPOINTS, "web", "ns"))["subsets"]
        assert [address["ip"] for address in subsets[0]["addresses"]] == ["10.0.0.1"]
        assert [address["ip"] for address in subsets[0]["notReadyAddresses"]] == ["10.0.0.2"]
        await report(world, "b", 2, ready=True)
        await world.client.delete(PODS, "a", "ns")
        assert await conditions_by_address(world) == {"10.0.0.1": "st", "10.0.0.2": "rs"}
        (subset,) = (await world.client.get(ENDPOINTS, "web", "ns"))["subsets"]
        assert [address["ip"] for address in subset["addresses"]] == ["10.0.0.2"]
        await world.client.delete(SERVICES, "web", "ns")
        await passes(2)
        assert (await world.client.list(ENDPOINTS, "ns"))["items"] == []


async def test_pods_whose_port_has_another_number_have_a_slice_of_their_own() -> None:
    async with World(*COMPONENTS) as world:
        await node(world, "n1", "east")
        await world.create(SERVICES, a_service())
        await pod(world, "a", 1)
        await pod(world, "b", 2, port=9090)
        found = sorted(
            (one["ports"][0]["port"], one["endpoints"][0]["targetRef"]["name"]) for one in await slices(world)
        )
        assert found == [(8080, "a"), (9090, "b")]
        subsets = (await world.client.get(ENDPOINTS, "web", "ns"))["subsets"]
        assert sorted(subset["ports"][0]["port"] for subset in subsets) == [8080, 9090]


async def test_a_service_may_want_traffic_to_stay_near_and_addresses_that_are_not_ready() -> None:
    async with World(*COMPONENTS) as world:
        await node(world, "n1", "east")
        await pod(world, "a", 1, ready=False)
        headless = a_service(clusterIP="None", publishNotReadyAddresses=True, trafficDistribution="PreferClose")
        await world.create(SERVICES, headless)
        (one,) = await slices(world)
        assert one["endpoints"][0]["hints"] == {"forZones": [{"name": "east"}]}
        assert one["endpoints"][0]["conditions"] == {"ready": True, "serving": False, "terminating": False}
        assert "service.kubernetes.io/headless" in one["metadata"]["labels"]
        # Hints by the processors of zones would be others; with few endpoints there are none.
        modes: tuple[Json, ...] = (
            {"mode": "Auto"},
            {"mode": "Disabled"},
            {"mode": None, "aware-hints": "auto"},
            {"aware-hints": None},
        )
        for number, mode in enumerate(modes):
            annotations = {f"service.kubernetes.io/topology-{name}": value for name, value in mode.items()}
            await world.client.patch(SERVICES, "web", {"metadata": {"annotations": annotations}}, "ns")
            (one,) = await slices(world)
            assert ("hints" in one["endpoints"][0]) == (number % 2 == 1)
        await world.client.patch(SERVICES, "web", {"spec": {"trafficDistribution": None}}, "ns")
        (one,) = await slices(world)
        assert "hints" not in one["endpoints"][0]


async def test_endpoints_of_users_are_mirrored_while_the_service_has_no_selector() -> None:
    async with World(*COMPONENTS) as world:
        await world.create(SERVICES, a_service(selector={}))
        ports = [{"name": "http", "port": 8080}]
        subsets = [{"addresses": [{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}], "ports": ports}]
        written = {"metadata": {"name": "web", "namespace": "ns", "labels": {"by": "hand"}}, "subsets": subsets}
        await world.create(ENDPOINTS, {"apiVersion": "v1", "kind": "Endpoints", **written})
        found = {one["addressType"]: one for one in await slices(world)}
        assert {family: one["endpoints"][0]["addresses"] for family, one in found.items()} == {
            "IPv4": ["192.0.2.1"], "IPv6": ["2001:db8::1"],
        }  # fmt: skip
        assert found["IPv4"]["metadata"]["labels"]["by"] == "hand"
        assert found["IPv4"]["metadata"]["ownerReferences"][0]["kind"] == "Endpoints"
        await world.client.patch(
            ENDPOINTS, "web", {"subsets": [{"addresses": [{"ip": "192.0.2.9"}], "ports": ports}]}, "ns"
        )
        (one,) = await slices(world)
        assert (one["metadata"]["name"], one["endpoints"][0]["addresses"]) == (
            found["IPv4"]["metadata"]["name"], ["192.0.2.9"],
        )  # fmt: skip
        await world.client.patch(
            ENDPOINTS, "web", {"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}}, "ns"
        )
        assert await slices(world) == []


OWNER = {
    "metadata": {"name": "web", "namespace": "ns", "uid": "u"},
    "spec": {"clusterIP": "10.96.0.1"},
    "kind": "Service",
}
PORTS = [{"name": "", "port": 80, "protocol": "TCP"}]


def endpoints(*numbers: int) -> Endpoints:
    made = [{"addresses": [f"10.0.0.{number}"], "conditions": {"ready": True}} for number in numbers]
    return {key_of_endpoint(each): each for each in made}


def make_slice(name: str, *numbers: int) -> Json:
    made = new_slice(OWNER, PORTS, "IPv4", "m")
    metadata = {**made["metadata"], "name": name}
    return {**made, "metadata": metadata, "endpoints": list(endpoints(*numbers).values())}


def sizes(plan: Plan) -> tuple[list[int], list[tuple[str, int]], list[str]]:
    return (
        sorted(len(each["endpoints"]) for each in plan.create),
        sorted((each["metadata"]["name"], len(each["endpoints"])) for each in plan.update),
        sorted(each["metadata"]["name"] for each in plan.delete),
    )


@pytest.mark.parametrize(
    ("wanted", "existing", "created", "updated", "deleted"),
    [
        ((1, 2, 3, 4, 5), (), [2, 3], [], []),
        ((1, 2), (("a", 1, 2),), [], [], []),
        # What is new goes where something changes anyway, then where it just fits, then into a new slice.
        ((1, 4), (("a", 1, 2), ("b", 3)), [], [("a", 2)], ["b"]),
        ((1, 2, 3, 4), (("a", 1, 2), ("b", 3)), [], [("a", 3)], []),
        ((1, 2, 3, 4, 5), (("a", 1, 2), ("b", 3)), [], [("b", 3)], []),
        ((1, 2, 3, 4), (("a", 1, 2, 3),), [1], [], []),
        ((), (("a", 1, 2),), [0], [], ["a"]),
    ],
)
def test_endpoints_stay_in_their_slice_and_few_slices_change(
    wanted: tuple[int, ...], existing: tuple[Any, ...], created: list[int], updated: list[Any], deleted: list[str]
) -> None:
    desired = {key_of_ports(PORTS): (PORTS, endpoints(*wanted))} if wanted else {}
    known = [make_slice(name, *numbers) for name, *numbers in existing]
    plan = plan_family(OWNER, "IPv4", desired, known, manager="m", most=3)
    assert sizes(plan) == (created, updated, deleted)


def test_subsets_are_as_few_as_possible_and_ready_addresses_come_first() -> None:
    one, other = {"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}
    a, b = {"name": "a", "port": 1}, {"name": "b", "port": 2}
    found = repack(
        [
            {"addresses": [one], "ports": [a]}, {"addresses": [one], "ports": [b]},
            {"notReadyAddresses": [other], "ports": [a]}, {"notReadyAddresses": [other], "ports": [b]},
        ]
    )  # fmt: skip
    assert found == [{"addresses": [one], "notReadyAddresses": [other], "ports": [a, b]}]
    many = [{"ip": f"10.{n // 250}.{n % 250}.1"} for n in range(990)]
    (cut,) = truncate([{"addresses": many, "notReadyAddresses": many}])
    assert (len(cut["addresses"]), len(cut["notReadyAddresses"])) == (990, 10)


def test_ports_and_subsets_stand_in_the_order_of_upstreams_hashes() -> None:
    """The expected values come from RepackSubsets of 1.36.2."""
    ref = {"kind": "Pod", "namespace": "ns", "name": "p", "uid": "u1"}
    one = {"ip": "10.0.0.1", "hostname": "h", "nodeName": "n", "targetRef": ref}
    two, three, four = ({"ip": f"10.0.0.{number}"} for number in (2, 3, 4))
    a, other_a = ({"name": "a", "port": number, "protocol": "TCP"} for number in (8080, 9090))
    b = {"name": "b", "port": 81, "protocol": "UDP"}
    c = {"name": "c", "port": 82, "protocol": "TCP", "appProtocol": "http"}
    nameless = {"port": 1, "protocol": "TCP"}
    found = repack(
        [
            {"addresses": [one], "ports": [a, b, c]},
            {"addresses": [two], "notReadyAddresses": [three], "ports": [other_a, b]},
            {"addresses": [four], "ports": [nameless]},
        ]
    )
    assert found == [
        {"addresses": [one, two], "notReadyAddresses": [three], "ports": [b]},
        {"addresses": [one], "ports": [c, a]},
        {"addresses": [four], "ports": [nameless]},
        {"addresses": [two], "notReadyAddresses": [three], "ports": [other_a]},
    ]
