"""Nothing falls due any more of what is gone. The server is real, time is virtual."""

from __future__ import annotations

import pytest

from apiserver.runtime.clock import now
from controllers.runtime.kinds import CRON_JOBS, JOBS, NODES, PODS, Kind
from controllers.runtime.times import go_time
from tests.controllers.jobobjects import a_job
from tests.scheduler.world import World
from tests.support.objects import make_pod
from tests.support.virtual import passes

pytestmark = pytest.mark.integration


async def due(world: World) -> str:
    """Return the component with the next timer."""
    await passes(2)
    timer = world.manager.next_timer
    return "" if timer is None else timer[0]


async def remove(world: World, kind: Kind, name: str, namespace: str = "ns") -> None:
    await world.client.delete(kind, name, namespace, grace_period=0 if kind == PODS else None, propagation="Background")


async def finished_job(world: World) -> None:
    made = await world.create(JOBS, a_job("j", ttlSecondsAfterFinished=1000, suspend=True))
    at = go_time(now())
    conditions = [{"type": kind, "status": "True", "lastProbeTime": at, "lastTransitionTime": at}
                  for kind in ("FailureTarget", "Failed")]  # fmt: skip
    await world.client.update_status(JOBS, {**made, "status": {"startTime": at, "conditions": conditions}})


async def running_pod(world: World, **annotations: str) -> None:
    marks = {"kubedra.dev/emulated": "true"}
    await world.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "annotations": marks}})
    toleration = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 900}
    pod = make_pod("p", nodeName="n", restartPolicy="Never", tolerations=[toleration])
    pod["metadata"]["annotations"] = annotations
    await world.create(PODS, pod)


async def test_a_finished_job_that_is_deleted_has_no_time_to_live_left() -> None:
    async with World("ttl-after-finished-controller") as world:
        await finished_job(world)
        assert await due(world) == "ttl-after-finished-controller"
        await remove(world, JOBS, "j")
        assert await due(world) == ""


async def test_a_deleted_cron_job_leaves_no_timer() -> None:
    async with World("cronjob-controller") as world:
        template = {"spec": a_job()["spec"]}
        spec = {"schedule": "0 0 1 1 *", "jobTemplate": template}
        body = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c", "namespace": "ns"}}
        await world.create(CRON_JOBS, {**body, "spec": spec})
        assert await due(world) == "cronjob-controller"
        await remove(world, CRON_JOBS, "c")
        assert await due(world) == ""


async def test_containers_of_a_pod_that_is_deleted_do_not_end_any_more() -> None:
    async with World("node-agent") as world:
        await running_pod(world, **{"kubedra.dev/exit-after": "500"})
        assert await due(world) == "node-agent"
        await remove(world, PODS, "p")
        assert await due(world) == ""


async def test_a_pod_that_is_deleted_is_not_evicted_any_more() -> None:
    async with World("taint-eviction-controller") as world:
        await running_pod(world)
        taint = {"key": "k", "effect": "NoExecute"}
        await world.client.patch(NODES, "n", {"spec": {"taints": [taint]}})
        assert await due(world) == "taint-eviction-controller"
        await remove(world, PODS, "p")
        assert await due(world) == ""
