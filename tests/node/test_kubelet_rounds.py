"""One step of a kubelet for one pod, without a server: what it reports, when it looks again, what it holds and frees."""

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
from tests.support.recording import FakeRecorder, RecordingClient

pytestmark = pytest.mark.integration

NODE = {
    "metadata": {"name": "n", "labels": {}},
    "status": {"addresses": [{"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": "172.18.0.9"}],
               "allocatable": {"cpu": "1", "pods": "10"}},
}  # fmt: skip
SMALL = {**NODE, "status": {**NODE["status"], "allocatable": {"cpu": "0", "pods": "0"}}}  # type: ignore[dict-item]


def pod(
    *, annotations: Json | None = None, going: float | None = None, grace: int = 30, version: int = 0, **status: Any
) -> Json:
    """`going`: in so many seconds its grace is over."""
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n", **status.pop("spec", {})}
    metadata: Json = {"name": "p", "namespace": "ns", "uid": "u", "annotations": annotations or {}}
    if going is not None:
        metadata |= {"deletionTimestamp": at(going), "deletionGracePeriodSeconds": grace}
    if version:
        metadata["resourceVersion"] = str(version)
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


#: A pod that waits for drivers.
CLAIMING: Json = {"resourceClaims": [{"name": "x", "resourceClaimName": "c"}]}


def at(seconds: float) -> str:
    return go_time(clock.now() + timedelta(seconds=seconds))


class Claims:
    """`held`: they are prepared; `fails` and `busy` say why they cannot be prepared and released."""

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


class Node:
    """A kubelet, what it wrote and said. Reports become the pod that the next step sees."""

    def __init__(self, claims: Claims | None = None, jitter: float = 0, **how: Any) -> None:
        self.client, self.told, self.claims = (
            RecordingClient({"Pod": self._patched}),
            FakeRecorder(),
            claims or Claims(),
        )
        self.client.there["Node", "n"] = NODE
        self.addresses, self.pod = PodAddresses(), pod()
        timings = Timings(timedelta(seconds=60), timedelta(seconds=10))
        self.wrote: list[Json] = []
        #: What others write while a report is under way.
        self.meanwhile: Json = {}
        self.during: Callable[[Json], None] = lambda _: None
        host = Host(self.client, self.addresses, timings, lambda: jitter, self._wrote)  # type: ignore[arg-type]
        self.kubelet = Kubelet(host, self.claims, self.told, **how)  # type: ignore[arg-type]

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
        """The statuses that were written."""
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


async def test_a_report_that_comes_back_is_looked_at_once_something_else_has_changed_or_time_has_come() -> None:
    looks = 0

    def health(_: Json, statuses: Any) -> list[Json]:
        nonlocal looks
        looks += 1
        return [*statuses]

    async def looked(found: Json, on: Json = NODE) -> bool:
        before = looks
        await node.step(found, on)
        return looks > before

    node = Node(with_health=health)
    assert await looked(pod(version=1, annotations={"kubedra.dev/ready-after": "5s"}))
    assert not await looked(node.pod)
    await asyncio.sleep(5)
    assert await looked(node.pod)
    assert not await looked(node.pod)
    assert await looked(node.pod, {**NODE})
    for changed in (pod(version=9), pod(version=9, annotations={"a": "b"})):
        node = Node(with_health=health)
        assert await looked(pod(version=1))
        assert await looked(changed | {"status": node.pod["status"]})
    node = Node(with_health=health)
    assert await looked(pod(version=1))
    node.kubelet.invalidate(node.pod)
    assert await looked(node.pod)
    # What somebody else wrote while the report was under way is in its answer, and nobody has looked at it.
    for meanwhile in ({"spec": {"priority": 1}}, {"metadata": {"labels": {"a": "b"}}}, {"status": {"resize": "x"}}):
        node = Node(with_health=health)
        node.meanwhile = meanwhile
        assert await looked(pod(version=1))
        assert await looked(node.pod), meanwhile
    # So does what a driver said of a device meanwhile, which is in no answer.
    node = Node(with_health=health)
    node.during = node.kubelet.invalidate
    assert await looked(pod(version=1))
    node.during = lambda _: None
    assert await looked(node.pod)


async def test_a_new_pod_is_reported_as_begun_then_prepared_then_running() -> None:
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
    assert len(begun.reports) == 1, "that it began is said already"
    own = Node()
    await own.step(pod(spec={"hostNetwork": True}))
    [report] = own.reports
    assert (report["phase"], report["podIP"], report["hostIP"]) == ("Running", "172.18.0.9", "172.18.0.9")
    assert (report["startTime"], report["hostIPs"]) == (at(0), [{"ip": "172.18.0.9"}])
    extended = Node()
    await extended.step(pod(extendedResourceClaimStatus={"resourceClaimName": "c"}))
    processes = Node(containers=EmulatedContainers())
    await processes.step(pod())
    assert (len(extended.reports), len(processes.reports)) == (2, 2), "something lies between"


def test_a_node_without_an_address_is_on_this_machine() -> None:
    assert node_address({}) == node_address({"status": {"addresses": NODE["status"]["addresses"][:1]}}) == "127.0.0.1"  # type: ignore[index]


