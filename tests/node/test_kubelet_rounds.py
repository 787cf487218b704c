"""One sync of a kubelet for one pod, without a server: reports, the next sync, and resources."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime import clock
from controllers.kubelet.dra.manager import DraError
from controllers.kubelet.emulation.addresses import PodAddresses
from controllers.kubelet.kubelet import Host, Kubelet, Timings, node_address
from controllers.kubelet.pods.containers import EMULATED, ContainerExit, EmulatedContainers
from controllers.runtime.times import go_time, parse_time
from tests.support.objects import make_pod
from tests.support.recording import FakeRecorder, RecordingClient

pytestmark = pytest.mark.integration

NODE: Json = {
    "metadata": {"name": "n", "labels": {}},
    "status": {"addresses": [{"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": "172.18.0.9"}],
               "allocatable": {"cpu": "1", "pods": "10"}},
}  # fmt: skip
SMALL: Json = {**NODE, "status": {**NODE["status"], "allocatable": {"cpu": "0", "pods": "0"}}}


def pod(
    *, annotations: Json | None = None, going: float | None = None, grace: int = 30, version: int = 0, **status: Any
) -> Json:
    """Build a pod. `going` is the number of seconds until its grace period ends, `version` its resourceVersion."""
    made = make_pod("p", uid="u", node="n", annotations=annotations, **status.pop("spec", {}))
    metadata = made["metadata"]
    if going is not None:
        metadata |= {"deletionTimestamp": at(going), "deletionGracePeriodSeconds": grace}
    del metadata["resourceVersion"]
    if version:
        metadata["resourceVersion"] = str(version)
    return {**made, "status": status}


#: A pod that waits for drivers.
CLAIMING: Json = {"resourceClaims": [{"name": "x", "resourceClaimName": "c"}]}


def at(seconds: float) -> str:
    return go_time(clock.now() + timedelta(seconds=seconds))


class FakeClaims:
    """Claims that are prepared if `held`. `fails` and `busy` are the errors of preparing and releasing them."""

    def __init__(self, *, held: bool = False, fails: str = "", busy: str = "") -> None:
        self.held, self.fails, self.busy, self.calls = held, fails, busy, list[str]()

    async def prepare(self, pod: Json) -> None:
        self.calls.append("prepare")
        if self.fails:
            raise DraError(self.fails)

    def might_need_unprepare(self, uid: str) -> bool:
        assert uid == "u"
        return self.held

    async def unprepare(self, pod: Json) -> None:
        self.calls.append("unprepare")
        if self.busy:
            raise DraError(self.busy)
        self.held = False


class ProcessLike(EmulatedContainers):
    """Containers whose end no timer predicts."""

    runs_processes = True


class Node:
    """A kubelet with its writes and events. Its reports are part of the pod of the next step."""

    def __init__(self, claims: FakeClaims | None = None, jitter: float = 0, **how: Any) -> None:
        self.client, self.recorder = RecordingClient({"Pod": self._patched}), FakeRecorder()
        self.claims = claims or FakeClaims()
        self.client.there["Node", "n"] = NODE
        self.addresses, self.pod = PodAddresses(), pod()
        timings = Timings(timedelta(seconds=60), timedelta(seconds=10))
        self.wrote: list[Json] = []
        #: Writes of other clients during a report.
        self.meanwhile: Json = {}
        self.during: Callable[[Json], None] = lambda _: None
        host = Host(self.client, self.addresses, timings, lambda: jitter, self._wrote)  # type: ignore[arg-type]
        self.kubelet = Kubelet(host, self.claims, self.recorder, **how)  # type: ignore[arg-type]

    def _patched(self, what: Any) -> Json:
        _, body = what
        self.during(self.pod)
        self.pod = {**self.pod, "status": {**self.pod["status"], **body.get("status", {})}}
        if version := self.pod["metadata"].get("resourceVersion"):
            self.pod["metadata"] = {**self.pod["metadata"], "resourceVersion": str(int(version) + 1)}
        for part, more in self.meanwhile.items():
            self.pod[part] = {**self.pod[part], **more}
        return self.pod

    def _wrote(self, found: Json) -> Json:
        self.wrote.append(found)
        return found

    async def step(self, found: Json | None = None, node: Json = NODE) -> timedelta | None:
        self.pod = found if found is not None else self.pod
        self.client.writes = []
        return await self.kubelet.sync(self.pod, node)

    @property
    def reports(self) -> list[Json]:
        """The written statuses."""
        found = []
        for verb, kind, what in self.client.writes:
            if verb == "patch/status":
                name, body = what
                assert (kind, name, body["metadata"]) == ("Pod", "p", {"uid": "u"})
                found.append(body["status"])
        return found

    @property
    def deletions(self) -> list[Any]:
        return [what for verb, _, what in self.client.writes if verb == "delete"]


async def test_an_observed_report_causes_a_sync_only_after_another_change_or_when_it_is_due() -> None:
    syncs = 0

    def health(_: Json, statuses: Any) -> list[Json]:
        nonlocal syncs
        syncs += 1
        return [*statuses]

    async def synced(found: Json, on: Json = NODE) -> bool:
        before = syncs
        await node.step(found, on)
        return syncs > before

    node = Node(with_health=health)
    assert await synced(pod(version=1, annotations={"kubedra.dev/ready-after": "5s"}))
    assert not await synced(node.pod)
    await asyncio.sleep(5)
    assert await synced(node.pod)
    assert not await synced(node.pod)
    assert await synced(node.pod, {**NODE})
    for changed in (pod(version=9), pod(version=9, annotations={"a": "b"})):
        node = Node(with_health=health)
        assert await synced(pod(version=1))
        assert await synced(changed | {"status": node.pod["status"]})
    node = Node(with_health=health)
    assert await synced(pod(version=1))
    node.kubelet.invalidate(node.pod)
    assert await synced(node.pod)
    # Writes of other clients during the report are in its response, and need a sync.
    for meanwhile in ({"spec": {"priority": 1}}, {"metadata": {"labels": {"a": "b"}}}, {"status": {"resize": "x"}}):
        node = Node(with_health=health)
        node.meanwhile = meanwhile
        assert await synced(pod(version=1))
        assert await synced(node.pod), meanwhile
    # So does a health report of a driver meanwhile. It is in no response.
    node = Node(with_health=health)
    node.during = node.kubelet.invalidate
    assert await synced(pod(version=1))
    node.during = lambda _: None
    assert await synced(node.pod)


async def test_a_new_pod_is_reported_before_and_after_its_claims_are_prepared() -> None:
    node = Node()
    assert await node.step(pod(spec=CLAIMING)) is None
    first, second = node.reports
    assert (first["phase"], first["hostIP"], first["startTime"]) == ("Pending", "172.18.0.9", at(0))
    assert (second["phase"], second["podIPs"]) == ("Running", [{"ip": second["podIP"]}])
    assert second["podIP"].startswith("10.244.")
    assert (node.claims.calls, len(node.wrote)) == (["prepare"], 2)
    assert await node.step() is None
    assert node.reports == [], "nothing has changed"
    begun = Node()
    await begun.step(pod(startTime=at(0)))
    assert len(begun.reports) == 1, "its start is reported already"
    own = Node()
    await own.step(pod(spec={"hostNetwork": True}))
    [report] = own.reports
    assert (report["phase"], report["podIP"], report["hostIP"]) == ("Running", "172.18.0.9", "172.18.0.9")
    assert (report["startTime"], report["hostIPs"]) == (at(0), [{"ip": "172.18.0.9"}])
    extended = Node()
    await extended.step(pod(extendedResourceClaimStatus={"resourceClaimName": "c"}))
    processes = Node(containers=ProcessLike())
    await processes.step(pod())
    assert (len(extended.reports), len(processes.reports)) == (2, 2), "something lies between"


def test_a_node_without_an_address_has_the_loopback_address() -> None:
    assert node_address({}) == node_address({"status": {"addresses": NODE["status"]["addresses"][:1]}}) == "127.0.0.1"


async def test_a_failed_preparation_is_retried() -> None:
    for jitter, seconds in ((0, 60), (1, 90)):
        node = Node(FakeClaims(fails="no driver"), jitter)
        assert await node.step(pod(spec=CLAIMING)) == timedelta(seconds=seconds)
        text = "Failed to prepare dynamic resources: no driver"
        assert node.recorder.events == [("Warning", "FailedPrepareDynamicResources", text)]
        assert len(node.reports) == 1
        assert node.addresses._pool._address_of == {}


async def test_a_pod_is_rejected_only_if_the_latest_node_rejects_it() -> None:
    node = Node()
    node.client.there["Node", "n"] = SMALL
    assert await node.step(pod(), SMALL) is None
    [report] = node.reports
    assert (report["phase"], report["reason"]) == ("Failed", "OutOfpods")
    assert node.recorder.events == [("Warning", "OutOfpods", report["message"].removeprefix("Pod was rejected: "))]
    assert node.claims.calls == []
    node = Node()
    await node.step(pod(), SMALL)
    assert node.reports[-1]["phase"] == "Running", "it has grown meanwhile"
    gone = Node()
    gone.client.there = {}
    await gone.step(pod(), SMALL)
    assert gone.reports[0]["phase"] == "Failed"
    gone.client.refuses["get"] = (500, "InternalError")
    gone.kubelet.remove(pod())
    with pytest.raises(StatusError):
        await gone.step(pod(), SMALL)
    taken = Node()
    for begun in (pod(phase="Running", podIP="1"), pod(podIP="1")):
        taken.client.there["Node", "n"] = SMALL
        await taken.step(begun, SMALL)
        assert "OutOfpods" not in taken.recorder.reasons, "one that has begun is not asked again"


async def test_an_ended_pod_frees_its_address_and_resources() -> None:
    node = Node()
    await node.step(pod())
    assert node.addresses._pool._address_of
    assert "u" in node.kubelet._admission._info.pods
    assert await node.step({**node.pod, "status": {**node.pod["status"], "phase": "Succeeded"}}) is None
    assert (node.reports, node.addresses._pool._address_of, node.kubelet._admission._info.pods) == ([], {}, {})


async def test_only_changes_are_reported() -> None:
    node = Node()
    await node.step(pod(annotations={"kubedra.dev/ready-after": "5"}))
    conditions = {each["type"]: each["status"] for each in node.reports[-1]["conditions"]}
    assert conditions["Ready"] == "False"
    assert await node.step() == timedelta(seconds=5)
    assert node.reports == []
    await asyncio.sleep(5)
    assert await node.step() is None
    assert {each["type"]: each["status"] for each in node.reports[-1]["conditions"]}["Ready"] == "True"
    turned = [{**each, "message": "other"} for each in node.pod["status"]["conditions"]]
    await node.step({**node.pod, "status": {**node.pod["status"], "conditions": turned}})
    assert len(node.reports) == 1
    lacking = node.pod["status"]["conditions"][1:]
    await node.step({**node.pod, "status": {**node.pod["status"], "conditions": lacking}})
    assert len(node.reports) == 1


async def test_the_health_of_devices_is_reported_with_the_containers() -> None:
    health = ["Healthy"]
    node = Node(with_health=lambda _, statuses: [{**each, "health": health[0]} for each in statuses])
    await node.step(pod())
    assert [each["health"] for each in node.reports[-1]["containerStatuses"]] == ["Healthy"]
    await node.step()
    assert node.reports == []
    health[0] = "Unhealthy"
    await node.step()
    assert [each["health"] for each in node.reports[-1]["containerStatuses"]] == ["Unhealthy"]


async def test_a_pod_fails_at_its_active_deadline() -> None:
    node = Node()
    short = {"activeDeadlineSeconds": 30}
    assert await node.step(pod(spec=short)) == timedelta(seconds=30), "it begins now"
    assert await node.step() == timedelta(seconds=30)
    ends = {"kubedra.dev/ready-after": "10"}
    other = Node()
    await other.step(pod(spec=short, annotations=ends))
    assert await other.step() == timedelta(seconds=10)
    await asyncio.sleep(30)
    node.recorder.events.clear()
    assert await node.step() is None
    [report] = node.reports
    assert (report["phase"], report["reason"]) == ("Failed", "DeadlineExceeded")
    assert [each["state"]["terminated"]["exitCode"] for each in report["containerStatuses"]] == [137]
    text = "Pod was active on the node longer than the specified deadline"
    assert node.recorder.events == [("Normal", "DeadlineExceeded", text)]


async def test_claims_are_released_before_the_end_of_a_pod_is_reported() -> None:
    over = {"kubedra.dev/exit-after": "0"}
    node = Node(FakeClaims(held=True))
    await node.step(pod(annotations=over, spec={"restartPolicy": "Never"}))
    await node.step()
    assert (node.pod["status"]["phase"], node.claims.calls[-1]) == ("Succeeded", "unprepare")
    stuck = Node(FakeClaims(held=True, busy="busy"), 1)
    found: Json | None = pod(annotations=over, spec={"restartPolicy": "Never"})
    for reported in (1, 0):
        assert await stuck.step(found) == timedelta(seconds=15)
        assert len(stuck.reports) == reported, "once"
        assert stuck.pod["status"]["phase"] == "Running"
        assert "terminated" in stuck.pod["status"]["containerStatuses"][0]["state"]
        found = None
    stuck.claims.busy = ""
    assert await stuck.step() is None
    assert stuck.pod["status"]["phase"] == "Succeeded"


async def test_a_deleted_pod_is_removed_once_its_containers_have_stopped() -> None:
    node = Node()
    await node.step(pod(annotations={"kubedra.dev/stop-after": "3"}))
    going = pod(annotations={"kubedra.dev/stop-after": "3"}, going=30, **node.pod["status"])
    node.recorder.events.clear()
    assert await node.step(going) == timedelta(seconds=3)
    await asyncio.sleep(1)
    assert await node.step() == timedelta(seconds=2)
    assert node.recorder.events == [("Normal", "Killing", "Stopping container c")], "once"
    assert (node.reports, node.deletions) == ([], [])
    await asyncio.sleep(2)
    assert await node.step() is None
    [report] = node.reports
    assert report["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    [(name, how)] = node.deletions
    assert (name, how["uid"], how["grace_period"]) == ("ns/p", "u", 0)


@pytest.mark.parametrize(
    ("pause", "grace", "takes", "after", "code"),
    [(10, 30, 3, 13, 0), (10, 30, 25, 30, 137), (50, 30, 0, 30, 0), (50, 30, 2, 32, 0), (50, 30, 9, 32, 137), (9, 0, 0, 0, 0),
     (9, 0, 1, 0, 137)],
)  # fmt: skip
def test_a_sleeping_pre_stop_hook_counts_to_the_grace_period(
    pause: int, grace: int, takes: int, after: int, code: int
) -> None:
    found = pod(annotations={"kubedra.dev/stop-after": str(takes)})
    found["spec"]["containers"][0]["lifecycle"] = {"preStop": {"sleep": {"seconds": pause}}}
    asked = parse_time(at(0))
    deadline = asked + timedelta(seconds=grace)
    end = EMULATED.stop(found, {"name": "c"}, asked, deadline)
    assert end == ContainerExit(asked + timedelta(seconds=after), code)


async def test_containers_are_killed_at_the_end_of_the_grace_period() -> None:
    node = Node()
    marks = {"kubedra.dev/stop-after": "300"}
    await node.step(pod(annotations=marks))
    going = pod(annotations=marks, going=5, grace=5, **node.pod["status"])
    assert await node.step(going) == timedelta(seconds=5)
    await asyncio.sleep(5)
    assert await node.step() is None
    assert node.reports[0]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
    assert len(node.deletions) == 1


@pytest.mark.parametrize(
    ("refusal", "fails"), [((404, "NotFound"), False), ((409, "Conflict"), False), ((403, "Forbidden"), True)]
)
async def test_a_pod_that_was_deleted_or_replaced_is_no_error(refusal: tuple[int, str], fails: bool) -> None:
    node = Node()
    node.client.refuses["delete"] = refusal
    if fails:
        with pytest.raises(StatusError):
            await node.step(pod(going=0, phase="Succeeded"))
    else:
        assert await node.step(pod(going=0, phase="Succeeded")) is None
    assert node.reports == [], "its end is reported already"


async def test_a_deleted_pod_stays_while_its_claims_are_held() -> None:
    node = Node()
    await node.step(pod())
    node.claims.held, node.claims.busy = True, "busy"
    assert await node.step({**node.pod, "metadata": pod(going=0)["metadata"]}) == timedelta(seconds=10)
    assert (node.reports[0]["phase"], node.deletions) == ("Running", [])
    assert await node.step() == timedelta(seconds=10)
    assert node.reports == []
    assert await node.step(pod(going=0, phase="Failed")) == timedelta(seconds=10)
    assert node.deletions == []
    node.claims.busy = ""
    assert await node.step(pod(going=0, phase="Failed")) is None
    assert len(node.deletions) == 1


async def test_a_pod_deleted_from_the_server_leaves_only_busy_claims() -> None:
    node = Node(FakeClaims(held=True, busy="busy"))
    await node.step(pod())
    node.kubelet._stopping.add("u")
    assert await node.kubelet.release(pod()) == timedelta(seconds=10)
    left = node.addresses._pool._address_of, node.kubelet._admission._info.pods, node.kubelet._stopping
    assert left == ({}, {}, set())
    node.claims.busy = ""
    assert await node.kubelet.release(pod()) is None
    node.claims.calls.clear()
    assert await node.kubelet.release(pod()) is None
    assert node.claims.calls == [], "nothing is held for it"
