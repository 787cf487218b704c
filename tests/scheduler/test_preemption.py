"""Who has to go for a pod of higher priority, from which node, and when nobody has to."""

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
from controllers.scheduler.framework.status import FitError, Rejection
from controllers.scheduler.preemption.default import Candidate, Preemption
from controllers.scheduler.state.nodes import NodeInfo, Nominator
from controllers.scheduler.state.pod_info import PodInfo
from controllers.scheduler.writes.evictions import REASON
from tests.scheduler.cluster import Cluster
from tests.support.objects import info, make_node, make_pod, near


class _Evictions:
    """Notes who has to go."""

    def __init__(self) -> None:
        self.gone: list[str] = []

    async def evict_for_pod(self, pod: PodInfo, node: str, victims: Sequence[PodInfo]) -> None:
        self.gone = [victim.name for victim in victims]


def preempted(
    cluster: Cluster, pod: PodInfo, budgets: Sequence[Json] = (), nominator: Nominator | None = None
) -> tuple[str | None, list[str], str]:
    """The node that is made free, the pods that have to go in order of importance, and the text if there are none."""
    evictions = _Evictions()
    preemption = Preemption(
        evictions, cluster.cache, nominator or Nominator(), lambda: budgets, random.Random(0), DEFAULTS  # type: ignore[arg-type]
    )  # fmt: skip

    async def attempt() -> tuple[str | None, list[str], str]:
        cycle = Cycle(pod)
        with pytest.raises(FitError) as refused:
            await cluster.evaluator.place(cycle)
        result = await preemption.post_filter(cycle, refused.value.diagnosis)
        return result.nominated, evictions.gone, result.text

    return asyncio.run(attempt())


def running(name: str, cpu: str, priority: int, started: int = 0, **more: Any) -> Json:
    status = {"phase": "Running", "startTime": f"2026-01-01T00:00:{started:02}Z"}
    return make_pod(name, requests={"cpu": cpu}, priority=priority, status={**status, **more.pop("status", {})}, **more)


def urgent(cpu: str = "4", **more: Any) -> PodInfo:
    return info("urgent", requests={"cpu": cpu}, priority=10, **more)


def budget(app: str, allowed: int, **status: Any) -> Json:
    return {
        "metadata": {"name": app, "namespace": "ns"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed, **status},
    }


def test_as_few_as_needed_go_and_the_least_important_first() -> None:
    cluster = Cluster(make_node("n")).on("n", running("a", "1", 3), running("b", "1", 1), running("c", "2", 2))
    assert preempted(cluster, urgent("1"))[:2] == ("n", ["b"])
    assert preempted(cluster, urgent("2"))[:2] == ("n", ["c"])
    assert preempted(cluster, urgent("3"))[:2] == ("n", ["c", "b"])
    assert preempted(cluster, urgent("4"))[:2] == ("n", ["a", "c", "b"])


def test_of_equals_the_one_that_started_last_goes() -> None:
    cluster = Cluster(make_node("n", cpu="2")).on("n", running("a", "1", 1, 5), running("b", "1", 1, 9))
    assert preempted(cluster, urgent("1"))[:2] == ("n", ["b"])


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
        assert preempted(cluster, urgent())[0] == better


@pytest.mark.parametrize(
    ("percentage", "at_least", "looked_at"),
    [(10, 1, 2), (10, 3, 3), (50, 3, 10), (0, 4, 4), (100, 0, 20), (1, 100, 20)],
)
def test_so_many_nodes_are_looked_at_as_the_configuration_says(percentage: int, at_least: int, looked_at: int) -> None:
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

    preemption = Counted(_Evictions(), cluster.cache, Nominator(), list, random.Random(1), arguments)  # type: ignore[arg-type]
    cycle = Cycle(urgent())
    with pytest.raises(FitError) as refused:
        asyncio.run(cluster.evaluator.place(cycle))
    plan = asyncio.run(preemption.plan(cycle, refused.value.diagnosis))
    assert plan.chosen is not None
    first = names.index(seen[0])
    assert seen == (names[first:] + names[:first])[:looked_at]


def test_pods_that_are_as_important_stay() -> None:
    cluster = Cluster(make_node("n")).on("n", running("a", "4", 10))
    no = "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    assert preempted(cluster, urgent()) == ("", [], no)


def test_a_node_that_would_be_too_small_or_closed_all_the_same_is_not_made_free() -> None:
    cluster = Cluster(make_node("n", cpu="2")).on("n", running("a", "2", 1))
    not_helpful = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    assert preempted(cluster, urgent()) == ("", [], not_helpful)
    cluster = Cluster(make_node("n")).on("n", running("a", "1", 1), running("b", "1", 10))
    assert preempted(cluster, urgent()) == ("", [], "preemption: 0/1 nodes are available: 1 Insufficient cpu.")


def test_a_pod_that_never_preempts_waits() -> None:
    cluster = Cluster(make_node("n")).on("n", running("a", "4", 1))
    text = "preemption: not eligible due to preemptionPolicy=Never."
    assert preempted(cluster, urgent(preemptionPolicy="Never")) == (None, [], text)


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
def test_a_pod_waits_for_those_that_go_for_it(priority: int, deleted: bool, condition: Json, waits: bool) -> None:
    going = running("going", "1", priority, status={"conditions": [condition]})
    if deleted:
        going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cluster = Cluster(make_node("n"), make_node("m")).on("n", going, running("a", "3", 1)).on("m", running("b", "4", 9))
    node, _, text = preempted(cluster, urgent(status={"nominatedNodeName": "n"}))
    expected = "preemption: not eligible due to a terminating pod on the nominated node."
    assert (node is None, text == expected) == (waits, waits)


