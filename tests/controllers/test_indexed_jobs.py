"""Indexed Jobs: succeeded and failed indexes, and success policies."""

from __future__ import annotations

import pytest

from apiserver.api.objects import Json
from controllers.runtime.kinds import JOBS
from controllers.workloads.jobs.indexes import first_pending, format_indexes, parse_indexes
from tests.controllers.jobobjects import COMPONENT, a_job, conditions, end, index, numbers, set_phase, the_job, the_pods
from tests.scheduler.world import World
from tests.support.virtual import passes

pytestmark = pytest.mark.integration


async def test_indexed_pods_have_an_index_each_and_the_job_lists_those_that_succeeded() -> None:
    async with World(COMPONENT) as world:
        await world.create(JOBS, a_job(completions=4, parallelism=4, completionMode="Indexed"))
        pods = await the_pods(world)
        assert [index(pod) for pod in pods] == [0, 1, 2, 3]
        assert [pod["spec"]["hostname"] for pod in pods] == ["j-0", "j-1", "j-2", "j-3"]
        assert pods[2]["metadata"]["name"].startswith("j-2-")
        assert pods[2]["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"
        for pod in (pods[0], pods[1], pods[3]):
            await set_phase(world, pod, "Succeeded")
        job = await the_job(world)
        assert (job["status"]["completedIndexes"], numbers(job)) == ("0,1,3", (1, 3, 0))
        # An elastic Job: fewer indexes than there were.
        await world.client.patch(JOBS, "j", {"spec": {"completions": 2, "parallelism": 2}}, "ns")
        job = await the_job(world)
        assert (job["status"]["completedIndexes"], conditions(job)[-1][0]) == ("0,1", "Complete")


async def test_an_index_that_failed_too_often_fails_alone() -> None:
    async with World(COMPONENT) as world:
        spec: Json = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1}
        await world.create(JOBS, a_job(**spec))
        await end(world, "Failed")
        await passes(12)
        first, second = sorted((p for p in await the_pods(world) if p["status"]["phase"] == "Pending"), key=index)
        assert first["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] == "1"
        await set_phase(world, first, "Failed", 1)
        job = await the_job(world)
        assert (job["status"]["failedIndexes"], conditions(job)) == ("0", [])
        await set_phase(world, second, "Succeeded")
        job = await the_job(world)
        assert (job["status"]["completedIndexes"], conditions(job)[-1]) == (
            "1",
            ("Failed", "True", "FailedIndexes"),
        )


async def test_a_success_policy_ends_the_job_before_all_have_succeeded() -> None:
    async with World(COMPONENT) as world:
        rules = [{"succeededIndexes": "2"}, {"succeededIndexes": "0-1", "succeededCount": 1}]
        policy: Json = {"successPolicy": {"rules": rules}, "completionMode": "Indexed"}
        await world.create(JOBS, a_job(completions=3, parallelism=3, **policy))
        await end(world, "Succeeded")
        job = await the_job(world)
        assert conditions(job) == [
            ("SuccessCriteriaMet", "True", "SuccessPolicy"),
            ("Complete", "True", "SuccessPolicy"),
        ]
        assert job["status"]["conditions"][0]["message"] == "Matched rules at index 1"
        assert numbers(job) == (0, 1, 0)


@pytest.mark.parametrize(
    ("text", "completions", "indexes", "shown"),
    [
        ("", 5, [], ""),
        ("0-2,5,7-8", 9, [0, 1, 2, 5, 7, 8], "0-2,5,7,8"),
        ("0-2,5,7-8", 8, [0, 1, 2, 5, 7], "0-2,5,7"),
        ("1,2,3,x,4-y,6", 9, [1, 2, 3, 6], "1-3,6"),
    ],
)
def test_indexes_are_lists_of_ranges(text: str, completions: int, indexes: list[int], shown: str) -> None:
    found = parse_indexes(text, completions)
    assert (sorted(found), format_indexes(found)) == (indexes, shown)
    assert first_pending(2, completions, found) == [i for i in range(completions) if i not in indexes][:2]
