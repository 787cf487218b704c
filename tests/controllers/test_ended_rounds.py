"""Which pods and Jobs go at one look because their time is over, or because nobody else will end them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.cleanup.pod_garbage_collector import PERIOD, PodGarbage
from controllers.cleanup.ttl_after_finished import TtlAfterFinished
from controllers.options.options import Options
from controllers.runtime.kinds import (
    JOBS,
    NODES,
    PODS,
)
from tests.support.recording import RecordingClient, make_informers
from tests.support.virtual import run

pytestmark = pytest.mark.integration

NOW, BEFORE = "2026-01-01T00:00:00Z", "2025-12-31T23:59:00Z"


def pod(name: str, phase: str = "Running", on: str = "n", made: str = NOW, going: bool = False, **status: Any) -> Json:
    gone = {"deletionTimestamp": NOW} if going else {}
    metadata = {"name": name, "namespace": "ns", "uid": f"u-{name}", "generation": 2, "creationTimestamp": made, **gone}
    return {"metadata": metadata, "spec": {"nodeName": on}, "status": {"phase": phase, **status}}


def node(ready: str = "True", *taints: str) -> Json:
    return {"metadata": {"name": "n", "uid": "n"}, "spec": {"taints": [{"key": key} for key in taints]},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}}  # fmt: skip


def collected(
    pods: list[Json], nodes: list[Json], threshold: int = 0, wait: float = 0, client: RecordingClient | None = None
) -> list[str]:
    informers = make_informers(PODS, *pods)
    make_informers(NODES, *nodes, informers=informers)
    client = client or RecordingClient()

    async def scenario() -> None:
        component = PodGarbage(client, informers, Options(terminated_pod_gc_threshold=threshold))  # type: ignore[arg-type]
        assert await component.reconcile("") == PERIOD
        if wait:
            await asyncio.sleep(wait)
            await component.reconcile("")

    run(scenario)
    return [what[0].removeprefix("ns/") for verb, _, what in client.writes if verb == "delete"]


def test_of_the_pods_that_ended_the_oldest_go_and_evicted_ones_first() -> None:
    ended = [pod("b", "Failed", made=BEFORE), pod("a", "Succeeded", made=BEFORE), pod("c", "Failed", reason="Evicted"),
             pod("d", "Succeeded")]  # fmt: skip
    going_on = [pod("x"), pod("y", "Pending"), pod("z", "Unknown")]
    for threshold, gone in ((1, ["c", "a", "b"]), (2, ["c", "a"]), (3, ["c"]), (4, []), (0, [])):
        assert collected([*ended, *going_on], [node()], threshold) == gone


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
def test_pods_that_go_on_a_node_out_of_service_go_at_once(found: Json, gone: bool) -> None:
    assert collected([pod("a", going=True), pod("b")], [found]) == (["a"] if gone else [])


def test_pods_that_go_and_have_no_node_go_at_once() -> None:
    assert collected([pod("a", on="", going=True), pod("b", on=""), pod("c", going=True)], [node()]) == ["a"]


def test_pods_of_a_node_that_stays_missing_fail_and_go() -> None:
    pods = [pod("a"), pod("b", "Succeeded"), pod("c", on="m")]
    other = {**node(), "metadata": {"name": "m", "uid": "m"}}
    assert collected(pods, [other]) == []
    assert collected(pods, [other], wait=39) == []
    client = RecordingClient()
    assert collected(pods, [other], wait=40, client=client) == ["a", "b"]
    [(name, body)] = [what for verb, _, what in client.writes if verb == "patch/status"]
    [condition] = body["status"]["conditions"]
    assert (name, body["metadata"], body["status"]["phase"], body["status"]["observedGeneration"]) == (
        "a", {"uid": "u-a"}, "Failed", 2,
    )  # fmt: skip
    assert (condition["type"], condition["reason"], condition["observedGeneration"]) == (
        "DisruptionTarget", "DeletionByPodGC", 2,
    )  # fmt: skip
    there = RecordingClient()
    there.there["Node", "n"] = node()
    assert collected(pods, [other], wait=40, client=there) == []
    unknown = RecordingClient()
    unknown.refuses["get"] = (500, "InternalError")
    assert collected(pods, [other], wait=40, client=unknown) == []


# --- Jobs that have ended


def job(condition: str = "Complete", ttl: int | None = 60, status: str = "True", **metadata: Any) -> Json:
    conditions = [{"type": condition, "status": status, "lastTransitionTime": BEFORE}]
    spec = {} if ttl is None else {"ttlSecondsAfterFinished": ttl}
    return {"metadata": {"name": "j", "namespace": "ns", "uid": "u", **metadata}, "spec": spec,
            "status": {"conditions": conditions}}  # fmt: skip


def ended(known: Json, fresh: Json | None, refuses: str = "") -> tuple[list[Any], timedelta | None]:
    client, found = RecordingClient(), []
    if fresh is not None:
        client.there["Job", "j"] = fresh
    if refuses:
        client.refuses["delete"] = (400, refuses)

    async def scenario() -> None:
        component = TtlAfterFinished(client, make_informers(JOBS, known), Options())  # type: ignore[arg-type]
        found.append(await component.reconcile("ns/j"))

    run(scenario)
    return [what for _, _, what in client.writes], found[0]


def test_a_job_goes_when_its_time_after_the_end_is_over() -> None:
    gone = [("ns/j", {"uid": "u", "propagation": "Foreground"})]
    for condition in ("Complete", "Failed"):
        assert ended(job(condition), job(condition)) == (gone, None)
    assert ended(job(ttl=0), job(ttl=0)) == (gone, None)
    assert ended(job(ttl=61), job()) == ([], timedelta(seconds=1))
    assert ended(job(), job(ttl=90)) == ([], timedelta(seconds=30))
    for stays in (job(ttl=None), job("Suspended"), job(status="False"), job(deletionTimestamp=NOW)):
        assert ended(stays, job()) == ([], None)
        assert ended(job(), stays) == ([], None)
    assert ended(job(), job(uid="another"))[0] == []
    assert ended(job(), None) == ([], None)
    for reason in ("NotFound", "Conflict"):
        ended(job(), job(), reason)
    with pytest.raises(StatusError):
        ended(job(), job(), "Forbidden")
