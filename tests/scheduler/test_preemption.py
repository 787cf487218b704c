"""Default preemption: the node, the victims, and the text where it does not help."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.scheduler.config.arguments import DEFAULTS
from controllers.scheduler.framework.framework import Cycle
from controllers.scheduler.framework.status import Diagnosis, FitError, Rejection
from controllers.scheduler.preemption.default import Candidate, Preemption
from controllers.scheduler.state.nodes import NodeInfo, Nominator
from controllers.scheduler.state.pod_info import PodInfo
from controllers.scheduler.writes.evictions import REASON, Evictions
from tests.scheduler.cluster import Cluster
from tests.scheduler.situations import budget
from tests.scheduler.test_pods_beside_pods import spread
from tests.support.objects import info, make_node, make_pod, near


class FakeEvictions(Evictions):
    """Records the names of victims."""

    def __init__(self) -> None:
        self.victims: list[str] = []

    async def evict_for_pod(self, _: PodInfo, __: str, victims: Sequence[PodInfo]) -> None:
        self.victims = [victim.name for victim in victims]


def preempt(
    cluster: Cluster, pod: PodInfo, budgets: Sequence[Json] = (), nominator: Nominator | None = None
) -> tuple[str | None, list[str], str]:
    """Return the nominated node, the victims in order of importance, and the text without victims."""
    evictions = FakeEvictions()
    preemption = Preemption(
        evictions, cluster.cache, nominator or Nominator(), lambda: budgets, random.Random(0), DEFAULTS
    )
    cycle, diagnosis = reject(cluster, pod)
    result = asyncio.run(preemption.post_filter(cycle, diagnosis))
    return result.nominated, evictions.victims, result.text


def reject(cluster: Cluster, pod: PodInfo) -> tuple[Cycle, Diagnosis]:
    """Make an attempt that fails."""
    cycle = Cycle(pod)
    with pytest.raises(FitError) as caught:
        asyncio.run(cluster.evaluator.place(cycle))
    return cycle, caught.value.diagnosis


def running(name: str, cpu: str, priority: int, started: int = 0, **more: Any) -> Json:
    status = {"phase": "Running", "startTime": f"2026-01-01T00:00:{started:02}Z"}
    return make_pod(name, requests={"cpu": cpu}, priority=priority, status={**status, **more.pop("status", {})}, **more)


def urgent(cpu: str = "4", **more: Any) -> PodInfo:
    return info("urgent", requests={"cpu": cpu}, priority=10, **more)


def test_as_few_pods_as_needed_are_victims_and_the_least_important_first() -> None:
    cluster = Cluster(make_node("n")).on("n", running("a", "1", 3), running("b", "1", 1), running("c", "2", 2))
    assert preempt(cluster, urgent("1"))[:2] == ("n", ["b"])
    assert preempt(cluster, urgent("2"))[:2] == ("n", ["c"])
    assert preempt(cluster, urgent("3"))[:2] == ("n", ["c", "b"])
    assert preempt(cluster, urgent("4"))[:2] == ("n", ["a", "c", "b"])


def test_of_equal_pods_the_youngest_is_the_victim() -> None:
    cluster = Cluster(make_node("n", cpu="2")).on("n", running("a", "1", 1, 5), running("b", "1", 1, 9))
    assert preempt(cluster, urgent("1"))[:2] == ("n", ["b"])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([running("low", "4", 1)], [running("high", "4", 2)]),
        ([running("a", "2", 2), running("b", "2", 1)], [running("c", "2", 2), running("d", "2", 2)]),
        ([running("one", "4", 2)], [running("a", "2", 2), running("b", "2", 1)]),
        ([running("late", "4", 1, 9)], [running("early", "4", 1, 5)]),
        ([running("late", "2", 2, 9), running("a", "2", 1, 1)], [running("early", "2", 2, 5), running("b", "2", 1, 8)]),
    ],
    ids=["priority", "sum of priorities", "number", "start", "start of the most important"],
)
def test_the_node_with_the_least_important_victims_is_chosen(first: list[Json], second: list[Json]) -> None:
    for better, names in (("m", ("m", "n")), ("n", ("n", "m"))):
        cluster = Cluster(make_node("m"), make_node("n")).on(names[0], *first).on(names[1], *second)
        assert preempt(cluster, urgent())[0] == better


@pytest.mark.parametrize(
    ("percentage", "at_least", "candidates"),
    [(10, 1, 2), (10, 3, 3), (50, 3, 10), (0, 4, 4), (100, 0, 20), (1, 100, 20)],
)
def test_the_configuration_limits_the_number_of_candidates(percentage: int, at_least: int, candidates: int) -> None:
    names = [f"n{number:02}" for number in range(20)]
    cluster = Cluster(*(make_node(name) for name in names))
    for name in names:
        cluster.on(name, running(f"on-{name}", "4", 1))
    arguments = replace(DEFAULTS, candidates_percentage=percentage, candidates_at_least=at_least)
    seen: list[str] = []

    class Counted(Preemption):
        def _candidate(self, cycle: Cycle, node: NodeInfo, budgets: Sequence[Json]) -> Candidate | Rejection:
            seen.append(node.name)
            return super()._candidate(cycle, node, budgets)

    preemption = Counted(FakeEvictions(), cluster.cache, Nominator(), list, random.Random(1), arguments)
    plan = asyncio.run(preemption.plan(*reject(cluster, urgent())))
    assert plan.chosen is not None
    first = names.index(seen[0])
    assert seen == (names[first:] + names[:first])[:candidates]


def test_pods_of_equal_priority_are_no_victims() -> None:
    cluster = Cluster(make_node("n")).on("n", running("a", "4", 10))
    no = "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    assert preempt(cluster, urgent()) == ("", [], no)


def test_a_node_that_preemption_does_not_help_is_no_candidate() -> None:
    cluster = Cluster(make_node("n", cpu="2")).on("n", running("a", "2", 1))
    not_helpful = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    assert preempt(cluster, urgent()) == ("", [], not_helpful)
    cluster = Cluster(make_node("n")).on("n", running("a", "1", 1), running("b", "1", 10))
    assert preempt(cluster, urgent()) == ("", [], "preemption: 0/1 nodes are available: 1 Insufficient cpu.")


def test_a_pod_with_preemption_policy_never_does_not_preempt() -> None:
    cluster = Cluster(make_node("n")).on("n", running("a", "4", 1))
    text = "preemption: not eligible due to preemptionPolicy=Never."
    assert preempt(cluster, urgent(preemptionPolicy="Never")) == (None, [], text)


DELETED = "2026-01-01T00:00:00Z"
TERMINATING = {"type": "DisruptionTarget", "status": "True", "reason": REASON}


@pytest.mark.parametrize(
    ("priority", "deleted", "condition", "waits"),
    [
        (1, True, TERMINATING, True),
        (1, False, TERMINATING, False),
        (1, True, {**TERMINATING, "reason": "EvictionByEvictionAPI"}, False),
        (1, True, {**TERMINATING, "status": "False"}, False),
        (1, True, {**TERMINATING, "type": "Ready"}, False),
        (10, True, TERMINATING, False),
    ],
)
def test_a_pod_waits_for_its_terminating_victims(priority: int, deleted: bool, condition: Json, waits: bool) -> None:
    going = running("going", "1", priority, status={"conditions": [condition]}, deleted=DELETED if deleted else "")
    cluster = Cluster(make_node("n"), make_node("m")).on("n", going, running("a", "3", 1)).on("m", running("b", "4", 9))
    node, _, text = preempt(cluster, urgent(status={"nominatedNodeName": "n"}))
    expected = "preemption: not eligible due to a terminating pod on the nominated node."
    assert (node is None, text == expected) == (waits, waits)


def test_a_pod_waits_for_its_victims_before_its_status_names_the_node() -> None:
    going = running("going", "1", 1, status={"conditions": [TERMINATING]}, deleted=DELETED)
    cluster = Cluster(make_node("n"), make_node("m")).on("n", going, running("a", "3", 1)).on("m", running("b", "4", 1))
    pod, nominator = urgent(), Nominator()
    nominator.add(pod, "n")
    assert preempt(cluster, pod, nominator=nominator)[:2] == (None, [])


def test_a_pod_does_not_wait_for_a_nominated_node_that_rejects_it() -> None:
    going = running("going", "4", 1, status={"conditions": [TERMINATING]}, deleted=DELETED)
    taints = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
    cluster = Cluster(make_node("n", taints=taints), make_node("m")).on("n", going).on("m", running("b", "4", 9))
    assert preempt(cluster, urgent(status={"nominatedNodeName": "n"}))[:2] == ("m", ["b"])


def test_nodes_without_violations_of_budgets_are_preferred() -> None:
    cluster = Cluster(make_node("m"), make_node("n")).on("n", running("high", "4", 5))
    cluster.on("m", running("low", "4", 1, labels={"app": "kept"}))
    violated = budget("b", "kept", 0)
    assert preempt(cluster, urgent(), [violated])[:2] == ("n", ["high"])
    for harmless in (
        budget("b", "kept", 1),
        budget("b", "other", 0),
        {**violated, "status": {**violated["status"], "disruptedPods": {"low": DELETED}}},
        {**violated, "metadata": {"name": "b", "namespace": "elsewhere"}},
        {**violated, "spec": {"selector": {}}},
    ):
        assert preempt(cluster, urgent(), [harmless])[:2] == ("m", ["low"])


def test_pods_that_violate_a_budget_are_reprieved_first() -> None:
    two = [running(name, "1", 1, labels={"app": "x"}) for name in "ab"]
    cluster = Cluster(make_node("n", cpu="3")).on("n", *two, running("free", "1", 5))
    assert preempt(cluster, urgent("1"), [budget("b", "x", 0)])[:2] == ("n", ["free"])
    assert preempt(cluster, urgent("1"), [budget("b", "x", 1)])[1] in (["a"], ["b"])
    assert preempt(cluster, urgent("3"), [budget("b", "x", 1)])[0] == "n"


def test_nominated_pods_of_equal_priority_count_on_the_node() -> None:
    cluster = Cluster(make_node("n", cpu="2")).on("n", running("a", "1", 1), running("b", "1", 2))
    nominator = Nominator()
    nominator.add(info("first", requests={"cpu": "1"}, priority=10), "n")
    assert preempt(cluster, urgent("1"), nominator=nominator)[:2] == ("n", ["b", "a"])
    nominator = Nominator()
    nominator.add(info("lesser", requests={"cpu": "1"}, priority=9), "n")
    assert preempt(cluster, urgent("1"), nominator=nominator)[:2] == ("n", ["a"])


def test_a_pod_is_nominated_for_one_node_and_counts_there_for_pods_of_no_higher_priority() -> None:
    nominator = Nominator()
    first, second, later = (info(name, priority=5) for name in ("first", "second", "later"))
    assert nominator.before(later, "n1") == []
    nominator.add(first, "n1")
    nominator.add(second, "n1")
    assert nominator.before(later, "n1") == [first, second]
    assert nominator.before(first, "n1") == [second]
    assert nominator.before(info("urgent", priority=6), "n1") == []
    nominator.add(first, "n2")
    assert (nominator.before(later, "n1"), nominator.before(later, "n2")) == ([second], [first])
    nominator.remove(second.uid)
    nominator.remove(later.uid)
    assert nominator.waiting == {"n2": {first.uid: first}}
    nominator.add(first, "")
    assert nominator.waiting == {}


def test_pods_with_anti_affinity_can_be_victims_but_affinity_to_a_victim_does_not_count() -> None:
    away = running("away", "1", 1, labels={"app": "x"})
    cluster = Cluster(make_node("n", labels={"zone": "1"})).on("n", away, running("b", "1", 2))
    assert preempt(cluster, urgent("1", affinity=near("x", anti=True)))[:2] == ("n", ["away"])
    for priority, expected in ((10, ("n", ["b"])), (9, ("", []))):
        drawn = running("drawn", "2", priority, labels={"app": "x"})
        cluster = Cluster(make_node("n", cpu="4", labels={"zone": "1"})).on("n", drawn, running("b", "2", 2))
        assert preempt(cluster, urgent("2", affinity=near("x")))[:2] == expected


def test_victims_reduce_the_skew_of_a_domain() -> None:
    pods = [running(name, "1", priority, labels={"app": "x"}) for name, priority in (("a", 1), ("b", 2))]
    in_1: Json = {"labels": {"zone": "1"}}
    cluster = Cluster(make_node("n", **in_1), make_node("m", pods="0", labels={"zone": "2"}), make_node("o", **in_1))
    cluster.on("n", *pods, running("other", "1", 1))
    assert preempt(cluster, urgent("1", **spread()))[:2] == ("n", ["b", "a"])


def test_pods_of_other_namespaces_do_not_reduce_the_skew() -> None:
    cluster = Cluster(make_node("n", labels={"zone": "1"}), make_node("m", labels={"zone": "2"}, pods="0"))
    cluster.on("n", running("a", "1", 1, labels={"app": "x"}))
    cluster.on("n", running("elsewhere", "1", 0, labels={"app": "x"}, namespace="other"))
    assert preempt(cluster, urgent("1", **spread()))[:2] == ("n", ["a"])
