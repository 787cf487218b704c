"""The health of nodes, the taints that follow from it, and evictions for taints: without a server."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.nodelifecycle.controller import NodeLifecycle
from controllers.nodelifecycle.health import (
    FULL,
    NORMAL,
    PARTIAL,
    Health,
    Limiter,
    silent_conditions,
    zone_of,
    zone_state,
)
from controllers.nodelifecycle.taint_eviction import TaintEviction, _toleration_time
from controllers.nodelifecycle.taints import has_taint, required_taints, swap_taints
from tests.support.objects import make_metadata, make_pod
from tests.support.recording import RecordingClient, build

pytestmark = pytest.mark.integration

START = datetime(2026, 1, 1, tzinfo=UTC)
NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z"


def node(
    ready: str | None = None, heartbeat: str = NOW, *taints: Json, labels: Json | None = None, **conditions: str
) -> Json:
    """Build the node `n` with these conditions."""
    found = [{"type": kind, "status": status} for kind, status in conditions.items()]
    if ready is not None:
        found.insert(0, {"type": "Ready", "status": ready, "lastHeartbeatTime": heartbeat})
    metadata = {
        **make_metadata("n", creationTimestamp="2025-12-31T23:00:00Z"),
        "resourceVersion": "7",
        "labels": labels or {},
    }
    return {"kind": "Node", "metadata": metadata, "spec": {"taints": list(taints)}, "status": {"conditions": found}}


def lease(renewed: str | None) -> Json:
    return {"spec": {"renewTime": renewed}}


# --- whether a node is heard of


def test_a_node_counts_from_when_it_was_first_seen_or_made() -> None:
    assert Health.of(node("True"), START).last_seen == START
    assert Health.of(node(), START).last_seen == datetime(2025, 12, 31, 23, tzinfo=UTC)


@pytest.mark.parametrize(
    ("before", "after", "heard"),
    [
        (node("True"), node("True"), False),
        (node("True"), node("False"), False),
        (node("True"), node("True", LATER), True),
        (node(), node("True"), True),
        (node("True"), node(), True),
        (node(), node(), False),
    ],
)
def test_a_node_is_heard_of_when_its_heartbeat_changes(before: Json, after: Json, heard: bool) -> None:
    health, later = Health.of(before, START), START + timedelta(minutes=1)
    was = health.last_seen
    health.update(after, None, later)
    assert health.last_seen == (later if heard else was)


def test_a_node_is_heard_of_when_its_lease_is_renewed() -> None:
    health = Health.of(node("True"), START)
    for number, (renewed, heard) in enumerate(
        ((None, False), (LATER, True), (LATER, False), (NOW, False), ("2026-01-01T00:01:00.5Z", True))
    ):
        moment = START + timedelta(minutes=number + 1)
        was = health.last_seen
        health.update(node("True"), lease(renewed), moment)
        assert health.last_seen == (moment if heard else was)
    health.update(node("True"), {}, START)
    assert health.last_seen == START + timedelta(minutes=5)


def test_all_that_a_silent_node_reported_is_unknown() -> None:
    known = node("True", NOW, MemoryPressure="Unknown", DiskPressure="False", Other="True")
    found = {each["type"]: each for each in silent_conditions(known, START + timedelta(seconds=9))}
    assert {kind: each["status"] for kind, each in found.items()} == {
        "Ready": "Unknown", "MemoryPressure": "Unknown", "DiskPressure": "Unknown", "PIDPressure": "Unknown", "Other": "True",
    }  # fmt: skip
    assert found["Ready"] == {
        "type": "Ready", "status": "Unknown", "lastHeartbeatTime": NOW, "lastTransitionTime": LATER,
        "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status.",
    }  # fmt: skip
    assert found["PIDPressure"]["reason"] == "NodeStatusNeverUpdated"
    assert found["PIDPressure"]["message"] == "Kubelet never posted node status."
    assert found["PIDPressure"]["lastHeartbeatTime"] == "2025-12-31T23:00:00Z"
    assert "reason" not in found["MemoryPressure"]


@pytest.mark.parametrize(
    ("labels", "zone"),
    [
        ({}, ""),
        ({"topology.kubernetes.io/zone": "z"}, ":\x00:z"),
        ({"topology.kubernetes.io/region": "r"}, "r:\x00:"),
        ({"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": "z"}, "r:\x00:z"),
        ({"failure-domain.beta.kubernetes.io/zone": "old", "topology.kubernetes.io/zone": "z"}, ":\x00:old"),
    ],
)
def test_a_zone_is_region_and_zone(labels: Json, zone: str) -> None:
    assert zone_of(node(labels=labels)) == zone


@pytest.mark.parametrize(
    ("ready", "missing", "state"),
    [
        (0, 0, NORMAL), (1, 0, NORMAL), (0, 1, FULL), (0, 9, FULL), (1, 2, NORMAL), (2, 3, PARTIAL), (3, 3, NORMAL),
        (4, 5, PARTIAL), (9, 2, NORMAL), (9, 11, PARTIAL),
    ],
)  # fmt: skip
def test_a_zone_is_disrupted_when_many_of_its_nodes_are_missing(ready: int, missing: int, state: str) -> None:
    assert zone_state([True] * ready + [False] * missing, 0.55) == state
    if (ready, missing) == (9, 11):
        assert zone_state([True] * 9 + [False] * 11, 0.56) == NORMAL


def test_so_many_pass_in_a_second() -> None:
    limiter = Limiter(0.5)
    assert limiter.wait(START) == timedelta()
    limiter.record(START)
    assert limiter.wait(START) == timedelta(seconds=2)
    assert limiter.wait(START + timedelta(seconds=1)) == timedelta(seconds=1)
    assert limiter.wait(START + timedelta(seconds=9)) == timedelta()
    assert Limiter(0).wait(START) is None


# --- taints


def taint(key: str, effect: str = "NoSchedule", **more: Any) -> Json:
    return {"key": key, "effect": effect, **more}


READY, SILENT = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


@pytest.mark.parametrize(
    ("found", "keys"),
    [
        (node("True"), set()),
        (node("False"), {READY}),
        (node("Unknown"), {SILENT}),
        (node("True", MemoryPressure="True", DiskPressure="False"), {"node.kubernetes.io/memory-pressure"}),
        (
            node("True", DiskPressure="True", PIDPressure="True"),
            {"node.kubernetes.io/disk-pressure", "node.kubernetes.io/pid-pressure"},
        ),
        (node("True", NetworkUnavailable="True", MemoryPressure="Unknown"), {"node.kubernetes.io/network-unavailable"}),
        (node(None, NOW, taint(READY), taint("other")), set()),
        (node("True", NOW, taint(READY)), set()),
        ({**node("True"), "spec": {"unschedulable": True}}, {"node.kubernetes.io/unschedulable"}),
    ],
)
def test_taints_follow_the_conditions_of_a_node(found: Json, keys: set[str]) -> None:
    assert required_taints(found) == keys


async def test_taints_of_one_effect_are_exchanged_and_others_stay() -> None:
    client = RecordingClient()
    found = node("True", NOW, taint("a"), taint("a", "NoExecute"), taint("mine"))
    await swap_taints(client, found, {"c", "b"}, {"a"}, "NoSchedule")  # type: ignore[arg-type]
    [(verb, _, (name, body))] = client.writes
    assert (verb, name, body["metadata"]) == ("patch", "n", {"resourceVersion": "7"})
    assert body["spec"]["taints"] == [
        taint("a", "NoExecute"), taint("mine"), taint("b", timeAdded=NOW), taint("c", timeAdded=NOW),
    ]  # fmt: skip
    await swap_taints(client, found, (), (), "NoSchedule")  # type: ignore[arg-type]
    assert len(client.writes) == 1
    await swap_taints(client, node("True", NOW, taint("a")), (), {"a"}, "NoSchedule")  # type: ignore[arg-type]
    assert client.writes[-1][2][1]["spec"]["taints"] is None
    assert has_taint(node("True", NOW, taint("a")), "a", "NoSchedule")
    assert not has_taint(node("True", NOW, taint("a")), "a", "NoExecute")
    assert not has_taint({}, "a", "NoSchedule")


def lifecycle(*objects: Json, **more: Any) -> RecordingClient:
    return build(NodeLifecycle, RecordingClient(), *objects, **more)


async def test_a_node_gets_its_taints_and_the_deprecated_labels() -> None:
    labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64", "beta.kubernetes.io/arch": "arm64"}
    tainted = node("False", NOW, taint(SILENT), taint(READY, "NoExecute"), taint("mine"), labels=labels)
    client = lifecycle(tainted)
    await client.reconcile("n")
    await client.reconcile("another")
    (_, _, (_, taints)), (_, _, (_, patch)) = client.writes
    assert [(each["key"], each["effect"]) for each in taints["spec"]["taints"]] == [
        (READY, "NoExecute"), ("mine", "NoSchedule"), (READY, "NoSchedule"),
    ]  # fmt: skip
    assert patch == {"metadata": {"labels": {"beta.kubernetes.io/os": "linux"}}}
    assert (await lifecycle(node("True")).reconcile("n")).writes == []
    for refusal, fails in (((404, "NotFound"), False), ((409, "Conflict"), True)):
        client = await lifecycle(tainted, refuses={"patch": refusal}).reconcile("n")
        assert (client.error is not None) is fails


def pod(ready: str | None = "True", **spec: Any) -> Json:
    """Build a pod on the node `n`."""
    conditions = [{"type": "Ready", "status": ready}, {"type": "Other", "status": "True"}] if ready else []
    made = make_pod("p", **{"uid": "u", "node": "n", "status": {"phase": "Running", "conditions": conditions}, **spec})
    made["metadata"]["generation"] = 3
    return made


async def test_a_pod_on_a_node_that_is_not_ready_is_not_ready() -> None:
    async def set_unready(*objects: Json, **more: Any) -> RecordingClient:
        client = lifecycle(*objects, **more)
        return await client.run(client.component.set_unready("ns/p"))

    [(verb, _, written)] = (await set_unready(node("False"), pod())).writes
    ready, other = written["status"]["conditions"]
    assert (verb, ready["status"], other) == ("update/status", "False", {"type": "Other", "status": "True"})
    assert ready["lastTransitionTime"]
    for found, each in (
        (node("True"), pod()), (node(), pod()), (node("False"), pod("False")), (node("False"), pod(None)),
        (node("False"), pod(node="another")), (node("False"), pod(node="")),
    ):  # fmt: skip
        assert (await set_unready(found, each)).writes == []
    for refusal, fails in (((404, "NotFound"), False), ((409, "Conflict"), True)):
        client = await set_unready(node("Unknown"), pod(), refuses={"update/status": refusal})
        assert (client.error is not None) is fails


# --- evictions


def tolerates(key: str, seconds: int | None = None, **more: Any) -> Json:
    given = {} if seconds is None else {"tolerationSeconds": seconds}
    return {"key": key, "operator": "Exists", "effect": "NoExecute", **given, **more}


@pytest.mark.parametrize(
    ("taints", "tolerations", "seconds"),
    [
        ("", [], None),
        ("a", [], 0),
        ("a", [tolerates("a")], None),
        ("a", [tolerates("a", 5)], 5),
        ("a", [tolerates("a", 0)], 0),
        ("a", [tolerates("a", -5)], 0),
        ("ab", [tolerates("a", 5)], 0),
        ("ab", [tolerates("a", 5), tolerates("b", 3)], 3),
        ("ab", [tolerates("a", 5), tolerates("b")], 5),
        ("a", [tolerates("a", 9), tolerates("a", 3)], 9),
        ("a", [tolerates("b")], 0),
    ],
)
def test_a_pod_stays_as_long_as_it_tolerates_all_taints(
    taints: str, tolerations: list[Json], seconds: int | None
) -> None:
    found = _toleration_time([taint(key, "NoExecute") for key in taints], tolerations, False)
    assert found == (None if seconds is None else timedelta(seconds=seconds))


class EvictionClient(RecordingClient):
    """The client of the component over one pod and its node, both of which may change."""

    def __init__(self, **refuses: tuple[int, str]) -> None:
        super().__init__()
        build(TaintEviction, self, refuses=refuses)

    async def evict(self, found: Json | None, *taints: str) -> timedelta | None:
        """Reconcile the pod, or its removal, on a node with these taints."""
        self.set_objects(node("True", NOW, *(taint(key, "NoExecute") for key in taints), taint("x")))
        if found is None:
            self.remove_objects(pod())
        else:
            self.set_objects(found).serve(found)
        return (await self.reconcile("ns/p")).requeue_after


PATIENT = pod(tolerations=[tolerates("a", 60)])


async def test_a_pod_is_marked_and_deleted_once_when_its_time_is_over() -> None:
    client = EvictionClient()
    assert await client.evict(PATIENT) is None
    assert await client.evict(PATIENT, "a") == timedelta(seconds=60)
    await asyncio.sleep(20)
    assert await client.evict(PATIENT, "a") == timedelta(seconds=40)
    await asyncio.sleep(40)
    assert await client.evict(PATIENT, "a") is None
    (verb, _, (_, body)), (last, _, (name, more)) = client.writes
    assert (verb, last, name, more["uid"]) == ("patch/status", "delete", "ns/p", "u")
    [condition] = [each for each in body["status"]["conditions"] if each["type"] == "DisruptionTarget"]
    assert condition["observedGeneration"] == 3
    assert condition["reason"] == "DeletionByTaintManager"
    assert body["metadata"] == {"uid": "u"}
    await client.evict(PATIENT, "a", "b")
    assert len(client.writes) == 2
    assert [message for _, _, message in client.events] == ["Marking for deletion Pod ns/p"]
    await client.evict(None)
    again = {**PATIENT, "metadata": {**PATIENT["metadata"], "uid": "v"}}
    assert await client.evict(again, "a") == timedelta(seconds=60)


async def test_an_eviction_is_cancelled_when_no_taint_requires_it_any_more() -> None:
    client = EvictionClient()
    await client.evict(PATIENT, "a")
    await client.evict(PATIENT)
    assert [message for _, _, message in client.events] == ["Cancelling deletion of Pod ns/p"]
    await client.evict(PATIENT)
    assert len(client.events) == 1
    await client.evict(PATIENT, "a")
    await client.evict(None)
    assert len(client.events) == 2
    await client.evict(PATIENT, "a")
    assert await client.evict(PATIENT, "a", "b") is None
    assert "delete" in client.verbs


@pytest.mark.parametrize(("refused", "fails"), [((404, "NotFound"), False), ((500, "InternalError"), True)])
async def test_a_pod_that_is_gone_needs_no_eviction(refused: tuple[int, str], fails: bool) -> None:
    client = EvictionClient(delete=refused)
    await client.evict(pod(), "a")
    assert (client.error is not None) is fails
    client.writes.clear()
    client.refuses.clear()
    await client.evict(pod(), "a")
    assert ("delete" in client.verbs) is fails
