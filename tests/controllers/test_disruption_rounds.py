"""The disruption controller in one pass: the counts of a PodDisruptionBudget, and stale conditions of its pods."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.workloads.disruption.disruption import Disruption
from tests.controllers.autoscalers import ServingClient
from tests.support import recording
from tests.support.objects import make_metadata, make_owner, make_pod

pytestmark = pytest.mark.integration

#: The start of virtual time.
NOW, MINUTE_AGO, OLD = "2026-01-01T00:00:00Z", "2025-12-31T23:59:00Z", "2025-12-31T23:00:00Z"


def budget(status: Json | None = None, name: str = "b", **spec: Any) -> Json:
    """Build a PodDisruptionBudget for the pods with the label `a: x`."""
    metadata = make_metadata(name, "ns", name, generation=2)
    spec = {"selector": {"matchLabels": {"a": "x"}}, **spec}
    return {"kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec, "status": status or {}}


def pod(name: str, ready: str = "True", owner: str = "", kind: str = "ReplicaSet", **more: Any) -> Json:
    """Build a pod with the label `a: x`."""
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    of = {**replica_set(owner, 1), "kind": kind} if owner else None
    return make_pod(name, owner=of, **{"uid": name, "labels": {"a": "x"}, "status": status, **more})


def replica_set(name: str, replicas: int, deployment: str = "", kind: str = "ReplicaSet") -> Json:
    owners = [make_owner(replica_set(deployment, 9, kind="Deployment"))] if deployment else []
    metadata = make_metadata(name, "ns", ownerReferences=owners)
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": {"replicas": replicas}}


class BudgetClient(ServingClient):
    """Records the writes for the budget `ns/b`."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The expected, healthy, desired and allowed pods."""
        names = ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed")
        return tuple(self.status[name] for name in names)

    @property
    def condition(self) -> Json:
        [found] = self.status["conditions"]
        return dict(found)


def build(of: Json, *pods: Json, paths: Json | None = None, **more: Any) -> BudgetClient:
    """Build the component over a budget, its pods, ReplicaSets and a Deployment. `paths`: answers by path."""
    objects = of, *pods, *SETS, replica_set("d", 9, kind="Deployment")
    return recording.build(Disruption, BudgetClient(**(paths or {})), *objects, **more)


async def reconcile(of: Json, *pods: Json, **more: Any) -> BudgetClient:
    """Reconcile a budget once."""
    return await build(of, *pods, **more).reconcile("ns/b")


SETS = (replica_set("r", 4), replica_set("s", 3), replica_set("t", 5, "d"))


@pytest.mark.parametrize(
    ("spec", "pods", "numbers"),
    [
        ({"minAvailable": 1}, [pod("a"), pod("b")], (2, 2, 1, 1)),
        ({"minAvailable": 2}, [pod("a"), pod("b")], (2, 2, 2, 0)),
        ({"minAvailable": 3}, [pod("a"), pod("b")], (2, 2, 3, 0)),
        ({"minAvailable": 0}, [pod("a"), pod("b", "False"), pod("c", "Unknown"), pod("d", deleted=NOW)], (4, 1, 0, 1)),
        ({"minAvailable": 0}, [], (0, 0, 0, 0)),
        ({}, [pod("a")], (0, 1, 0, 0)),
        ({"maxUnavailable": 1}, [pod("a", owner="r"), pod("b", owner="r")], (4, 2, 3, 0)),
        ({"maxUnavailable": 3}, [pod("a", owner="r"), pod("b", owner="r")], (4, 2, 1, 1)),
        ({"maxUnavailable": 9}, [pod("a", owner="r")], (4, 1, 0, 1)),
        ({"maxUnavailable": "30%"}, [pod("a", owner="r")], (4, 1, 2, 0)),
        ({"minAvailable": "30%"}, [pod("a", owner="r"), pod("b", owner="s")], (7, 2, 3, 0)),
        ({"minAvailable": "10%"}, [pod("a", owner="t")], (9, 1, 1, 0)),
    ],
)
async def test_a_budget_counts_its_pods_or_what_their_owners_ask_for(
    spec: Json, pods: list[Json], numbers: tuple[int, ...]
) -> None:
    client = await reconcile(budget(**spec), *pods)
    assert client.numbers == numbers
    holds = ("True", "SufficientPods") if numbers[3] else ("False", "InsufficientPods")
    assert (client.condition["status"], client.condition["reason"]) == holds
    assert (client.condition["observedGeneration"], client.condition["lastTransitionTime"]) == (2, NOW)
    assert client.status["observedGeneration"] == 2
    assert client.events == ([] if pods else [("Normal", "NoPods", "No matching pods found")])
    assert (await reconcile(budget(client.status, **spec), *pods)).writes == []
    for name in ("currentHealthy", "disruptionsAllowed", "expectedPods", "desiredHealthy", "observedGeneration"):
        assert (await reconcile(budget({**client.status, name: 77}, **spec), *pods)).writes != []


