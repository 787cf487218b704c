"""The rules of DaemonSets: eligible nodes, pods to create and delete, and rolling updates, without a server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.workloads.daemonset.nodes import (
    Eligibility,
    bind_to_node,
    is_updated,
    pod_template,
    sort_pods,
    target_node,
    template_generation,
    tolerations,
)
from controllers.workloads.daemonset.reconcile import FailedPods, ReconcilePass
from controllers.workloads.daemonset.updating import update
from tests.support.objects import make_metadata, make_node, make_pod

pytestmark = pytest.mark.integration

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HASH, GENERATION = "controller-revision-hash", "deprecated.daemonset.template.generation"


def owner(strategy: Json | None = None, generation: str = "", **spec: Any) -> Json:
    """Build the DaemonSet `d`. `pod`: the spec of its template."""
    template = {"metadata": {"labels": {"app": "d"}}, "spec": spec.pop("pod", {})}
    metadata = make_metadata("d", "ns", annotations={GENERATION: generation} if generation else {})
    spec = {"template": template, "updateStrategy": strategy or rolling(1), **spec}
    return {"metadata": {"annotations": {}, **metadata}, "spec": spec, "status": {"observedGeneration": 1}}


def rolling(unavailable: Any = 0, surge: Any = 0) -> Json:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}}


def node(name: str = "a", *taints: str, labels: Json | None = None) -> Json:
    found = [dict(zip(("key", "effect"), each.split(":"), strict=True)) for each in taints]
    return make_node(name, taints=found, labels=labels or {})


def pod(name: str, node: str = "a", code: str = "new", *, ready: bool | str = True, phase: str = "Running",
        going: bool = False, made: str = "2026-01-01T00:00:00Z") -> Json:  # fmt: skip
    """Build a pod on a node. `code`: the hash of its template; `ready`: whether, or since when."""
    since = ready if isinstance(ready, str) else "2025-12-31T00:00:00Z"
    condition = {"type": "Ready", "status": str(bool(ready)), "lastTransitionTime": since}
    status = {"phase": phase, "conditions": [condition]}
    return make_pod(name, labels={HASH: code}, created=made, deleted=made if going else "", node=node, status=status)


def build_pass(
    of: Json, nodes: str | list[Json], *pods: Json, failed: FailedPods | None = None, events: list[Any] | None = None
) -> ReconcilePass:
    """Build a pass over a DaemonSet with these nodes and pods."""
    known = [node(name) for name in nodes] if isinstance(nodes, str) else nodes
    recorded = events if events is not None else []
    by_name = {each["metadata"]["name"]: each for each in known}
    return ReconcilePass(of, by_name, pods, "new", NOW, failed or FailedPods(), lambda *event: recorded.append(event))


def work(found: Any) -> tuple[list[str], list[str]]:
    """Return the nodes that need a pod, and the pods to delete."""
    return sorted(found.nodes), sorted(each["metadata"]["name"] for each in found.pods)


# --- nodes


@pytest.mark.parametrize(
    ("spec", "found", "verdict"),
    [
        ({}, node(), (True, True)),
        ({"nodeName": "a"}, node(), (True, True)),
        ({"nodeName": "b"}, node(), (False, False)),
        ({"nodeSelector": {"disk": "ssd"}}, node(labels={"disk": "ssd"}), (True, True)),
        ({"nodeSelector": {"disk": "ssd"}}, node(), (False, False)),
        ({}, node("a", "k:NoSchedule"), (False, True)),
        ({}, node("a", "k:NoExecute"), (False, False)),
        ({}, node("a", "k:PreferNoSchedule"), (True, True)),
        ({"tolerations": [{"key": "k", "operator": "Exists"}]}, node("a", "k:NoExecute"), (True, True)),
        ({"tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute"}]},
         node("a", "k:NoExecute", "l:NoSchedule"), (False, True)),
        ({}, node("a", "node.kubernetes.io/not-ready:NoExecute", "node.kubernetes.io/unschedulable:NoSchedule"), (True, True)),
        ({}, node("a", "node.kubernetes.io/network-unavailable:NoSchedule"), (False, True)),
        ({"hostNetwork": True}, node("a", "node.kubernetes.io/network-unavailable:NoSchedule"), (True, True)),
        ({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]}]}}}}, node(), (False, False)),
    ],
)  # fmt: skip
def test_a_node_has_a_pod_that_may_start_and_keeps_one_that_may_stay(
    spec: Json, found: Json, verdict: tuple[bool, bool]
) -> None:
    assert tuple(Eligibility(owner(pod=spec), False).of(found)) == verdict


def test_tolerations_are_added_once_in_order() -> None:
    own = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    other = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"}
    found = tolerations({"tolerations": [own, other]})
    assert found[0] == {key: value for key, value in own.items() if key != "tolerationSeconds"}
    assert found[1] == other
    assert [each["key"].partition("/")[2] for each in found[2:]] == [
        "not-ready", "disk-pressure", "memory-pressure", "pid-pressure", "unschedulable",
    ]  # fmt: skip
    assert tolerations({"hostNetwork": True})[-1]["key"] == "node.kubernetes.io/network-unavailable"
    assert len(tolerations({})) == 6


def test_a_pod_is_meant_for_one_node_and_of_one_template() -> None:
    of = owner(generation="007", pod={"affinity": {"podAffinity": {"x": 1}, "nodeAffinity": {"y": 2}}})
    made = bind_to_node(pod_template(of, "code"), "a")
    assert made["metadata"]["labels"] == {"app": "d", "pod-template-generation": "7", HASH: "code"}
    assert made["spec"]["affinity"]["podAffinity"] == {"x": 1}
    assert made["spec"]["affinity"]["nodeAffinity"]["y"] == 2
    assert target_node(made) == "a"
    assert target_node({"spec": {"nodeName": "b", **made["spec"]}}) == "b"
    assert target_node({"spec": {}}) == ""
    [term] = made["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    for change in ({"values": ["a", "b"]}, {"operator": "NotIn"}, {"key": "metadata.uid"}):
        term["matchFields"][0] = {"key": "metadata.name", "operator": "In", "values": ["a"], **change}
        assert target_node(made) == ""
    assert pod_template(owner(), "")["metadata"]["labels"] == {"app": "d"}
    assert [template_generation(owner(generation=text)) for text in ("", "x", "3")] == [None, None, "3"]
    assert is_updated(of, pod("p", code="code"), "code")
    assert not is_updated(of, pod("p", code="code"), "other")
    assert not is_updated(of, pod("p", code=""), "")
    assert is_updated(of, {"metadata": {"labels": {"pod-template-generation": "7"}}}, "other")


# --- one pod for each node


def test_a_node_without_a_pod_gets_one_and_pods_that_may_not_stay_go() -> None:
    nodes = [node("a"), node("b"), node("c", "k:NoSchedule"), node("d", "k:NoExecute")]
    pods = [pod("on-b", "b"), pod("on-c", "c"), pod("on-d", "d"), pod("going", "d", going=True), pod("gone", "e")]
    waiting = {**pod("w"), "spec": bind_to_node(pod_template(owner(), "new"), "f")["spec"]}
    assert work(build_pass(owner(), nodes, *pods, waiting).manage()) == (["a"], ["on-d", "w"])


def test_of_several_pods_on_a_node_the_oldest_that_is_there_stays() -> None:
    early, late = (
        pod(name, made=made) for name, made in (("z", "2026-01-01T00:00:01Z"), ("b", "2026-01-01T00:00:02Z"))
    )
    waiting = {**pod("0", made="2025-01-01T00:00:00Z"), "spec": bind_to_node(pod_template(owner(), "new"), "a")["spec"]}
    assert [each["metadata"]["name"] for each in sort_pods([late, waiting, early])] == ["z", "b", "0"]
    assert work(build_pass(owner(), "a", late, early, waiting).manage()) == ([], ["0", "b"])
    assert work(build_pass(owner(), "a", pod("x", going=True)).manage()) == ([], [])
    ended = pod("x", phase="Failed", going=True)
    assert work(build_pass(owner(), "a", ended).manage()) == (["a"], [])


def test_pods_that_ended_are_replaced_and_failed_ones_wait_longer_each_time() -> None:
    events: list[Any] = []
    failed = FailedPods()
    both = (pod("f", phase="Failed"), pod("s", "b", phase="Succeeded"))
    assert work(build_pass(owner(), "ab", *both, failed=failed, events=events).manage()) == ([], ["f", "s"])
    assert events == [
        ("Warning", "FailedDaemonPod", "Found failed daemon pod ns/f on node a, will try to kill it"),
        ("Normal", "SucceededDaemonPod", "Found succeeded daemon pod ns/s on node b, will try to delete it"),
    ]
    again = build_pass(owner(), "ab", *both, failed=failed)
    assert work(again.manage()) == ([], ["s"])
    assert again.again == timedelta(seconds=1)


def test_a_pod_that_fails_again_is_left_for_twice_as_long() -> None:
    failed, now, waits = FailedPods(), NOW, []
    for _ in range(13):
        assert failed.backoff("k", now) == timedelta()
        waits.append(failed.backoff("k", now))
        now += waits[-1]
    assert [wait.total_seconds() for wait in waits] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900, 900]
    assert failed.backoff("other", now) == timedelta()
    failed.expire(now + timedelta(minutes=30))
    assert failed.backoff("k", now) == timedelta()
    now += timedelta(minutes=31)
    failed.expire(now)
    assert failed.backoff("k", now) == timedelta()
    assert failed.backoff("k", now) == timedelta(seconds=1)


@pytest.mark.parametrize(
    ("new", "old", "gone"),
    [
        (pod("n"), pod("o", code="old"), ["o"]),
        (pod("n", ready=False), pod("o", code="old"), []),
        (pod("n", ready=False), pod("o", code="old", ready=False), ["o"]),
        (pod("n", ready="2025-12-31T23:59:55Z"), pod("o", code="old"), []),
    ],
)
def test_with_surge_the_old_pod_stays_until_the_new_one_is_available(new: Json, old: Json, gone: list[str]) -> None:
    of = owner(rolling(surge=1), minReadySeconds=10)
    assert work(build_pass(of, "a", new, old).manage()) == ([], gone)
    twice = [pod("n2", made="2026-01-01T00:00:09Z"), pod("o2", code="old", made="2026-01-01T00:00:09Z")]
    assert work(build_pass(of, "a", new, old, *twice).manage()) == ([], sorted([*gone, "n2", "o2"]))
    assert work(build_pass(of, "a", pod("x", phase="Succeeded")).manage()) == (["a"], ["x"])
    assert work(build_pass(owner(), "a", pod("x", phase="Succeeded")).manage()) == ([], ["x"])


# --- new templates


@pytest.mark.parametrize(
    ("strategy", "nodes", "limits"),
    [
        (rolling(1), "abc", (0, 1)), (rolling("10%"), "abc", (0, 1)), (rolling("50%"), "abc", (0, 2)),
        (rolling(0, 1), "abc", (1, 0)), (rolling(0, "34%"), "abc", (2, 0)), (rolling(0, 0), "abc", (0, 1)),
        (rolling(0, 0), "", (0, 0)), ({"type": "OnDelete"}, "abc", (0, 1)),
        ({"type": "OnDelete", "rollingUpdate": {"maxSurge": 1}}, "abc", (0, 1)),
    ],
)  # fmt: skip
def test_limits_are_shares_of_the_nodes_rounded_up(strategy: Json, nodes: str, limits: tuple[int, int]) -> None:
    assert build_pass(owner(strategy), nodes).limits() == limits


@pytest.mark.parametrize(
    ("unavailable", "pods", "gone"),
    [
        (1, [pod("a", "a", "old"), pod("b", "b", "old"), pod("c", "c")], 1),
        (2, [pod("a", "a", "old"), pod("b", "b", "old"), pod("c", "c")], 2),
        (1, [pod("a", "a", "old"), pod("b", "b", "old"), pod("c", "c", ready=False)], 0),
        (1, [pod("a", "a", "old"), pod("b", "b", "old")], 0),
        (2, [pod("a", "a", "old"), pod("b", "b", "old")], 1),
        (1, [pod("a", "a", "old", ready=False), pod("b", "b", "old"), pod("c", "c")], 1),
        (1, [pod("a", "a", "old", ready=False), pod("b", "b", "old", ready=False), pod("c", "c")], 2),
        (1, [pod("a", "a", "old"), pod("a2", "a"), pod("b", "b", "old"), pod("c", "c")], 0),
        (1, [pod("a", "a", "old", going=True), pod("b", "b", "old"), pod("c", "c")], 0),
        (1, [pod("a", "a"), pod("b", "b"), pod("c", "c")], 0),
        (1, [pod("a", "a", "old"), pod("a2", "a", "old"), pod("b", "b", "old"), pod("c", "c")], 0),
    ],
)
def test_old_pods_go_as_long_as_not_too_many_nodes_are_without(unavailable: int, pods: list[Json], gone: int) -> None:
    found = update(build_pass(owner(rolling(unavailable)), "abc", *pods))
    assert (found.nodes, len(found.pods)) == ([], gone)


@pytest.mark.parametrize(
    ("surge", "pods", "nodes", "gone"),
    [
        (1, [pod("a", "a", "old"), pod("b", "b", "old")], 1, []),
        (2, [pod("a", "a", "old"), pod("b", "b", "old")], 2, []),
        (1, [pod("a", "a", "old"), pod("a2", "a", ready=False), pod("b", "b", "old")], 0, []),
        (2, [pod("a", "a", "old"), pod("a2", "a", ready=False), pod("b", "b", "old")], 1, []),
        (1, [pod("a", "a", "old"), pod("a2", "a"), pod("b", "b", "old")], 1, ["a"]),
        (1, [pod("a", "a", "old", ready=False), pod("b", "b", "old")], 2, []),
        (1, [pod("a", "a"), pod("b", "b")], 0, []),
        (1, [pod("a", "a", "old"), pod("a2", "a", "old"), pod("b", "b", "old")], 0, []),
        (1, [pod("a", "a"), pod("b", "b"), pod("c", "c", "old", ready=False)], 0, ["c"]),
        (1, [pod("a", "a"), pod("b", "b"), pod("c", "c", "old")], 0, ["c"]),
        (1, [pod("a", "a"), pod("b", "b", ready=False), pod("c", "c", "old")], 0, []),
    ],
)
def test_with_surge_new_pods_come_beside_old_ones(surge: int, pods: list[Json], nodes: int, gone: list[str]) -> None:
    found = update(build_pass(owner(rolling(0, surge)), [node("a"), node("b"), node("c", "k:NoSchedule")], *pods))
    assert (len(found.nodes), sorted(each["metadata"]["name"] for each in found.pods)) == (nodes, gone)


def test_the_status_counts_the_pods_that_there_should_be_and_those_that_should_not() -> None:
    nodes = [*(node(name) for name in "abcd"), node("x", "k:NoSchedule")]
    pods = [pod("a", "a"), pod("b", "b", "old"), pod("c", "c", ready=False), pod("x", "x"),
            pod("b2", "b", made="2026-01-01T00:00:09Z"), pod("gone", "z")]  # fmt: skip
    assert build_pass(owner(), nodes, *pods).status() == {
        "desiredNumberScheduled": 4,
        "currentNumberScheduled": 3,
        "numberMisscheduled": 1,
        "numberReady": 2,
        "updatedNumberScheduled": 2,
        "numberAvailable": 2,
        "numberUnavailable": 2,
    }
