"""Errors of allocations: invalid requests, failing selectors and interruptions."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.allocator import AllocationError, AllocationInterrupted, search
from tests.allocator.builders import (
    NODE,
    allocate,
    device,
    device_class,
    devices_of,
    make_allocator,
    pod_with,
    request,
    slice_of,
)


@pytest.mark.parametrize(
    ("wanted", "features", "text"),
    [
        (request("r", 33), {}, "claim ns/c: number of requested devices 33 exceeds the claim limit of 32"),
        (request("r", cls=""), {}, "claim ns/c, request r: missing device class name (unsupported request type?)"),
        (request("r", cls="x"), {},
         'claim ns/c, request r: could not retrieve device class x: deviceclass.resource.k8s.io "x" not found'),
        (request("r", adminAccess=False), {"admin_access": False},
         "claim ns/c, request r: admin access is requested, but the feature is disabled"),
        (request("r", capacity={}), {"consumable_capacity": False},
         "claim ns/c, request r: has capacity requests, but the DRAConsumableCapacity feature is disabled"),
        ({"name": "r", "firstAvailable": [{"name": "s"}]}, {"prioritized_list": False},
         "claim ns/c, request r: has subrequests, but the DRAPrioritizedList feature is disabled"),
        (request("r", (1 << 63) - 1), {},
         f"claim ns/c: number of requested devices {(1 << 63) - 1} exceeds the claim limit of 32"),
        (request("r", 1 << 63), {}, f"claim ns/c, request r: exact count {1 << 63} is too large"),
        (request("r", allocationMode="Some"), {}, "claim ns/c, request r: unsupported count mode Some"),
        ({"name": "r", "exactly": {"deviceClassName": "all", "allocationMode": "ExactCount", "selectors": [{}]}}, {},
         "claim ns/c, request r, selector #0: CEL expression empty (unsupported selector type?)"),
    ],
)  # fmt: skip
def test_an_unsupported_request_is_an_error(wanted: dict[str, Any], features: Any, text: str) -> None:
    with pytest.raises(AllocationError) as caught:
        allocate(slice_of("s", device("d")), requests=[wanted], **features)
    assert caught.value.text == text
    assert caught.value.scope == "fatal"


def test_an_empty_constraint_is_an_error_after_those_of_the_requests() -> None:
    allocator, unknown = make_allocator(slice_of("s", device("d"))), [{"matchAttribute": "driver/numa"}, {}]
    text = r"^claim ns/c, constraint #1: empty constraint \(unsupported constraint type\?\)$"
    with pytest.raises(AllocationError, match=text):
        pod_with(allocator, constraints=unknown).allocate(NODE)
    with pytest.raises(AllocationError, match="could not retrieve device class x"):
        pod_with(allocator, request("r", cls="x"), constraints=unknown).allocate(NODE)


def test_an_error_counts_only_if_the_search_reaches_the_device() -> None:
    slices = slice_of("s", device("a", kind="a"), device("b", kind="b"))
    assert devices_of(allocate(slices, requests=[request("r", 1, "fails b")])) == ["s/a"]
    with pytest.raises(AllocationError, match=r"claim ns/c: selector #0: CEL runtime error: no such key: b"):
        allocate(slices, requests=[request("r", 2, "fails b")])


def test_an_expression_that_does_not_compile_is_an_error_of_its_owner() -> None:
    allocator = make_allocator(slice_of("s", device("d")))
    allocator.inventory.upsert_class(device_class("bad", "any", "broken"))
    with pytest.raises(AllocationError, match="class bad: selector #1: CEL compile error: cannot be understood"):
        pod_with(allocator, request("r", cls="bad")).allocate(NODE)


def test_a_slice_with_a_broken_node_selector_stops_every_allocation() -> None:
    broken = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Near"}]}]}
    text = "gather pool information: failed to perform node selection for slice s: "
    with pytest.raises(AllocationError, match=text):
        allocate(slice_of("s", device("d"), nodeSelector=broken))


def test_an_interruption_is_an_error_with_its_reason() -> None:
    allocator = make_allocator(slice_of("s", device("d")))
    pod = pod_with(allocator)
    with pytest.raises(AllocationInterrupted) as caught:
        pod.solve(NODE, lambda: "context deadline exceeded")
    assert caught.value.text == "filter operation aborted: context deadline exceeded"
    assert pod.solve(NODE) is not None


def test_a_request_for_all_devices_can_be_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_CHECK_EVERY", 1)
    allocator = make_allocator(slice_of("s", device("a"), device("b"), device("c")))
    pod = pod_with(allocator, request("r", 0, allocationMode="All"))
    reasons = iter([None, None, "it takes too long"])
    with pytest.raises(AllocationInterrupted, match="it takes too long"):
        pod.solve(NODE, lambda: next(reasons))


@pytest.mark.parametrize(
    ("wanted", "text", "unresolvable"),
    [
        (request("r", cls="x"), "request r: device class x does not exist", True),
        (request("r", cls=""), "request r: unsupported request type", False),
        ({"name": "r"}, "resource claim ns/c, request r: unknown request type", True),
        ({"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "x"}]},
         "request r/s: device class x does not exist", True),
    ],
)  # fmt: skip
def test_prefilter_rejects_pods_that_no_node_can_serve(wanted: dict[str, Any], text: str, unresolvable: bool) -> None:
    rejection = pod_with(make_allocator(), wanted).prefilter()
    assert rejection is not None
    assert (rejection.text, rejection.unresolvable) == (text, unresolvable)
