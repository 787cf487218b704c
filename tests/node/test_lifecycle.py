"""The lifecycle of emulated containers over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.kubelet.pods import status as podstatus
from controllers.kubelet.pods.containers import EmulatedContainers
from controllers.kubelet.pods.lifecycle import step
from tests.support.objects import make_annotations, make_pod

pytestmark = pytest.mark.integration

START = datetime(2026, 1, 1, tzinfo=UTC)
RULES = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]


def make_emulated_pod(
    policy: str = "Always", init: Sequence[Json] = (), names: Sequence[str] = ("c",), **annotations: Any
) -> Json:
    containers = [{"name": name, "image": "i"} for name in names]
    more: Json = {"annotations": make_annotations(**annotations), **({"initContainers": list(init)} if init else {})}
    return make_pod("p", uid="u", restartPolicy=policy, containers=containers, **more)


class Life:
    """A pod over time."""

    def __init__(self, pod: Json) -> None:
        self.pod, self.now, self.events = pod, START, list[str]()
        self.missing: set[str] = set()
        self.pod["status"] = podstatus.build_starting(pod, "2026-01-01T00:00:00Z", "172.18.0.2")
        self.over = False
        self.again: timedelta | None = None

    def at(self, seconds: float) -> Json:
        self.now = START + timedelta(seconds=seconds)
        made = step(self.pod, self.now, missing=self.missing)
        self.pod["status"] = {**self.pod["status"], **made.status}
        self.events = [reason for _, reason, _ in made.events]
        self.over, self.again = made.all_ended, made.requeue_after
        return made.status

    def state(self, name: str = "c") -> Json:
        status = self.pod["status"]
        found = (*status["containerStatuses"], *status.get("initContainerStatuses", ()))
        return next(item for item in found if item["name"] == name)

    def kind(self, name: str = "c") -> str:
        (kind,) = self.state(name)["state"]
        return str(kind)

    def conditions(self) -> dict[str, str]:
        return {c["type"]: c["status"] for c in self.pod["status"]["conditions"]}


def start_pod(*args: Any, **kwargs: Any) -> Life:
    """Start a pod of `make_emulated_pod`."""
    life = Life(make_emulated_pod(*args, **kwargs))
    life.at(0)
    return life


def test_a_container_runs_on_without_a_next_step() -> None:
    life = Life(make_emulated_pod())
    assert life.at(0)["phase"] == "Running"
    assert (life.kind(), life.again, life.events) == ("running", None, ["Pulled", "Created", "Started"])
    before = life.pod["status"]["containerStatuses"]
    life.at(1000)
    assert (life.pod["status"]["containerStatuses"], life.events) == (before, [])


@pytest.mark.parametrize(
    ("policy", "code", "phase"),
    [("Never", "0", "Succeeded"), ("Never", "3", "Failed"), ("OnFailure", "0", "Succeeded")],
)
def test_a_pod_ends_when_no_container_is_restarted(policy: str, code: str, phase: str) -> None:
    life = start_pod(policy, exit_after="2", exit_code=code)
    assert life.again == timedelta(seconds=2)
    assert life.at(1)["phase"] == "Running"
    status = life.at(5)
    assert (status["phase"], life.over) == (phase, True)
    ended = life.state()["state"]["terminated"]
    assert (ended["exitCode"], ended["finishedAt"]) == (int(code), "2026-01-01T00:00:02Z")
    assert ended["reason"] == ("Error" if int(code) else "Completed")


def test_a_container_is_restarted_immediately_and_then_with_doubling_backoff() -> None:
    life = start_pod("Always", exit_after="1", exit_code="1")
    life.at(1)
    assert (life.kind(), life.state()["restartCount"]) == ("running", 1)
    life.at(2)
    assert (life.kind(), life.events, life.again) == ("waiting", ["BackOff"], timedelta(seconds=10))
    waiting = life.state()["state"]["waiting"]
    assert waiting["reason"] == "CrashLoopBackOff"
    assert waiting["message"] == "back-off 10s restarting failed container=c pod=p_ns(u)"
    assert life.pod["status"]["phase"] == "Running"
    assert life.conditions()["Ready"] == "False"
    assert life.state()["lastState"]["terminated"]["exitCode"] == 1
    life.at(11.9)
    assert life.kind() == "waiting"
    life.at(12)
    assert (life.kind(), life.state()["restartCount"]) == ("running", 2)
    life.at(13)
    assert life.again == timedelta(seconds=20)


def test_the_backoff_is_at_most_five_minutes() -> None:
    life = start_pod("Always", exit_after="1")
    life.pod["status"]["containerStatuses"][0]["restartCount"] = 30
    life.at(1)
    assert life.again == timedelta(minutes=5)
    assert "back-off 5m0s" in life.state()["state"]["waiting"]["message"]


def test_on_failure_restarts_only_failed_containers() -> None:
    life = start_pod("OnFailure", names=("good", "bad"), exit_after="1", exit_code__bad="2")
    life.at(1)
    assert (life.kind("good"), life.kind("bad"), life.over) == ("terminated", "running", False)


def test_a_container_is_ready_after_the_annotated_time() -> None:
    life = start_pod(ready_after="3")
    assert life.conditions()["ContainersReady"] == "False"
    assert life.again == timedelta(seconds=3)
    message = next(c["message"] for c in life.pod["status"]["conditions"] if c["type"] == "Ready")
    assert message == "containers with unready status: [c]"
    life.at(3)
    assert set(life.conditions().values()) == {"True"}


def test_init_containers_run_one_after_the_other_before_the_others() -> None:
    init = ({"name": "first"}, {"name": "second"})
    life = Life(make_emulated_pod(init=init, exit_after__first="1", exit_after__second="2"))
    assert life.at(0)["phase"] == "Pending"
    assert [life.kind(name) for name in ("first", "second", "c")] == ["running", "waiting", "waiting"]
    message = next(c["message"] for c in life.pod["status"]["conditions"] if c["type"] == "Initialized")
    assert message == "containers with incomplete status: [first second]"
    life.at(1)
    assert [life.kind(name) for name in ("first", "second", "c")] == ["terminated", "running", "waiting"]
    life.at(3)
    assert (life.kind("c"), life.pod["status"]["phase"]) == ("running", "Running")
    assert life.state("first")["ready"] is True


def test_a_failed_init_container_ends_a_pod_that_is_never_restarted() -> None:
    life = Life(make_emulated_pod("Never", init=({"name": "first"},), exit_code__first="5"))
    assert life.at(0)["phase"] == "Failed"
    assert life.over
    assert life.kind("c") == "waiting"


def test_a_failed_init_container_is_restarted_in_other_pods() -> None:
    life = start_pod("Always", init=({"name": "first"},), exit_code__first="5", exit_after__first="1")
    life.at(1)
    assert (life.kind("first"), life.state("first")["restartCount"], life.over) == ("running", 1, False)
    assert life.pod["status"]["phase"] == "Pending"


@pytest.mark.parametrize(
    ("policy", "own", "code", "again"),
    [
        ("Never", {"restartPolicy": "Always"}, "0", True),
        ("Always", {"restartPolicy": "Never"}, "1", False),
        ("Never", {"restartPolicy": "OnFailure"}, "1", True),
        ("Always", {"restartPolicy": "OnFailure"}, "0", False),
        ("Never", {"restartPolicy": "Never", "restartPolicyRules": RULES}, "42", True),
        ("Never", {"restartPolicy": "Never", "restartPolicyRules": RULES}, "1", False),
    ],
)
def test_the_restart_policy_of_a_container_overrides_that_of_its_pod(
    policy: str, own: Json, code: str, again: bool
) -> None:
    life = Life(make_emulated_pod(policy, exit_after="2", exit_code=code))
    life.pod["spec"]["containers"][0] |= own
    life.at(0)
    life.at(2)
    assert (life.kind(), life.over) == (("running", False) if again else ("terminated", True))


def test_a_sidecar_runs_beside_the_others_and_stops_with_them() -> None:
    init = ({"name": "side", "restartPolicy": "Always"}, {"name": "then"})
    life = start_pod("Never", init=init, exit_after="2")
    assert [life.kind(name) for name in ("side", "then", "c")] == ["running", "terminated", "running"]
    status = life.at(2)
    assert (status["phase"], life.over) == ("Succeeded", True)
    assert life.kind("side") == "terminated"


def test_a_sidecar_that_fails_later_does_not_stop_the_pod() -> None:
    one, other = ({"name": name, "image": "i", "restartPolicy": "Always"} for name in ("one", "other"))
    life = Life(
        make_emulated_pod("Never", init=(one, other), exit_after="9", exit_after__one="2", exit_after__other="3")
    )
    life.at(0)
    life.at(2)
    assert (life.at(4)["phase"], life.kind("one"), life.kind("other")) == ("Running", "waiting", "running")
    assert (life.at(7)["phase"], life.kind("one"), life.kind("other")) == ("Running", "waiting", "waiting")
    assert (life.conditions()["Initialized"], life.conditions()["Ready"]) == ("True", "False")
    assert life.at(9)["phase"] == "Succeeded"


def test_a_container_that_waits_for_its_restart_does_not_wait_for_a_sidecar() -> None:
    sidecar = {"name": "one", "image": "i", "restartPolicy": "Always"}
    life = Life(make_emulated_pod("Always", init=(sidecar,), exit_after="2", exit_code="1", exit_after__one="5"))
    for seconds in (0, 2, 4, 5, 10):
        life.at(seconds)
    assert (life.kind("one"), life.kind("c")) == ("waiting", "waiting")
    life.at(14)
    assert (life.kind("one"), life.kind("c")) == ("waiting", "running")


def test_annotations_for_all_containers_do_not_apply_to_init_containers() -> None:
    life = start_pod("Never", init=({"name": "first"},), exit_after="10", exit_code="1")
    assert life.state("first")["state"]["terminated"]["exitCode"] == 0
    assert life.kind("c") == "running"


@pytest.mark.parametrize("value", ["soon", "nan", "1e999"])
def test_an_invalid_time_is_ignored(value: str) -> None:
    life = start_pod(exit_after=value)
    assert (life.kind(), life.again) == ("running", None)


def with_probes(*, policy: str = "Always", marks: Mapping[str, Any] | None = None, **probes: Json) -> Life:
    life = Life(make_emulated_pod(policy, **(marks or {})))
    life.pod["spec"]["containers"][0] |= {f"{kind}Probe": probe for kind, probe in probes.items()}
    return life


def test_a_container_is_ready_after_the_success_threshold_of_its_probe() -> None:
    life = with_probes(readiness={"initialDelaySeconds": 3, "periodSeconds": 5, "successThreshold": 2})
    ready = []
    for second in (0, 3, 7, 8):
        life.at(second)
        ready.append(life.state()["ready"])
    assert (ready, life.again) == ([False, False, False, True], None)


def test_a_container_loses_and_regains_readiness() -> None:
    life = with_probes(marks={"readiness_fails": "4s-10s"}, readiness={"periodSeconds": 2, "failureThreshold": 2})
    ready = []
    for second in (0, 4, 6, 9, 10):
        life.at(second)
        ready.append((life.state()["ready"], "Unhealthy" in life.events))
    assert ready == [(True, False), (True, True), (False, True), (False, True), (True, False)]
    assert life.state()["restartCount"] == 0


def test_a_fault_of_a_missing_probe_is_probed_every_second() -> None:
    life = with_probes(marks={"readiness_fails": "0s-2s"})
    life.at(0)
    assert (life.state()["ready"], life.again) == (False, timedelta(seconds=1))
    life.at(2)
    assert life.state()["ready"]


def test_a_container_with_failing_liveness_is_killed_and_restarted() -> None:
    life = with_probes(marks={"liveness_fails": "6s"}, liveness={"periodSeconds": 2, "failureThreshold": 3})
    life.at(0)
    life.at(9)
    assert (life.kind(), life.state()["restartCount"]) == ("running", 0)
    life.at(10)
    assert life.events[:2] == ["Unhealthy", "Killing"]
    assert (life.kind(), life.state()["restartCount"]) == ("running", 1)
    ended = life.state()["lastState"]["terminated"]
    assert (ended["exitCode"], ended["finishedAt"]) == (137, "2026-01-01T00:00:10Z")


def test_a_container_with_failing_startup_is_killed() -> None:
    life = with_probes(
        policy="Never", marks={"startup_fails": "0s"}, startup={"periodSeconds": 1, "failureThreshold": 3}, readiness={}
    )
    for second in (0, 1):
        life.at(second)
        assert (life.state()["started"], life.state()["ready"]) == (False, False)
    assert life.at(2)["phase"] == "Failed"


def test_other_probes_wait_for_the_startup_probe() -> None:
    slow = {"periodSeconds": 1, "failureThreshold": 30}
    life = with_probes(marks={"startup_fails": "0s-4s", "liveness_fails": "0s-4s"}, startup=slow, liveness={})
    for second in range(4):
        life.at(second)
        assert not life.state()["started"]
    life.at(4)
    assert (life.state()["started"], life.state()["ready"], life.state()["restartCount"]) == (True, True, 0)


def test_init_containers_are_not_probed_and_not_ready_while_they_run() -> None:
    init = ({"name": "first"},)
    life = Life(make_emulated_pod(init=init, exit_after__first="5", liveness_fails="0s"))
    life.at(1)
    assert (life.kind("first"), life.state("first")["ready"]) == ("running", False)


def test_a_killed_pod_has_only_terminated_containers() -> None:
    life = start_pod(init=({"name": "side", "restartPolicy": "Always"},), names=("a", "b"))
    status = podstatus.build_killed(life.pod, "2026-01-01T00:00:09Z")
    assert status["phase"] == "Succeeded"
    assert all("terminated" in s["state"] for s in (*status["containerStatuses"], *status["initContainerStatuses"]))


def test_a_container_waits_until_its_image_can_be_pulled() -> None:
    life = Life(make_emulated_pod(names=("c", "d")))
    life.pod["spec"]["containers"][0]["image"] = "web:2"
    life.missing = {"web:2"}
    assert life.at(0)["phase"] == "Pending"
    assert (life.state()["state"]["waiting"]["reason"], life.kind("d")) == ("ErrImagePull", "running")
    assert life.events[:3] == ["Pulling", "Failed", "Failed"]
    life.at(1)
    assert (life.state()["state"]["waiting"]["reason"], life.events) == ("ImagePullBackOff", ["BackOff", "Failed"])
    life.at(2)
    assert (life.events, life.again, life.conditions()["Ready"]) == ([], None, "False")
    life.missing = set()
    assert life.at(3)["phase"] == "Running"
    assert life.kind() == "running"


def test_a_pod_keeps_running_while_one_of_its_containers_cannot_be_restarted() -> None:
    life = start_pod(exit_after="2", exit_code="1")
    life.missing = {"i"}
    assert life.at(2)["phase"] == "Running"
    assert life.state()["state"]["waiting"]["reason"] == "ErrImagePull"
    assert life.state()["lastState"]["terminated"]["exitCode"] == 1


def test_a_pod_with_a_failed_init_container_is_not_initialized() -> None:
    life = Life(
        make_emulated_pod("Never", init=({"name": "a", "image": "i"}, {"name": "b", "image": "i"}), exit_code__a="1")
    )
    assert (life.at(0)["phase"], life.conditions()["Initialized"]) == ("Failed", "False")
    (message,) = [c["message"] for c in life.pod["status"]["conditions"] if c["type"] == "Initialized"]
    assert message == "containers with incomplete status: [a b]"


def test_an_ephemeral_container_runs_once_beside_the_others_and_ends_with_them() -> None:
    life = start_pod("Never", exit_after="9", exit_after__debug="2", exit_code__debug="1")
    life.pod["spec"]["ephemeralContainers"] = [{"name": "debug", "image": "i"}, {"name": "shell", "image": "i"}]

    def kinds() -> list[str]:
        return [kind for state in life.pod["status"]["ephemeralContainerStatuses"] for kind in state["state"]]

    life.at(1)
    assert kinds() == ["running", "running"]
    life.pod["metadata"]["annotations"] = make_annotations(
        exit_after="9", exit_after__debug="2", exit_after__shell="99"
    )
    assert (life.at(4)["phase"], kinds()) == ("Running", ["terminated", "running"])
    assert (life.at(10)["phase"], kinds()) == ("Succeeded", ["terminated", "terminated"])


class KillRecorder(EmulatedContainers):
    """Records the names of killed containers."""

    def __init__(self) -> None:
        super().__init__()
        self.killed: list[str] = []

    def kill(self, pod: Json, names: Sequence[str]) -> None:
        self.killed += names


def test_sidecars_and_ephemeral_containers_are_killed_when_a_pod_ends() -> None:
    sidecar = {"name": "beside", "image": "i", "restartPolicy": "Always"}
    pod = make_emulated_pod("Never", init=({"name": "first", "image": "i"}, sidecar), exit_after="9", exit_after__debug="2",
                exit_after__beside="99", exit_after__shell="99")  # fmt: skip
    pod["spec"]["ephemeralContainers"] = [{"name": "debug", "image": "i"}, {"name": "shell", "image": "i"}]
    containers, life = KillRecorder(), Life(pod)
    for seconds, killed in ((0, []), (4, []), (10, ["beside", "shell"])):
        made = step(life.pod, START + timedelta(seconds=seconds), containers)
        life.pod["status"] = {**life.pod["status"], **made.status}
        assert (made.all_ended, containers.killed) == (bool(killed), killed)


@pytest.mark.parametrize(
    ("of_pod", "of_container", "starts"),
    [
        ({"runAsNonRoot": True, "runAsUser": 0}, {}, False),
        ({"runAsNonRoot": True}, {"runAsUser": 0}, False),
        ({"runAsUser": 0}, {"runAsNonRoot": True}, False),
        ({"runAsNonRoot": True, "runAsUser": 0}, {"runAsUser": 7}, True),
        ({"runAsNonRoot": True, "runAsUser": 0}, {"runAsNonRoot": False}, True),
        ({"runAsNonRoot": True}, {}, True),
    ],
)
def test_a_container_that_must_not_be_root_is_not_started_as_root(
    of_pod: Json, of_container: Json, starts: bool
) -> None:
    pod = make_emulated_pod()
    pod["spec"]["securityContext"] = of_pod
    pod["spec"]["containers"][0]["securityContext"] = of_container
    life = Life(pod)
    assert life.at(0)["phase"] == ("Running" if starts else "Pending")
    waiting = life.state()["state"].get("waiting")
    assert starts or waiting["reason"] == "CreateContainerConfigError"


@pytest.mark.parametrize(
    ("value", "expression", "text"),
    [
        ("/tmp", "$(WHERE)", "error SubPath `/tmp` must not be an absolute path"),
        ("..", "a/$(WHERE)", "unable to provision SubPath `a/..`: must not contain '..'"),
        ("logs", "$(WHERE)/p", None),
    ],
)
def test_a_container_with_a_subpath_outside_its_volume_is_not_started(
    value: str, expression: str, text: str | None
) -> None:
    pod = make_emulated_pod()
    (container,) = pod["spec"]["containers"]
    secret = {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    container["env"] = [secret, {"name": "WHERE", "value": value}]
    container["volumeMounts"] = [{"name": "v", "mountPath": "/v", "subPathExpr": expression}]
    life = Life(pod)
    assert life.at(0)["phase"] == ("Pending" if text else "Running")
    waiting = life.state()["state"].get("waiting")
    assert waiting == ({"reason": "CreateContainerConfigError", "message": text} if text else None)
