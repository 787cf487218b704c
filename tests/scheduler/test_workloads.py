"""What pods belong together by default, and which disruption budgets keep."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.runtime.kinds import SERVICES
from controllers.scheduler.config.arguments import DEFAULTS
from controllers.scheduler.framework.status import FitError
from controllers.scheduler.preemption.default import Candidate, Preemption, best_candidate
from controllers.scheduler.state.nodes import Nominator
from controllers.scheduler.state.pod_info import PodInfo
from tests.scheduler.cluster import Cluster
from tests.scheduler.situations import OTHERS, budget, controlled, priority_class, service
from tests.scheduler.world import World
from tests.support.objects import info, make_node, make_pod

KINDS = ("ReplicaSet", "StatefulSet", "ReplicationController", "Service")


@pytest.mark.parametrize("kind", KINDS)
async def test_pods_of_one_owner_or_service_are_spread_over_zones(kind: str) -> None:
    async with World("scheduler") as world:
        # The bigger node would get every pod.
        for name, zone, cpu in (("big", "a", "64"), ("small", "b", "4")):
            await world.add(make_node(name, cpu=cpu, labels={"topology.kubernetes.io/zone": zone}))
        owners: list[Json] = []
        if kind == "Service":
            await world.client.create(SERVICES, service("s", "x"))
        else:
            found = next(item for item in OTHERS if item.kind == kind)
            owner = await world.client.create(found, controlled(kind, "o", "x"))
            fields = {"apiVersion": owner["apiVersion"], "kind": kind, "name": "o", "controller": True}
            owners = [{**fields, "uid": owner["metadata"]["uid"]}]
        nodes = []
        for number in range(2):
            pod = make_pod(f"p{number}", labels={"app": "x"})
            pod["metadata"]["ownerReferences"] = owners
            await world.add(pod)
            nodes.append(await world.node_of(f"p{number}"))
        assert nodes == ["big", "small"]
        await world.add(make_pod("alone", labels={"app": "y"}))
        assert await world.node_of("alone") == "big"


class Evicted:
    """Takes the place of the writer: notes who has to go."""

    def __init__(self) -> None:
        self.victims: list[str] = []

    async def evict_for_pod(self, _: PodInfo, __: str, victims: tuple[PodInfo, ...]) -> None:
        self.victims = [victim.name for victim in victims]


def victims(cluster: Cluster, pod: PodInfo, budgets: list[Json], nominator: Nominator | None = None) -> tuple[Any, Any]:
    """(the node that is made free, who has to go)."""

    async def attempt() -> tuple[Any, Any]:
        evicted = Evicted()
        preemption = Preemption(
            evicted,
            cluster.cache,
            nominator or Nominator(),
            lambda: budgets,
            random.Random(0),
            DEFAULTS,  # type: ignore[arg-type]
        )
        with pytest.raises(FitError) as caught:
            await cluster.evaluator.place(cluster.cycle(pod))
        result = await preemption.post_filter(cluster.cycle(pod, prefiltered=True), caught.value.diagnosis)
        return result.nominated, evicted.victims

    return asyncio.run(attempt())


def running(name: str, app: str = "", cpu: str = "1", priority: int = 0, started: int = 0) -> Json:
    status = {"startTime": f"2026-01-01T00:00:{started:02}Z"}
    labels = {"app": app} if app else {}
    return make_pod(name, labels=labels, requests={"cpu": cpu}, priority=priority, status=status)


def test_pods_that_a_budget_keeps_are_spared_first() -> None:
    def cluster() -> Cluster:
        return Cluster(make_node("n", cpu="2")).on("n", running("older"), running("kept", "x", started=1))

    wanted = info(requests={"cpu": "1"}, priority=1)
    assert victims(cluster(), wanted, []) == ("n", ["kept"])
    assert victims(cluster(), wanted, [budget("b", "x", 0)]) == ("n", ["older"])
    assert victims(cluster(), wanted, [budget("b", "x", 1)]) == ("n", ["kept"])
    elsewhere = budget("b", "x", 0)
    elsewhere["metadata"]["namespace"] = "other"
    assert victims(cluster(), wanted, [elsewhere]) == ("n", ["kept"])
    everything = {**budget("b", "x", 0), "spec": {"selector": {}}}
    assert victims(cluster(), wanted, [everything]) == ("n", ["kept"])
    disrupted = budget("b", "x", 0)
    disrupted["status"]["disruptedPods"] = {"kept": "2026-01-01T00:00:00Z"}
    assert victims(cluster(), wanted, [disrupted]) == ("n", ["kept"])


def test_a_budget_allows_as_many_as_it_says() -> None:
    cluster = Cluster(make_node("n", cpu="3")).on("n", *(running(f"p{n}", "x", started=n) for n in range(3)))
    # One of three may go: the two later ones would violate the budget and are put back first.
    assert victims(cluster, info(requests={"cpu": "1"}, priority=1), [budget("b", "x", 1)]) == ("n", ["p0"])


def test_a_node_without_violations_is_better_than_one_with_less_important_victims() -> None:
    cluster = Cluster(make_node("a", cpu="1"), make_node("b", cpu="1"))
    cluster.on("a", running("kept", "x", priority=1)).on("b", running("free", priority=5))
    wanted = info(requests={"cpu": "1"}, priority=9)
    assert victims(cluster, wanted, []) == ("a", ["kept"])
    assert victims(cluster, wanted, [budget("b", "x", 0)]) == ("b", ["free"])
    costs = [Candidate("x", (info(priority=1),), 1), Candidate("y", (info(priority=2),))]
    assert best_candidate(costs).node == "y"


def test_who_waits_for_the_node_already_counts_when_room_is_made() -> None:
    nominator = Nominator()
    cluster = Cluster(make_node("n", cpu="3")).on("n", *(running(f"p{n}", started=n) for n in range(3)))
    wanted = info(requests={"cpu": "1"}, priority=1)
    assert victims(cluster, wanted, [], nominator) == ("n", ["p2"])
    nominator.add(info(requests={"cpu": "1"}, priority=1), "n")
    assert victims(cluster, wanted, [], nominator) == ("n", ["p1", "p2"])


async def test_who_made_room_counts_once_and_leaves_the_rest_of_it_to_others() -> None:
    async with World("scheduler") as world:
        for name, value in (("low", 1), ("high", 2)):
            await world.client.create(OTHERS[0], priority_class(name, value))
        await world.add(make_node("n", cpu="2"))
        sizes = {"victim": ("low", "1250m"), "other": ("high", "750m"), "waiting": ("low", "750m"),
                 "preemptor": ("high", "500m")}  # fmt: skip
        for name, (priority, cpu) in sizes.items():
            spec = {"priorityClassName": priority, "terminationGracePeriodSeconds": 0}
            await world.add(make_pod(name, requests={"cpu": cpu}, **spec))
            if name == "waiting":
                await world.unschedulable(name)
            else:
                await world.bound(name)
        await world.bound("waiting")
