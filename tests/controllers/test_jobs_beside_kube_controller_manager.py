"""Lives of Jobs have the same results with kubedra's controllers and with a real kube-controller-manager.

Their pods have services and budgets. Runs where a kube-controller-manager of 1.36 is on PATH. KUBEDRA_SITUATIONS is the
number of lives, KUBEDRA_SEED the first seed.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from apiserver.api.errors.status import StatusError
from controllers.runtime.client import Client
from controllers.runtime.kinds import (
    DISRUPTION_BUDGETS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    JOBS,
    NAMESPACES,
    PODS,
    SERVICES,
)
from tests.controllers.beside import KUBE_CONTROLLER_MANAGER, both, differences, state, wait_idle
from tests.controllers.joblives import JobLife, job_life

COMPARED = [
    f"{name}-controller"
    for name in ("job", "disruption", "endpoints", "endpointslice", "endpointslice-mirroring", "ttl-after-finished")
]
OTHERS = ["scheduler", "node-agent", "node-lifecycle-controller", "garbage-collector-controller"]
KINDS = (JOBS, DISRUPTION_BUDGETS, ENDPOINTS, ENDPOINT_SLICES, PODS)
COUNT = int(os.environ.get("KUBEDRA_SITUATIONS", "25"))
SEED = int(os.environ.get("KUBEDRA_SEED", "0"))

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(KUBE_CONTROLLER_MANAGER is None, reason="no kube-controller-manager on PATH"),
    pytest.mark.timeout(900),
]


async def begin(client: Client, namespace: str, life: JobLife) -> None:
    await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    for kind, obj in ((SERVICES, life.service), (JOBS, life.job)):
        await client.create(kind, {**obj, "metadata": {**obj["metadata"], "namespace": namespace}})


async def protect(client: Client, namespace: str, life: JobLife) -> None:
    """Once the pods are there: before, it is chance whether they have been seen."""
    metadata = {**life.budget["metadata"], "namespace": namespace}
    await client.create(DISRUPTION_BUDGETS, {**life.budget, "metadata": metadata})


async def go_on(client: Client, namespace: str, life: JobLife, number: int) -> str:
    """Take the next step, and return the server's error."""
    step = life.steps[number]
    try:
        if step is None:
            pods = (await client.list(PODS, namespace))["items"]
            for pod in sorted(pods, key=lambda pod: pod["metadata"]["name"])[:1]:
                await client.delete(PODS, pod["metadata"]["name"], namespace)
        else:
            await client.patch(JOBS, "x", step, namespace)
    except StatusError as error:
        return str(error)
    return ""


async def compare(directory: Path, lives: list[JobLife]) -> list[str]:
    lines, ended = [], 0
    async with both(directory, COMPARED, OTHERS) as clients:
        await asyncio.gather(*(begin(client, f"n{n}", each) for client in clients for n, each in enumerate(lives)))
        await asyncio.gather(*(wait_idle(client, KINDS) for client in clients))
        await asyncio.gather(*(protect(client, f"n{n}", each) for client in clients for n, each in enumerate(lives)))
        for number in range(-1, 3):
            if number >= 0:
                said = [
                    await asyncio.gather(*(go_on(client, f"n{n}", each, number) for n, each in enumerate(lives)))
                    for client in clients
                ]
                assert said[0] == said[1]
            await asyncio.gather(*(wait_idle(client, KINDS) for client in clients))
            for n, each in enumerate(lives):
                ours, theirs = [await state(client, f"n{n}", KINDS) for client in clients]
                done = f"life {n} after {each.steps[: number + 1]}"
                lines += [f"{done}: {line}" for line in differences(ours, theirs)]
                ended += sum('"Complete"' in text or '"Failed"' in text for text in theirs["Job"])
    assert ended > len(lives), "the lives were hardly lived"
    return lines


def test_jobs_end_in_the_same_way_after_each_step(tmp_path: Path) -> None:
    lines = asyncio.run(compare(tmp_path, [job_life(seed) for seed in range(SEED, SEED + COUNT)]))
    assert lines == [], "\n".join(lines[:40])