def test_a_pod_waits_for_them_before_its_status_names_the_node() -> None:
    going = running("going", "1", 1, status={"conditions": [TERMINATING]})
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cluster = Cluster(make_node("n"), make_node("m")).on("n", going, running("a", "3", 1)).on("m", running("b", "4", 1))
    pod, nominator = urgent(), Nominator()
    nominator.add(pod, "n")
    assert preempted(cluster, pod, nominator=nominator)[:2] == (None, [])


def test_a_pod_does_not_wait_for_a_node_that_it_cannot_have_any_more() -> None:
    going = running("going", "4", 1, status={"conditions": [TERMINATING]})
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    taints = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
    cluster = Cluster(make_node("n", taints=taints), make_node("m")).on("n", going).on("m", running("b", "4", 9))
    assert preempted(cluster, urgent(status={"nominatedNodeName": "n"}))[:2] == ("m", ["b"])


def test_budgets_are_kept_where_they_can_be() -> None:
    kept = {"labels": {"app": "kept"}}
    cluster = (
        Cluster(make_node("m"), make_node("n")).on("m", running("low", "4", 1, **kept)).on("n", running("high", "4", 5))
    )
    assert preempted(cluster, urgent(), [budget("kept", 0)])[:2] == ("n", ["high"])
    for harmless in (
        budget("kept", 1),
        budget("other", 0),
        budget("kept", 0, disruptedPods={"low": "2026-01-01T00:00:00Z"}),
        {**budget("kept", 0), "metadata": {"name": "kept", "namespace": "elsewhere"}},
        {**budget("kept", 0), "spec": {"selector": {}}},
    ):
        assert preempted(cluster, urgent(), [harmless])[:2] == ("m", ["low"])


def test_the_second_pod_of_a_budget_for_one_violates_it_and_who_is_protected_is_spared_first() -> None:
    two = [running(name, "1", 1, labels={"app": "x"}) for name in "ab"]
    cluster = Cluster(make_node("n", cpu="3")).on("n", *two, running("free", "1", 5))
    assert preempted(cluster, urgent("1"), [budget("x", 0)])[:2] == ("n", ["free"])
    assert preempted(cluster, urgent("1"), [budget("x", 1)])[1] in (["a"], ["b"])
    assert preempted(cluster, urgent("3"), [budget("x", 1)])[0] == "n"


def test_who_waits_for_the_node_and_is_as_important_counts() -> None:
    cluster = Cluster(make_node("n", cpu="2")).on("n", running("a", "1", 1), running("b", "1", 2))
    nominator = Nominator()
    nominator.add(info("first", requests={"cpu": "1"}, priority=10), "n")
    assert preempted(cluster, urgent("1"), nominator=nominator)[:2] == ("n", ["b", "a"])
    nominator = Nominator()
    nominator.add(info("lesser", requests={"cpu": "1"}, priority=9), "n")
    assert preempted(cluster, urgent("1"), nominator=nominator)[:2] == ("n", ["a"])


def test_a_pod_waits_for_one_node_at_a_time_and_counts_there_for_those_of_no_higher_priority() -> None:
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


def test_pods_that_keep_the_pod_away_can_be_victims_but_it_cannot_be_near_less_important_ones() -> None:
    away = running("away", "1", 1, labels={"app": "x"})
    cluster = Cluster(make_node("n", labels={"zone": "1"})).on("n", away, running("b", "1", 2))
    assert preempted(cluster, urgent("1", affinity=near("x", anti=True)))[:2] == ("n", ["away"])
    for priority, expected in ((10, ("n", ["b"])), (9, ("", []))):
        drawn = running("drawn", "2", priority, labels={"app": "x"})
        cluster = Cluster(make_node("n", cpu="4", labels={"zone": "1"})).on("n", drawn, running("b", "2", 2))
        assert preempted(cluster, urgent("2", affinity=near("x")))[:2] == expected


def test_a_domain_that_is_full_is_levelled_by_removing_pods() -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    spread = [{**constraint, "labelSelector": {"matchLabels": {"app": "x"}}}]
    pods = [running(name, "1", priority, labels={"app": "x"}) for name, priority in (("a", 1), ("b", 2))]
    cluster = Cluster(
        make_node("n", labels={"zone": "1"}),
        make_node("m", labels={"zone": "2"}, pods="0"),
        make_node("o", labels={"zone": "1"}),
    )
    cluster.on("n", *pods, running("other", "1", 1))
    pod = urgent("1", topologySpreadConstraints=spread, labels={"app": "x"})
    assert preempted(cluster, pod)[:2] == ("n", ["b", "a"])


def test_pods_of_other_namespaces_are_of_no_use_to_a_full_domain() -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    spread = [{**constraint, "labelSelector": {"matchLabels": {"app": "x"}}}]
    cluster = Cluster(make_node("n", labels={"zone": "1"}), make_node("m", labels={"zone": "2"}, pods="0"))
    cluster.on("n", running("a", "1", 1, labels={"app": "x"}))
    cluster.on("n", running("elsewhere", "1", 0, labels={"app": "x"}, namespace="other"))
    pod = urgent("1", topologySpreadConstraints=spread, labels={"app": "x"})
    assert preempted(cluster, pod)[:2] == ("n", ["a"])
