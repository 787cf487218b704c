"""Cached counts of selected pods by node."""

from __future__ import annotations

import random

import pytest

from apiserver.api.selectors.selectors import LabelSelector, from_labels
from controllers.scheduler.state import pod_counts as podcounts
from controllers.scheduler.state.nodes import Cache, NodeInfo
from controllers.scheduler.state.pod_counts import PodCounts, count_selected
from controllers.scheduler.state.pod_info import PodInfo
from tests.support.objects import make_node, make_pod

NODES = [f"n{number}" for number in range(5)]
SELECTORS = [from_labels({"app": app}) for app in "ab"]


def change(rng: random.Random, cache: Cache) -> None:
    """Change a random node or one of twenty pods."""
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


def test_cached_counts_equal_fresh_counts() -> None:
    for seed in range(10):
        rng, cache = random.Random(seed), Cache()
        counts = PodCounts(cache)
        for step in range(200):
            change(rng, cache)
            selector = rng.choice(SELECTORS)
            found = counts.of(selector, "ns")
            for name, node in cache.nodes.items():
                assert found.get(name, 0) == count_selected(node, selector, "ns"), (seed, step, name)


def test_the_least_recently_used_selectors_are_evicted_and_counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(podcounts, "_SELECTORS", 2)
    cache = Cache()
    cache.set_node(make_node("n0"))
    cache.set_pod(PodInfo(make_pod("p", labels={"app": "a"})), "n0")
    counts = PodCounts(cache)
    counted: list[str] = []

    def count(node: NodeInfo, selector: LabelSelector, namespace: str) -> int:
        counted.append(namespace)
        return count_selected(node, selector, namespace)

    monkeypatch.setattr(podcounts, "count_selected", count)
    for namespace in ("x", "ns", "x", "ns", "z", "x", "ns"):
        assert counts.of(SELECTORS[0], namespace)["n0"] == (namespace == "ns")
    assert counted == ["x", "ns", "z", "x", "ns"]


def test_counts_are_right_after_more_changes_than_the_log_holds() -> None:
    cache = Cache()
    cache.set_node(make_node("n0"))
    counts = PodCounts(cache)
    assert counts.of(SELECTORS[0], "ns").get("n0", 0) == 0
    cache.set_pod(PodInfo(make_pod("p", labels={"app": "a"})), "n0")
    for _ in range(25_000):
        cache.log.touch("elsewhere")
    assert counts.of(SELECTORS[0], "ns")["n0"] == 1


def test_a_status_update_that_does_not_affect_counts_is_no_change_of_the_node() -> None:
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
