"""Affinity, anti-affinity and topology spread."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.scheduler.state.nodes import Nominator
from tests.scheduler.cluster import Cluster
from tests.support.objects import info, make_node, make_pod, near

ZONES = [make_node(name, labels={"zone": zone}) for name, zone in (("a", "1"), ("b", "1"), ("c", "2"))]
OF_3 = "0/3 nodes are available:"


def test_required_affinity_follows_the_other_pods_domain() -> None:
    cluster = Cluster(*ZONES).on("c", make_pod(labels={"app": "x"}))
    assert cluster.place(info(affinity=near("x"))) == "c"
    assert cluster.refusal(info(affinity=near("y"))) == f"{OF_3} 3 node(s) didn't match pod affinity rules."
    assert cluster.place(info(affinity=near("y"), labels={"app": "y"})) in {"a", "b", "c"}


def test_anti_affinity_holds_in_both_directions() -> None:
    cluster = Cluster(*ZONES).on("a", make_pod(labels={"app": "x"}, affinity=near("y", anti=True)))
    assert cluster.place(info(affinity=near("x", anti=True))) == "c"
    assert cluster.place(info(labels={"app": "y"})) == "c"
    cluster.on("c", make_pod(labels={"app": "x"}))
    text = f"{OF_3} 3 node(s) didn't match pod anti-affinity rules."
    assert cluster.refusal(info(labels={"app": "y"}, affinity=near("x", anti=True))) == text
    cluster = Cluster(ZONES[0], ZONES[1]).on("a", make_pod(affinity=near("y", anti=True)))
    text = "0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules."
    assert cluster.refusal(info(labels={"app": "y"})) == text


def test_preferred_affinity_scores_by_weight_in_both_directions() -> None:
    cluster = Cluster(*ZONES).on("c", make_pod(labels={"app": "x"}, affinity=near("y", weight=1)))
    before = Cluster(*ZONES).on("c", make_pod(labels={"app": "x"})).totals(info(labels={"app": "y"}))
    after = cluster.totals(info(labels={"app": "y"}))
    assert {name: after[name] - before[name] for name in after} == {"a": 0, "b": 0, "c": 200}
    away = cluster.totals(info(affinity=near("x", anti=True, weight=5)))
    assert away["a"] > away["c"]


def test_preferences_of_other_pods_weigh_for_and_against_a_domain() -> None:
    """The best domain scores 100, the worst 0, and one without preferences is in the middle."""
    nodes = [make_node(name, labels={"zone": name}) for name in ("for", "against", "neither")]
    cluster = Cluster(*nodes)
    for name in ("for", "against", "neither"):
        affinity = near("y", anti=name == "against", weight=10) if name != "neither" else {}
        cluster.on(name, make_pod(labels={"app": "x"}, affinity=affinity))
    totals = cluster.totals(info(labels={"app": "y"}))
    assert totals["for"] - totals["neither"] == totals["neither"] - totals["against"] == 100


def spread(skew: int = 1, action: str = "DoNotSchedule", **more: Any) -> Json:
    constraint = {"maxSkew": skew, "topologyKey": "zone", "whenUnsatisfiable": action, **more}
    of_app = {"labelSelector": {"matchLabels": {"app": "x"}}}
    return {"topologySpreadConstraints": [{**of_app, **constraint}], "labels": {"app": "x"}}


def test_a_spread_constraint_keeps_domains_level() -> None:
    cluster = Cluster(*ZONES).on("a", make_pod(labels={"app": "x"}))
    assert cluster.place(info(**spread())) == "c"
    cluster.cache.set_node(make_node("c", labels={"zone": "2"}, pods="0"))
    text = f"{OF_3} 1 Too many pods, 2 node(s) didn't match pod topology spread constraints."
    assert cluster.refusal(info(**spread())) == text
    cluster.cache.set_node(make_node("c"))
    assert cluster.refusal(info(**spread(minDomains=2))) == (
        f"{OF_3} 1 node(s) didn't match pod topology spread constraints (missing required label), "
        "2 node(s) didn't match pod topology spread constraints."
    )


def test_domains_are_compared_with_the_emptiest_one() -> None:
    cluster = Cluster(*ZONES)
    for node in ("a", "c"):
        cluster.on(node, *(make_pod(labels={"app": "x"}) for _ in range(2)))
    assert cluster.place(info(**spread())) in ("a", "b", "c")


@pytest.mark.parametrize(("waited_for", "other"), [("a", "b"), ("b", "a")])
def test_a_nominated_pod_counts_in_the_domain_only_for_its_node(waited_for: str, other: str) -> None:
    """Zone 1 has the nodes a and b. Its nominated pod makes one of them exceed the skew."""
    nominator = Nominator()
    nominator.add(info(priority=10, labels={"app": "x"}), waited_for)
    cluster = Cluster(*ZONES, nominator=nominator)
    cluster.cache.set_node(make_node("c", labels={"zone": "2"}, pods="0"))
    assert cluster.place(info(**spread())) == other


def test_a_spread_preference_scores_the_emptier_domain_higher() -> None:
    cluster = Cluster(*ZONES).on("a", *(make_pod(labels={"app": "x"}) for _ in range(3)))
    totals = cluster.totals(info(**spread(action="ScheduleAnyway")))
    assert totals["c"] > totals["b"]
