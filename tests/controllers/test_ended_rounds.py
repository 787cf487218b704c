"""The pods and Jobs that one pass deletes because their time is over, or because nothing else will end them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.cleanup.pod_garbage_collector import PERIOD, PodGarbage
from controllers.cleanup.ttl_after_finished import TtlAfterFinished
from tests.support.objects import make_metadata, make_node, make_pod
from tests.support.recording import RecordingClient, build

pytestmark = pytest.mark.integration

NOW, BEFORE = "2026-01-01T00:00:00Z", "2025-12-31T23:59:00Z"


def pod(name: str, phase: str = "Running", node: str = "n", created: str = NOW, **more: Any) -> Json:
    """Build a pod. `more`: `deleted`, and fields of the status."""
    deleted = more.pop("deleted", "")
    made = make_pod(name, uid=f"u-{name}", node=node, created=created, deleted=deleted, status={"phase": phase, **more})
    made["metadata"]["generation"] = 2
    return made


def node(ready: str = "True", *taints: str, name: str = "n") -> Json:
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    return {**make_node(name, taints=[{"key": key} for key in taints]), "status": status}


async def collect(*objects: Json, threshold: int = 0, wait: float = 0, **more: Any) -> RecordingClient:
    """Collect garbage once, or twice with a pause."""
    client = build(PodGarbage, RecordingClient(), *objects, terminated_pod_gc_threshold=threshold, **more)
    assert (await client.reconcile("")).requeue_after == PERIOD
    if wait:
        await asyncio.sleep(wait)
        await client.reconcile("")
    return client


def deleted(client: RecordingClient) -> list[str]:
    return [name.removeprefix("ns/") for name, _ in client.bodies("delete")]


async def test_of_the_pods_that_ended_the_oldest_go_and_evicted_ones_first() -> None:
    ended = [pod("b", "Failed", created=BEFORE), pod("a", "Succeeded", created=BEFORE), pod("c", "Failed", reason="Evicted"),
             pod("d", "Succeeded")]  # fmt: skip
    running = [pod("x"), pod("y", "Pending"), pod("z", "Unknown")]
    for threshold, gone in ((1, ["c", "a", "b"]), (2, ["c", "a"]), (3, ["c"]), (4, []), (0, [])):
        assert deleted(await collect(*ended, *running, node(), threshold=threshold)) == gone


@pytest.mark.parametrize(
    ("found", "gone"),
    [
        (node("False", "node.kubernetes.io/out-of-service"), True),
        (node("Unknown", "node.kubernetes.io/out-of-service"), True),
        (node("True", "node.kubernetes.io/out-of-service"), False),
        (node("False", "other"), False),
        (node("False"), False),
    ],
)
async def test_deleted_pods_on_a_node_out_of_service_go_immediately(found: Json, gone: bool) -> None:
    assert deleted(await collect(pod("a", deleted=NOW), pod("b"), found)) == (["a"] if gone else [])


async def test_deleted_pods_without_a_node_go_immediately() -> None:
    pods = pod("a", node="", deleted=NOW), pod("b", node=""), pod("c", deleted=NOW)
    assert (await collect(*pods, node())).bodies("delete") == [("ns/a", {"grace_period": 0})]


async def test_pods_of_a_node_that_stays_missing_fail_and_go() -> None:
    objects = pod("a"), pod("b", "Succeeded"), pod("c", node="m"), node(name="m")
    for wait, more in ((0, {}), (39, {}), (40, {"live": [node()]}), (40, {"refuses": {"get": (500, "InternalError")}})):
        assert deleted(await collect(*objects, wait=wait, **more)) == []
    client = await collect(*objects, wait=40)
    assert deleted(client) == ["a", "b"]
    [(name, body)] = client.bodies("patch/status")
    [condition] = body["status"]["conditions"]
    assert (name, body["metadata"], body["status"]["phase"], body["status"]["observedGeneration"]) == (
        "a", {"uid": "u-a"}, "Failed", 2,
    )  # fmt: skip
    assert (condition["type"], condition["reason"], condition["observedGeneration"]) == (
        "DisruptionTarget", "DeletionByPodGC", 2,
    )  # fmt: skip


# --- Jobs that have ended


def job(condition: str = "Complete", ttl: int | None = 60, status: str = "True", **metadata: Any) -> Json:
    conditions = [{"type": condition, "status": status, "lastTransitionTime": BEFORE}]
    spec = {} if ttl is None else {"ttlSecondsAfterFinished": ttl}
    metadata = make_metadata("j", "ns", **{"uid": "u", **metadata})
    return {"kind": "Job", "metadata": metadata, "spec": spec, "status": {"conditions": conditions}}


async def end(known: Json, fresh: Json | None, **refuses: tuple[int, str]) -> RecordingClient:
    """Reconcile a Job that the server has in another version, or no more."""
    client = build(TtlAfterFinished, RecordingClient(), known, refuses=refuses)
    client.there = {} if fresh is None else {("Job", "j"): fresh}
    return await client.reconcile("ns/j")


async def test_a_job_goes_when_its_time_after_the_end_is_over() -> None:
    gone = [("ns/j", {"uid": "u", "propagation": "Foreground"})]
    stay = job(ttl=None), job("Suspended"), job(status="False"), job(deletionTimestamp=NOW)
    for known, fresh, deletions, seconds in (
        *((job(condition), job(condition), gone, None) for condition in ("Complete", "Failed")),
        (job(ttl=0), job(ttl=0), gone, None),
        (job(ttl=61), job(), [], 1),
        (job(), job(ttl=90), [], 30),
        *((each, job(), [], None) for each in stay),
        *((job(), each, [], None) for each in stay),
        (job(), job(uid="another"), [], 0),
        (job(), None, [], None),
    ):
        client = await end(known, fresh)
        after = None if seconds is None else timedelta(seconds=seconds)
        assert (client.bodies("delete"), client.requeue_after, client.error) == (deletions, after, None)
    for reason, fails in (("NotFound", False), ("Conflict", False), ("Forbidden", True)):
        assert ((await end(job(), job(), delete=(400, reason))).error is not None) is fails
