"""Caches of the allocator and steps of hard searches are bounded. Caches never change a result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.allocator import Allocator, allocator, inventory, search, selectors, view
from controllers.allocator.devices import Device, Slice
from controllers.allocator.selectors import Path, SelectorError, Selectors, Verdict
from tests.allocator.builders import (
    NODE,
    device,
    devices_of,
    make_allocator,
    make_claim,
    occupy,
    pod_with,
    record_calls,
    request,
    slice_of,
)
from tests.allocator.worlds import KindEvaluator


class CountingEvaluator(KindEvaluator):
    """Records the compiled expressions."""

    def __init__(self) -> None:
        self.compiled: list[str] = []

    def compile(self, expression: str) -> Callable[[Device], Verdict] | SelectorError:
        self.compiled.append(expression)
        return super().compile(expression)

    def reads(self, _expression: str) -> tuple[Path, ...] | None:
        return None


def test_the_least_recent_expression_is_evicted_first_and_verdicts_all_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(selectors, "_EXPRESSIONS_KEPT", 2)
    monkeypatch.setattr(selectors, "_VERDICTS_KEPT", 2)
    evaluator = CountingEvaluator()
    known = Selectors(evaluator)
    a, b, c = Slice(slice_of("s", *(device(kind, kind=kind) for kind in "abc"))).devices
    for expression in ("kind in a", "kind in b", "kind in a", "kind in c", "kind in b", "kind in a"):
        assert known.verdict(expression, a) is (expression == "kind in a")
    assert evaluator.compiled == ["kind in a", "kind in b", "kind in c", "kind in a"]
    before = known.evaluations
    asked = []
    for item in (b, a, c, c, b):
        assert known.verdict("kind in a", item) is (item is a)
        asked.append(known.evaluations - before)
    assert asked == [1, 1, 2, 2, 3]


#: Caches of requests with their bounds.
CACHES: dict[str, tuple[Any, str, Callable[[Allocator], Any]]] = {
    "selectors": (view, "_KEPT", lambda made: made.inventory.view(NODE)._selected),
    "tolerations": (view, "_KEPT", lambda made: made.inventory.view(NODE)._tolerated),
    "capacities": (view, "_KEPT", lambda made: made.inventory.view(NODE)._capable),
    "capacities left": (view, "_KEPT", lambda made: made.inventory.view(NODE)._exhausted),
    "answers": (allocator, "_OUTCOMES_KEPT", lambda made: made.inventory.view(NODE).outcomes),
}


@pytest.mark.parametrize("name", CACHES)
def test_the_caches_of_a_view_are_bounded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, constant, table = CACHES[name]
    monkeypatch.setattr(module, constant, 4)
    capacity = {"memory": {"value": "20"}}
    taints = [{"key": f"k{number}", "effect": "NoSchedule"} for number in range(6)]
    devices = [device(f"t{number}", taints=[taint]) for number, taint in enumerate(taints)]
    shared = device("z", allowMultipleAllocations=True, capacity=capacity)
    made = make_allocator(slice_of("s", *devices, shared))
    first = make_claim("first", [request("r", capacity={"requests": {"memory": "1"}})])
    occupy(made, first)
    sizes = []
    for number in range(6):
        tolerations = [{"key": f"k{number}", "operator": "Exists"}]
        plain = request("r", 1, "kind in a", *["any"] * number, tolerations=tolerations)
        assert devices_of(pod_with(made, plain).allocate(NODE)) == [f"s/t{number}"]
        sizes.append(len(table(made)))
        large = request("r", capacity={"requests": {"memory": str(14 + number)}})
        assert devices_of(pod_with(made, large).allocate(NODE)) == ["s/z"]
        sizes.append(len(table(made)))
    assert max(sizes) == 4


def test_views_and_parsed_selectors_of_nodes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "_SHARED_VIEWS_KEPT", 2)
    monkeypatch.setattr(inventory, "_SELECTORS_KEPT", 2)
    zones = "abcd"
    slices = [slice_of(f"s-{zone}", device("d"), nodeSelector=_in_zone(zone)) for zone in zones]
    made = make_allocator(*slices, slice_of("everywhere", device("d"), allNodes=True))
    sizes = []
    for number, zone in enumerate(zones * 2):
        node = {"metadata": {"name": f"node-{number}", "labels": {"zone": zone}}}
        got = pod_with(made, request("r", 2)).allocate(node)
        assert devices_of(got) == ["everywhere/d", f"s-{zone}/d"]
        known = made.inventory
        sizes.append((len(known._shared_views), len(known._parsed_by_identity), len(known._parsed)))
    assert [max(column) for column in zip(*sizes, strict=True)] == [2, 2, 1]


def _in_zone(zone: str) -> Json:
    return {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]}


def many(kind: str, number: int, **fields: Any) -> list[Json]:
    """Build devices of a kind."""
    return [device(f"{kind}{i:02}", kind=kind, **fields) for i in range(number)]


def _consumes(amount: int, counter: str = "x") -> list[Json]:
    return [{"counterSet": "set", "counters": {counter: {"value": str(amount)}}}]


def _counters(**amounts: int) -> Json:
    counters = {name: {"value": str(amount)} for name, amount in amounts.items()}
    return slice_of("z", pool="s", count=2, sharedCounters=[{"name": "set", "counters": counters}])


def _either(name: str, *counts: int) -> Json:
    return _first(name, *((f"s{n}", n, "kind in b") for n in counts))


def _first(name: str, *choices: tuple[str, int, str]) -> Json:
    return {"name": name, "firstAvailable": [{**request(*item)["exactly"], "name": item[0]} for item in choices]}


def _all(name: str, *expressions: str) -> Json:
    return request(name, 0, *expressions, allocationMode="All")


def _hard() -> dict[str, tuple[list[Json], list[Json], list[Json], int]]:
    """Return slices, requests, constraints and the limit of tried devices by case."""
    plain = slice_of("s", *many("a", 20), *many("b", 2))
    parts = slice_of("s", *many("a", 20, consumesCounters=_consumes(2)), pool="s", count=2)
    weights = [device(f"w{i}", consumesCounters=_consumes(1 if i == 5 else 2)) for i in range(10)]
    values = [device(f"v{i:02}", kind="b" if i < 5 else "a", numa=i % 5) for i in range(25)]
    halves = [device(f"n{i:02}", numa=i % 10) for i in range(20)]
    sized = [{**item, "capacity": {"memory": {"value": str(i)}}} for i, item in enumerate(halves)]
    pairs = [device(f"u{i:02}", kind="ab"[i % 2], numa=i // 2) for i in range(12)]
    shared, sizes = (
        [device(f"d{i}", allowMultipleAllocations=True, capacity={"memory": {"value": str(size)}}) for i, size in many]
        for many in (enumerate((10, 10, 10)), enumerate((9, 10, 11)))
    )
    apart = [device(f"a{i:02}", kind="a", numa=i) for i in range(22)]
    wide = [("w", 20, "kind in a"), ("n", 1, "kind in b")]
    four = {"requests": {"memory": "4"}}
    match, distinct = ([{f"{kind}Attribute": "driver/numa"}] for kind in ("match", "distinct"))
    return {
        "overlapping requests need more than there is together": (
            [plain], [request("r0", 2), *(request(f"r{n}", 1, "kind in b", *["any"] * n) for n in (1, 2, 3))], [], 1),
        "counters leave room for fewer": (
            [parts, _counters(x=9)], [request("r0", 2), request("r1", 3)], [], 1),
        "counters leave room for the small ones only": (
            [slice_of("s", *weights, pool="s", count=2), _counters(x=4)], [request("r0"), request("r1", 2)], [], 6),
        "each value has too few devices for a later request": (
            [slice_of("s", *values)], [request("r0", 2, "kind in a"), request("r1", 2, "kind in b")], match, 6),
        "one value has too few devices": (
            [slice_of("s", *halves)], [request("r0", 2), request("r1", 1)], match, 21),
        "devices differ only in a capacity without requests": (
            [slice_of("s", *sized)], [request("r0", 2), request("r1", 1)], match, 21),
        "there are fewer values than devices": (
            [slice_of("s", *pairs)], [request("r0", 4), request("r1", 3)], distinct, 101),
        "shares do not fit into devices that are all alike": (
            [slice_of("s", *shared)], [request(f"r{n}", capacity=four) for n in range(7)], [], 42),
        "shares do not fit into devices that differ": (
            [slice_of("s", *sizes)], [request(f"r{n}", capacity=four) for n in range(8)], [], 82),
        "alternatives are weighed as well": (
            [plain], [request("r0", 3), _either("r1", 3, 4)], [], 1),
        "all devices are too many beside others": (
            [plain], [request("r0", 1, "kind in b"), request("r1", 3), _all("r2", "kind in b")], [], 2),
        "beside the larger alternative the next request exceeds the limit, whichever devices it has": (
            [slice_of("s", *apart, *many("b", 13))], [_first("r0", *wide), _either("r1", 13, 14)],
            [{**distinct[0], "requests": ["r0"]}], 21),
    }  # fmt: skip


@pytest.mark.parametrize("case", _hard())
def test_a_search_without_a_result_ends_within_its_limit(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slices, requests, constraints, most = _hard()[case]
    found, steps = _hard_search(monkeypatch, slices, requests, constraints)
    assert found is None
    assert steps <= most


def test_a_device_that_leaves_too_little_for_its_request_is_abandoned_immediately(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weights = [device(f"w{i}", consumesCounters=_consumes(3 if i < 5 else 2)) for i in range(10)]
    slices = [slice_of("s", *weights, pool="s", count=2), _counters(x=6)]
    found, steps = _hard_search(monkeypatch, slices, [request("r", 3)], [])
    assert found == ["s/w5", "s/w6", "s/w7"]
    assert steps <= 5


def _hard_search(
    monkeypatch: pytest.MonkeyPatch, slices: list[Json], requests: list[Json], constraints: list[Json]
) -> tuple[list[str] | None, int]:
    """Return the result of a search that is hard from the start, and the number of tried devices."""
    searches = record_calls(monkeypatch, "controllers.allocator.search.Search.run")
    monkeypatch.setattr(search, "EASY_STEPS", -1)
    found = pod_with(make_allocator(*slices), *requests, constraints=constraints).allocate(NODE, lambda: None)
    return devices_of(found), searches[0][0].steps
