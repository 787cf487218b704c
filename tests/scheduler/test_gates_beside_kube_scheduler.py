"""Each gate of the scheduler, on and off, beside a real kube-scheduler with the same gate.

The servers have every feature, so that only the scheduler's is disabled. Runs where a kube-scheduler of 1.36 is on PATH.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from controllers.runtime.client import Client
from tests.scheduler.featuresituations import features
from tests.scheduler.situations import priorities_and_budgets
from tests.scheduler.test_beside_kube_scheduler import CONTROLLERS, KUBE_SCHEDULER, SEEDS, client_of, server_flags
from tests.scheduler.verdicts import play, same
from tests.support.patience import ended
from tests.support.wire import Child, environment

pytestmark = [pytest.mark.skipif(KUBE_SCHEDULER is None, reason="no kube-scheduler on PATH"), pytest.mark.timeout(600)]
#: Gates that can be disabled, with the gates that depend on them.
GATES = {
    "DRAPrioritizedList": "",
    "DRAConsumableCapacity": "",
    "DRADeviceBindingConditions": "",
    "DRADeviceTaints": "DRADeviceTaintRules",
    "DRAExtendedResource": "",
    "DRAPartitionableDevices": "",
    "DRAResourceClaimDeviceStatus": "DRADeviceBindingConditions,DRAResourceClaimGranularStatusAuthorization",
    "DRASchedulerFilterTimeout": "",
    "NominatedNodeNameForExpectation": "",
    "ClearingNominatedNodeNameAfterBinding": "",
    "OpportunisticBatching": "",
    "SchedulerAsyncPreemption": "",
    "SchedulerPopFromBackoffQ": "",
    "PodLevelResources": "InPlacePodLevelResourcesVerticalScaling",
    "NodeDeclaredFeatures": (
        "InPlacePodVerticalScalingInitContainers,RestartAllContainersOnContainerExits,ExtendWebSocketsToKubelet,"
        "InPlacePodLevelResourcesVerticalScaling"
    ),
    "SchedulerAsyncAPICalls": "",
    "DRAListTypeAttributes": "",
    "DRANodeAllocatableResources": "",
}
ALPHA = (
    "DRAListTypeAttributes=true,DRANodeAllocatableResources=true,DRADeviceTaintRules=true,"
    "RestartAllContainersOnContainerExits=true"
)


@asynccontextmanager
async def scheduled_by(directory: Path, name: str, *scheduler: str) -> AsyncIterator[Client]:
    """Run a server with all features, and a scheduler beside it."""
    config = directory / f"{name}.conf"
    with (
        Child(directory / name, f"--controllers={CONTROLLERS}", f"--kubeconfig={config}", *server_flags(ALPHA)),
        (directory / f"{name}-scheduler.log").open("w") as log,
    ):
        command = [*scheduler, "--leader-elect=false", "--kube-api-qps=5000", "--kube-api-burst=5000"]
        process = subprocess.Popen(  # noqa: ASYNC220 - it does not wait
            [*command, f"--kubeconfig={config}"], stdout=log, stderr=log, env=environment()
        )
        try:
            async with client_of(config) as client:
                yield client
        finally:
            process.terminate()
            ended(process)


@pytest.mark.real_time
@pytest.mark.parametrize("on", [True, False], ids=["on", "off"])
@pytest.mark.parametrize("gate", GATES)
async def test_both_schedulers_follow_a_gate_alike(gate: str, on: bool, tmp_path: Path) -> None:
    given = {**dict(item.split("=") for item in ALPHA.split(",")), gate: str(on).lower()}
    if not on:
        given |= {also: "false" for also in GATES[gate].split(",") if also}
    gates = "--feature-gates=" + ",".join(f"{name}={value}" for name, value in given.items())
    # No driver makes devices ready here. Devices have conditions only where the schedulers ignore them.
    waited = (
        given.get("DRADeviceBindingConditions", "true") == given.get("DRAResourceClaimDeviceStatus", "true") == "true"
    )
    lists = given["DRAListTypeAttributes"] == "false"
    situations = [features(random.Random(seed), conditions=not waited, lists=lists) for seed in SEEDS]
    if gate in ("SchedulerAsyncPreemption", "SchedulerAsyncAPICalls"):
        situations += [priorities_and_budgets(random.Random(seed)) for seed in SEEDS]
    assert KUBE_SCHEDULER is not None
    ours = (sys.executable, "-P", "-m", "controllers", "--controllers=scheduler", gates)
    theirs = (KUBE_SCHEDULER, "--secure-port=0", gates)

    compared = 0
    async with scheduled_by(tmp_path, "ours", *ours) as mine, scheduled_by(tmp_path, "theirs", *theirs) as real:
        for number, situation in enumerate(situations):
            found, expected = await asyncio.gather(play(mine, situation), play(real, situation))
            for client in (mine, real):
                await client.request("POST", "/-/reset", "", None)
            compared += same(found, expected, f"situation {number}")
    assert compared >= sum(len(situation.pods) for situation in situations) * 0.5