async def test_pods_of_others_do_not_count() -> None:
    other = pod("o", labels={"a": "y"})
    client = await reconcile(budget(minAvailable=0), pod("a"), other, pod("e", namespace="far"))
    assert client.numbers == (1, 1, 0, 1)
    gone = build(budget(minAvailable=0), pod("a")).remove_objects(budget())
    assert (await gone.reconcile("ns/b")).writes == []


SCALE = "/apis/apps/v1/namespaces/ns/deployments/w/scale"
UNSCALED = {"/apis/apps/v1": {"resources": [{"name": "deployments", "kind": "Deployment", "namespaced": True}]}}


@pytest.mark.parametrize(
    ("kind", "paths", "expected", "text"),
    [
        ("Deployment", {SCALE: {"metadata": {"uid": "uid-w"}, "spec": {"replicas": 6}}}, 6, ""),
        ("Deployment", {SCALE: {"metadata": {"uid": "uid-w"}}}, 0, ""),
        ("Deployment", {SCALE: {"metadata": {"uid": "other"}}}, 0, 'found no controllers for pod "a"'),
        ("Deployment", {}, 0, 'found no controllers for pod "a"'),
        ("Cat", {}, 0, 'no matches for kind "Cat" in version "apps/v1"'),
        ("Deployment", {SCALE: StatusError(500, "InternalError", "broken")}, 0, "broken"),
        ("Deployment", UNSCALED, 0, "deployments.apps does not implement the scale subresource"),
    ],
)
async def test_the_scale_of_unknown_owners_is_requested(kind: str, paths: Json, expected: int, text: str) -> None:
    of = budget({"disruptionsAllowed": 3, "observedGeneration": 1}, maxUnavailable=1)
    client = await reconcile(of, pod("a", owner="w", kind=kind), paths=paths)
    if not text:
        assert client.numbers == (expected, 1, max(0, expected - 1), 0)
        return
    assert client.events == [
        ("Warning", "CalculateExpectedPodCountFailed", f"Failed to calculate the number of expected pods: {text}")
    ]
    assert (client.status["disruptionsAllowed"], client.condition["status"]) == (0, "False")
    assert (client.condition["reason"], client.condition["message"]) == ("SyncFailed", text)
    assert client.condition["observedGeneration"] == 1
    again = await reconcile(budget(client.status, maxUnavailable=1), pod("a", owner="w", kind=kind), paths=paths)
    assert again.writes == []


async def test_unmanaged_pods_and_invalid_selectors_are_reported() -> None:
    client = await reconcile(budget(maxUnavailable=1), pod("a"), pod("b", owner="r"))
    assert (client.numbers, client.reasons) == ((4, 2, 3, 0), ["UnmanagedPods"])
    assert "(selector: &LabelSelector{MatchLabels:map[string]string{a: x,}" in client.events[0][2]
    odd = await reconcile(budget(selector={"matchExpressions": [{"key": "a", "operator": "Near"}]}), pod("a"))
    assert (odd.reasons, odd.condition["reason"]) == (["NoPods"], "SyncFailed")
    assert odd.events[0][2].startswith("Failed to get pods: ")


