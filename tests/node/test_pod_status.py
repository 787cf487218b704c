"""The status that a kubelet reports for a pod, part by part."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.kubelet.pods import status as podstatus

pytestmark = pytest.mark.integration

T0, T1, T2 = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"


def pod(*names: str, init: tuple[str, ...] = (), generation: int | None = None, **status: Any) -> Json:
    containers = [{"name": name, "image": f"image-{name}"} for name in names or ("c",)]
    spec = {"containers": containers, "initContainers": [{"name": name, "image": f"image-{name}"} for name in init]}
    metadata = {"name": "p", "namespace": "ns", "uid": "u", **({"generation": generation} if generation else {})}
    return {"metadata": metadata, "spec": spec, "status": status}


def condition(kind: str, status: str, since: str = T1, reason: str | None = None, message: str | None = None) -> Json:
    return {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": since, "reason": reason,
            "message": message}  # fmt: skip


def states(status: Json, field: str = "containerStatuses") -> list[Json]:
    found: list[Json] = status[field]
    return found


def container(of: Json, name: str = "c") -> Json:
    parts = (*of["spec"]["containers"], *of["spec"]["initContainers"])
    found: Json = next(each for each in parts if each["name"] == name)
    return found


def test_a_starting_pod_waits_for_its_containers() -> None:
    status = podstatus.build_starting(pod("a", "b", generation=4), T1, "10.0.0.1")
    unready = ("ContainersNotReady", "containers with unready status: [a b]")
    assert {name: value for name, value in status.items() if name != "containerStatuses"} == {
        "phase": "Pending", "hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.1"}], "startTime": T1,
        "observedGeneration": 4,
        "conditions": [
            each | {"observedGeneration": 4}
            for each in (
                condition("PodReadyToStartContainers", "False"), condition("Initialized", "True"),
                condition("Ready", "False", T1, *unready), condition("ContainersReady", "False", T1, *unready),
                condition("PodScheduled", "True"),
            )
        ],
    }  # fmt: skip
    assert states(status) == [
        {"name": name, "image": f"image-{name}", "imageID": "", "containerID": "", "ready": False, "started": False,
         "restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}, "lastState": {}}
        for name in "ab"
    ]  # fmt: skip
    assert "observedGeneration" not in podstatus.build_starting(pod(), T1, "10.0.0.1")


def test_containers_of_a_starting_pod_wait_for_init_containers() -> None:
    status = podstatus.build_starting(pod(init=("i", "j")), T1, "10.0.0.1")
    message = "containers with incomplete status: [i j]"
    assert status["conditions"][1] == condition("Initialized", "False", T1, "ContainersNotInitialized", message)
    for field, names in (("initContainerStatuses", ["i", "j"]), ("containerStatuses", ["c"])):
        assert [each["name"] for each in states(status, field)] == names
        assert {each["state"]["waiting"]["reason"] for each in states(status, field)} == {"PodInitializing"}


def test_a_container_runs_and_ends() -> None:
    of = pod(init=("i",))
    runs = podstatus.build_running(of, container(of), T1, 0, {})
    assert (runs["ready"], runs["started"], runs["state"], runs["imageID"]) == (
        True, True, {"running": {"startedAt": T1}}, "image-c",
    )  # fmt: skip
    assert runs["containerID"].startswith("kubedra://")
    again = podstatus.build_running(of, container(of), T1, 1, {"terminated": {"exitCode": 3}})
    assert again["containerID"] != runs["containerID"]
    assert (again["restartCount"], again["lastState"]) == (1, {"terminated": {"exitCode": 3}})
    for name, code, reason, ready in (
        ("c", 0, "Completed", False),
        ("i", 0, "Completed", True),
        ("i", 2, "Error", False),
    ):
        ended = podstatus.build_terminated(of, container(of, name), again, T2, code)
        end = ended["state"]["terminated"]
        assert (end["exitCode"], end["reason"], end["startedAt"], end["finishedAt"]) == (code, reason, T1, T2)
        assert (ended["ready"], ended["restartCount"], ended["lastState"]) == (ready, 1, again["lastState"])
        assert ended["containerID"] == end["containerID"]
    never = podstatus.build_terminated(of, container(of), podstatus.build_waiting(of, container(of), "r"), T2, 0)
    assert never["state"]["terminated"]["startedAt"] == T2
    stopped = podstatus.build_stopped(of, podstatus.build_running(of, container(of, "i"), T1, 0, {}), T2)
    assert (stopped["ready"], stopped["state"]["terminated"]["exitCode"]) == (False, 0)
    assert podstatus.build_stopped(of, ended, T2) is ended


@pytest.mark.parametrize(
    ("seconds", "length"), [(10, "10s"), (59, "59s"), (60, "1m0s"), (80, "1m20s"), (160, "2m40s"), (300, "5m0s")]
)
def test_a_crashed_container_reports_its_backoff(seconds: int, length: str) -> None:
    of = pod()
    ended = podstatus.build_terminated(of, container(of), podstatus.build_running(of, container(of), T0, 2, {}), T1, 1)
    crashed = podstatus.build_crashed(of, container(of), ended, timedelta(seconds=seconds))
    message = f"back-off {length} restarting failed container=c pod=p_ns(u)"
    assert crashed["state"] == {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
    assert (crashed["lastState"], crashed["restartCount"]) == (ended["state"], 2)
    assert (crashed["containerID"], crashed["imageID"]) == (ended["containerID"], "image-c")


def test_a_container_that_cannot_be_started_keeps_its_last_state() -> None:
    of = pod()
    ended = podstatus.build_terminated(of, container(of), podstatus.build_running(of, container(of), T0, 2, {}), T1, 1)
    first = podstatus.build_not_started(of, container(of), ended, "R", "m")
    assert first["state"] == {"waiting": {"reason": "R", "message": "m"}}
    assert (first["lastState"], first["restartCount"]) == ({"terminated": ended["state"]["terminated"]}, 2)
    assert podstatus.build_not_started(of, container(of), first, "R", "m")["lastState"] == first["lastState"]


@pytest.mark.parametrize(
    ("known", "status", "reason", "message"),
    [
        ([("a", "True"), ("b", "True")], "True", None, None),
        ([("a", "True")], "False", "ReadinessGatesNotReady",
         'corresponding condition of pod readiness gate "b" does not exist.'),
        ([("a", "False"), ("b", "True")], "False", "ReadinessGatesNotReady",
         'the status of pod readiness gate "a" is not "True", but False'),
        ([("b", "Unknown")], "False", "ReadinessGatesNotReady",
         ('corresponding condition of pod readiness gate "a" does not exist., '
          'the status of pod readiness gate "b" is not "True", but Unknown')),
    ],
)  # fmt: skip
def test_a_pod_is_ready_once_its_readiness_gates_are(
    known: list[tuple[str, str]], status: str, reason: str | None, message: str | None
) -> None:
    of = pod(conditions=[{"type": kind, "status": status} for kind, status in known])
    of["spec"]["readinessGates"] = [{"conditionType": "a"}, {"conditionType": "b"}]
    made = podstatus.build_alive(of, T1, [], [podstatus.build_running(of, container(of), T0, 0, {})], [], [])
    assert made["conditions"][2:4] == [
        condition("Ready", status, T1, reason, message), condition("ContainersReady", "True"),
    ]  # fmt: skip


def test_a_condition_changes_its_transition_time_with_its_status() -> None:
    times = (("Ready", "True", T0), ("ContainersReady", "False", T0), ("Initialized", "True", None))
    known = [{"type": kind, "status": status, "lastTransitionTime": since} for kind, status, since in times]
    of = pod(conditions=known)
    made = podstatus.build_alive(of, T1, [], [], [], [])
    assert {each["type"]: each["lastTransitionTime"] for each in made["conditions"]} == {
        "PodReadyToStartContainers": T1, "Initialized": T1, "Ready": T0, "ContainersReady": T1, "PodScheduled": T1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("state", "last", "incomplete", "phase"),
    [
        ({"running": {}}, {}, [], "Running"),
        ({"running": {}}, {}, ["i"], "Pending"),
        ({"waiting": {}}, {}, [], "Pending"),
        ({"waiting": {}}, {"terminated": {"exitCode": 1}}, [], "Running"),
        ({"terminated": {}}, {}, [], "Running"),
    ],
)
def test_a_pod_runs_once_all_its_containers_have_started(
    state: Json, last: Json, incomplete: list[str], phase: str
) -> None:
    of = pod()
    made = podstatus.build_alive(of, T1, [], [{"name": "c", "state": state, "lastState": last}], incomplete, [])
    assert (made["phase"], "initContainerStatuses" in made) == (phase, False)


@pytest.mark.parametrize(
    ("succeeded", "phase", "reason"), [(True, "Succeeded", "PodCompleted"), (False, "Failed", "PodFailed")]
)
def test_a_pod_that_has_ended_is_not_ready_any_more(succeeded: bool, phase: str, reason: str) -> None:
    of = pod(init=("i",))
    side = podstatus.build_running(of, container(of, "i"), T0, 0, {})
    made = podstatus.build_finished(of, T1, [side], [], succeeded)
    assert made["phase"] == phase
    assert made["conditions"] == [
        condition("PodReadyToStartContainers", "False"),
        condition("Initialized", "True", T1, reason if succeeded else None),
        condition("Ready", "False", T1, reason), condition("ContainersReady", "False", T1, reason),
        condition("PodScheduled", "True"),
    ]  # fmt: skip
    [stopped] = states(made, "initContainerStatuses")
    assert (stopped["state"]["terminated"]["finishedAt"], stopped["state"]["terminated"]["exitCode"]) == (T1, 0)


def test_a_pod_that_is_killed_ends_each_container_as_it_ended() -> None:
    of = pod("a", "b", "never", init=("i",))
    of["status"] = {
        "containerStatuses": [podstatus.build_running(of, container(of, "a"), T0, 0, {}),
                              podstatus.build_running(of, container(of, "b"), T0, 0, {})],
        "initContainerStatuses": [podstatus.build_running(of, container(of, "i"), T0, 0, {})],
        "ephemeralContainerStatuses": [podstatus.build_running(of, {"name": "debug", "image": "d"}, T0, 0, {})],
    }  # fmt: skip
    made = podstatus.build_killed(of, T2, {"a": (T1, 0), "i": (T1, 5)}, 3)

    def ends(field: str) -> list[tuple[str, str, int]]:
        found = ((each["name"], each["state"]["terminated"]) for each in made[field])
        return [(name, end["finishedAt"], end["exitCode"]) for name, end in found]

    assert ends("containerStatuses") == [("a", T1, 0), ("b", T2, 3), ("never", T2, 3)]
    assert ends("initContainerStatuses") == [("i", T1, 5)]
    assert ends("ephemeralContainerStatuses") == [("debug", T2, 3)]
    assert made["phase"] == "Failed"
    assert podstatus.build_killed({**of, "status": {}}, T2)["phase"] == "Succeeded"
    overdue = podstatus.build_overdue({**of, "status": {}}, T2)
    assert (overdue["phase"], overdue["reason"], overdue["message"]) == (
        "Failed", "DeadlineExceeded", podstatus.DEADLINE_EXCEEDED,
    )  # fmt: skip
    assert {each["state"]["terminated"]["exitCode"] for each in overdue["containerStatuses"]} == {137}


def test_a_rejected_pod_has_failed() -> None:
    assert podstatus.build_rejected(pod(generation=2), "R", "why") == {
        "phase": "Failed", "reason": "R", "message": "Pod was rejected: why", "observedGeneration": 2,
    }  # fmt: skip
