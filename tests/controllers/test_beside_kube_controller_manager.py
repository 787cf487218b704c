"""Lives of workloads have the same results with kubedra's controllers and with a real kube-controller-manager.

Names, counts, conditions, revisions and reasons of events are compared after each step. Runs where a
kube-controller-manager of 1.36 is on PATH. KUBEDRA_SITUATIONS is the number of lives, KUBEDRA_SEED the first seed.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from apiserver.api.errors.status import StatusError
from controllers.runtime.client import Client
from controllers.runtime.kinds import NAMESPACES, PODS
from tests.controllers.beside import KUBE_CONTROLLER_MANAGER, both, differences, state, wait_idle
from tests.controllers.rollouts import Life, life

WORKLOADS = [
    f"{name}-controller" for name in ("deployment", "replicaset", "statefulset", "daemonset", "replicationcontroller")
]
OTHERS = [
    "scheduler", "node-agent", "node-lifecycle-controller", "garbage-collector-controller", "namespace-controller",
]  # fmt: skip
COUNT = int(os.environ.get("KUBEDRA_SITUATIONS", "25"))
SEED = int(os.environ.get("KUBEDRA_SEED", "0"))

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(KUBE_CONTROLLER_MANAGER is None, reason="no kube-controller-manager on PATH"),
    pytest.mark.timeout(900),
]


async def begin(client: Client, namespace: str, life: Life) -> None:
    await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    await client.create(life.kind, {**life.first, "metadata": {**life.first["metadata"], "namespace": namespace}})


async def go_on(client: Client, namespace: str, life: Life, number: int) -> str:
    """Take the next step, and return the server's error."""
    step = life.steps[number]
    try:
        if step is None:
            pods = (await client.list(PODS, namespace))["items"]
            for pod in sorted(pods, key=lambda pod: pod["metadata"]["name"])[:1]:
                await client.delete(PODS, pod["metadata"]["name"], namespace)
        else:
            await client.patch(life.kind, "x", step, namespace, type="strategic")
    except StatusError as error:
        return str(error)
    return ""


async def compare(directory: Path, lives: list[Life]) -> list[str]:
    lines, running = [], 0
    async with both(directory, WORKLOADS, OTHERS) as clients:
        await asyncio.gather(*(begin(client, f"n{n}", each) for client in clients for n, each in enumerate(lives)))
        for number in range(-1, 4):
            if number >= 0:
                said = [
                    await asyncio.gather(*(go_on(client, f"n{n}", each, number) for n, each in enumerate(lives)))
                    for client in clients
                ]
                assert said[0] == said[1]
            await asyncio.gather(*map(wait_idle, clients))
            for n, each in enumerate(lives):
                ours, theirs = [await state(client, f"n{n}") for client in clients]
                done = f"life {n} ({each.kind.kind}) after {each.steps[: number + 1]}"
                lines += [f"{done}: {line}" for line in differences(ours, theirs)]
                running += sum('"phase": "Running"' in text for text in theirs["Pod"])
    assert running > len(lives), "the lives were hardly lived"
    return lines


def test_both_end_in_the_same_objects_after_each_step(tmp_path: Path) -> None:
    lines = asyncio.run(compare(tmp_path, [life(seed) for seed in range(SEED, SEED + COUNT)]))
    assert lines == [], "\n".join(lines[:40])
