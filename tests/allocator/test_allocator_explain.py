"""Explanations of allocations: counts add up, and each reason has its text."""

from __future__ import annotations

import itertools
import json
import random

import pytest

from apiserver.api.objects import Json
from controllers.allocator import Allocator, Features
from tests.allocator.builders import (
    NODE,
    device,
    device_class,
    devices_of,
    make_allocator,
    make_claim,
    occupy,
    pod_with,
    request,
    slice_of,
)
from tests.allocator.worlds import FEATURES, make_world

GROUPS = [frozenset(names) for size in (1, 2) for names in itertools.combinations(FEATURES, size)]


@pytest.mark.parametrize("features", GROUPS[::3], ids=lambda names: "+".join(sorted(names)))
def test_every_device_is_counted_once_for_every_request(features: frozenset[str]) -> None:
    for seed in range(15):
        world = make_world(random.Random(f"explain {sorted(features)} {seed}"), features)
        explanation = world.allocator().for_pod(world.claims).explain(NODE)
        for item in explanation.requests:
            assert item.devices == explanation.devices
            assert sum(reason.count for reason in item.reasons) + item.usable == item.devices
            assert all(reason.count > 0 for reason in item.reasons)
        json.dumps(explanation.as_json())


@pytest.mark.parametrize("features", GROUPS[::5], ids=lambda names: "+".join(sorted(names)))
def test_an_explanation_agrees_with_the_answer(features: frozenset[str]) -> None:
    for seed in range(15):
        world = make_world(random.Random(f"agree {sorted(features - {'errors'})} {seed}"), features - {"errors"})
        pod = world.allocator().for_pod(world.claims)
        try:
            allocations = pod.allocate(NODE)
        except Exception:  # noqa: BLE001 - the explanation has the same error
            assert pod.explain(NODE).outcome == "error"
            continue
        explanation = pod.explain(NODE)
        assert explanation.outcome == ("impossible" if allocations is None else "allocated")
        if allocations is not None:
            got = sum(len(item.chosen) for item in explanation.requests)
            assert got == sum(len(item["devices"].get("results", ())) for item in allocations)
        elif explanation.nearest_miss is not None:
            assert explanation.nearest_miss.missing > 0


def explain(allocator: Allocator, *requests: Json, **constraints: str) -> str:
    claim = make_claim("c", list(requests), [{key: value} for key, value in constraints.items()])
    return allocator.for_pod([claim]).explain(NODE).text


def test_an_allocated_device_names_the_claim_that_has_it() -> None:
    allocator = make_allocator(slice_of("s", device("a"), device("b")))
    first = make_claim("first", [request("r")])
    occupy(allocator, first)
    text = explain(allocator, request("r", 2))
    assert "1 of 2 devices usable in 1 pool: 1 is allocated (ns/first: 1)" in text


def test_selectors_are_reported_separately_and_quoted() -> None:
    allocator = make_allocator(slice_of("s", device("a", kind="a"), device("b", kind="b"), device("c", kind="c")))
    text = explain(allocator, request("r", 2, "kind in ab", "kind in a"))
    assert "1 is rejected by selector #0 of the request: kind in ab" in text
    assert "1 is rejected by selector #1 of the request: kind in a" in text


def test_an_error_of_a_selector_is_reported() -> None:
    allocator = make_allocator(slice_of("s", device("a", kind="a"), device("b", kind="b")))
    text = explain(allocator, request("r", 2, "fails b"))
    assert "1 cannot be evaluated: selector #0 of the request fails: no such key: b" in text
    assert text.startswith("node node-1: error: claim ns/c: selector #0: CEL runtime error: no such key: b")


def test_the_nearest_miss_names_the_placed_devices_and_the_reasons_of_the_others() -> None:
    devices = [device("a", numa=0), device("b", numa=1), device("c", numa=1)]
    text = explain(make_allocator(slice_of("s", *devices)), request("r", 3), matchAttribute="driver/numa")
    assert "nearest miss: claim ns/c, request r lacks 1 device" in text
    assert "; placed: r -> driver/s/b, r -> driver/s/c" in text
    assert "1 violates the constraint on driver/numa (must be 1)" in text
    assert "2 are used by request r" in text


