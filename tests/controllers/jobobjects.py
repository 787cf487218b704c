"""Builders of Jobs on a server, and helpers that read and end their pods."""

from __future__ import annotations

from typing import Any

from apiserver.api.objects import Json
from apiserver.runtime.clock import now
from controllers.runtime.kinds import CORE_EVENTS, JOBS, PODS
from controllers.runtime.times import go_time
from tests.scheduler.world import World
from tests.support.objects import make_manifest
from tests.support.virtual import passes

COMPONENT = "job-controller"
FINALIZER = "batch.kubernetes.io/job-tracking"


def a_job(name: str = "j", **spec: Any) -> Json:
    restart = spec.pop("restartPolicy", "Never")
    template = {"spec": {"restartPolicy": restart, "containers": [{"name": "c", "image": "i"}]}}
    return make_manifest(JOBS, name, {"template": template, **spec}, namespace="ns")


async def the_job(world: World, name: str = "j") -> Json:
    await passes(1.5)
    return await world.client.get(JOBS, name, "ns")


async def the_pods(world: World, *, counted: bool = False) -> list[Json]:
    """Return the pods by age and index. `counted`: with those whose end is counted."""
    await passes(0.5)
    items = (await world.client.list(PODS, "ns"))["items"]
    found = [pod for pod in items if counted or FINALIZER in pod["metadata"].get("finalizers", ())]
    return sorted(found, key=lambda pod: (pod["metadata"]["creationTimestamp"], index(pod), pod["metadata"]["name"]))


def index(pod: Json) -> int:
    return int(pod["metadata"].get("annotations", {}).get("batch.kubernetes.io/job-completion-index", -1))


async def set_phase(world: World, pod: Json, phase: str, code: int = 0, **more: Any) -> None:
    ended = {"exitCode": code, "finishedAt": go_time(now()), "startedAt": go_time(now())}
    container = {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    state = {"running": {}} if phase == "Running" else {"terminated": ended}
    fresh = await world.client.get(PODS, pod["metadata"]["name"], "ns")
    status = {**fresh["status"], "phase": phase, "containerStatuses": [{**container, "state": state}], **more}
    await world.client.update_status(PODS, {**fresh, "status": status})


async def end(world: World, phase: str, count: int = 1, code: int = 0) -> None:
    """End the oldest running pods."""
    going = [pod for pod in await the_pods(world) if pod["status"]["phase"] in ("Pending", "Running")]
    for pod in going[:count]:
        await set_phase(world, pod, phase, code or int(phase == "Failed"))
    await passes(0.5)


def conditions(job: Json) -> list[tuple[str, str, str]]:
    return [(c["type"], c["status"], c.get("reason", "")) for c in job["status"].get("conditions", ())]


def numbers(job: Json) -> tuple[int, ...]:
    """Return the numbers of active, succeeded and failed pods."""
    return tuple(job["status"].get(name, 0) for name in ("active", "succeeded", "failed"))


async def reasons(world: World) -> set[str]:
    return {event["reason"] for event in (await world.client.list(CORE_EVENTS, "ns"))["items"]}
