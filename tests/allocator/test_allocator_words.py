"""Errors of allocations in upstream's words, the effects of gates, and CEL expressions."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.allocator import AllocationError, Allocator, Features
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

NEAR = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Near"}]}]}
SUBREQUEST = {"name": "s", "deviceClassName": "all", "allocationMode": "ExactCount", "count": 1}
ALL = request("r", 0, allocationMode="All")


def consumes(counter: str, of: str = "set", amount: int = 1) -> Json:
    return {"consumesCounters": [{"counterSet": of, "counters": {counter: {"value": str(amount)}}}]}


def counters(*names: str, amount: int = 2, of: str = "set", **more: Any) -> Json:
    values = {name: {"value": str(amount)} for name in names}
    return slice_of("z", **{"pool": "p", "count": 2, "sharedCounters": [{"name": of, "counters": values}], **more})


@pytest.mark.parametrize(
    ("slices", "wanted", "features", "text"),
    [
        ([slice_of("s", device("d"))],
         {"name": "r", "firstAvailable": [SUBREQUEST, {**SUBREQUEST, "name": "t", "capacity": {}}]},
         {"consumable_capacity": False},
         "claim ns/c, subrequest t: has capacity requests, but the DRAConsumableCapacity feature is disabled"),
        ([slice_of("s", device("d", nodeSelector=NEAR), nodeName=None, perDeviceNodeSelection=True)], request("r"), {},
         "gather pool information: failed to perform node selection for device "),
        ([slice_of("s", device("d"), count=2)], ALL, {},
         "claim ns/c, request r: asks for all devices, but resource pool driver/s is currently being updated"),
        ([slice_of("s", device("d"), device("d"))], ALL, {},
         "claim ns/c, request r: asks for all devices, but resource pool driver/s is currently invalid"),
        ([slice_of("s", device("d", kind="b"))], request("r", 0, "any", "fails b", allocationMode="All"), {},
         "claim ns/c: selector #1: CEL runtime error: no such key: b"),
        ([slice_of("s", device("d", kind="b"))], request("r", 0, cls="picky", allocationMode="All"), {},
         "class picky: selector #0: CEL runtime error: no such key: b"),
        ([slice_of("y", device("d", **consumes("x", "other")), pool="p", count=2), counters("x")], request("r"), {},
         "invalid resource pools were encountered"),
        ([slice_of("y", device("d", **consumes("y")), pool="p", count=2), counters("x")], request("r"), {},
         "invalid resource pools were encountered"),
        ([slice_of("y", device("d", numa=0), device("e", numa=1))], ALL, {"match": True},
         "claim ns/c, request r: cannot add device driver/y/e because a claim constraint would not be satisfied"),
    ],
)  # fmt: skip
def test_an_allocation_error_has_upstreams_text(slices: list[Json], wanted: Json, features: Any, text: str) -> None:
    constraints = [{"matchAttribute": "driver/numa"}] if features.pop("match", False) else []
    made = make_allocator(*slices, features=Features(**features))
    made.inventory.upsert_class(device_class("picky", "fails b"))
    pod = pod_with(made, wanted, constraints=constraints)
    with pytest.raises(AllocationError) as caught:
        pod.allocate(NODE)
    assert caught.value.text.startswith(text)
    assert str(caught.value) == caught.value.text
    explained = pod.explain(NODE)
    assert (explained.node, explained.outcome, explained.error) == ("node-1", "error", caught.value.text)


def test_unusable_pools_are_reported_with_the_reason() -> None:
    def reason(*slices: Json) -> Json:
        return make_allocator(*slices).for_pod([make_claim("c", [request("r")])]).explain(NODE).unusable_pools

    for wrong, why in (
        (consumes("x", "other"), "counter set other not found"),
        (consumes("y"), "counter y not found in counter set set"),
    ):
        here = slice_of("y", device("d", **wrong), pool="p", count=2)
        assert reason(here, counters("x")) == {"driver/p": f"invalid: {why}"}
        # Slices of other nodes have to be valid, too.
        there = slice_of("y", device("d", **wrong), pool="p", count=3, nodeName="n2")
        mine = slice_of("x", device("e"), pool="p", count=3)
        assert reason(mine, there, counters("x", count=3)) == {"driver/p": f"invalid: {why}"}
    twice = [slice_of("x", device("e"), pool="p", count=3), counters("x", count=3)]
    again = {**counters("x", count=3), "metadata": {"name": "zz"}}
    assert reason(*twice, again) == {"driver/p": "invalid: duplicate counter set name set"}
    allocator = make_allocator(slice_of("s", device("d"), device("d")))
    text = pod_with(allocator).explain(NODE).text
    error = "node node-1: error: invalid resource pools were encountered"
    assert text.splitlines()[:2] == [error, "  pool driver/s: invalid: duplicate device name d"]


def test_an_invalid_node_selector_of_a_slice_is_the_whole_explanation() -> None:
    broken = make_allocator(slice_of("s", device("d"), nodeSelector=NEAR))
    found = pod_with(broken).explain(NODE)
    assert (found.node, found.outcome, found.devices, found.requests) == ("node-1", "error", 0, [])
    assert found.error.startswith("gather pool information: failed to perform node selection for slice s: ")


def test_an_invalid_node_selector_of_a_device_is_reported_without_its_owner() -> None:
    """The slice has a device for the node, so that it counts, and one with an invalid selector."""
    devices = [device("a", nodeName="node-1"), device("b", nodeSelector=NEAR)]
    made = make_allocator(slice_of("s", *devices, nodeName=None, perDeviceNodeSelection=True))
    assert devices_of(pod_with(made).allocate(NODE)) == ["s/a"]
    with pytest.raises(AllocationError) as caught:
        pod_with(made, request("r", 2)).allocate(NODE)
    assert caught.value.text.startswith("failed to parse node selector ")


@pytest.mark.parametrize(
    ("mine", "features", "found"),
    [
        (device("d", **consumes("x")), {}, ["p/d"]),
        (device("d", **consumes("x")), {"partitionable_devices": False}, None),
        (device("d", **consumes("x", amount=3)), {}, None),
        (device("d", capacity={"memory": {"value": "1"}}), {}, None),
        (device("d", capacity={"memory": {"value": "2"}}), {}, ["p/d"]),
        (device("d", capacity={"memory": {"value": "1"}}), {"consumable_capacity": False}, ["p/d"]),
    ],
)
def test_all_devices_excludes_those_without_their_gate_or_with_too_little(
    mine: Json, features: Any, found: list[str] | None
) -> None:
    wanted = {**ALL, "exactly": {**ALL["exactly"]}}
    if "capacity" in mine and not features:
        wanted["exactly"]["capacity"] = {"requests": {"memory": "2"}}
    slices = [slice_of("y", mine, pool="p")]
    if "consumesCounters" in mine and not features:
        slices = [slice_of("y", mine, pool="p", count=2), counters("x")]
    assert devices_of(allocate(*slices, requests=[wanted], **features)) == found


def in_cel(*slices: Json) -> Allocator:
    made = Allocator(Features())
    made.inventory.upsert_class(device_class("all"))
    for item in slices:
        made.inventory.upsert_slice(item)
    return made


def select(expression: str, *devices: Json) -> list[str] | str | None:
    """Return the first device that an expression selects, or the error."""
    try:
        got = in_cel(slice_of("s", *devices)).for_pod([make_claim("c", [request("r", 1, expression)])]).allocate(NODE)
    except AllocationError as error:
        return error.text
    return devices_of(got)


def test_expressions_read_attributes_capacity_and_allow_multiple_allocations() -> None:
    small, large = (
        device(name, capacity={"memory": {"value": size}}, allowMultipleAllocations=name == "large")
        for name, size in (("small", "1Gi"), ("large", "2Gi"))
    )
    memory = 'device.capacity["driver"].memory.compareTo(quantity("2Gi")) >= 0'
    assert select(memory, small, large) == ["s/large"]
    assert select(memory, large, small) == ["s/large"]
    assert select("device.allowMultipleAllocations", small, large) == ["s/large"]
    assert select("!device.allowMultipleAllocations", large, small) == ["s/small"]
    assert select('device.driver == "driver"', small) == ["s/small"]
    assert select('device.driver == "other"', small) is None
    assert select('device.attributes["driver"].kind == "b"', device("a"), device("b", kind="b")) == ["s/b"]
    owned = {"name": "o", "attributes": {"driver/kind": {"string": "b"}}}
    assert select('device.attributes["driver"].kind == "b"', device("a"), owned) == ["s/o"]
    other = {"name": "o", "attributes": {"example.com/kind": {"string": "b"}}}
    assert select('device.attributes["example.com"].?kind.orValue("") == "b"', device("b", kind="b"), other) == ["s/o"]


def test_errors_of_cel_are_reported() -> None:
    unclear = select("device.attributes[", device("d"))
    assert isinstance(unclear, str)
    assert unclear.startswith("claim ns/c: selector #0: CEL compile error: ")
    missing = select('device.attributes["driver"].none == "a"', device("d"))
    assert missing == "claim ns/c: selector #0: CEL runtime error: no such key: none"


def test_an_attribute_without_exactly_one_value_is_evaluated_for_itself() -> None:
    """An expression that may fail is evaluated for each device, even for equal ones."""
    for odd in ({}, {"string": "a", "int": 1}, {"version": "one"}, {"version": None}):
        attributes = {"kind": odd}
        found = select('"kind" in device.attributes["driver"]', {"name": "o", "attributes": attributes})
        plain = select('"kind" in device.attributes["driver"]', device("d"))
        assert plain == ["s/d"]
        assert found == ["s/o"] or isinstance(found, str)