def test_taints_counters_and_capacity_are_reported_separately() -> None:
    tainted = device("a", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    small = device("c", capacity={"memory": {"value": "1"}})
    allocator = make_allocator(*pool_of(tainted, hungry("b", 3), small))
    text = explain(allocator, request("r", capacity={"requests": {"memory": "2"}}))
    assert "1 has taints that are not all tolerated (k=v:NoSchedule)" in text
    assert "1 lacks capacity: the device has no capacity memory" in text
    assert "1 lacks capacity: 2 of capacity memory is more than its 1" in text
    assert "1 consumes more than is left of counter s/x" in explain(allocator, request("r", 3))


def test_incomplete_and_invalid_pools_are_listed_with_the_reason() -> None:
    incomplete, invalid = (
        slice_of("s", device("a"), pool="p", count=2),
        slice_of("t", device("a"), device("a"), pool="q"),
    )
    explanation = pod_with(make_allocator(incomplete, invalid)).explain(NODE)
    assert explanation.unusable_pools == {
        "driver/p": "incomplete: 1 of 2 slices exist",
        "driver/q": "invalid: duplicate device name a",
    }
    assert explanation.error == "invalid resource pools were encountered"


def test_reasons_are_sorted_by_count_with_at_most_three_examples() -> None:
    allocator = make_allocator(slice_of("s", *(device(f"d{n}", kind=kind) for n, kind in enumerate("ccabbbbb"))))
    wanted = request("r", 2, "kind in ac", "kind in ab")
    [item] = pod_with(allocator, wanted).explain(NODE).requests
    assert [(reason.kind, reason.count, reason.examples) for reason in item.reasons] == [
        ("selector", 5, ["driver/s/d3", "driver/s/d4", "driver/s/d5"]),
        ("selector", 2, ["driver/s/d0", "driver/s/d1"]),
    ]
    assert (item.devices, item.usable, item.needed, item.pools) == (8, 1, 2, 1)


def hungry(name: str, amount: int = 1) -> Json:
    return device(name, consumesCounters=[{"counterSet": "s", "counters": {"x": {"value": str(amount)}}}])


def pool_of(*devices: Json, x: int = 2) -> list[Json]:
    """Build the slices of pool p with this amount of counter x."""
    counters = [{"name": "s", "counters": {"x": {"value": str(x)}}}]
    return [slice_of("y", *devices, pool="p", count=2), slice_of("z", pool="p", count=2, sharedCounters=counters)]


SHARED = device("d", allowMultipleAllocations=True, capacity={"memory": {"value": "4"}})
PER_DEVICE: Json = {"nodeName": None, "perDeviceNodeSelection": True}
PLACED = "nearest miss: claim ns/c, request r lacks 1 device: "


def use(allocator: Allocator, *results: Json) -> None:
    """Record an allocation of another claim."""
    status = {"allocation": {"devices": {"results": list(results)}}}
    allocator.allocated.upsert_claim({**make_claim("first", []), "status": status})


@pytest.mark.parametrize(
    ("slices", "wanted", "features", "phrase"),
    [
        ([slice_of("s", device("d", bindingConditions=["x"]))], request("r"), {"binding_conditions": False},
         "0 of 1 devices usable in 1 pool: 1 has binding conditions, but the feature is disabled"),
        ([slice_of("s", device("d"))], request("r", cls="picky"), {},
         "1 is rejected by selector #0 of the class: kind in b"),
        ([slice_of("s", device("a", allNodes=True), device("b", nodeName="n2"), **PER_DEVICE)], request("r", 2), {},
         "1 of 2 devices usable in 1 pool: 1 is not available on this node"),
        ([slice_of("s", SHARED)], request("r", capacity={"requests": {"memory": "3"}}), {},
         "1 has too little capacity left (ns/first: 1)"),
        (pool_of(hungry("a", 3) | {"allowMultipleAllocations": True}), request("r"), {},
         "1 consumes more than is left of counter s/x"),
        (pool_of(hungry("a", 3), hungry("b")), request("r"), {}, "1 is in a pool with overdrawn counters"),
        ([slice_of("s", hungry("a"))], request("r"), {"partitionable_devices": False},
         "1 consumes counters, but the feature is disabled"),
        ([slice_of("s", device("a"))], request("r"), {}, "1 lacks attribute driver/numa, required by a constraint"),
        ([slice_of("s", device("a", numa=0)), slice_of("t", device("b", numa=1))], request("r", 3), {},
         "(3 devices of class all): 2 of 2 devices usable in 2 pools"),
        ([slice_of("s", device("a", numa=0), device("b", numa=1))], request("r", 2), {},
         f"{PLACED}1 is used by request r; 1 violates the constraint on driver/numa (must be 0)"),
        ([slice_of("s", device("a", numa=0), device("b", numa=1))], request("r", 0, "kind in b", allocationMode="All"), {},
         "request r (all devices of class all): 0 of 2 devices usable in 1 pool: 2 are rejected by selector #0"),
        ([slice_of("s", device("a"))], request("r", 1, "kind in b"), {},
         "nearest miss: claim ns/c, request r lacks 1 device; placed: none"),
    ],
)  # fmt: skip
def test_every_reason_has_its_text(slices: list[Json], wanted: Json, features: dict[str, bool], phrase: str) -> None:
    allocator = make_allocator(*slices, features=Features(**features))
    allocator.inventory.upsert_class(device_class("picky", "kind in b"))
    if "ns/first" in phrase or "overdrawn" in phrase:
        share = {"driver": "driver", "pool": "s", "device": "d", "shareID": "1", "consumedCapacity": {"memory": "2"}}
        use(allocator, share, {"driver": "driver", "pool": "p", "device": "a"})
    matched = {"matchAttribute": "driver/numa"} if "numa" in phrase else {}
    assert phrase in explain(allocator, wanted, **matched)


def test_resources_that_the_other_picks_exhaust_are_reported() -> None:
    allocator = make_allocator(*pool_of(hungry("a"), hungry("b"), hungry("c")))
    text = explain(allocator, request("r", 3))
    assert "1 consumes counters exhausted by the other picks" in text
    memory = {"requests": {"memory": "3"}}
    text = explain(make_allocator(slice_of("s", SHARED)), request("r", capacity=memory), request("q", capacity=memory))
    assert "request q lacks 1 device: 1 has too little capacity left by the other picks" in text
    same = slice_of("s", device("a", numa=1), device("b", numa=1))
    text = explain(make_allocator(same), request("r", 2), distinctAttribute="driver/numa")
    assert "violates the constraint on driver/numa (not 1)" in text


def test_the_devices_of_a_request_are_reported() -> None:
    text = explain(make_allocator(slice_of("s", device("a"), device("b"))), request("r", 2))
    assert text == (
        "node node-1: allocated\n  claim ns/c, request r (2 devices of class all): 2 of 2 devices usable in 1 pool;"
        " gets driver/s/a, driver/s/b"
    )


def test_the_nearest_miss_covers_only_devices_that_the_request_selects() -> None:
    devices = [device("a", numa=0), device("b", numa=1), device("other", kind="b", numa=1)]
    text = explain(make_allocator(slice_of("s", *devices)), request("r", 2, "kind in a"), matchAttribute="driver/numa")
    assert text.endswith(
        f"{PLACED}1 is used by request r; 1 violates the constraint on driver/numa (must be 0); placed: r -> driver/s/a"
    )


def test_a_shared_device_consumes_its_counters_once() -> None:
    allocator = make_allocator(*pool_of(hungry("a", 2) | {"allowMultipleAllocations": True}))
    first = make_claim("first", [request("r")])
    occupy(allocator, first)
    assert "1 of 1 devices usable in 1 pool" in explain(allocator, request("r"))


def test_a_device_that_consumes_exactly_the_rest_is_usable() -> None:
    assert "1 of 1 devices usable in 1 pool" in explain(make_allocator(*pool_of(hungry("a", 2))), request("r"))


def test_counters_do_not_matter_without_the_gate_or_with_admin_access() -> None:
    off = make_allocator(slice_of("s", device("a")), features=Features(partitionable_devices=False))
    assert "1 of 1 devices usable in 1 pool" in explain(off, request("r"))
    used_up = make_allocator(*pool_of(hungry("a", 3), hungry("b")))
    use(used_up, {"driver": "driver", "pool": "p", "device": "a"})
    assert "2 of 2 devices usable in 1 pool" in explain(used_up, request("r", adminAccess=True))


def test_a_shared_device_of_a_pool_with_overdrawn_counters_is_unusable() -> None:
    counters = [{"name": "s", "counters": {name: {"value": "2"} for name in "xy"}}]
    other = [{"counterSet": "s", "counters": {"y": {"value": "1"}}}]
    shared = device("b", allowMultipleAllocations=True, consumesCounters=other)
    devices, _ = pool_of(hungry("a", 3), shared)
    allocator = make_allocator(devices, slice_of("z", pool="p", count=2, sharedCounters=counters))
    pod = pod_with(allocator)
    assert devices_of(pod.allocate(NODE)) == ["p/b"]
    use(allocator, {"driver": "driver", "pool": "p", "device": "a"})
    assert pod.allocate(NODE) is None
    assert "1 is in a pool with overdrawn counters" in pod.explain(NODE).text
