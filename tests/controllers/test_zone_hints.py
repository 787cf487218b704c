"""Endpoints are meant for zones by the processors there, where a service asks for it by annotation."""

from __future__ import annotations

from collections import Counter

import pytest

from apiserver.api.objects import Json
from controllers.endpoints.slices import Plan
from controllers.endpoints.zonehints import ZoneHints, shares_of
from controllers.runtime.kinds import CORE_EVENTS, NODES, SERVICES
from tests.controllers.test_endpoints import COMPONENTS, a_service, pod, slices
from tests.scheduler.world import World
from tests.support.objects import make_node

pytestmark = pytest.mark.integration

OVERLOADED = "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold"
AUTO = {"service.kubernetes.io/topology-mode": "Auto"}


def zone_node(zone: str | None, cpu: str | None, *, ready: bool = True, role: str = "") -> Json:
    """Build a node of a zone with so many processors; None for a node without."""
    labels = {
        key: value for key, value in (("topology.kubernetes.io/zone", zone), (role, "")) if key and value is not None
    }
    made = make_node("n", cpu=cpu or "", labels=labels)
    made["status"]["conditions"] = [{"type": "Ready", "status": str(ready)}]
    if cpu is None:
        del made["status"]["allocatable"]
    return made


def zone_slice(name: str, *zones: str, hints: str = "", ready: bool = True) -> Json:
    """Build a slice of endpoints in these zones, with hints for those of `hints`, one letter each."""
    endpoints: list[Json] = [
        {"addresses": ["10.0.0.1"], "conditions": {"ready": ready}, **({"zone": zone} if zone else {})}
        for zone in zones
    ]
    for endpoint, zone in zip(endpoints, hints, strict=False):
        endpoint["hints"] = {"forZones": [{"name": zone}]}
    return {"metadata": {"name": name}, "endpoints": endpoints}


def hinted(each: Json) -> str:
    """Return the zones of hints, one letter per endpoint, "-" for none."""
    zones = (endpoint.get("hints", {"forZones": [{"name": "-"}]})["forZones"] for endpoint in each["endpoints"])
    return "".join(zone["name"] for (zone,) in zones)


@pytest.mark.parametrize(
    ("nodes", "shares"),
    [
        ([zone_node("a", "3"), zone_node("b", "500m"), zone_node("b", "500m")], {"a": 0.75, "b": 0.25}),
        ([zone_node("a", "1"), zone_node("b", "1"), zone_node("c", "1", ready=False)], {"a": 0.5, "b": 0.5}),
        ([zone_node("a", "1"), zone_node("b", "1"), zone_node(None, None, role="node-role.kubernetes.io/master")],
         {"a": 0.5, "b": 0.5}),
        ([zone_node("a", "1"), zone_node("b", "1"), zone_node(None, "1")], {}),
        ([zone_node("a", "1"), zone_node("b", None)], {}),
        ([zone_node("a", "1"), zone_node("a", "1")], {}),
    ],
)  # fmt: skip
def test_a_zone_has_the_share_of_its_processors_if_that_is_known_of_all(
    nodes: list[Json], shares: dict[str, float]
) -> None:
    assert shares_of(nodes) == shares


@pytest.mark.parametrize(
    ("zones", "shares", "numbers"),
    [
        ("ab", {"a": 0.5, "b": 0.5}, {"a": 1, "b": 1}),
        ("aaaa", {"a": 0.5, "b": 0.5}, {"a": 2, "b": 2}),
        # Less than one whole endpoint is not moved.
        ("aaaabbb", {"a": 0.5, "b": 0.5}, {"a": 4, "b": 3}),
        ("aaaaabbbbb", {"a": 0.75, "b": 0.25}, {"a": 7, "b": 3}),
        ("cccc", {"a": 0.25, "b": 0.25, "c": 0.5}, {"a": 1, "b": 1, "c": 2}),
    ],
)
def test_what_a_zone_has_too_much_of_goes_to_those_that_lack_some(
    zones: str, shares: dict[str, float], numbers: dict[str, int]
) -> None:
    plan = Plan(create=[zone_slice("", *zones)])
    assert ZoneHints().enable("ns/s", "IPv4", plan, [], shares) == (
        "Normal", "TopologyAwareHintsEnabled", "Topology Aware Hints has been enabled, addressType: IPv4",
    )  # fmt: skip
    assert Counter(hinted(plan.create[0])) == numbers


