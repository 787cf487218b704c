"""Evictions because of taints depend on the objects, and not on the order of their events."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.api.objects import Json
from controllers.devicetaints.evictions import Evictions, Reason
from tests.support.objects import make_claim, make_pod, make_slice

DRIVER = "d.example.com"
TIME = datetime(2026, 1, 1, tzinfo=UTC)


def taint(key: str = "broken", effect: str = "NoExecute", second: int = 0, **more: Any) -> Json:
    return {"key": key, "effect": effect, "timeAdded": f"2026-01-01T00:00:{second:02}Z", **more}


def slice_of(name: str, devices: dict[str, list[Json]], *, pool: str = "p", generation: int = 1) -> Json:
    made = make_slice("n", [{"name": key, "taints": taints} for key, taints in devices.items()], DRIVER, pool=pool)
    made["metadata"]["name"], made["spec"]["pool"]["generation"] = name, generation
    return made


def rule(name: str, selector: Json | None, uid: str = "", **of_taint: Any) -> Json:
    spec = {"taint": taint(**of_taint), **({} if selector is None else {"deviceSelector": selector})}
    return {"metadata": {"name": name, "uid": uid or f"uid-{name}"}, "spec": spec}


def allocated_claim(*devices: str, tolerations: Sequence[Json] = (), pool: str = "p") -> Json:
    """Build a claim that is reserved for the pod."""
    common = {"driver": DRIVER, "pool": pool, "tolerations": list(tolerations)}
    allocation = {"devices": {"results": [{**common, "device": device} for device in devices]}}
    return make_claim("claim", allocation=allocation, reservedFor=[{"resource": "pods", "name": "pod", "uid": "pod"}])


def pod_with(*claims: str, node: str = "n", uid: str = "pod") -> Json:
    return make_pod("pod", claims={name: name for name in claims}, node=node, uid=uid)


def toleration(seconds: int | None = None, key: str = "broken", effect: str = "NoExecute") -> Json:
    limit = {} if seconds is None else {"tolerationSeconds": seconds}
    return {"operator": "Exists", "key": key, "effect": effect, **limit}


def seconds_left(evictions: Evictions, key: str = "ns/claim") -> float | None:
    """Return the seconds from the start to the eviction of the users of a claim."""
    eviction = evictions.of_claim(key)
    return None if eviction is None else (eviction.when - TIME) / timedelta(seconds=1)


def of(taints: list[Json], *tolerations: Json) -> Evictions:
    evictions = Evictions()
    evictions.set_claim("ns/claim", allocated_claim("a", tolerations=tolerations))
    evictions.set_slice(None, slice_of("s", {"a": taints, "b": []}))
    return evictions


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        ((), 0),
        ((toleration(60),), 60),
        ((toleration(60), toleration(30)), 30),
        ((toleration(20, key="other"), toleration(60)), 60),
        ((toleration(-5),), 0),
        ((toleration(60), toleration(None)), None),
        ((toleration(None, key="other"),), 0),
        ((toleration(None, effect=""),), 0),
    ],
)
def test_the_shortest_toleration_of_the_effect_delays_and_one_without_seconds_prevents_eviction(
    tolerations: tuple[Json, ...], expected: int | None
) -> None:
    assert seconds_left(of([taint()], *tolerations)) == expected


@pytest.mark.parametrize("effect", ["None", "NoSchedule", "Whatever"])
def test_other_effects_do_not_evict(effect: str) -> None:
    assert seconds_left(of([taint(effect=effect)])) is None


def test_the_reasons_are_all_taints_that_are_not_tolerated_forever_rules_first() -> None:
    taints = [taint("kept"), taint("soon", second=9), taint("late")]
    evictions = of(taints, toleration(None, "kept"), toleration(30, "late"), toleration(60, "ruled"))
    evictions.set_rule(None, rule("z", {}, key="ruled"))
    evictions.set_rule(None, rule("b", {"driver": DRIVER}, key="ruled"))
    eviction = evictions.of_claim("ns/claim")
    assert eviction is not None
    assert [(reason.rule, reason.place) for reason in eviction.reasons] == [("b", 0), ("z", 0), ("", 1), ("", 2)]
    assert seconds_left(evictions) == 9


@pytest.mark.parametrize(
    ("selector", "selects"),
    [
        ({}, True),
        (None, False),
        ({"device": "a"}, True),
        ({"device": "b"}, False),
        ({"driver": DRIVER, "pool": "p"}, True),
        ({"pool": "q"}, False),
    ],
)
def test_a_rule_selects_by_all_its_fields_even_unpublished_devices(selector: Json | None, selects: bool) -> None:
    evictions = Evictions()
    evictions.set_claim("ns/claim", allocated_claim("a"))
    assert bool(evictions.set_rule(None, rule("r", selector))) is selects
    assert (evictions.of_claim("ns/claim") is not None) is selects


def test_a_slice_of_a_higher_generation_hides_the_taints_of_older_ones() -> None:
    evictions, newer = of([taint()]), slice_of("new", {"c": []}, generation=2)
    assert evictions.set_slice(None, newer)
    assert seconds_left(evictions) is None
    evictions.set_slice(newer, None)
    assert seconds_left(evictions) == 0


def test_a_change_without_effect_on_evictions_affects_no_claims() -> None:
    evictions = of([taint()])
    old, new = slice_of("s", {"a": [taint()], "b": []}), slice_of("s", {"a": [taint()], "b": [taint()]})
    assert evictions.set_slice(old, new) == []
    assert evictions.set_rule(None, rule("r", {"device": "b"})) == []


def test_a_pod_is_evicted_if_it_is_bound_and_the_claim_is_reserved_for_it() -> None:
    evictions = of([taint()])
    assert evictions.of_pod(pod_with("claim")) is not None
    assert evictions.of_pod(pod_with("claim", node="")) is None
    assert evictions.of_pod(pod_with("claim", uid="another")) is None
    assert evictions.of_pod(pod_with()) is None
    evictions.set_claim("ns/claim", None)
    assert evictions.of_pod(pod_with("claim")) is None


def test_the_earliest_of_several_claims_decides_and_a_rule_counts_once() -> None:
    evictions = of([taint(second=5)])
    evictions.set_claim("ns/other", allocated_claim("b"))
    evictions.set_rule(None, rule("r", {}, key="ruled", second=7))
    eviction = evictions.of_pod(pod_with("other", "claim"))
    assert eviction is not None
    assert (eviction.when - TIME).total_seconds() == 5
    assert eviction.reasons == (Reason(False, "r", "uid-r"), Reason(True, driver=DRIVER, pool="p", device="a"))


def test_simulating_a_rule_changes_no_evictions() -> None:
    evictions, quiet = of([]), rule("r", {}, effect="None")
    evictions.set_rule(None, quiet)
    assert evictions.count_selected(quiet) == (2, 1)
    assert evictions.simulate(quiet).of_pod(pod_with("claim")) is not None
    assert evictions.of_pod(pod_with("claim")) is None


_taints = st.lists(
    st.builds(taint, st.sampled_from("kl"), st.sampled_from(["NoExecute", "NoSchedule"]), st.integers(0, 9)), max_size=2
)
_names = st.sampled_from("ab")
_slices = st.builds(
    slice_of, st.just("s"), st.dictionaries(_names, _taints), pool=st.sampled_from("pq"), generation=st.integers(1, 2)
)
_selectors = st.sampled_from([None, {}, {"device": "a"}, {"pool": "q"}])
_rules = st.builds(rule, st.just("r"), _selectors, st.sampled_from("12"), effect=st.sampled_from(["NoExecute", "None"]))
_tolerations = st.lists(st.builds(toleration, st.sampled_from([None, 3, 5]), st.sampled_from("kl")), max_size=2)
_claims: st.SearchStrategy[Json] = st.just({"status": {}}) | st.builds(
    allocated_claim, _names, _names, tolerations=_tolerations, pool=st.sampled_from("pq")
)
_changes = st.one_of(
    *(
        st.tuples(st.just(kind), st.sampled_from("xyz"), st.none() | objects)
        for kind, objects in (("slice", _slices), ("rule", _rules), ("claim", _claims))
    )
)


class WatchedEvictions:
    """Evictions that receive events as watches deliver them, with the old object."""

    def __init__(self) -> None:
        self.evictions = Evictions()
        self.objects: dict[tuple[str, str], Json] = {}

    def apply(self, kind: str, name: str, obj: Json | None) -> None:
        old, new = self.objects.pop((kind, name), None), copy.deepcopy(obj)
        if new is not None:
            new.setdefault("metadata", {})["name"] = name
            self.objects[kind, name] = new
        if kind == "claim":
            self.evictions.set_claim(name, new)
        elif old is not None or new is not None:
            (self.evictions.set_slice if kind == "slice" else self.evictions.set_rule)(old, new)

    def results(self) -> list[object]:
        return [self.evictions.of_claim(name) for name in "xyz"]


@given(st.lists(_changes, max_size=12), st.randoms(use_true_random=False))
def test_the_evictions_depend_on_the_objects_and_not_on_the_order_of_events(
    changes: list[tuple[str, str, Json | None]], random: Any
) -> None:
    updated, fresh = WatchedEvictions(), WatchedEvictions()
    for change in changes:
        updated.apply(*change)
    last = [(kind, name, obj) for (kind, name), obj in updated.objects.items()]
    random.shuffle(last)
    for change in last:
        fresh.apply(*change)
    assert updated.results() == fresh.results()
