"""Which pods have to go because of taints follows from what there is, in whatever order it came."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.api.objects import Json
from controllers.devicetaints.evictions import Evictions, Reason

DRIVER = "d.example.com"
TIME = datetime(2026, 1, 1, tzinfo=UTC)


def taint(key: str = "broken", effect: str = "NoExecute", second: int = 0, **more: Any) -> Json:
    return {"key": key, "effect": effect, "timeAdded": f"2026-01-01T00:00:{second:02}Z", **more}


def slice_of(name: str, devices: dict[str, list[Json]], *, pool: str = "p", generation: int = 1) -> Json:
    listed = [{"name": device, "taints": taints} for device, taints in devices.items()]
    return {
        "metadata": {"name": name},
        "spec": {"driver": DRIVER, "pool": {"name": pool, "generation": generation}, "devices": listed},
    }


def rule(name: str, selector: Json | None, uid: str = "", **of_taint: Any) -> Json:
    spec = {"taint": taint(**of_taint), **({} if selector is None else {"deviceSelector": selector})}
    return {"metadata": {"name": name, "uid": uid or f"uid-{name}"}, "spec": spec}


def claim(
    *devices: str, tolerations: tuple[Json, ...] = (), users: tuple[str, ...] = ("pod",), pool: str = "p"
) -> Json:
    results = [
        {"driver": DRIVER, "pool": pool, "device": device, "tolerations": list(tolerations)} for device in devices
    ]
    reserved = [{"resource": "pods", "name": user, "uid": user} for user in users]
    metadata = {"name": "claim", "namespace": "ns"}
    return {"metadata": metadata, "status": {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}}


def pod(*claims: str, node: str = "n", uid: str = "pod") -> Json:
    entries = [{"name": name, "resourceClaimName": name} for name in claims]
    return {
        "metadata": {"name": "pod", "namespace": "ns", "uid": uid},
        "spec": {"nodeName": node, "resourceClaims": entries},
    }


def tolerated(seconds: int | None = None, key: str = "broken", effect: str = "NoExecute") -> Json:
    return {
        "operator": "Exists",
        "key": key,
        "effect": effect,
        **({} if seconds is None else {"tolerationSeconds": seconds}),
    }


def after(evictions: Evictions, key: str = "ns/claim") -> float | None:
    """Seconds after the start at which users of the claim go."""
    eviction = evictions.of_claim(key)
    return None if eviction is None else (eviction.when - TIME) / timedelta(seconds=1)


def of(taints: list[Json], *tolerations: Json) -> Evictions:
    evictions = Evictions()
    evictions.set_claim("ns/claim", claim("a", tolerations=tolerations))
    evictions.set_slice(None, slice_of("s", {"a": taints, "b": []}))
    return evictions


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        ((), 0),
        ((tolerated(60),), 60),
        ((tolerated(60), tolerated(30)), 30),
        ((tolerated(20, key="other"), tolerated(60)), 60),
        ((tolerated(-5),), 0),
        ((tolerated(60), tolerated(None)), None),
        ((tolerated(None, key="other"),), 0),
        ((tolerated(None, effect=""),), 0),
    ],
)
def test_the_shortest_toleration_that_names_the_effect_says_when_and_one_without_end_means_never(
    tolerations: tuple[Json, ...], expected: int | None
) -> None:
    assert after(of([taint()], *tolerations)) == expected


@pytest.mark.parametrize("effect", ["None", "NoSchedule", "Whatever"])
def test_other_effects_do_not_evict(effect: str) -> None:
    assert after(of([taint(effect=effect)])) is None


def test_the_reasons_are_all_taints_that_are_not_tolerated_for_ever_rules_first() -> None:
    evictions = of(
        [taint("kept"), taint("soon", second=9), taint("late")],
        tolerated(None, "kept"),
        tolerated(30, "late"),
        tolerated(60, "ruled"),
    )
    evictions.set_rule(None, rule("z", {}, key="ruled"))
    evictions.set_rule(None, rule("b", {"driver": DRIVER}, key="ruled"))
    eviction = evictions.of_claim("ns/claim")
    assert eviction is not None
    assert [(reason.rule, reason.place) for reason in eviction.reasons] == [("b", 0), ("z", 0), ("", 1), ("", 2)]
    assert after(evictions) == 9


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
def test_a_rule_selects_by_all_that_it_names_also_devices_that_nobody_publishes(
    selector: Json | None, selects: bool
) -> None:
    evictions = Evictions()
    evictions.set_claim("ns/claim", claim("a"))
    assert bool(evictions.set_rule(None, rule("r", selector))) is selects
    assert (evictions.of_claim("ns/claim") is not None) is selects


def test_a_slice_of_a_higher_generation_hides_the_taints_of_others_until_it_is_gone() -> None:
    evictions, newer = of([taint()]), slice_of("new", {"c": []}, generation=2)
    assert evictions.set_slice(None, newer)
    assert after(evictions) is None
    evictions.set_slice(newer, None)
    assert after(evictions) == 0


def test_what_does_not_change_an_eviction_concerns_nobody() -> None:
    evictions = of([taint()])
    old, new = slice_of("s", {"a": [taint()], "b": []}), slice_of("s", {"a": [taint()], "b": [taint()]})
    assert evictions.set_slice(old, new) == []
    assert evictions.set_rule(None, rule("r", {"device": "b"})) == []


def test_a_pod_goes_when_it_is_on_a_node_and_the_claim_is_reserved_for_it() -> None:
    evictions = of([taint()])
    assert evictions.of_pod(pod("claim")) is not None
    assert evictions.of_pod(pod("claim", node="")) is None
    assert evictions.of_pod(pod("claim", uid="another")) is None
    assert evictions.of_pod(pod()) is None
    evictions.set_claim("ns/claim", None)
    assert evictions.of_pod(pod("claim")) is None


def test_the_first_of_several_claims_says_when_and_a_rule_counts_once() -> None:
    evictions = of([taint(second=5)])
    evictions.set_claim("ns/other", claim("b"))
    evictions.set_rule(None, rule("r", {}, key="ruled", second=7))
    eviction = evictions.of_pod(pod("other", "claim"))
    assert eviction is not None
    assert (eviction.when - TIME).total_seconds() == 5
    assert eviction.reasons == (Reason(False, "r", "uid-r"), Reason(True, driver=DRIVER, pool="p", device="a"))


def test_simulating_a_rule_changes_no_evictions() -> None:
    evictions, quiet = of([]), rule("r", {}, effect="None")
    evictions.set_rule(None, quiet)
    assert evictions.count_selected(quiet) == (2, 1)
    assert evictions.simulate(quiet).of_pod(pod("claim")) is not None
    assert evictions.of_pod(pod("claim")) is None


# Any order of events.

_taints = st.lists(
    st.builds(taint, st.sampled_from("kl"), st.sampled_from(["NoExecute", "NoSchedule"]), st.integers(0, 9)), max_size=2
)
_names = st.sampled_from("ab")
_slices = st.builds(
    slice_of, st.just("s"), st.dictionaries(_names, _taints), pool=st.sampled_from("pq"), generation=st.integers(1, 2)
)
_selectors = st.sampled_from([None, {}, {"device": "a"}, {"pool": "q"}])
_rules = st.builds(rule, st.just("r"), _selectors, st.sampled_from("12"), effect=st.sampled_from(["NoExecute", "None"]))
_tolerations = st.lists(st.builds(tolerated, st.sampled_from([None, 3, 5]), st.sampled_from("kl")), max_size=2).map(
    tuple
)
_claims = st.builds(claim, _names, _names, tolerations=_tolerations, pool=st.sampled_from("pq")) | st.just(
    {"status": {}}
)
_changes = st.tuples(st.just("slice"), st.sampled_from("xyz"), st.none() | _slices) | st.tuples(
    st.just("rule"), st.sampled_from("xyz"), st.none() | _rules
)
_changes |= st.tuples(st.just("claim"), st.sampled_from("xyz"), st.none() | _claims)


class Watched:
    """Objects as watches bring them: each change with what was there before."""

    def __init__(self) -> None:
        self.evictions = Evictions()
        self.there: dict[tuple[str, str], Json] = {}

    def bring(self, kind: str, name: str, obj: Json | None) -> None:
        old, new = self.there.pop((kind, name), None), copy.deepcopy(obj)
        if new is not None:
            new.setdefault("metadata", {})["name"] = name
            self.there[kind, name] = new
        if kind == "claim":
            self.evictions.set_claim(name, new)
        elif old is not None or new is not None:
            (self.evictions.set_slice if kind == "slice" else self.evictions.set_rule)(old, new)

    def judged(self) -> list[object]:
        return [self.evictions.of_claim(name) for name in "xyz"]


@given(st.lists(_changes, max_size=12), st.randoms(use_true_random=False))
def test_the_outcome_depends_on_what_is_there_and_not_on_how_it_came(
    changes: list[tuple[str, str, Json | None]], random: Any
) -> None:
    lived, fresh = Watched(), Watched()
    for change in changes:
        lived.bring(*change)
    last = [(kind, name, obj) for (kind, name), obj in lived.there.items()]
    random.shuffle(last)
    for change in last:
        fresh.bring(*change)
    assert lived.judged() == fresh.judged()
