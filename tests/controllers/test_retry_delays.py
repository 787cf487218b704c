"""Delays of controllers after refused writes: upstream's, by controller."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controllers.manager.manager import Manager
from controllers.options.options import Options
from controllers.runtime.client import Client
from controllers.runtime.kinds import JOBS, RESOURCE_QUOTAS
from controllers.runtime.transport import NoTransport
from controllers.runtime.workqueue import DEFAULT, RetryDelays
from tests.scheduler.world import World
from tests.support.virtual import passes

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("name", "delays"),
    [
        ("job-controller", RetryDelays(SECOND, 60 * SECOND)),
        ("endpointslice-controller", RetryDelays(SECOND, 1000 * SECOND)),
        ("endpointslice-mirroring-controller", RetryDelays(SECOND, 100 * SECOND)),
        ("certificatesigningrequest-approving-controller", RetryDelays(SECOND / 5, 1000 * SECOND)),
        ("namespace-controller", RetryDelays(SECOND / 200, 60 * SECOND)),
        ("deployment-controller", DEFAULT),
    ],
)
async def test_each_controller_has_upstreams_delays(name: str, delays: RetryDelays) -> None:
    [component] = Manager(Client(NoTransport()), Options(), [name]).components
    assert component._controller.queue._retry_delays == delays  # type: ignore[attr-defined]


@pytest.mark.integration
async def test_a_job_whose_pods_are_refused_tries_again_after_one_second_and_then_twice_as_long() -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "ns"}}
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "ns"}}
    async with World("job-controller", "resourcequota-controller") as world:
        await world.create(RESOURCE_QUOTAS, {**quota, "spec": {"hard": {"pods": "0"}}})
        await world.until(RESOURCE_QUOTAS, "ns/q", lambda obj: obj.get("status", {}).get("hard"))
        await world.create(JOBS, {**job, "spec": {"template": template}})
        await passes(20)
        events = (await world.client.request("GET", "/api/v1/namespaces/ns/events"))["items"]
    assert [event["reason"] for event in events] == ["FailedCreate"] * 5  # after 0, 1, 3, 7 and 15 seconds
