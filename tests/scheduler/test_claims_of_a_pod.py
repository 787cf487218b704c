"""Claims of one pod: their readiness, the events that wake the pod, the nodes that serve them, and scores."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from apiserver.api.objects import Json
from apiserver.runtime import clock
from controllers.runtime.times import go_time
from controllers.scheduler.dra.claim_state import has_binding_conditions, is_deallocation, readiness
from controllers.scheduler.dra.dynamic_resources import DynamicResources
from controllers.scheduler.dra.state import DynamicState
from controllers.scheduler.framework.events import ClusterEvent, Event
from controllers.scheduler.framework.framework import SKIP, PluginError
from controllers.scheduler.framework.status import Rejection
from controllers.scheduler.state.nodes import NodeInfo
from controllers.scheduler.state.pod_info import PodInfo
from tests.scheduler.cluster import Cluster
from tests.scheduler.test_evaluate import devices, with_claim
from tests.support.objects import info, make_claim, make_pod, make_request

DRIVER = "gpu.example.com"
LONG_AGO = "2020-01-01T00:00:00Z"


def result(device: str = "gpu-0", *conditions: str, fails: tuple[str, ...] = (), request: str = "r") -> Json:
    made: Json = {"request": request, "driver": DRIVER, "pool": "n0", "device": device}
    if conditions:
        made |= {"bindingConditions": list(conditions), "bindingFailureConditions": list(fails)}
    return made


def allocation(*results: Json, **more: Any) -> Json:
    return {"allocation": {"devices": {"results": list(results)}, **more}}


def device_status(device: str = "gpu-0", pool: str = "n0", **conditions: str) -> Json:
    """Build the status of a device with these conditions."""
    items = [{"type": kind, "status": status, "reason": "R", "message": "M"} for kind, status in conditions.items()]
    return {"driver": DRIVER, "pool": pool, "device": device, "conditions": items}


NEEDS = result("gpu-0", "one", "two", fails=("broken", "burnt"))
FAILED = 'device binding failed: claim=c, reason=R, message="M"'


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, (False, "")),
        (allocation(), (True, "")),
        (allocation(result()), (True, "")),
        (allocation(NEEDS), (False, "")),
        ({**allocation(NEEDS), "devices": [device_status(one="True", two="True")]}, (True, "")),
        ({**allocation(NEEDS), "devices": [device_status(one="True")]}, (False, "")),
        ({**allocation(NEEDS), "devices": [device_status(one="True", two="False")]}, (False, "")),
        ({**allocation(NEEDS), "devices": [device_status(one="True", two="True", broken="False")]}, (True, "")),
        ({**allocation(NEEDS), "devices": [device_status(one="True", two="True", burnt="True")]}, (False, FAILED)),
        ({**allocation(NEEDS), "devices": [device_status(broken="True")]}, (False, FAILED)),
        ({**allocation(NEEDS), "devices": [device_status("gpu-1", one="True", two="True")]}, (False, "")),
        ({**allocation(NEEDS), "devices": [device_status(pool="n1", one="True", two="True")]}, (False, "")),
        ({**allocation(result(), NEEDS), "devices": [device_status(one="True", two="True")]}, (True, "")),
        ({**allocation(result(), NEEDS)}, (False, "")),
        ({**allocation(NEEDS, result("gpu-1", "up")), "devices": [device_status(one="True", two="True")]}, (False, "")),
        ({**allocation(NEEDS, result("gpu-1", "up")), "devices": [device_status(one="True", two="True"), device_status("gpu-1", up="True")]},
         (True, "")),
    ],
)  # fmt: skip
def test_a_claim_is_ready_when_all_its_devices_are(status: Json, expected: tuple[bool, str]) -> None:
    assert readiness(make_claim("c", **status)) == expected


@pytest.mark.parametrize(
    ("status", "has"),
    [({}, False), (allocation(result()), False), (allocation(result(), NEEDS), True), (allocation(), False)],
)
def test_a_claim_has_binding_conditions_if_one_of_its_devices_has(status: Json, has: bool) -> None:
    assert has_binding_conditions(make_claim("c", **status)) is has


@pytest.mark.parametrize(
    ("before", "after", "freed"),
    [({}, {}, False), ({}, allocation(), False), (allocation(), {}, True), (allocation(), allocation(), False)],
)
def test_devices_are_freed_when_an_allocation_is_removed(before: Json, after: Json, freed: bool) -> None:
    assert is_deallocation(make_claim("c", **before), make_claim("c", **after)) is freed


def test_a_claim_without_a_status_frees_nothing_and_is_not_ready() -> None:
    bare = {key: value for key, value in make_claim("c").items() if key != "status"}
    assert not is_deallocation(bare, bare)
    assert is_deallocation(make_claim("c", **allocation()), bare)
    assert readiness(bare) == (False, "")
    assert not has_binding_conditions(bare)


MINE, OTHERS = make_claim("claim"), make_claim("other")


def is_woken(cluster: Cluster, pod: PodInfo, event: Event) -> bool:
    hint = cluster.devices.hints[event.kind]
    assert hint is not None
    return hint(pod, event)


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        (None, MINE, True),
        (None, OTHERS, False),
        (MINE, make_claim("claim", **allocation()), True),
        (MINE, MINE, False),
        (OTHERS, make_claim("other", **allocation()), False),
        (make_claim("other", **allocation()), OTHERS, True),
        (make_claim("other", **allocation()), make_claim("other", **allocation(), reservedFor=[]), False),
        (make_claim("claim", reservedFor=[]), make_claim("claim", reservedFor=[{"uid": "x"}]), True),
        (OTHERS, None, True),
    ],
)
def test_a_pod_with_claims_is_woken_by_its_claims_and_by_freed_devices(
    old: Json | None, new: Json | None, wakes: bool
) -> None:
    cluster = devices(1)
    cluster.claims.added(MINE)
    cluster.claims.added(OTHERS)
    assert is_woken(cluster, with_claim(), Event(ClusterEvent.CLAIM_UPDATE, old, new)) is wakes
    assert is_woken(cluster, with_claim("missing"), Event(ClusterEvent.CLAIM_UPDATE, None, MINE)) is False


def test_a_pod_is_woken_when_its_status_names_its_generated_claim() -> None:
    cluster = devices(1)
    waiting = make_pod("p", uid="p", resourceClaims=[{"name": "g", "resourceClaimTemplateName": "t"}])
    ready = {**waiting, "status": {"resourceClaimStatuses": [{"name": "g", "resourceClaimName": "made"}]}}
    cluster.claims.added(make_claim("made", owner=waiting))
    another = {**ready, "metadata": {**ready["metadata"], "uid": "another"}}
    for new, wakes in ((ready, True), (waiting, False), (None, False), (another, False)):
        event = Event(ClusterEvent.POD_GENERATED_CLAIM, waiting, new)
        assert is_woken(cluster, PodInfo(waiting), event) is wakes


def test_a_group_wakes_only_its_own_pods() -> None:
    member = info(schedulingGroup={"podGroupName": "g"})
    for name, namespace, wakes in (("g", "ns", True), ("h", "ns", False), ("g", "elsewhere", False)):
        group = {"metadata": {"name": name, "namespace": namespace}}
        assert is_woken(devices(1), member, Event(ClusterEvent.POD_GROUP_ADD, None, group)) is wakes
    assert is_woken(devices(1), member, Event(ClusterEvent.POD_GROUP_ADD, None, None)) is False


def first_available(name: str, *counts: int, **status: Any) -> Json:
    """Build a claim with one request that has an alternative for each count."""
    choices = [{"name": f"s{n}", **make_request(count=n)["exactly"]} for n in counts]
    return make_claim(name, requests=[{"name": "r", "firstAvailable": choices}], **status)


def prefilter(cluster: Cluster, pod: PodInfo | None = None) -> DynamicState:
    state = cluster.devices.prefilter(pod or with_claim())
    assert isinstance(state, DynamicState)
    return state


def scores(cluster: Cluster, pod: PodInfo) -> dict[str, int]:
    """Return the score of each node for how it serves the claims."""
    state = prefilter(cluster, pod)
    return {node.name: cluster.devices.score(pod, state, node) for node in cluster.cache.list()}


def test_a_node_scores_higher_for_earlier_alternatives() -> None:
    cluster = devices(3, 2, 1)
    cluster.claims.added(first_available("claim", 3, 2, 1))
    assert scores(cluster, with_claim()) == {"n0": 8, "n1": 7, "n2": 6}
    cluster.claims.added(make_claim("plain"))
    assert scores(cluster, with_claim("plain")) == {"n0": 0, "n1": 0, "n2": 0}


@pytest.mark.parametrize(("chosen", "points"), [("r/s3", 8), ("r/s2", 7), ("r/s1", 6), ("r", 0)])
def test_an_allocated_claim_adds_the_score_of_its_alternative_on_every_node(chosen: str, points: int) -> None:
    cluster = devices(3, 2)
    cluster.claims.added(first_available("claim", 3, 2, 1, **allocation(result(request=chosen))))
    cluster.claims.added(first_available("other", 2, 1))
    assert scores(cluster, with_claim()) == {"n0": points, "n1": points}
    both = info(resourceClaims=[{"name": n, "resourceClaimName": n} for n in ("claim", "other")])
    assert scores(cluster, both) == {"n0": points + 8, "n1": points + 8}
    state = prefilter(cluster)
    assert state.scores is bool(points)
    assert state.some_allocated


def test_pods_with_equal_requests_have_equal_shapes() -> None:
    cluster = devices(3)
    for name, count in (("a", 1), ("b", 1), ("c", 2)):
        cluster.claims.added(make_claim(name, count=count))
    cluster.claims.added(make_claim("taken", **allocation(result())))
    shapes = {name: prefilter(cluster, with_claim(name)).shape for name in ("a", "b", "c", "taken")}
    assert shapes["a"] == shapes["b"] != shapes["c"]
    assert shapes["a"] is not None
    assert shapes["taken"] is None
    assert cluster.devices.prefilter(info()) is SKIP


def test_an_invalid_node_selector_ends_the_attempt() -> None:
    cluster = devices(1)
    broken = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]}]}
    cluster.claims.added(make_claim("claim", **allocation(result(), nodeSelector=broken)))
    with pytest.raises(PluginError):
        cluster.devices.prefilter(with_claim())


def test_an_unsupported_request_type_ends_the_attempt() -> None:
    cluster = devices(1)
    cluster.claims.added(make_claim("claim", requests=[{"name": "r", "exactly": {"count": 1}}]))
    with pytest.raises(PluginError, match=r"^request r: unsupported request type$"):
        cluster.devices.prefilter(with_claim())


@pytest.mark.parametrize(
    ("conditions", "status", "age", "available"),
    [
        (True, allocation(NEEDS), 0, True),
        (True, allocation(NEEDS), 599, True),
        (True, allocation(NEEDS), 601, False),
        (True, {**allocation(NEEDS), "devices": [device_status(one="True", two="True")]}, 601, True),
        (True, {**allocation(NEEDS), "devices": [device_status(broken="True")]}, 0, False),
        (True, allocation(result()), 601, True),
        (False, allocation(NEEDS), 601, True),
        (False, {**allocation(NEEDS), "devices": [device_status(broken="True")]}, 0, True),
    ],
)
async def test_an_allocation_whose_devices_failed_or_timed_out_is_unavailable(
    conditions: bool, status: Json, age: int, available: bool
) -> None:
    cluster = devices(1)
    cluster.devices.conditions = conditions
    status["allocation"]["allocationTimestamp"] = go_time(clock.now())
    cluster.claims.added(make_claim("claim", **status))
    await asyncio.sleep(age)
    state = prefilter(cluster)
    [node] = cluster.cache.list()
    assert (cluster.devices.rejection(with_claim(), state, node) is None) is available
    assert state.unavailable == (set() if available else {0})


def test_an_allocation_without_a_timestamp_does_not_time_out() -> None:
    assert devices(1).devices.timed_out(make_claim("c", **allocation(NEEDS, allocationTimestamp=LONG_AGO)))
    assert not devices(1).devices.timed_out(make_claim("c", **allocation(NEEDS)))


def test_a_search_beyond_its_time_limit_ends_the_attempt() -> None:
    cluster = devices(1)
    cluster.claims.added(make_claim("claim"))
    [node] = cluster.cache.list()
    for limit, ends in ((timedelta(seconds=-1), True), (timedelta(seconds=60), False), (None, False)):
        plugin = DynamicResources(cluster.allocator, cluster.claims, conditions=True, filter_timeout=limit)
        state = plugin.prefilter(with_claim())
        assert isinstance(state, DynamicState)
        node.node["metadata"]["labels"]["try"] = str(limit)  # type: ignore[index]
        cluster.allocator.inventory.forget_node(node.name)
        if ends:
            with pytest.raises(PluginError, match=r"^node n0: timed out trying to allocate devices$"):
                plugin.solve(state, with_claim(), node)
        else:
            assert not isinstance(plugin.solve(state, with_claim(), node), Rejection)


def test_devices_reserved_for_another_pod_cannot_be_reserved() -> None:
    cluster = devices(1)
    for name in ("one", "two"):
        cluster.claims.added(make_claim(name))
    [node] = cluster.cache.list()
    one, two = (prefilter(cluster, with_claim(name)) for name in ("one", "two"))
    assert cluster.devices.reserve(with_claim("one"), one, node)
    assert list(cluster.claims.pending) == ["claim-one"]
    assert not cluster.devices.reserve(with_claim("two"), two, node)
    cluster.devices.unreserve(one)
    assert not cluster.claims.pending
    assert cluster.devices.reserve(with_claim("two"), two, node)
    [(claim, allocation)] = two.reserved.values()
    assert claim["metadata"]["name"] == "two"
    assert [item["device"] for item in allocation["devices"]["results"]] == ["gpu-0"]


def test_the_verdict_of_a_node_is_cached_for_claims_with_equal_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated: list[str] = []
    original = DynamicResources.rejection

    def record(plugin: DynamicResources, pod: PodInfo, state: DynamicState, node: NodeInfo) -> Rejection | None:
        evaluated.append(pod.spec["resourceClaims"][0]["resourceClaimName"])
        return original(plugin, pod, state, node)

    monkeypatch.setattr(DynamicResources, "rejection", record)
    cluster = devices(1)
    for name, count in (("a", 2), ("b", 2), ("c", 1)):
        cluster.claims.added(make_claim(name, count=count))
    cluster.claims.added(make_claim("taken", **allocation(result())))
    for name in ("a", "b", "c", "c", "taken", "taken"):
        cluster.evaluator.rejection(cluster.cycle(with_claim(name), prefiltered=True), cluster.cache.list()[0])
    assert evaluated == ["a", "c", "taken", "taken"]


def test_an_allocation_counts_until_the_last_pod_that_shares_it_releases_it() -> None:
    cluster, claim = devices(1), make_claim("claim")
    cluster.claims.added(claim)
    changes: list[tuple[bool, ...]] = []
    cluster.claims.on_change(lambda *both: changes.append(tuple(bool((c or {}).get("status")) for c in both)))
    written = allocation(result())["allocation"]
    device = (DRIVER, "n0", "gpu-0")
    cluster.claims.allocate(claim, written)
    cluster.claims.share(claim)
    cluster.claims.release(claim)
    assert cluster.allocator.allocated.is_used(device)
    assert changes == []
    cluster.claims.release(claim)
    assert not cluster.allocator.allocated.is_used(device)
    assert changes == [(True, False)]
    cluster.claims.release(claim)
    assert changes == [(True, False)]
    cluster.claims.begin_group()
    cluster.claims.allocate(claim, written)
    cluster.claims.release(claim)
    assert not cluster.allocator.allocated.is_used(device)
    # A placement that was only tried for a group is no change.
    assert changes == [(True, False)]
    cluster.claims.end_group()
    assert not cluster.claims.pending