@pytest.mark.parametrize(
    ("zones", "shares", "why"),
    [
        ("ab", {}, "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"),
        ("a", {"a": 0.5, "b": 0.5}, "Insufficient number of endpoints (1 endpoints, 2 zones)"),
        ("aab", {"a": 0.8, "b": 0.1, "c": 0.1},
         f"{OVERLOADED} (3 endpoints, 3 zones)"),
        (("a", ""), {"a": 0.5, "b": 0.5}, "One or more endpoints do not have a zone specified"),
    ],
)  # fmt: skip
def test_hints_that_cannot_be_kept_are_removed_with_an_event(
    zones: tuple[str, ...], shares: dict[str, float], why: str
) -> None:
    plan, old = Plan(create=[zone_slice("", *zones)]), zone_slice("old", "a", hints="a", ready=False)
    told = ZoneHints().enable("ns/s", "IPv6", plan, [old], shares)
    assert told == ("Warning", "TopologyAwareHintsDisabled", f"{why}, addressType: IPv6")
    assert [hinted(each) for each in (*plan.create, *plan.update)] == ["-" * len(zones), "-"]


def test_slices_whose_hints_fit_stay_and_others_are_written() -> None:
    halves = {"a": 0.5, "b": 0.5}
    for before, written in (("ab", []), ("ac", ["ab"]), ("a", ["ab"]), ("aa", ["ab"])):
        plan = Plan()
        ZoneHints().enable("ns/s", "IPv4", plan, [zone_slice("old", "a", "b", hints=before)], halves)
        assert [hinted(each) for each in plan.update] == written


def test_services_are_queued_again_when_a_zone_loses_nodes() -> None:
    zones, halves = ZoneHints(), [zone_node("a", "1"), zone_node("b", "1")]
    assert zones.find_overloaded(halves) == []
    zones.enable("ns/s", "IPv4", Plan(create=[zone_slice("", *"aabb")]), [], shares_of(halves))
    assert zones.find_overloaded(halves) == []
    assert zones.find_overloaded([zone_node("a", "9"), zone_node("b", "1")]) == ["ns/s"]
    assert zones.find_overloaded([*halves, zone_node("c", "1")]) == ["ns/s"]
    assert zones.find_overloaded([]) == ["ns/s"]
    assert zones.disable("ns/s", "IPv4") == (
        "Warning", "TopologyAwareHintsDisabled", "Topology Aware Hints has been disabled, addressType: IPv4",
    )  # fmt: skip
    assert (zones.find_overloaded([]), zones.disable("ns/s", "IPv4")) == ([], None)


async def test_a_service_with_the_annotation_has_hints_until_a_zone_is_gone() -> None:
    async with World(*COMPONENTS) as world:
        for zone in "ab":
            made = await world.create(
                NODES,
                {"apiVersion": "v1", "kind": "Node",
                 "metadata": {"name": f"n{zone}", "labels": {"topology.kubernetes.io/zone": zone}}},
            )  # fmt: skip
            await world.client.update_status(NODES, {**made, "status": zone_node(zone, "1")["status"]})
        web = a_service()
        await world.create(SERVICES, {**web, "metadata": {**web["metadata"], "annotations": AUTO}})
        for number in range(4):
            await pod(world, f"p{number}", number + 1, on="na")
        (one,) = await slices(world)
        assert Counter(hinted(one)) == {"a": 2, "b": 2}
        await world.client.delete(NODES, "nb")
        (one,) = await slices(world)
        assert hinted(one) == "----"
        told = [event["reason"] for event in (await world.client.list(CORE_EVENTS, "ns"))["items"]]
        assert told.count("TopologyAwareHintsEnabled") == 1
        assert "TopologyAwareHintsDisabled" in told
