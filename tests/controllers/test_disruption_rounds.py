"""What is counted for a PodDisruptionBudget at one look, and what is taken back of pods that were about to go."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.options.options import Options
from controllers.runtime.kinds import DEPLOYMENTS, DISRUPTION_BUDGETS, PODS, REPLICA_SETS
from controllers.workloads.disruption.disruption import Disruption
from tests.controllers.autoscalers import Served
from tests.support.recording import FakeRecorder, make_informers
from tests.support.virtual import run

pytestmark = pytest.mark.integration

#: Where virtual time begins.
NOW, MINUTE_AGO, OLD = "2026-01-01T00:00:00Z", "2025-12-31T23:59:00Z", "2025-12-31T23:00:00Z"


def budget(status: Json | None = None, name: str = "b", **spec: Any) -> Json:
    metadata = {"name": name, "namespace": "ns", "uid": name, "generation": 2}
    return {"metadata": metadata, "spec": {"selector": {"matchLabels": {"a": "x"}}, **spec}, "status": status or {}}


def pod(name: str, ready: str = "True", owner: str = "", kind: str = "ReplicaSet", going: bool = False) -> Json:
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": f"u-{owner}", "controller": True}
    metadata = {"name": name, "namespace": "ns", "uid": name, "labels": {"a": "x"}, "generation": 4,
                "ownerReferences": [reference] if owner else [], **({"deletionTimestamp": NOW} if going else {})}  # fmt: skip
    return {"metadata": metadata, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}


def replica_set(name: str, replicas: int, above: str = "") -> Json:
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": above, "uid": f"u-{above}", "controller": True}
    metadata = {"name": name, "namespace": "ns", "uid": f"u-{name}", "ownerReferences": [owner] if above else []}
    return {"metadata": metadata, "spec": {"replicas": replicas}}


class Look:
    """One look at a budget."""

    def __init__(self, of: Json, *pods: Json, sets: tuple[Json, ...] = (), paths: Json | None = None) -> None:
        self.client, self.told = Served(**(paths or {})), FakeRecorder()
        informers = make_informers(REPLICA_SETS, *sets, informers=make_informers(DISRUPTION_BUDGETS, of))
        make_informers(DEPLOYMENTS, replica_set("d", 9), informers=informers)
        self.budgets, self.pods = informers.of(DISRUPTION_BUDGETS), informers.of(PODS)
        self.component = Disruption(self.client, informers, Options())  # type: ignore[arg-type]
        self.component._recorder = self.told  # type: ignore[assignment]
        for each in pods:
            self.pods.set_object(f"ns/{each['metadata']['name']}", each)
        self.again: timedelta | None = None
        self.error: StatusError | None = None

    def __call__(self, stale: str = "") -> Look:
        async def scenario() -> None:
            look = self.component.reset_stale(f"ns/{stale}") if stale else self.component.reconcile("ns/b")
            try:
                self.again = await look
            except StatusError as error:
                self.error = error

        run(scenario)
        return self

    @property
    def status(self) -> Json:
        """What is written."""
        found: Json = self.client.writes[-1][2]["status"]
        return found

    @property
    def numbers(self) -> tuple[int, ...]:
        """Expected, healthy, desired, allowed."""
        names = ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed")
        return tuple(self.status[name] for name in names)

    @property
    def condition(self) -> Json:
        [found] = self.status["conditions"]
        return dict(found)


SETS = (replica_set("r", 4), replica_set("s", 3), replica_set("t", 5, "d"))


@pytest.mark.parametrize(
    ("spec", "pods", "numbers"),
    [
        ({"minAvailable": 1}, [pod("a"), pod("b")], (2, 2, 1, 1)),
        ({"minAvailable": 2}, [pod("a"), pod("b")], (2, 2, 2, 0)),
        ({"minAvailable": 3}, [pod("a"), pod("b")], (2, 2, 3, 0)),
        ({"minAvailable": 0}, [pod("a"), pod("b", "False"), pod("c", "Unknown"), pod("d", going=True)], (4, 1, 0, 1)),
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
def test_a_budget_counts_its_pods_or_what_their_owners_ask_for(
    spec: Json, pods: list[Json], numbers: tuple[int, ...]
) -> None:
    look = Look(budget(**spec), *pods, sets=SETS)()
    assert look.numbers == numbers
    holds = ("True", "SufficientPods") if numbers[3] else ("False", "InsufficientPods")
    assert (look.condition["status"], look.condition["reason"]) == holds
    assert (look.condition["observedGeneration"], look.condition["lastTransitionTime"]) == (2, NOW)
    assert look.status["observedGeneration"] == 2
    assert look.told.events == ([] if pods else [("Normal", "NoPods", "No matching pods found")])
    assert Look(budget(look.status, **spec), *pods, sets=SETS)().client.writes == []
    for name in ("currentHealthy", "disruptionsAllowed", "expectedPods", "desiredHealthy", "observedGeneration"):
        assert Look(budget({**look.status, name: 77}, **spec), *pods, sets=SETS)().client.writes != []


def test_pods_of_others_do_not_count() -> None:
    other, elsewhere = pod("o"), pod("e")
    other["metadata"]["labels"] = {"a": "y"}
    look = Look(budget(minAvailable=0), pod("a"), other)
    look.pods.set_object("far/e", {**elsewhere, "metadata": {**elsewhere["metadata"], "namespace": "far"}})
    assert look().numbers == (1, 1, 0, 1)
    gone = Look(budget(minAvailable=0), pod("a"))
    gone.budgets.set_object("ns/b", None)
    assert gone().client.writes == []


SCALE = "/apis/apps/v1/namespaces/ns/deployments/w/scale"
UNSCALED = {"/apis/apps/v1": {"resources": [{"name": "deployments", "kind": "Deployment", "namespaced": True}]}}


@pytest.mark.parametrize(
    ("kind", "paths", "expected", "text"),
    [
        ("Deployment", {SCALE: {"metadata": {"uid": "u-w"}, "spec": {"replicas": 6}}}, 6, ""),
        ("Deployment", {SCALE: {"metadata": {"uid": "u-w"}}}, 0, ""),
        ("Deployment", {SCALE: {"metadata": {"uid": "other"}}}, 0, 'found no controllers for pod "a"'),
        ("Deployment", {}, 0, 'found no controllers for pod "a"'),
        ("Cat", {}, 0, 'no matches for kind "Cat" in version "apps/v1"'),
        ("Deployment", {SCALE: StatusError(500, "InternalError", "broken")}, 0, "broken"),
        ("Deployment", UNSCALED, 0, "deployments.apps does not implement the scale subresource"),
    ],
)
def test_owners_that_are_not_known_are_asked_for_their_scale(kind: str, paths: Json, expected: int, text: str) -> None:
    of = budget({"disruptionsAllowed": 3, "observedGeneration": 1}, maxUnavailable=1)
    look = Look(of, pod("a", owner="w", kind=kind), paths=paths)()
    if not text:
        assert look.numbers == (expected, 1, max(0, expected - 1), 0)
        return
    assert look.told.events == [
        ("Warning", "CalculateExpectedPodCountFailed", f"Failed to calculate the number of expected pods: {text}")
    ]
    assert (look.status["disruptionsAllowed"], look.condition["status"]) == (0, "False")
    assert (look.condition["reason"], look.condition["message"]) == ("SyncFailed", text)
    assert look.condition["observedGeneration"] == 1
    again = Look(budget(look.status, maxUnavailable=1), pod("a", owner="w", kind=kind), paths=paths)()
    assert again.client.writes == []


def test_pods_that_nobody_keeps_up_are_told_and_a_selector_that_is_none_is() -> None:
    look = Look(budget(maxUnavailable=1), pod("a"), pod("b", owner="r"), sets=SETS)()
    assert (look.numbers, look.told.reasons) == ((4, 2, 3, 0), ["UnmanagedPods"])
    assert "(selector: &LabelSelector{MatchLabels:map[string]string{a: x,}" in look.told.events[0][2]
    odd = Look(budget(selector={"matchExpressions": [{"key": "a", "operator": "Near"}]}), pod("a"))()
    assert (odd.told.reasons, odd.condition["reason"]) == (["NoPods"], "SyncFailed")
    assert odd.told.events[0][2].startswith("Failed to get pods: ")


def test_a_conflict_is_tried_again() -> None:
    look = Look(budget(minAvailable=0), pod("a"))
    look.client.refuses["update/status"] = (409, "Conflict")
    assert look().error is not None
    assert len(look.client.writes) == 1


def test_an_eviction_that_was_granted_counts_until_it_is_overdue() -> None:
    granted = {"disruptedPods": {"a": MINUTE_AGO, "b": OLD, "c": MINUTE_AGO, "gone": MINUTE_AGO}}
    look = Look(budget(granted, minAvailable=0), pod("a"), pod("b"), pod("c", going=True), pod("d"))()
    assert (look.status["disruptedPods"], look.status["currentHealthy"]) == ({"a": MINUTE_AGO}, 2)
    assert look.again == timedelta(seconds=60.5)
    text = "Pod was expected by PDB ns/ns to be deleted but it wasn't"
    assert look.told.events == [("Warning", "NotDeleted", text)]
    end = Look(budget({"disruptedPods": {"a": "2025-12-31T23:58:00Z"}}, minAvailable=0), pod("a"))()
    assert (end.status["disruptedPods"], end.again) == ({"a": "2025-12-31T23:58:00Z"}, timedelta(seconds=0.5))
    none = Look(budget(minAvailable=0), pod("a"))()
    assert "disruptedPods" not in none.status
    assert none.again is None


def test_of_a_pods_budgets_one_is_counted_again() -> None:
    look, queue = Look(budget(minAvailable=0)), list[str]()
    look.component._budget_controller.queue.add = queue.append  # type: ignore[method-assign, assignment]
    odd = budget(name="odd", selector={"matchExpressions": [{"key": "a", "operator": "Near"}]})
    for each in (odd, budget(name="other", selector={"matchLabels": {"a": "y"}})):
        look.budgets.set_object(f"ns/{each['metadata']['name']}", each)
    queue.clear()
    for known in (pod("a"), pod("a", "False"), None):
        look.pods.set_object("ns/a", known)
    assert (queue, look.told.events) == (["ns/b"] * 3, [])
    look.budgets.set_object("ns/z", budget(name="z"))
    queue.clear()
    look.pods.set_object("ns/a", pod("a"))
    text = 'Pod "ns"/"a" matches multiple PodDisruptionBudgets.  Chose "b" arbitrarily.'
    assert (queue, look.told.events) == (["ns/b"], [("Warning", "MultiplePodDisruptionBudgets", text)])


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
def test_what_was_said_of_a_pod_that_has_not_gone_is_taken_back(
    target: Json, phase: str, going: bool, again: timedelta | None, written: bool
) -> None:
    known = pod("a", going=going)
    said = {"type": "DisruptionTarget", "status": "True", "reason": "Why", **target}
    known["status"] = {"phase": phase, "conditions": [said]}
    look = Look(budget(minAvailable=0))
    look.pods._objects["ns/a"] = known  # type: ignore[index]
    assert look("a").again == again
    if written:
        assert look.condition == {"type": "DisruptionTarget", "status": "False", "lastProbeTime": None,
                                  "lastTransitionTime": NOW, "observedGeneration": 4}  # fmt: skip
        assert look.status["phase"] == "Running"
    else:
        assert look.client.writes == []
    assert Look(budget())("nobody").again is None
