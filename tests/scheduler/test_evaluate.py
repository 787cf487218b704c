"""The node that a pod gets, and the text when it gets none."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.scheduler.cycle.evaluate import Evaluator
from controllers.scheduler.framework.framework import Cycle, Plugin, PluginError
from controllers.scheduler.framework.status import Diagnosis, SchedulingError
from controllers.scheduler.state.nodes import Nominator
from controllers.scheduler.state.pod_info import PodInfo
from tests.scheduler.cluster import Cluster
from tests.support.objects import (
    info,
    make_claim,
    make_device_class,
    make_node,
    make_pod,
    make_slice,
    node_affinity,
    term,
)

NO_SCHEDULE = [{"key": "k", "value": "v", "effect": "NoSchedule"}]


def test_reasons_are_counted_by_text_and_sorted_as_text() -> None:
    small = make_node("small-1", cpu="1"), make_node("small-2", cpu="1", memory="1Gi")
    closed = make_node("closed", unschedulable=True), make_node("tainted", taints=NO_SCHEDULE)
    cluster = Cluster(*closed, *small, *(make_node(f"full-{n}", pods="0") for n in range(10)))
    assert cluster.refusal(info(requests={"cpu": "2", "memory": "2Gi"})) == (
        "0/14 nodes are available: 1 Insufficient memory, 1 node(s) had untolerated taint(s), "
        "1 node(s) were unschedulable, 10 Too many pods, 2 Insufficient cpu."
    )


@pytest.mark.parametrize(
    ("node", "pod", "reason"),
    [
        ({"unschedulable": True}, {}, "node(s) were unschedulable"),
        ({}, {"nodeName": "elsewhere"}, "node(s) didn't match the requested node name"),
        ({"taints": NO_SCHEDULE}, {}, "node(s) had untolerated taint(s)"),
        ({}, {"nodeSelector": {"a": "b"}}, "node(s) didn't match Pod's node affinity/selector"),
        ({}, {"affinity": node_affinity(term("a", "In", "b"))}, "node(s) didn't match Pod's node affinity/selector"),
        ({}, {"requests": {"example.com/x": "1"}}, "Insufficient example.com/x"),
        ({"pods": "0"}, {"requests": {"cpu": "9"}}, None),
    ],
)
def test_each_filter_rejects_with_its_own_text(node: Json, pod: Json, reason: str | None) -> None:
    expected = f"1 {reason}" if reason else "1 Insufficient cpu, 1 Too many pods"
    assert Cluster(make_node("n", **node)).refusal(info(**pod)) == f"0/1 nodes are available: {expected}."


def test_tolerations_open_tainted_and_unschedulable_nodes() -> None:
    everything = [{"operator": "Exists"}]
    assert Cluster(make_node("n", taints=NO_SCHEDULE, unschedulable=True)).place(info(tolerations=everything)) == "n"
    equal = {"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}
    cluster = Cluster(make_node("n", taints=NO_SCHEDULE))
    for enough in ({}, {"operator": ""}, {"effect": ""}, {"operator": "Exists", "value": ""}):
        assert cluster.place(info(tolerations=[{**equal, **enough}])) == "n"
    for other in ({"value": "w"}, {"key": "l"}, {"effect": "NoExecute"}, {"operator": "Lt"}, {"value": ""}):
        assert "untolerated taint" in cluster.refusal(info(tolerations=[{**equal, **other}]))
    assert Cluster(make_node("n", taints=[{"key": "k", "effect": "PreferNoSchedule"}])).place(info()) == "n"
    assert "taint" in Cluster(make_node("n", taints=[{"key": "k", "effect": "NoExecute"}])).refusal(info())


def test_a_pod_goes_to_its_nominated_node_if_it_fits_there() -> None:
    cluster = Cluster(make_node("emptier"), make_node("nominated")).on("nominated", make_pod(requests={"cpu": "2"}))
    status = {"nominatedNodeName": "nominated"}
    assert cluster.place(info(requests={"cpu": "1"})) == "emptier"
    assert cluster.place(info(requests={"cpu": "1"}, status=status)) == "nominated"
    assert cluster.place(info(requests={"cpu": "3"}, status=status)) == "emptier"
    assert cluster.place(info(requests={"cpu": "1"}, status={"nominatedNodeName": "gone"})) == "emptier"


def test_a_node_takes_as_many_pods_as_it_allows() -> None:
    cluster = Cluster(make_node("n", pods="2")).on("n", make_pod())
    assert cluster.place(info()) == "n"
    cluster.on("n", make_pod())
    assert cluster.refusal(info()) == "0/1 nodes are available: 1 Too many pods."


def test_host_ports_conflict_by_address_protocol_and_port() -> None:
    def port(number: int, ip: str = "", protocol: str = "TCP") -> Json:
        return {"ports": [{"hostPort": number, "containerPort": 1, "hostIP": ip, "protocol": protocol}]}

    cluster = Cluster(make_node("n")).on("n", make_pod(**port(80, "10.0.0.1")))
    reason = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
    assert cluster.refusal(info(**port(80))) == reason
    assert cluster.refusal(info(**port(80, "10.0.0.1"))) == reason
    for free in (port(81), port(80, "10.0.0.2"), port(80, "10.0.0.1", "UDP")):
        assert cluster.place(info(**free)) == "n"


def test_a_pod_that_names_its_node_by_field_is_only_tried_there() -> None:
    fields = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
    cluster = Cluster(make_node("a"), make_node("b"), make_node("c"))
    assert cluster.place(info(affinity=node_affinity(fields))) == "b"
    cluster.cache.set_node(make_node("b", cpu="0"))
    text = "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    assert cluster.refusal(info(affinity=node_affinity(fields), requests={"cpu": "1"})) == text


def test_without_nodes_the_attempt_fails_rather_than_being_rejected() -> None:
    with pytest.raises(SchedulingError, match="no nodes available to schedule pods"):
        Cluster().place(info())


def test_a_forgotten_pod_frees_its_node() -> None:
    cluster = Cluster(make_node("n", cpu="1"))
    pod = info(requests={"cpu": "1"})
    cluster.cache.assume(pod, "n")
    assert "Insufficient cpu" in cluster.refusal(info(requests={"cpu": "1"}))
    cluster.cache.forget(pod.uid)
    assert cluster.place(info(requests={"cpu": "1"})) == "n"


def test_the_emptier_node_is_better_and_equal_nodes_are_chosen_by_the_seed() -> None:
    busy = make_pod(requests={"cpu": "2", "memory": "2Gi"})
    cluster = Cluster(make_node("busy"), make_node("idle")).on("busy", busy)
    assert cluster.place(info(requests={"cpu": "1", "memory": "1Gi"})) == "idle"
    nodes = [make_node(f"n{n}") for n in range(8)]
    chosen = [{Cluster(*nodes, seed=seed).place(info()) for _ in range(3)} for seed in range(8)]
    assert all(len(names) == 1 for names in chosen)
    assert len(set.union(*chosen)) > 1


def test_scores_of_resources_are_upstreams() -> None:
    # cpu 1 of 4 and memory 2Gi of 8Gi: a quarter each, so perfectly balanced.
    totals = Cluster(make_node("n")).totals(info(requests={"cpu": "1", "memory": "2Gi"}))
    assert totals == {"n": 75 + 75}
    # A pod without requests: 100m and 200Mi are assumed, balance is not scored.
    assert Cluster(make_node("n")).totals(info()) == {"n": (97 + 97) // 2}


def test_taints_that_only_prefer_count_against_a_node() -> None:
    soft = [{"key": "k", "effect": "PreferNoSchedule"}]
    cluster = Cluster(make_node("soft", taints=soft), make_node("busy")).on(
        "busy", make_pod(requests={"cpu": "3", "memory": "6Gi"})
    )
    totals = cluster.totals(info())
    assert totals["busy"] - totals["soft"] > 200
    assert cluster.place(info(tolerations=[{"key": "k", "operator": "Exists"}])) == "soft"


def test_preferred_node_affinity_weighs_twice() -> None:
    preferred = {"weight": 10, "preference": term("disk", "In", "ssd")}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}
    totals = Cluster(make_node("ssd", labels={"disk": "ssd"}), make_node("hdd")).totals(info(affinity=affinity))
    assert totals["ssd"] - totals["hdd"] == 200


def test_an_error_of_a_score_plugin_ends_the_attempt() -> None:
    def fails(*_: Any) -> Any:
        raise PluginError("no paper")

    nodes = (make_node("a"), make_node("b"))
    for plugin in (Plugin(name="One", score=fails), Plugin(name="All", scores=fails)):
        with pytest.raises(SchedulingError, match=r"^running Score plugins: no paper$"):
            Cluster(*nodes, extra=(plugin,)).place(info())


def test_nominated_pods_are_added_to_their_node_and_removed_again() -> None:
    counted: list[tuple[str, int]] = []
    plugin = Plugin(
        name="Counting", filter=lambda *_: None, count=lambda _, other, node, sign: counted.append((other.name, sign))
    )
    nominator = Nominator()
    nominator.add(info("first", priority=10), "a")
    assert Cluster(make_node("a"), extra=(plugin,), nominator=nominator).place(info()) == "a"
    assert counted == [("first", 1), ("first", -1)]


def test_a_pod_uses_its_nominated_node_before_its_status_names_it() -> None:
    nominator = Nominator()
    small, large = make_node("small", cpu="2"), make_node("large", cpu="64")
    pod = info(requests={"cpu": "1"})
    assert Cluster(small, large, nominator=nominator).place(pod) == "large"
    nominator.add(pod, "small")
    assert Cluster(small, large, nominator=nominator).place(pod) == "small"
    nominator.remove(pod.uid)
    assert Cluster(small, large, nominator=nominator).place(pod) == "large"


def test_a_node_with_the_image_scores_higher() -> None:
    images = [{"names": ["image:latest"], "sizeBytes": 900 * 2**20}]
    totals = Cluster(make_node("has", images=images), make_node("has-not")).totals(info())
    assert totals["has"] - totals["has-not"] == 100 * (450 - 23) // (1000 - 23)


def devices(*free: int) -> Cluster:
    cluster = Cluster(*(make_node(f"n{number}") for number in range(len(free))))
    cluster.allocator.inventory.upsert_class(make_device_class())
    cluster.publish(*(make_slice(f"n{number}", count) for number, count in enumerate(free)))
    return cluster


def with_claim(name: str = "claim", **more: Any) -> PodInfo:
    return info(claims={"g": name}, **more)


def test_a_pod_with_a_claim_goes_where_the_devices_are() -> None:
    cluster = devices(0, 2)
    cluster.claims.added(make_claim("claim", count=2))
    assert cluster.place(with_claim()) == "n1"
    cluster.claims.added(make_claim("more", count=3))
    assert cluster.refusal(with_claim("more")) == "0/2 nodes are available: 2 cannot allocate all claims."


def test_a_reserved_device_is_unavailable_until_it_is_released() -> None:
    cluster = devices(1)
    cluster.claims.added(make_claim("one"))
    cluster.claims.added(make_claim("two"))
    cycle = Cycle(with_claim("one"))
    node = asyncio.run(cluster.evaluator.place(cycle))
    state = cycle.active("DynamicResources")
    assert cluster.devices.reserve(cycle.pod, state, node)
    assert cluster.refusal(with_claim("two")) == "0/1 nodes are available: 1 cannot allocate all claims."
    in_process = "0/1 nodes are available: resource claim ns/one is in the process of being allocated."
    assert cluster.refusal(with_claim("one")) == in_process
    cluster.devices.unreserve(state)
    assert cluster.place(with_claim("two")) == "n0"


def test_an_allocated_claim_keeps_its_pods_on_nodes_that_reach_it() -> None:
    cluster = devices(1, 1)
    here = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}
    result = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
    allocation = {"devices": {"results": [result]}, "nodeSelector": here}
    cluster.claims.added(make_claim("claim", allocation=allocation))
    assert cluster.place(with_claim()) == "n1"
    assert cluster.refusal(with_claim(nodeSelector={"kubernetes.io/hostname": "n0"})) == (
        "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
        "1 resourceclaim not available on the node."
    )


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        (None, 'could not find ResourceClaim "ns/claim"'),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, 'resourceclaim "claim" is being deleted'),
        ({"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "nope"}}]}}},
         "request r: device class nope does not exist"),
    ],
    ids=["missing", "being deleted", "unknown class"],
)  # fmt: skip
def test_an_unusable_claim_rejects_the_pod_before_filtering(claim: Json | None, text: str) -> None:
    cluster = devices(1, 1)
    if claim is not None:
        whole = make_claim("claim")
        cluster.claims.added({**whole, **claim, "metadata": {**whole["metadata"], **claim.get("metadata", {})}})
    assert cluster.refusal(with_claim()) == f"0/2 nodes are available: {text}."


def test_a_generated_claim_must_be_owned_by_the_pod() -> None:
    cluster = devices(1)
    pod = make_pod("p", resourceClaims=[{"name": "g", "resourceClaimTemplateName": "t"}])
    assert cluster.devices.problem(pod) == 'pod "ns/p": ResourceClaim not created yet'
    pod["status"]["resourceClaimStatuses"] = [{"name": "g", "resourceClaimName": "made"}]
    cluster.claims.added(make_claim("made", owner=make_pod("p")))
    assert cluster.devices.problem(pod) == "ResourceClaim ns/made was not created for Pod ns/p (Pod is not owner)"
    cluster.claims.deleted(make_claim("made"))
    cluster.claims.added(make_claim("made", owner=pod))
    assert cluster.devices.problem(pod) is None
    del pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
    assert cluster.devices.problem(pod) is None


def test_a_search_stops_after_enough_nodes_and_the_next_one_continues_behind_them() -> None:
    cluster = Cluster(*(make_node(f"n{number:03}") for number in range(500)))
    evaluator = cluster.evaluator
    assert evaluator._nodes_to_find(99) == 99
    assert evaluator._nodes_to_find(500) == 230
    assert evaluator._nodes_to_find(5000) == 500
    for start in (230, 460, 190):
        cluster.place(info())
        assert evaluator._start == start


def test_nodes_alternate_by_zone() -> None:
    def in_zone(name: str, zone: str) -> Json:
        return make_node(name, labels={"topology.kubernetes.io/zone": zone})

    cluster = Cluster(
        in_zone("a1", "a"), in_zone("a2", "a"), in_zone("b1", "b"), in_zone("a3", "a"), in_zone("b2", "b")
    )
    assert [node.name for node in cluster.cache.list()] == ["a1", "b1", "a2", "b2", "a3"]


@pytest.mark.real_time
@pytest.mark.parametrize("seed", range(2))
async def test_cached_verdicts_stay_right_however_nodes_change(seed: int) -> None:
    """Compare with a new evaluator that has cached nothing."""
    cluster, choice = devices(2, 1, 0, 2), random.Random(seed)
    running: list[PodInfo] = []
    for name in ("claim", "other"):
        cluster.claims.added(make_claim(name, count=2 if name == "claim" else 1))

    def change() -> None:
        node = f"n{choice.randrange(6)}"
        match choice.randrange(5):
            case 0:
                cluster.cache.set_node(make_node(node, cpu=choice.choice("123")))
            case 1:
                cluster.cache.remove_node(node)
            case 2:
                running.append(info(requests={"cpu": "1"}))
                cluster.cache.assume(running[-1], node)
            case 3 if running:
                cluster.cache.forget(running.pop(choice.randrange(len(running))).uid)
            case 4:
                cluster.publish(make_slice(node, choice.randrange(3)))
                if choice.random() < 0.2:
                    cluster.reach.touch_all()

    async def verdicts(evaluator: Evaluator, pod: PodInfo) -> object:
        diagnosis, cycle, nodes = Diagnosis(0), Cycle(pod), cluster.cache.list()
        if not nodes or (refused := evaluator.prefilter(cycle)) is not None:
            return refused if nodes else None
        evaluator._start = 0
        feasible = await evaluator._feasible(cycle, nodes, diagnosis)
        return [node.name for node in feasible], diagnosis.rejections

    for _ in range(100):
        change()
        for pod in (with_claim(), with_claim("other"), info(requests={"cpu": "2"})):
            fresh = Evaluator(cluster.cache, cluster.evaluator.plugins, cluster.reach, choice)
            assert await verdicts(cluster.evaluator, pod) == await verdicts(fresh, pod)


def by_name(*names: str, operator: str = "In", key: str = "metadata.name") -> Json:
    return {"key": key, "operator": operator, "values": list(names)}


@pytest.mark.parametrize(
    ("terms", "names"),
    [
        ([[by_name("a")]], {"a"}),
        ([[by_name("a", "b")], [by_name("c")]], {"a", "b", "c"}),
        ([[by_name("a", "b"), by_name("b", "c")]], {"b"}),
        ([[by_name("a"), by_name("b")]], set()),
        ([[by_name("a"), by_name("b")], [by_name("c")]], {"c"}),
        ([[by_name("a")], []], None),
        ([[by_name("a", operator="NotIn")]], None),
        ([[by_name("a"), by_name("b", operator="NotIn")]], {"a"}),
        ([], None),
    ],
)
def test_the_named_nodes_of_a_pod_are_the_union_of_its_terms(terms: list[list[Json]], names: set[str] | None) -> None:
    pod = info(affinity=node_affinity(*({"matchFields": term} for term in terms)))
    assert pod.named_nodes == names
    assert info().named_nodes is None
    if names == set():
        text = "0/2 nodes are available: pod affinity terms conflict."
        assert Cluster(make_node("a"), make_node("b")).refusal(pod) == text
