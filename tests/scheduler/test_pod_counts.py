"""The pods that a selector selects, by node: what is kept is what counting anew would find."""

from __future__ import annotations

import random

import pytest

from apiserver.api.selectors.selectors import from_labels
from controllers.scheduler.state import pod_counts as podcounts
from controllers.scheduler.state.nodes import Cache
from controllers.scheduler.state.pod_counts import PodCounts, count_selected
from controllers.scheduler.state.pod_info import PodInfo
from tests.support.objects import make_node, make_pod

NODES = [f"n{number}" for number in range(5)]
SELECTORS = [from_labels({"app": app}) for app in "ab"]


def change(rng: random.Random, cache: Cache) -> None:
    """Something that happens to nodes and pods: one of twenty pods comes, goes, is hidden or is being deleted."""
    name, number = rng.choice(NODES), rng.randrange(20)
    uid = f"u{number}"
    pod = make_pod(uid, uid=uid, labels={"app": rng.choice("ab")}, namespace="other" if number < 5 else "ns")
    if rng.random() < 0.2:
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    placed = cache.node_of(uid)
    match rng.randrange(8):
        case 0:
            cache.set_node(make_node(name))
        case 1:
            cache.remove_node(name)
        case 2 if placed is None:
            cache.assume(PodInfo(pod), name)
        case 3:
            cache.forget(uid)
        case 4:
            cache.set_pod(PodInfo(pod), placed or name)
        case 5:
            cache.remove_pod(uid)
        case 6:
            cache.hide(uid)
        case 7:
            cache.unhide(uid)


def test_kept_counts_are_those_of_counting_anew() -> None:
    for seed in range(10):
        rng, cache = random.Random(seed), Cache()
        counts = PodCounts(cache)
        for step in range(200):
            change(rng, cache)
            selector = rng.choice(SELECTORS)
            found = counts.of(selector, "ns")
            for name, node in cache.nodes.items():
                assert found.get(name, 0) == count_selected(node, selector, "ns"), (seed, step, name)


def test_the_selectors_asked_for_least_recently_are_forgotten_and_counted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(podcounts, "_SELECTORS", 2)
    cache = Cache()
    cache.set_node(make_node("n0"))
    cache.set_pod(PodInfo(make_pod("p", labels={"app": "a"})), "n0")
    counts = PodCounts(cache)
    counted: list[str] = []
    monkeypatch.setattr(
        podcounts, "count_selected", lambda *given: (counted.append(given[2]), count_selected(*given))[1]
    )
    for namespace in ("x", "ns", "x", "ns", "z", "x", "ns"):
        assert counts.of(SELECTORS[0], namespace)["n0"] == (namespace == "ns")
    assert counted == ["x", "ns", "z", "x", "ns"]


def test_counts_are_right_again_after_more_changes_than_the_log_keeps() -> None:
    cache = Cache()
    cache.set_node(make_node("n0"))
    counts = PodCounts(cache)
    assert counts.of(SELECTORS[0], "ns").get("n0", 0) == 0
    cache.set_pod(PodInfo(make_pod("p", labels={"app": "a"})), "n0")
    for _ in range(25_000):
        cache.log.touch("elsewhere")
    assert counts.of(SELECTORS[0], "ns")["n0"] == 1


def test_a_status_that_changes_nothing_that_counts_leaves_the_node_untouched() -> None:
    cache = Cache()
    cache.set_node(make_node("n"))
    pod = make_pod("p", uid="u", labels={"app": "a"})
    cache.assume(PodInfo(pod), "n")
    position = cache.log.position
    for phase in ("Pending", "Running"):
        latest = PodInfo({**pod, "status": {"phase": phase}})
        cache.set_pod(latest, "n")
        assert (cache.nodes["n"].pods["u"], cache.log.position) == (latest, position)
    cache.set_pod(PodInfo(make_pod("p", uid="u", labels={"app": "b"})), "n")
    assert cache.log.position > position
