"""Jobs run their pods to the end and count each once. The server is real, time is virtual, and the tests end the pods."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.runtime.informer import Informer
from controllers.runtime.kinds import JOBS, PODS
from controllers.workloads.common.pod_control import PodControl
from tests.controllers.jobobjects import (
    COMPONENT,
    FINALIZER,
    a_job,
    conditions,
    end,
    numbers,
    reasons,
    set_phase,
    the_job,
    the_pods,
)
from tests.scheduler.world import World
from tests.support.virtual import passes

pytestmark = pytest.mark.integration


async def test_as_many_pods_as_may_run_at_once_until_enough_have_succeeded() -> None:
    async with World(COMPONENT) as world:
        await world.create(JOBS, a_job(completions=3, parallelism=2))
        assert numbers(await the_job(world)) == (2, 0, 0)
        await end(world, "Succeeded", 2)
        job = await the_job(world)
        assert (numbers(job), job["status"]["uncountedTerminatedPods"]) == ((1, 2, 0), {})
        await end(world, "Succeeded")
        job = await the_job(world)
        assert conditions(job) == [
            ("SuccessCriteriaMet", "True", "CompletionsReached"), ("Complete", "True", "CompletionsReached"),
        ]  # fmt: skip
        assert (numbers(job), job["status"]["ready"], job["status"]["terminating"]) == ((0, 3, 0), 0, 0)
        assert job["status"]["completionTime"] >= job["status"]["startTime"]
        assert await the_pods(world) == []
        assert {"SuccessfulCreate", "Completed"} == await reasons(world)


async def test_every_pod_counts_once_although_what_happens_to_pods_is_seen_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    apply_all, create_pod = Informer._apply_all, PodControl.create_pod

    async def late(informer: Informer, batch: list[Any]) -> None:
        if informer.kind == PODS:
            await asyncio.sleep(0.25)
        await apply_all(informer, batch)

    async def slow(control: PodControl, owner: Json, pod: Json) -> Json:
        await asyncio.sleep(0.2)
        return await create_pod(control, owner, pod)

    monkeypatch.setattr(Informer, "_apply_all", late)
    monkeypatch.setattr(PodControl, "create_pod", slow)

    async with World(COMPONENT) as world:
        await world.create(JOBS, a_job(completions=12, parallelism=4))

        async def succeed() -> None:
            async with aclosing(world.client.watch(PODS, "ns")) as batches:
                async for batch in batches:
                    for number, event in enumerate(batch):
                        if event.type == "ADDED":
                            await asyncio.sleep(0.05 * number)
                            await set_phase(world, event.object, "Succeeded")

        ending = asyncio.create_task(succeed())
        job = await world.until(JOBS, "ns/j", lambda job: job["status"].get("completionTime"))
        ending.cancel()
        assert numbers(job) == (0, 12, 0)
        assert len(await the_pods(world, counted=True)) == 12


async def test_failed_pods_are_replaced_later_and_later_until_the_limit() -> None:
    async with World(COMPONENT) as world:
        await world.create(JOBS, a_job(backoffLimit=2))
        for wait in (10, 20):
            await end(world, "Failed")
            await passes(wait - 3)
            assert await the_pods(world) == []
            await passes(4)
            assert len(await the_pods(world)) == 1
        await end(world, "Failed")
        job = await the_job(world)
        assert conditions(job) == [
            ("FailureTarget", "True", "BackoffLimitExceeded"), ("Failed", "True", "BackoffLimitExceeded"),
        ]  # fmt: skip
        assert numbers(job) == (0, 0, 3)
        assert "BackoffLimitExceeded" in await reasons(world)


async def test_a_suspended_job_has_no_pods_and_restarts() -> None:
    async with World(COMPONENT) as world:
        await world.create(JOBS, a_job(suspend=True))
        job = await the_job(world)
        assert (conditions(job), numbers(job)) == ([("Suspended", "True", "JobSuspended")], (0, 0, 0))
        assert "startTime" not in job["status"]
        for suspend, active in ((False, 1), (True, 0)):
            await world.client.patch(JOBS, "j", {"spec": {"suspend": suspend}}, "ns")
            job = await the_job(world)
            assert (numbers(job), "startTime" in job["status"]) == ((active, 0, 0), not suspend)
        assert await the_pods(world, counted=True) == []
        assert {"Suspended", "Resumed"} <= await reasons(world)


@pytest.mark.parametrize(
    ("action", "code", "failed", "ended"),
    [
        ("FailJob", 42, 1, "PodFailurePolicy"),
        ("Ignore", 42, 0, ""),
        ("Count", 42, 1, "BackoffLimitExceeded"),
        ("Ignore", 1, 1, "BackoffLimitExceeded"),
    ],
)
async def test_a_failure_policy_decides_the_action_for_a_failure(
    action: str, code: int, failed: int, ended: str
) -> None:
    async with World(COMPONENT) as world:
        rule = {"action": action, "onExitCodes": {"operator": "In", "values": [42]}}
        limit = 3 if action == "FailJob" else 0
        await world.create(JOBS, a_job(podFailurePolicy={"rules": [rule]}, backoffLimit=limit))
        (pod,) = await the_pods(world)
        await set_phase(world, pod, "Failed", code)
        job = await the_job(world)
        assert numbers(job)[2] == failed
        assert {reason for _, _, reason in conditions(job)} == ({ended} if ended else set())
        if action == "FailJob":
            name = pod["metadata"]["name"]
            text = f"Container c for pod ns/{name} failed with exit code 42 matching FailJob rule at index 0"
            assert job["status"]["conditions"][-1]["message"] == text


@pytest.mark.parametrize("policy", ["TerminatingOrFailed", "Failed"])
async def test_a_pod_that_is_going_is_replaced_at_once_or_when_it_has_gone(policy: str) -> None:
    async with World(COMPONENT) as world:
        await world.create(JOBS, a_job(podReplacementPolicy=policy))
        (pod,) = await the_pods(world)
        await world.client.bind("ns", pod["metadata"]["name"], pod["metadata"]["uid"], "n1")
        await set_phase(world, pod, "Running")
        await world.client.delete(PODS, pod["metadata"]["name"], "ns")
        job = await the_job(world)
        waits = policy == "Failed"
        assert (job["status"]["terminating"], numbers(job)) == (1, (0, 0, 0 if waits else 1))
        await passes(12)
        assert numbers(await the_job(world)) == ((0, 0, 0) if waits else (1, 0, 1))
        await set_phase(world, pod, "Failed", 137)
        await passes(12)
        assert numbers(await the_job(world)) == (1, 0, 1)


async def test_pods_that_no_job_counts_are_let_go() -> None:
    async with World(COMPONENT) as world:
        await world.create(JOBS, a_job(parallelism=2, completions=2))
        one, other = await the_pods(world)
        await set_phase(world, one, "Running")
        await world.client.patch(PODS, one["metadata"]["name"], {"metadata": {"labels": None}}, "ns", type="merge")
        await passes(1)
        assert [pod["metadata"]["name"] for pod in await the_pods(world)].count(one["metadata"]["name"]) == 0
        await world.client.delete(JOBS, "j", "ns", propagation="Orphan")
        await passes(1)
        left = [pod for pod in await the_pods(world, counted=True) if pod["metadata"].get("finalizers")]
        assert left == [] or all(FINALIZER not in pod["metadata"]["finalizers"] for pod in left)
        assert other is not None


async def test_pods_that_fail_together_are_counted_together_although_one_is_seen_first() -> None:
    async with World(COMPONENT) as world:
        await world.create(JOBS, a_job(parallelism=3, completions=3, backoffLimit=0))
        await passes(1)
        for pod in await the_pods(world):
            await set_phase(world, pod, "Failed", 1)
            await passes(0.3)
        job = await the_job(world)
        assert (numbers(job), conditions(job)[-1][0]) == ((0, 0, 3), "Failed")
        assert "SuccessfulDelete" not in await reasons(world)
