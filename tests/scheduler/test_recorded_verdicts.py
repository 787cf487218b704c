"""Verdicts equal those that test_beside_kube_scheduler.py recorded from kube-scheduler 1.36, in virtual time."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest

from tests.scheduler.situationkinds import KINDS
from tests.scheduler.situations import Situation
from tests.scheduler.verdicts import Verdicts, play, read_verdicts, same
from tests.scheduler.world import World

pytestmark = pytest.mark.integration

COMPONENTS = (
    "scheduler", "resourceclaim-controller", "namespace-controller", "garbage-collector-controller",
    "persistentvolume-binder-controller", "volume-provisioner",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
async def test_pods_go_where_kube_scheduler_put_them(kind: Callable[[random.Random], Situation]) -> None:
    expected = read_verdicts()[kind.__name__]
    situations = [kind(random.Random(seed)) for seed in range(len(expected))]
    compared = 0
    async with World(*COMPONENTS, namespace=False) as world:
        for seed, (situation, verdicts) in enumerate(zip(situations, expected, strict=True)):
            found = Verdicts(*json.loads(json.dumps(await play(world.client, situation))))
            compared += same(found, verdicts, f"seed {seed}")
            await world.empty()
    assert compared >= 0.6 * sum(len(situation.pods) for situation in situations)