async def test_a_conflict_is_tried_again() -> None:
    client = await reconcile(budget(minAvailable=0), pod("a"), refuses={"update/status": (409, "Conflict")})
    assert client.error is not None
    assert len(client.writes) == 1


async def test_an_eviction_that_was_granted_counts_until_it_is_overdue() -> None:
    granted = {"disruptedPods": {"a": MINUTE_AGO, "b": OLD, "c": MINUTE_AGO, "gone": MINUTE_AGO}}
    client = await reconcile(budget(granted, minAvailable=0), pod("a"), pod("b"), pod("c", deleted=NOW), pod("d"))
    assert (client.status["disruptedPods"], client.status["currentHealthy"]) == ({"a": MINUTE_AGO}, 2)
    assert client.requeue_after == timedelta(seconds=60.5)
    text = "Pod was expected by PDB ns/ns to be deleted but it wasn't"
    assert client.events == [("Warning", "NotDeleted", text)]
    end = await reconcile(budget({"disruptedPods": {"a": "2025-12-31T23:58:00Z"}}, minAvailable=0), pod("a"))
    assert (end.status["disruptedPods"], end.requeue_after) == ({"a": "2025-12-31T23:58:00Z"}, timedelta(seconds=0.5))
    none = await reconcile(budget(minAvailable=0), pod("a"))
    assert "disruptedPods" not in none.status
    assert none.requeue_after is None


async def test_of_a_pods_budgets_one_is_counted_again() -> None:
    client, queue = build(budget(minAvailable=0)), list[str]()
    client.component._budget_controller.queue.add = queue.append
    odd = budget(name="odd", selector={"matchExpressions": [{"key": "a", "operator": "Near"}]})
    client.set_objects(odd, budget(name="other", selector={"matchLabels": {"a": "y"}}))
    queue.clear()
    client.set_objects(pod("a"), pod("a", "False")).remove_objects(pod("a"))
    assert (queue, client.events) == (["ns/b"] * 3, [])
    client.set_objects(budget(name="z"))
    queue.clear()
    client.set_objects(pod("a"))
    text = 'Pod "ns"/"a" matches multiple PodDisruptionBudgets.  Chose "b" arbitrarily.'
    assert (queue, client.events) == (["ns/b"], [("Warning", "MultiplePodDisruptionBudgets", text)])


@pytest.mark.parametrize(
    ("target", "phase", "going", "again", "written"),
    [
        ({"lastTransitionTime": OLD}, "Running", False, None, True),
        ({"lastTransitionTime": MINUTE_AGO}, "Running", False, timedelta(minutes=1), False),
        ({"lastTransitionTime": "2025-12-31T23:58:00Z"}, "Running", False, None, True),
        ({}, "Running", False, None, True),
        ({"status": "False"}, "Running", False, None, False),
        ({"lastTransitionTime": OLD, "reason": "TerminationByKubelet"}, "Running", False, None, False),
        ({"lastTransitionTime": OLD}, "Failed", False, None, False),
        ({"lastTransitionTime": OLD}, "Succeeded", False, None, False),
        ({"lastTransitionTime": OLD}, "Running", True, None, False),
    ],
)
async def test_a_stale_disruption_target_of_a_pod_is_reset(
    target: Json, phase: str, going: bool, again: timedelta | None, written: bool
) -> None:
    said = {"type": "DisruptionTarget", "status": "True", "reason": "Why", **target}
    known = pod("a", deleted=NOW if going else "", status={"phase": phase, "conditions": [said]})
    known["metadata"]["generation"] = 4
    client = build(budget(minAvailable=0), known)
    await client.run(client.component.reset_stale("ns/a"))
    assert client.requeue_after == again
    if written:
        assert client.condition == {"type": "DisruptionTarget", "status": "False", "lastProbeTime": None,
                                    "lastTransitionTime": NOW, "observedGeneration": 4}  # fmt: skip
        assert client.status["phase"] == "Running"
    else:
        assert client.writes == []
    assert await client.component.reset_stale("ns/missing") is None