async def test_a_pod_whose_claims_cannot_be_prepared_is_looked_at_again() -> None:
    for jitter, seconds in ((0, 60), (1, 90)):
        node = Node(Claims(fails="no driver"), jitter)
        assert await node.step(pod(spec=CLAIMING)) == timedelta(seconds=seconds)
        assert node.told.events == [
            ("Warning", "FailedPrepareDynamicResources", "Failed to prepare dynamic resources: no driver"),
        ]  # fmt: skip
        assert len(node.reports) == 1
        assert node.addresses._pool._address_of == {}


async def test_a_pod_that_the_node_does_not_take_is_rejected_as_the_node_is_now() -> None:
    node = Node()
    node.client.there["Node", "n"] = SMALL
    assert await node.step(pod(), SMALL) is None
    [report] = node.reports
    assert (report["phase"], report["reason"]) == ("Failed", "OutOfpods")
    assert node.told.events == [("Warning", "OutOfpods", report["message"].removeprefix("Pod was rejected: "))]
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
        assert "OutOfpods" not in taken.told.reasons, "one that has begun is not asked again"


async def test_a_pod_that_has_ended_needs_no_address_and_no_room() -> None:
    node = Node()
    await node.step(pod())
    assert node.addresses._pool._address_of
    assert "u" in node.kubelet._admission._info.pods
    assert await node.step({**node.pod, "status": {**node.pod["status"], "phase": "Succeeded"}}) is None
    assert (node.reports, node.addresses._pool._address_of, node.kubelet._admission._info.pods) == ([], {}, {})


async def test_what_turns_is_reported_and_what_does_not_is_not() -> None:
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


async def test_a_pod_whose_time_is_over_fails_and_one_that_has_some_left_is_looked_at_then() -> None:
    node = Node()
    short = {"activeDeadlineSeconds": 30}
    assert await node.step(pod(spec=short)) == timedelta(seconds=30), "it begins now"
    assert await node.step() == timedelta(seconds=30)
    ends = {"kubedra.dev/ready-after": "10"}
    other = Node()
    await other.step(pod(spec=short, annotations=ends))
    assert await other.step() == timedelta(seconds=10)
    await asyncio.sleep(30)
    node.told.events.clear()
    assert await node.step() is None
    [report] = node.reports
    assert (report["phase"], report["reason"]) == ("Failed", "DeadlineExceeded")
    assert [each["state"]["terminated"]["exitCode"] for each in report["containerStatuses"]] == [137]
    said = "Pod was active on the node longer than the specified deadline"
    assert node.told.events == [("Normal", "DeadlineExceeded", said)]


async def test_a_pod_that_ends_gives_its_claims_back_before_that_is_said() -> None:
    over = {"kubedra.dev/exit-after": "0"}
    node = Node(Claims(held=True))
    await node.step(pod(annotations=over, spec={"restartPolicy": "Never"}))
    await node.step()
    assert (node.pod["status"]["phase"], node.claims.calls[-1]) == ("Succeeded", "unprepare")
    stuck = Node(Claims(held=True, busy="busy"), 1)
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


async def test_a_pod_that_is_deleted_goes_once_its_containers_have_stopped() -> None:
    node = Node()
    await node.step(pod(annotations={"kubedra.dev/stop-after": "3"}))
    going = pod(annotations={"kubedra.dev/stop-after": "3"}, going=30, **node.pod["status"])
    node.told.events.clear()
    assert await node.step(going) == timedelta(seconds=3)
    await asyncio.sleep(1)
    assert await node.step() == timedelta(seconds=2)
    assert node.told.events == [("Normal", "Killing", "Stopping container c")], "once"
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
def test_a_hook_that_sleeps_goes_before_the_end_and_counts_to_the_grace(
    pause: int, grace: int, takes: int, after: int, code: int
) -> None:
    found = pod(annotations={"kubedra.dev/stop-after": str(takes)})
    found["spec"]["containers"][0]["lifecycle"] = {"preStop": {"sleep": {"seconds": pause}}}
    asked = parse_time(at(0))
    deadline = asked + timedelta(seconds=grace)
    end = EMULATED.stop(found, {"name": "c"}, asked, deadline)
    assert end == ContainerExit(asked + timedelta(seconds=after), code)


async def test_containers_that_do_not_stop_are_killed_when_the_grace_is_over() -> None:
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
async def test_a_pod_that_is_gone_or_another_one_is_not_deleted(refusal: tuple[int, str], fails: bool) -> None:
    node = Node()
    node.client.refuses["delete"] = refusal
    if fails:
        with pytest.raises(StatusError):
            await node.step(pod(going=0, phase="Succeeded"))
    else:
        assert await node.step(pod(going=0, phase="Succeeded")) is None
    assert node.reports == [], "how it ended is said already"


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


async def test_a_pod_that_is_gone_from_the_server_leaves_nothing_but_claims_that_are_busy() -> None:
    node = Node(Claims(held=True, busy="busy"))
    await node.step(pod())
    node.kubelet._stopping.add("u")
    assert await node.kubelet.release(pod()) == timedelta(seconds=10)
    assert (node.addresses._pool._address_of, node.kubelet._admission._info.pods, node.kubelet._stopping) == (
        {},
        {},
        set(),
    )
    node.claims.busy = ""
    assert await node.kubelet.release(pod()) is None
    node.claims.calls.clear()
    assert await node.kubelet.release(pod()) is None
    assert node.claims.calls == [], "nothing is held for it"
