"""An allocator that is updated by events has the same results as a fresh one."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apiserver.api.objects import Json
from controllers.allocator import AllocationError, Allocator
from controllers.allocator import view as view_module
from controllers.allocator.allocated import DeviceUse
from controllers.allocator.devices import Slice
from controllers.allocator.selectors import Selectors, paths_read
from tests.allocator.builders import (
    NODE,
    device,
    device_class,
    devices_of,
    make_allocator,
    make_claim,
    occupy,
    pod_with,
    record_calls,
    request,
    slice_of,
)
from tests.allocator.worlds import KindEvaluator, make_world

OTHER = {"metadata": {"name": "node-2", "labels": {"zone": "b"}}}
FEATURES = frozenset({"counters", "capacity", "taints", "nodes", "everything"})


def results(allocator: Allocator, claims: list[Json]) -> list[Any]:
    found: list[Any] = []
    for node in (NODE, OTHER):
        try:
            found.append(allocator.for_pod(claims).allocate(node))
        except Exception as error:  # noqa: BLE001 - errors are compared, too
            found.append(str(error))
    return found


@settings(max_examples=100, deadline=None)
@given(st.integers(min_value=0, max_value=1 << 32))
def test_events_lead_to_the_results_of_a_fresh_allocator(seed: int) -> None:
    rng = random.Random(seed)
    kept = Allocator(evaluator=KindEvaluator(), new_share_id=lambda: "share")
    slices: dict[str, Any] = {}
    claims: dict[str, Any] = {}
    for _ in range(20):
        world = make_world(rng, FEATURES)
        for item in world.classes:
            kept.inventory.upsert_class(item)
        _change(rng, kept, slices, claims, world.slices)
        fresh = Allocator(evaluator=KindEvaluator(), new_share_id=lambda: "share")
        for item in world.classes:
            fresh.inventory.upsert_class(item)
        for item in slices.values():
            fresh.inventory.upsert_slice(item)
        for item in claims.values():
            fresh.allocated.upsert_claim(item)
        wanted = world.claims
        got = results(kept, wanted)
        assert got == results(fresh, wanted)
        if isinstance(got[0], list) and rng.random() < 0.7:
            for claim, allocation in zip(wanted, got[0], strict=True):
                name = f"taken-{rng.randint(0, 6)}"
                claims[name] = _with_allocation(claim, name, allocation)
                kept.allocated.upsert_claim(claims[name])


def _with_allocation(claim: Json, name: str, allocation: Json) -> Json:
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}"}
    return {**claim, "metadata": metadata, "status": {"allocation": allocation}}


def _change(rng: random.Random, kept: Allocator, slices: Any, claims: Any, new: list[Json]) -> None:
    if not slices or rng.random() < 0.15:
        for item in new:
            slices[item["metadata"]["name"]] = item
            kept.inventory.upsert_slice(item)
    if len(slices) > 1 and rng.random() < 0.05:
        name = rng.choice(sorted(slices))
        del slices[name]
        kept.inventory.remove_slice(name)
    if claims and rng.random() < 0.5:
        kept.allocated.remove_claim(claims.pop(rng.choice(sorted(claims))))


def test_an_assumed_allocation_counts_until_the_claim_is_observed_without_it() -> None:
    allocator = make_allocator(slice_of("s", device("a"), device("b")))
    first, second = (make_claim(name, [request("r")]) for name in ("first", "second"))
    [result] = allocator.for_pod([first]).allocate(NODE) or []
    allocator.allocated.assume(first, result)
    assert devices_of(allocator.for_pod([second]).allocate(NODE)) == ["s/b"]
    allocator.allocated.upsert_claim({**first, "status": {"allocation": result}})
    allocator.allocated.forget(first)
    assert devices_of(allocator.for_pod([second]).allocate(NODE)) == ["s/b"]
    allocator.allocated.upsert_claim(first)
    assert devices_of(allocator.for_pod([second]).allocate(NODE)) == ["s/a"]


def test_the_share_of_an_assumed_claim_is_not_counted_again_when_it_is_observed() -> None:
    shared = device("d", allowMultipleAllocations=True, capacity={"memory": {"value": "4"}})
    allocator = make_allocator(slice_of("s", shared))
    claim = make_claim("c", [request("r", capacity={"requests": {"memory": "2"}})])
    [result] = allocator.for_pod([claim]).allocate(NODE) or []
    allocator.allocated.assume(claim, result)
    allocator.allocated.upsert_claim({**claim, "status": {"allocation": result}})
    assert allocator.allocated.capacity == {("driver", "s", "d"): {"memory": 2 * 10**9}}
    allocator.allocated.forget(claim)
    assert allocator.allocated.capacity == {("driver", "s", "d"): {"memory": 2 * 10**9}}
    allocator.allocated.remove_claim(claim)
    assert not allocator.allocated.capacity
    assert not allocator.allocated.pools


def test_a_claim_of_the_same_name_with_another_uid_replaces_the_first() -> None:
    allocator = make_allocator(slice_of("s", device("a"), device("b")))
    claim = make_claim("c", [request("r")])
    occupy(allocator, claim)
    allocator.allocated.upsert_claim({**claim, "metadata": {**claim["metadata"], "uid": "another"}})
    assert not allocator.allocated.exclusive


def test_devices_with_admin_access_are_not_in_use() -> None:
    allocator = make_allocator(slice_of("s", device("a")))
    claim = make_claim("c", [request("r", adminAccess=True)])
    occupy(allocator, claim)
    assert not allocator.allocated.exclusive


def test_a_reader_behind_the_log_reads_everything_again() -> None:
    allocator = make_allocator(slice_of("s", device("a"), device("b")))
    claim = make_claim("c", [request("r")])
    pod = allocator.for_pod([make_claim("next", [request("r")])])
    assert devices_of(pod.allocate(NODE)) == ["s/a"]
    used = {"devices": {"results": [{"driver": "driver", "pool": "s", "device": "a"}]}}
    for _ in range(15_000):
        allocator.allocated.assume(claim, used)
        allocator.allocated.forget(claim)
    allocator.allocated.assume(claim, used)
    assert allocator.allocated.log_start > 0
    assert allocator.allocated.position == 30_001
    assert devices_of(pod.allocate(NODE)) == ["s/b"]


def test_a_change_of_one_node_keeps_the_views_of_others() -> None:
    allocator = make_allocator(slice_of("a", device("a")), slice_of("b", device("b"), nodeName="node-2"))
    views = [allocator.inventory.view(node) for node in (NODE, OTHER)]
    allocator.inventory.upsert_slice(slice_of("a", device("a"), device("new"), generation=2))
    assert allocator.inventory.view(NODE) is not views[0]
    assert allocator.inventory.view(OTHER) is views[1]


def test_a_change_of_a_shared_pool_invalidates_the_shared_view_of_all_nodes() -> None:
    allocator = make_allocator(slice_of("s", device("d"), allNodes=True))
    views = [allocator.inventory.view(node) for node in (NODE, OTHER)]
    assert views[0] is views[1]
    allocator.inventory.remove_slice("s")
    assert allocator.inventory.view(NODE).size == 0


def test_a_change_of_labels_changes_the_slices_of_a_node() -> None:
    selector = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]}
    allocator = make_allocator(slice_of("s", device("d"), nodeSelector=selector))
    pod = pod_with(allocator)
    assert pod.allocate(NODE) is None
    assert devices_of(pod.allocate({"metadata": {"name": "node-1", "labels": {"zone": "b"}}})) == ["s/d"]


def test_a_changed_class_changes_the_result_for_a_pod() -> None:
    allocator = make_allocator(slice_of("s", device("a", kind="a"), device("b", kind="b")))
    pod = pod_with(allocator)
    assert devices_of(pod.allocate(NODE)) == ["s/a"]
    allocator.inventory.upsert_class(device_class("all", "kind in b"))
    assert devices_of(pod.allocate(NODE)) == ["s/b"]
    allocator.inventory.remove_class("all")
    assert pod.prefilter() is not None
    with pytest.raises(AllocationError, match="could not retrieve device class all"):
        pod.allocate(NODE)


def test_claims_are_planned_once_for_all_nodes_and_again_after_a_change_of_classes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plans = record_calls(monkeypatch, "controllers.allocator.allocator.make_plan")
    allocator = make_allocator(slice_of("s", device("a")))
    pod = pod_with(allocator)
    assert devices_of(pod.allocate(NODE)) == ["s/a"]
    assert pod.allocate(OTHER) is None
    assert len(plans) == 1
    allocator.inventory.upsert_class(device_class("all", "kind in b"))
    assert pod.allocate(NODE) is None
    assert pod.allocate(OTHER) is None
    assert len(plans) == 2


def test_equal_devices_are_evaluated_once() -> None:
    slices = [slice_of(f"s{i}", *(device(f"d{j}", kind="ab"[j % 2]) for j in range(8))) for i in range(10)]
    allocator = make_allocator(*slices)
    pod = pod_with(allocator, request("r", 32, "kind in c"))
    assert pod.allocate(NODE) is None
    assert allocator.selectors.evaluations == 2


def test_an_unchanged_node_is_not_searched_again_for_an_equal_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    allocator = make_allocator(slice_of("s", device("a")))
    runs = record_calls(monkeypatch, "controllers.allocator.search.Search.run")
    for name in ("first", "second"):
        assert allocator.for_pod([make_claim(name, [request("r")])]).solve(NODE) is not None
    assert len(runs) == 1


def test_the_paths_that_an_expression_reads_are_found_only_if_certain() -> None:
    domain = 'device.attributes["gpu.example.com"]'
    assert paths_read('device.driver == "x"') == (("driver", "", ""),)
    assert paths_read(f'{domain}.model == "device"') == (("attributes", "gpu.example.com", "model"),)
    assert paths_read(f'{domain}["a-b"] == 1 && device.capacity["d"].memory.isLessThan(quantity("1"))') == (
        ("attributes", "gpu.example.com", "a-b"),
        ("capacity", "d", "memory"),
    )
    assert paths_read(f"has({domain}.x) || {domain}.?y.orValue(1) > 0 // device") == (
        ("attributes", "gpu.example.com", "x"),
        ("attributes", "gpu.example.com", "y"),
    )
    assert paths_read("true") == ()
    for of_another in ("x.device", "f(x).device", "x[0].device", "{1: x}.device", '"x".device'):
        assert paths_read(f"{of_another} == 1") == ()
    uncertain = [
        f'"x" in {domain}', f"{domain}.size() > 0", "cel.bind(d, device, d.driver == 'x')", ".device.driver == 'x'",
        "[1].all(device, device > 0)", "device == device", 'device.attributes[r"a"].x == 1', f"{domain}[name] == 1",
        'device.attributes["a\\"b"].x == 1', "device.attributes.exists(k, true)",
    ]  # fmt: skip
    assert [paths_read(expression) for expression in uncertain] == [None] * len(uncertain)


def test_the_other_slices_of_a_node_and_of_a_pool_stay_when_one_is_removed() -> None:
    two = [slice_of(name, device(name), pool="p", count=2) for name in ("a", "b")]
    allocator = make_allocator(*two, slice_of("c", device("c")))
    pod = pod_with(allocator)
    allocator.inventory.remove_slice("a")
    assert devices_of(pod.allocate(NODE)) == ["c/c"]
    allocator.inventory.upsert_slice(two[0])
    all_three = pod_with(allocator, request("r", 3))
    assert sorted(devices_of(all_three.allocate(NODE)) or []) == ["c/c", "p/a", "p/b"]


def test_all_devices_are_those_with_capacity_left_at_each_allocation() -> None:
    shared = [device(name, allowMultipleAllocations=True, capacity={"memory": {"value": "4"}}) for name in "ab"]
    allocator = make_allocator(slice_of("s", *shared, device("without")))
    every = request("r", 0, allocationMode="All", capacity={"requests": {"memory": "3"}})
    pod = allocator.for_pod([make_claim("every", [every])])
    assert devices_of(pod.allocate(NODE)) == ["s/a", "s/b"]
    one = make_claim("one", [request("r", capacity={"requests": {"memory": "2"}})])
    occupy(allocator, one)
    assert devices_of(pod.allocate(NODE)) == ["s/b"]


def test_nodes_share_a_view_while_no_selector_distinguishes_them() -> None:
    allocator = make_allocator(slice_of("s", device("d"), allNodes=True))
    inventory, nodes = allocator.inventory, [{"metadata": {"name": n, "labels": {"zone": n}}} for n in ("a", "b")]

    def share_view() -> bool:
        first, second = (inventory.view(node) for node in nodes)
        return first is second

    zones = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
    assert share_view()
    for name in ("t", "u"):
        inventory.upsert_slice(slice_of(name, device("d"), nodeSelector=zones))
        assert not share_view()
    inventory.upsert_slice(slice_of("t", device("d"), allNodes=True))
    assert not share_view()
    inventory.remove_slice("u")
    assert share_view()
    inventory.upsert_slice(slice_of("u", device("d"), nodeSelector=zones))
    assert not share_view()
    inventory.upsert_slice(slice_of("u", device("d"), nodeName="elsewhere"))
    assert share_view()


def test_a_slice_can_move_to_other_nodes_and_pools() -> None:
    allocator = make_allocator(slice_of("s", device("d")))
    pod = pod_with(allocator)
    moves: tuple[tuple[Json, list[str] | None, list[str] | None], ...] = (
        ({"nodeName": "node-2"}, None, ["s/d"]),
        ({"allNodes": True}, ["s/d"], ["s/d"]),
        ({"nodeName": "node-1"}, ["s/d"], None),
        ({"pool": "p"}, ["p/d"], None),
        ({"pool": "p", "nodeName": "node-2"}, None, ["p/d"]),
    )
    for fields, here, there in moves:
        allocator.inventory.upsert_slice(slice_of("s", device("d"), **fields))
        assert (devices_of(pod.allocate(NODE)), devices_of(pod.allocate(OTHER))) == (here, there)
    allocator.inventory.remove_slice("s")
    allocator.inventory.remove_slice("never there")
    assert (pod.allocate(NODE), pod.allocate(OTHER)) == (None, None)


def test_only_claims_for_all_devices_are_checked_again_when_devices_change(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = record_calls(monkeypatch, "controllers.allocator.allocator.candidates_for")
    every = request("r", 0, allocationMode="All")
    for wanted, times in ((request("r"), 1), (request("r", 2, "kind in a"), 1), (every, 3)):
        allocator = make_allocator(slice_of("s", *(device(name) for name in "abcd")))
        pod = pod_with(allocator, wanted)
        checks.clear()
        for number, used in enumerate(("a", "b", "c")):
            allocator.allocated.put("another", [DeviceUse(("driver", "s", used))])
            assert (pod.allocate(NODE) is None) is (wanted is every), number
        assert len(checks) == times


def test_the_order_of_attributes_does_not_distinguish_devices() -> None:
    first = {"kind": {"string": "a"}, "version": {"version": "not one"}}
    devices = [{"name": "a", "attributes": first}, {"name": "b", "attributes": dict(reversed(first.items()))}]
    selectors = Selectors(KindEvaluator())
    for device_, asked in zip(Slice(slice_of("s", *devices)).devices, (1, 1), strict=True):
        assert selectors.verdict("kind in a", device_) is True
        assert selectors.evaluations == asked


def test_many_changes_of_capacity_keep_the_cache_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_module, "_CHANGES_KEPT", 1)
    shared = [device(name, allowMultipleAllocations=True, capacity={"memory": {"value": "4"}}) for name in "ab"]
    allocator = make_allocator(slice_of("s", *shared))
    pod = pod_with(allocator, request("r", capacity={"requests": {"memory": "3"}}))
    for number in range(20):
        used, free = ("a", "b") if number % 2 else ("b", "a")
        allocator.allocated.put("another", [DeviceUse(("driver", "s", used), "1", (("memory", 2 * 10**9),))])
        assert devices_of(pod.allocate(NODE)) == [f"s/{free}"]
        assert len(allocator.inventory.view(NODE)._capacity_changes) <= 2 * 2 + 1
