"""Jobs whose pods have to start together (gate `WorkloadWithJob`). The server is real, and time is virtual."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import JOBS, POD_GROUPS, PODS, WORKLOADS
from controllers.workloads.jobs.gangs import Gangs, group_name, is_gang, workload_name
from tests.scheduler.world import World
from tests.support.objects import make_manifest
from tests.support.virtual import passes

pytestmark = pytest.mark.integration


def a_job(name: str = "train", **spec: Any) -> Json:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}], **spec.pop("pod", {})}
    together = {"parallelism": 3, "completions": 3, "completionMode": "Indexed"}
    return make_manifest(JOBS, name, {"template": {"spec": pod}, **together, **spec}, namespace="ns")


def a_world() -> World:
    return World("job-controller", gates="GenericWorkload=true,WorkloadWithJob=true")


def test_names_are_those_that_kube_controller_manager_gives() -> None:
    """Recorded from kube-controller-manager 1.36.2."""
    job = {"metadata": {"name": "gang", "uid": "84a8d52e-037a-4f6a-99a0-f4f9d368800e"}}
    assert workload_name(job) == "gang-5fcc9677f8"
    assert group_name("gang-5fcc9677f8", "gang-pgt-0") == "gang-5fcc9677f8-gang-pgt-0-6d6d68dd8c"


def test_long_names_share_the_room_that_there_is() -> None:
    def lengths(workload: int, template: int) -> tuple[int, int, int]:
        name = group_name("w" * workload, "t" * template)
        first, second, _ = name.split("-")
        return len(first), len(second), len(name)

    first, second, whole = lengths(200, 200)
    assert (first - second in (0, 1), whole) == (True, 253)
    assert lengths(10, 250)[::2] == (10, 253)
    assert lengths(250, 10)[1:] == (10, 253)
    assert lengths(60, 60)[:2] == (60, 60)


async def test_the_pods_of_a_job_that_run_together_are_a_group() -> None:
    async with a_world() as world:
        job = await world.create(JOBS, a_job())
        await passes(1)
        (workload,) = (await world.client.list(WORKLOADS, "ns"))["items"]
        (group,) = (await world.client.list(POD_GROUPS, "ns"))["items"]
        assert workload["spec"]["controllerRef"]["name"] == "train"
        assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}
        owners = [(owner["kind"], owner.get("controller", False)) for owner in group["metadata"]["ownerReferences"]]
        assert owners == [("Job", True), ("Workload", False)]
        pods = (await world.client.list(PODS, "ns"))["items"]
        assert [pod["spec"]["schedulingGroup"]["podGroupName"] for pod in pods] == [group["metadata"]["name"]] * 3
        with pytest.raises(StatusError, match="cannot change parallelism for a Job referencing gang-scheduled"):
            await world.client.patch(JOBS, "train", {"spec": {"parallelism": 2, "completions": 2}}, "ns")
        await world.client.delete(PODS, pods[0]["metadata"]["name"], "ns", grace_period=0)
        await passes(60)
        again = (await world.client.list(PODS, "ns"))["items"]
        assert {pod["spec"]["schedulingGroup"]["podGroupName"] for pod in again} == {group["metadata"]["name"]}
        assert len((await world.client.list(WORKLOADS, "ns"))["items"]) == 1
        assert job["metadata"]["uid"] == group["metadata"]["ownerReferences"][0]["uid"]


@pytest.mark.parametrize(
    ("spec", "gang"),
    [
        ({}, True),
        ({"parallelism": 2}, False),
        ({"parallelism": 1, "completions": 1}, False),
        ({"completionMode": "NonIndexed"}, False),
        ({"pod": {"schedulingGroup": {"podGroupName": "own"}}}, False),
    ],
)
def test_only_indexed_jobs_that_run_all_at_once_and_name_no_group_are_gangs(spec: Json, gang: bool) -> None:
    assert is_gang(a_job(**spec)) == gang


async def test_a_job_that_has_begun_and_one_that_another_workload_is_about_have_no_group() -> None:
    async with a_world() as world:
        template = {"name": "t", "schedulingPolicy": {"gang": {"minCount": 3}}}
        reference = {"apiGroup": "batch", "kind": "Job", "name": "train"}
        spec = {"controllerRef": reference, "podGroupTemplates": [template]}
        await world.create(WORKLOADS, {"metadata": {"name": "w", "namespace": "ns"}, "spec": spec})
        await passes(1)
        await world.create(JOBS, a_job())
        await passes(1)
        pods = (await world.client.list(PODS, "ns"))["items"]
        assert [pod["spec"].get("schedulingGroup") for pod in pods] == [None] * 3
        informers = Informers(world.client)
        gangs = Gangs(world.client, CoreEventRecorder(world.client, "test"), informers, lambda *made: made[-1])
        await informers.read()
        began = {**a_job(), "metadata": {"name": "old", "namespace": "ns", "uid": "u"}}
        assert await gangs.group_of({**began, "status": {"startTime": "2026-01-01T00:00:00Z"}}, []) is None
        suspended = {"conditions": [{"type": "Suspended", "status": "False"}]}
        assert await gangs.group_of({**began, "status": suspended}, []) is None
        assert await gangs.group_of(began, pods) is None
        assert await gangs.group_of(began, []) is not None
