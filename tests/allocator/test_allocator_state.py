"""State kept by events: whatever came in whichever order, the answer is that of a fresh allocator."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.allocator import AllocationError, Allocator, search
from controllers.allocator import allocator as allocator_module
from controllers.allocator import view as view_module
from controllers.allocator.allocated import DeviceUse
from controllers.allocator.devices import Slice
from controllers.allocator.selectors import Selectors, paths_read
from tests.allocator.builders import device, device_class, make_allocator, make_claim, picked, request, slice_of
from tests.allocator.worlds import KindEvaluator, make_world

NODE = {"metadata": {"name": "node-1", "labels": {"zone": "a"}}}
OTHER = {"metadata": {"name": "node-2", "labels": {"zone": "b"}}}
FEATURES = frozenset({"counters", "capacity", "taints", "nodes", "everything"})


def answers(allocator: Allocator, claims: list[dict[str, Any]]) -> list[Any]:
    result: list[Any] = []
    for node in (NODE, OTHER):
        try:
            result.append(allocator.for_pod(claims).allocate(node))
        except Exception as error:  # noqa: BLE001 - errors are answers, too
            result.append(str(error))
    return result


@settings(max_examples=100, deadline=None)
@given(st.integers(min_value=0, max_value=1 << 32))
def test_an_allocator_kept_by_events_answers_like_a_fresh_one(seed: int) -> None:
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
        got = answers(kept, wanted)
        assert got == answers(fresh, wanted)
        if isinstance(got[0], list) and rng.random() < 0.7:
            for claim, allocation in zip(wanted, got[0], strict=True):
                name = f"taken-{rng.randint(0, 6)}"
                claims[name] = _allocated(claim, name, allocation)
                kept.allocated.upsert_claim(claims[name])


def _allocated(claim: dict[str, Any], name: str, allocation: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}"}
    return {**claim, "metadata": metadata, "status": {"allocation": allocation}}


def _change(rng: random.Random, kept: Allocator, slices: Any, claims: Any, new: list[dict[str, Any]]) -> None:
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


def test_an_assumed_allocation_counts_until_it_is_forgotten() -> None:
    allocator = make_allocator(slice_of("s", device("a"), device("b")))
    first, second = (make_claim(name, [request("r")]) for name in ("first", "second"))
    [result] = allocator.for_pod([first]).allocate(NODE) or []
    allocator.allocated.assume(first, result)
    assert picked(allocator.for_pod([second]).allocate(NODE)) == ["s/b"]
    allocator.allocated.upsert_claim({**first, "status": {"allocation": result}})
    allocator.allocated.forget(first)
    assert picked(allocator.for_pod([second]).allocate(NODE)) == ["s/b"]
    allocator.allocated.upsert_claim(first)
    assert picked(allocator.for_pod([second]).allocate(NODE)) == ["s/a"]


def test_the_share_of_an_assumed_claim_is_not_counted_twice_once_it_is_written() -> None:
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
    [result] = allocator.for_pod([claim]).allocate(NODE) or []
    allocator.allocated.upsert_claim({**claim, "status": {"allocation": result}})
    allocator.allocated.upsert_claim({**claim, "metadata": {**claim["metadata"], "uid": "another"}})
    assert not allocator.allocated.exclusive


def test_devices_of_administrators_are_not_in_use() -> None:
    allocator = make_allocator(slice_of("s", device("a")))
    claim = make_claim("c", [request("r", adminAccess=True)])
    [result] = allocator.for_pod([claim]).allocate(NODE) or []
    allocator.allocated.upsert_claim({**claim, "status": {"allocation": result}})
    assert not allocator.allocated.exclusive


def test_a_reader_that_fell_behind_the_log_reads_everything_again() -> None:
    allocator = make_allocator(slice_of("s", device("a"), device("b")))
    claim = make_claim("c", [request("r")])
    pod = allocator.for_pod([make_claim("next", [request("r")])])
    assert picked(pod.allocate(NODE)) == ["s/a"]
    used = {"devices": {"results": [{"driver": "driver", "pool": "s", "device": "a"}]}}
    for _ in range(15_000):
        allocator.allocated.assume(claim, used)
        allocator.allocated.forget(claim)
    allocator.allocated.assume(claim, used)
    assert allocator.allocated.log_start > 0
    assert allocator.allocated.position == 30_001, "what is forgotten of the log counts on"
    assert picked(pod.allocate(NODE)) == ["s/b"]


def test_a_change_of_one_node_leaves_the_views_of_others_alone() -> None:
    allocator = make_allocator(slice_of("a", device("a")), slice_of("b", device("b"), nodeName="node-2"))
    views = [allocator.inventory.view(node) for node in (NODE, OTHER)]
    allocator.inventory.upsert_slice(slice_of("a", device("a"), device("new"), generation=2))
    assert allocator.inventory.view(NODE) is not views[0]
    assert allocator.inventory.view(OTHER) is views[1]


def test_a_change_of_a_shared_pool_concerns_every_node_and_nodes_without_slices_share_a_view() -> None:
    allocator = make_allocator(slice_of("s", device("d"), allNodes=True))
    views = [allocator.inventory.view(node) for node in (NODE, OTHER)]
    assert views[0] is views[1]
    allocator.inventory.remove_slice("s")
    assert allocator.inventory.view(NODE).size == 0


def test_a_node_that_changes_its_labels_sees_other_slices() -> None:
    selector = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]}
    allocator = make_allocator(slice_of("s", device("d"), nodeSelector=selector))
    pod = allocator.for_pod([make_claim("c", [request("r")])])
    assert pod.allocate(NODE) is None
    assert picked(pod.allocate({"metadata": {"name": "node-1", "labels": {"zone": "b"}}})) == ["s/d"]


def test_a_changed_class_changes_the_answer_of_the_same_question() -> None:
    allocator = make_allocator(slice_of("s", device("a", kind="a"), device("b", kind="b")))
    pod = allocator.for_pod([make_claim("c", [request("r")])])
    assert picked(pod.allocate(NODE)) == ["s/a"]
    allocator.inventory.upsert_class(device_class("all", "kind in b"))
    assert picked(pod.allocate(NODE)) == ["s/b"]
    allocator.inventory.remove_class("all")
    assert pod.prefilter() is not None
    with pytest.raises(AllocationError, match="could not retrieve device class all"):
        pod.allocate(NODE)


def test_claims_are_read_once_for_all_nodes_and_again_when_a_class_has_changed(monkeypatch: Any) -> None:
    made: list[int] = []
    original = allocator_module.make_plan
    monkeypatch.setattr(allocator_module, "make_plan", lambda *given: (made.append(1), original(*given))[1])
    allocator = make_allocator(slice_of("s", device("a")))
    pod = allocator.for_pod([make_claim("c", [request("r")])])
    assert picked(pod.allocate(NODE)) == ["s/a"]
    assert pod.allocate(OTHER) is None
    assert len(made) == 1
    allocator.inventory.upsert_class(device_class("all", "kind in b"))
    assert pod.allocate(NODE) is None
    assert pod.allocate(OTHER) is None
    assert len(made) == 2


def test_devices_that_look_the_same_are_evaluated_once() -> None:
    slices = [slice_of(f"s{i}", *(device(f"d{j}", kind="ab"[j % 2]) for j in range(8))) for i in range(10)]
    allocator = make_allocator(*slices)
    pod = allocator.for_pod([make_claim("c", [request("r", 33, "kind in c")])])
    assert "exceeds" in answers(allocator, [make_claim("c", [request("r", 33)])])[0]
    pod = allocator.for_pod([make_claim("c", [request("r", 32, "kind in c")])])
    assert pod.allocate(NODE) is None
    assert allocator.selectors.evaluations == 2


def test_an_unchanged_node_is_not_searched_again_for_an_equal_pod(monkeypatch: Any) -> None:
    allocator = make_allocator(slice_of("s", device("a")))
    runs: list[int] = []
    original = search.Search.run
    monkeypatch.setattr(search.Search, "run", lambda self: (runs.append(1), original(self))[1])
    for name in ("first", "second"):
        assert allocator.for_pod([make_claim(name, [request("r")])]).solve(NODE) is not None
    assert len(runs) == 1


def test_what_an_expression_looks_at_is_read_off_only_when_it_is_certain() -> None:
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
    pod = allocator.for_pod([make_claim("c", [request("r")])])
    allocator.inventory.remove_slice("a")
    assert picked(pod.allocate(NODE)) == ["c/c"]
    allocator.inventory.upsert_slice(two[0])
    all_three = allocator.for_pod([make_claim("c", [request("r", 3)])])
    assert sorted(picked(all_three.allocate(NODE)) or []) == ["c/c", "p/a", "p/b"]


def test_all_devices_are_those_with_capacity_left_each_time_that_it_is_asked() -> None:
    shared = [device(name, allowMultipleAllocations=True, capacity={"memory": {"value": "4"}}) for name in "ab"]
    allocator = make_allocator(slice_of("s", *shared, device("without")))
    every = request("r", 0, allocationMode="All", capacity={"requests": {"memory": "3"}})
    pod = allocator.for_pod([make_claim("every", [every])])
    assert picked(pod.allocate(NODE)) == ["s/a", "s/b"]
    one = make_claim("one", [request("r", capacity={"requests": {"memory": "2"}})])
    [result] = allocator.for_pod([one]).allocate(NODE) or []
    allocator.allocated.upsert_claim({**one, "status": {"allocation": result}})
    assert picked(pod.allocate(NODE)) == ["s/b"]


def test_nodes_that_nothing_tells_apart_any_more_share_a_view_again() -> None:
    allocator = make_allocator(slice_of("s", device("d"), allNodes=True))
    inventory, nodes = allocator.inventory, [{"metadata": {"name": n, "labels": {"zone": n}}} for n in ("a", "b")]

    def shared() -> bool:
        first, second = (inventory.view(node) for node in nodes)
        return first is second

    zones = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
    assert shared()
    for name in ("t", "u"):
        inventory.upsert_slice(slice_of(name, device("d"), nodeSelector=zones))
        assert not shared()
    inventory.upsert_slice(slice_of("t", device("d"), allNodes=True))
    assert not shared()
    inventory.remove_slice("u")
    assert shared()
    inventory.upsert_slice(slice_of("u", device("d"), nodeSelector=zones))
    assert not shared()
    inventory.upsert_slice(slice_of("u", device("d"), nodeName="elsewhere"))
    assert shared()


def test_a_slice_that_moves_is_where_it_moved_to() -> None:
    allocator = make_allocator(slice_of("s", device("d")))
    pod = allocator.for_pod([make_claim("c", [request("r")])])
    for fields, here, there in (
        ({"nodeName": "node-2"}, None, ["s/d"]),
        ({"allNodes": True}, ["s/d"], ["s/d"]),
        ({"nodeName": "node-1"}, ["s/d"], None),
        ({"pool": "p"}, ["p/d"], None),
        ({"pool": "p", "nodeName": "node-2"}, None, ["p/d"]),
    ):
        allocator.inventory.upsert_slice(slice_of("s", device("d"), **fields))  # type: ignore[arg-type]
        assert (picked(pod.allocate(NODE)), picked(pod.allocate(OTHER))) == (here, there)
    allocator.inventory.remove_slice("s")
    allocator.inventory.remove_slice("never there")
    assert (pod.allocate(NODE), pod.allocate(OTHER)) == (None, None)


def test_claims_with_nothing_to_check_are_checked_once_and_others_whenever_devices_change(monkeypatch: Any) -> None:
    checked: list[int] = []
    original = allocator_module.candidates_for
    monkeypatch.setattr(allocator_module, "candidates_for", lambda *given: (checked.append(1), original(*given))[1])
    every = {**request("r", 0), "exactly": {**request("r", 0)["exactly"], "allocationMode": "All"}}
    for wanted, times in ((request("r"), 1), (request("r", 2, "kind in a"), 1), (every, 3)):
        allocator = make_allocator(slice_of("s", *(device(name) for name in "abcd")))
        pod = allocator.for_pod([make_claim("c", [wanted])])
        checked.clear()
        for number, used in enumerate(("a", "b", "c")):
            allocator.allocated.put("another", [DeviceUse(("driver", "s", used))])
            assert (pod.allocate(NODE) is None) is (wanted is every), number
        assert len(checked) == times


def test_devices_are_alike_whichever_way_they_list_what_they_are() -> None:
    first = {"kind": {"string": "a"}, "version": {"version": "not one"}}
    devices = [{"name": "a", "attributes": first}, {"name": "b", "attributes": dict(reversed(first.items()))}]
    selectors = Selectors(KindEvaluator())
    for device_, asked in zip(Slice(slice_of("s", *devices)).devices, (1, 1), strict=True):
        assert selectors.verdict("kind in a", device_) is True
        assert selectors.evaluations == asked


def test_many_changes_of_capacity_leave_what_is_known_of_it_right(monkeypatch: Any) -> None:
    monkeypatch.setattr(view_module, "_CHANGES_KEPT", 1)
    shared = [device(name, allowMultipleAllocations=True, capacity={"memory": {"value": "4"}}) for name in "ab"]
    allocator = make_allocator(slice_of("s", *shared))
    pod = allocator.for_pod([make_claim("c", [request("r", capacity={"requests": {"memory": "3"}})])])
    for number in range(20):
        used, free = ("a", "b") if number % 2 else ("b", "a")
        allocator.allocated.put("another", [DeviceUse(("driver", "s", used), "1", (("memory", 2 * 10**9),))])
        assert picked(pod.allocate(NODE)) == [f"s/{free}"]
        assert len(allocator.inventory.view(NODE)._capacity_changes) <= 2 * 2 + 1
