"""Rules of the allocator that the property tests do not reach: order, pools, results, shares and constraints."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from apiserver.api.features.gates import Features as Gates
from apiserver.api.objects import Json
from controllers.allocator import AllocationError, Allocator, Features
from controllers.allocator.allocated import DeviceUse
from tests.allocator.builders import (
    NODE,
    allocate,
    device,
    device_class,
    devices_of,
    make_allocator,
    make_claim,
    pod_with,
    request,
    slice_of,
)
from tests.allocator.worlds import KindEvaluator


def zone(*values: str, terms: int = 1) -> Json:
    requirement = {"key": "zone", "operator": "In", "values": list(values)}
    return {"nodeSelectorTerms": [{"matchExpressions": [requirement]}] * terms}


def test_pools_are_sorted_by_driver_and_name_and_those_with_binding_conditions_come_last() -> None:
    plain = slice_of("z", device("z"))
    other = slice_of("y", device("y"))
    bound = slice_of("a", device("a1"), device("a2", bindingConditions=["ready"]))
    got = allocate(plain, bound, other, requests=[request("r", 4)])
    assert devices_of(got) == ["y/y", "z/z", "a/a1", "a/a2"]


def test_slices_of_a_pool_are_sorted_by_name() -> None:
    first, second = (slice_of(name, device(name), pool="p", count=2) for name in ("s1", "s2"))
    assert devices_of(allocate(second, first)) == ["p/s1"]


def test_an_older_generation_is_ignored_and_an_incomplete_newer_one_hides_the_pool() -> None:
    old = slice_of("old", device("old"), pool="p", generation=1)
    assert devices_of(allocate(old, slice_of("new", device("new"), pool="p", generation=2))) == ["p/new"]
    assert allocate(old, slice_of("new", device("new"), pool="p", generation=2, count=2)) is None


def test_a_newer_generation_for_another_node_only_counts_when_the_older_one_is_incomplete() -> None:
    newer = slice_of("new", device("new"), pool="p", generation=2, count=2, nodeName="node-2")
    assert devices_of(allocate(slice_of("old", device("old"), pool="p"), newer)) == ["p/old"]
    assert allocate(slice_of("old", device("old"), pool="p", count=2), newer) is None


def test_slices_for_other_nodes_complete_a_pool() -> None:
    here = slice_of("here", device("here"), pool="p", count=2)
    there = slice_of("there", device("there"), pool="p", count=2, nodeName="node-2")
    assert devices_of(allocate(here, there)) == ["p/here"]
    assert allocate(here) is None


def test_an_invalid_pool_is_an_error_only_without_a_result() -> None:
    broken = slice_of("broken", device("twice"), device("twice"))
    assert devices_of(allocate(broken, slice_of("fine", device("d")))) == ["fine/d"]
    with pytest.raises(AllocationError, match="invalid resource pools were encountered") as caught:
        allocate(broken)
    assert caught.value.scope == "node"


def test_all_devices_needs_toleration_of_the_taints_of_each() -> None:
    tainted = slice_of("s", device("d"), device("e", taints=[{"key": "k", "effect": "NoSchedule"}]))
    everything = request("r", 0, allocationMode="All")
    assert allocate(tainted, requests=[everything]) is None
    everything["exactly"]["tolerations"] = [{"key": "k", "operator": "Exists"}]
    assert devices_of(allocate(tainted, requests=[everything])) == ["s/d", "s/e"]


def test_all_devices_needs_every_pool_to_be_complete() -> None:
    everything = request("r", 0, allocationMode="All")
    good, partial = slice_of("good", device("d")), slice_of("part", device("e"), count=2)
    assert devices_of(allocate(good, requests=[everything])) == ["good/d"]
    text = "claim ns/c, request r: asks for all devices, but resource pool driver/part is currently being updated"
    with pytest.raises(AllocationError) as caught:
        allocate(good, partial, requests=[everything])
    assert caught.value.text == text
    assert caught.value.scope == "fatal"


def test_the_node_selector_of_an_allocation_comes_from_its_slices() -> None:
    shared = slice_of("a", device("a"), nodeSelector=zone("a", "b"))
    everywhere = slice_of("b", device("b"), allNodes=True)
    [result] = allocate(shared, everywhere, requests=[request("r", 2)])
    assert result["nodeSelector"] == zone("a", "b")
    [result] = allocate(everywhere)
    assert "nodeSelector" not in result
    [result] = allocate(shared, slice_of("local", device("l")), requests=[request("r", 2)])
    fields = {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
    assert result["nodeSelector"] == {"nodeSelectorTerms": [{"matchFields": [fields]}]}


def test_equal_requirements_of_several_selectors_are_listed_once() -> None:
    first = slice_of("a", device("a"), nodeSelector=zone("a", "b"))
    second = slice_of("b", device("b"), nodeSelector=zone("b", "a"))
    [result] = allocate(first, second, requests=[request("r", 2)])
    assert result["nodeSelector"] == zone("a", "b")


def test_a_node_selector_with_several_terms_is_unsupported() -> None:
    text = "create NodeSelector for claim c: unsupported ResourceSlice.NodeSelector with 2 terms"
    with pytest.raises(AllocationError, match=text):
        allocate(slice_of("a", device("a"), nodeSelector=zone("a", terms=2)))


def test_a_device_that_binds_to_its_node_binds_the_claim() -> None:
    [result] = allocate(slice_of("a", device("a", bindsToNode=True), nodeSelector=zone("a")))
    assert result["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["values"] == ["node-1"]


def test_configurations_come_from_classes_once_and_from_the_claim_for_each_request() -> None:
    allocator = make_allocator(slice_of("s", device("a"), device("b"), device("c")))
    opaque = {"opaque": {"driver": "driver", "parameters": {"x": 1}}}
    allocator.inventory.upsert_class(device_class("with-config", config=[opaque]))
    config = [{**opaque}, {"requests": ["r0", "r1/s"], **opaque}]
    choice = {"name": "s", "deviceClassName": "with-config", "allocationMode": "ExactCount", "count": 1}
    requests = [request("r0", cls="with-config"), {"name": "r1", "firstAvailable": [choice]}, request("r2")]
    [result] = allocator.for_pod([make_claim("c", requests, config=config)]).allocate(NODE) or []
    assert result["devices"]["config"] == [
        {"source": "FromClass", "requests": ["r0", "r1/s"], **opaque},
        {"source": "FromClaim", **opaque},
        {"source": "FromClaim", "requests": ["r0", "r1/s"], **opaque},
        {"source": "FromClaim", "requests": ["r0", "r1/s"], **opaque},
    ]


def test_each_share_has_an_id_and_its_consumed_capacity() -> None:
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
    shared = device("d", allowMultipleAllocations=True, capacity={"memory": {"value": "4Gi", "requestPolicy": policy}})
    wanted = request("a", capacity={"requests": {"memory": "1500Mi"}})
    [result] = allocate(slice_of("s", shared), requests=[wanted, request("b")])
    assert [(r["shareID"], r["consumedCapacity"]) for r in result["devices"]["results"]] == [
        ("share-0", {"memory": "2Gi"}),
        ("share-1", {"memory": "1Gi"}),
    ]


def memory(name: str, amount: str, **policy: Any) -> Json:
    """Build a device whose memory is shared."""
    capacity = {"value": amount, **({"requestPolicy": policy} if policy else {})}
    return device(name, allowMultipleAllocations=True, capacity={"memory": capacity})


def wants(*amounts: str) -> list[Json]:
    return [request(f"r{n}", capacity={"requests": {"memory": amount}}) for n, amount in enumerate(amounts)]


@pytest.mark.parametrize(
    ("amounts", "devices"),
    [
        (["3Gi", "1Gi"], ["s/d", "s/d"]),
        (["3Gi", "2Gi"], ["s/d", "s/e"]),
        (["2Gi", "2Gi", "1Gi"], ["s/d", "s/d", "s/e"]),
        (["3Gi", "3Gi", "1Gi"], ["s/d", "s/e", "s/d"]),
        (["5Gi"], None),
        (["3Gi", "3Gi", "2Gi"], None),
    ],
)
def test_the_shares_of_a_device_do_not_exceed_its_capacity(amounts: list[str], devices: list[str] | None) -> None:
    shared = slice_of("s", memory("d", "4Gi"), memory("e", "4Gi"))
    assert devices_of(allocate(shared, requests=wants(*amounts))) == devices


def test_a_device_that_is_too_small_is_skipped() -> None:
    shared = slice_of("s", memory("small", "4Gi"), memory("large", "8Gi"))
    assert devices_of(allocate(shared, requests=wants("6Gi"))) == ["s/large"]


def test_all_devices_are_all_with_enough_capacity() -> None:
    shared = slice_of("s", memory("small", "4Gi"), memory("large", "8Gi"), memory("larger", "16Gi"))
    [wanted] = wants("6Gi")
    wanted["exactly"] |= {"allocationMode": "All", "count": 0}
    assert devices_of(allocate(shared, requests=[wanted])) == ["s/large", "s/larger"]


RANGE = {"min": "1Gi", "max": "4Gi", "step": "1Gi"}


@pytest.mark.parametrize(
    ("policy", "wanted", "consumed"),
    [
        ({"default": "1Gi", "validRange": RANGE}, "4Gi", "4Gi"),
        ({"default": "1Gi", "validRange": RANGE}, "5Gi", None),
        ({"default": "1Gi", "validRange": RANGE}, "3500Mi", "4Gi"),
        ({"default": "1Gi", "validRange": RANGE}, "4097Mi", None),
        ({"default": "1Gi", "validRange": RANGE}, "1Mi", "1Gi"),
        ({"default": "1Gi", "validRange": {"min": "1Gi", "max": "4Gi"}}, "1500Mi", "1500Mi"),
        ({"default": "1Gi", "validRange": {"min": "1Gi"}}, "7Gi", "7Gi"),
        ({"default": "1Gi", "validRange": {"min": "2Gi", "step": "3Gi"}}, "4Gi", "5Gi"),
        ({"default": "1Gi", "validRange": {"max": "4Gi", "step": "2Gi"}}, "3Gi", None),
        ({"default": "6Gi", "validRange": RANGE}, "6Gi", "6Gi"),
        ({"default": "6Gi", "validRange": RANGE}, None, "6Gi"),
        ({"validRange": RANGE}, None, None),
        ({"default": "1Gi", "validValues": ["1Gi", "2Gi"]}, "1500Mi", "2Gi"),
        ({"default": "1Gi", "validValues": ["1Gi", "2Gi"]}, "1Gi", "1Gi"),
        ({"default": "1Gi", "validValues": ["1Gi", "2Gi"]}, "3Gi", None),
        ({"default": "3Gi", "validValues": ["1Gi", "2Gi"]}, None, "3Gi"),
        ({}, None, "8Gi"),
        ({}, "9Gi", None),
    ],
)
def test_a_policy_rounds_up_and_limits_the_consumed_amount(
    policy: Json, wanted: str | None, consumed: str | None
) -> None:
    shared = slice_of("s", memory("d", "8Gi", **policy))
    found = allocate(shared, requests=[request("r")] if wanted is None else wants(wanted))
    got = None if found is None else found[0]["devices"]["results"][0]["consumedCapacity"]["memory"]
    assert got == consumed


def test_a_counter_set_in_two_slices_of_a_pool_makes_it_invalid() -> None:
    counters = [{"name": "set", "counters": {"x": {"value": "1"}}}]
    slices = [slice_of(name, pool="p", count=3, sharedCounters=counters) for name in ("s", "t")]
    with pytest.raises(AllocationError, match="invalid resource pools were encountered"):
        allocate(*slices, slice_of("u", device("d"), pool="p", count=3))


def test_devices_of_other_nodes_consume_counters_of_the_pool() -> None:
    def part(name: str, node: str) -> Json:
        consumes = [{"counterSet": "set", "counters": {"x": {"value": "1"}}}]
        return slice_of(name, device(name, consumesCounters=consumes), pool="p", count=3, nodeName=node)

    counters = [{"name": "set", "counters": {"x": {"value": "1"}}}]
    shared = slice_of("z", pool="p", count=3, sharedCounters=counters, allNodes=True)
    allocator = make_allocator(part("here", "node-1"), part("there", "node-2"), shared)
    pod = pod_with(allocator)
    assert devices_of(pod.allocate(NODE)) == ["p/here"]
    allocator.allocated.put("another", [DeviceUse(("driver", "p", "there"))])
    assert pod.allocate(NODE) is None
    allocator.allocated.put("another", [])
    assert devices_of(pod.allocate(NODE)) == ["p/here"]


def test_a_selector_distinguishes_nodes_while_one_slice_has_it() -> None:
    allocator = make_allocator(*(slice_of(name, device("d"), nodeSelector=zone("1")) for name in ("s", "t")))
    allocator.inventory.remove_slice("s")
    found = {}
    for number in ("1", "2"):
        node = {"metadata": {"name": f"node-{number}", "labels": {"zone": number}}}
        found[number] = devices_of(pod_with(allocator).allocate(node))
    assert found == {"1": ["t/d"], "2": None}


TEXT, NUMBER, LIST, STRANGE = {"string": "1"}, {"int": 1}, {"ints": [1, 2]}, {"other": 1}


@pytest.mark.parametrize(
    ("values", "constraint", "lists", "devices"),
    [
        ([TEXT, NUMBER, NUMBER], "match", False, ["s/d1", "s/d2"]),
        ([TEXT, NUMBER, NUMBER], "distinct", False, ["s/d0", "s/d1"]),
        ([NUMBER, LIST, NUMBER], "match", False, ["s/d0", "s/d2"]),
        ([NUMBER, LIST, NUMBER], "match", True, ["s/d0", "s/d1"]),
        ([{"ints": [3]}, LIST, {"ints": [2, 4]}], "match", True, ["s/d1", "s/d2"]),
        ([NUMBER, LIST, {"ints": [3]}], "distinct", True, ["s/d0", "s/d2"]),
        ([STRANGE, None, NUMBER, NUMBER], "match", True, ["s/d2", "s/d3"]),
        ([STRANGE, STRANGE], "match", False, None),
        ([None, NUMBER, {"int": 2}], "distinct", False, ["s/d1", "s/d2"]),
    ],
)
def test_values_are_compared_with_their_types(
    values: list[Any], constraint: str, lists: bool, devices: list[str] | None
) -> None:
    found = [{"attributes": {} if value is None else {"numa": value}} for value in values]
    row = slice_of("s", *({"name": f"d{number}", **item} for number, item in enumerate(found)))
    allocator = make_allocator(row, features=Features(list_type_attributes=lists))
    pod = pod_with(allocator, request("r", 2), constraints=[{f"{constraint}Attribute": "driver/numa"}])
    assert devices_of(pod.allocate(NODE)) == devices


@pytest.mark.parametrize(
    ("value", "constraint", "lists", "got"),
    [
        (LIST, "match", False, True),
        (LIST, "distinct", False, True),
        (STRANGE, "match", True, False),
        (STRANGE, "distinct", True, True),
        (None, "match", False, False),
        (None, "distinct", True, False),
    ],
)
def test_a_single_device_meets_a_constraint_if_it_has_the_attribute(
    value: Any, constraint: str, lists: bool, got: bool
) -> None:
    attributes = {} if value is None else {"numa": value}
    allocator = make_allocator(
        slice_of("s", {"name": "d", "attributes": attributes}), features=Features(list_type_attributes=lists)
    )
    pod = pod_with(allocator, request("r"), constraints=[{f"{constraint}Attribute": "driver/numa"}])
    assert (pod.allocate(NODE) is not None) is got


@pytest.mark.parametrize(
    ("listed", "named", "found"),
    [
        ("numa", "driver/numa", True),
        ("driver/numa", "driver/numa", True),
        ("other/numa", "other/numa", True),
        ("numa", "other/numa", False),
        ("other/numa", "driver/numa", False),
        ("", "driver", False),
    ],
)
def test_attributes_without_a_domain_belong_to_the_driver(listed: str, named: str, found: bool) -> None:
    allocator = make_allocator(slice_of("s", {"name": "d", "attributes": {listed: NUMBER}}))
    pod = pod_with(allocator, request("r"), constraints=[{"matchAttribute": named}])
    assert (pod.allocate(NODE) is not None) is found


def test_share_ids_are_unique() -> None:
    allocator = Allocator(evaluator=KindEvaluator())
    allocator.inventory.upsert_class(device_class())
    allocator.inventory.upsert_slice(slice_of("s", memory("d", "4Gi")))
    [result] = allocator.for_pod([make_claim("c", wants("1Gi", "1Gi"))]).allocate(NODE) or []
    ids = [UUID(item["shareID"]) for item in result["devices"]["results"]]
    assert len(set(ids)) == 2


def test_an_allocation_without_requests_succeeds() -> None:
    allocator = make_allocator()
    assert allocator.for_pod([]).allocate(NODE) == []
    assert allocator.for_pod([make_claim("c", [])]).allocate(NODE) == [{"devices": {}}]


def test_an_alternative_without_devices_is_skipped() -> None:
    none = {"name": "n", "firstAvailable": [{**request("s", 0)["exactly"], "name": "s"}]}
    row = slice_of("s", device("a"), device("b"))
    assert devices_of(allocate(row, requests=[request("r0"), none, request("r1")])) == ["s/a", "s/b"]


def test_a_disabled_gate_removes_its_devices_or_its_rule() -> None:
    tainted = slice_of("s", device("d", taints=[{"key": "k", "effect": "NoSchedule"}]))
    assert allocate(tainted) is None
    assert devices_of(allocate(tainted, device_taints=False)) == ["s/d"]
    bound = slice_of("s", device("d", bindingConditions=["ready"]))
    assert allocate(bound)[0]["devices"]["results"][0]["bindingConditions"] == ["ready"]
    assert allocate(bound, binding_conditions=False) is None
    shared = slice_of("s", device("d", allowMultipleAllocations=True))
    assert devices_of(allocate(shared, requests=[request("a"), request("b")])) == ["s/d", "s/d"]
    assert allocate(shared, requests=[request("a"), request("b")], consumable_capacity=False) is None
    counting = device("d", consumesCounters=[{"counterSet": "s", "counters": {"x": {"value": "1"}}}])
    parts = slice_of("s", counting, pool="p"), slice_of("t", device("e"), pool="q")
    assert devices_of(allocate(*parts, partitionable_devices=False)) == ["q/e"]
    apart = slice_of("s", device("d", nodeName="node-1"), perDeviceNodeSelection=True)
    assert devices_of(allocate(apart)) == ["s/d"]
    assert allocate(apart, partitionable_devices=False) is None


def test_the_default_features_are_those_of_the_current_release() -> None:
    assert Features.from_gates(Gates().enabled) == Features()


def test_features_follow_gates() -> None:
    on = {"DRADeviceBindingConditions", "DRAListTypeAttributes"}
    assert Features.from_gates(on.__contains__) == Features(False, False, False, False, False, False, True)
    on.add("DRAResourceClaimDeviceStatus")
    assert Features.from_gates(on.__contains__).binding_conditions
