"""Verdicts, texts, claims and statuses of kubedra's scheduler equal those of a real kube-scheduler.

Runs where a kube-scheduler of 1.36 is on PATH. With KUBEDRA_RECORD_VERDICTS its verdicts are recorded for
test_recorded_verdicts.py.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from apiserver.api.objects import Json
from controllers.runtime.client import Client
from controllers.runtime.http import HttpTransport
from kubedra.kubeconfig.reader import read_kubeconfig
from tests.scheduler.extenderserver import extender
from tests.scheduler.groupsituations import GATES, PREEMPTION, crowded, gangs
from tests.scheduler.groupverdicts import played_groups, same_groups
from tests.scheduler.situationkinds import KINDS
from tests.scheduler.situations import Situation, devices_and_resources, neighbours, spread_by_default
from tests.scheduler.test_configuration import document, profile
from tests.scheduler.verdicts import Verdicts, play, record, same
from tests.scheduler.volumesituations import volumes_and_claims
from tests.support.patience import ended
from tests.support.wire import Child

KUBE_SCHEDULER = shutil.which("kube-scheduler")
CONTROLLERS = (
    "resourceclaim-controller,namespace-controller,garbage-collector-controller,"
    "persistentvolume-binder-controller,volume-provisioner"
)
ROUNDS = int(os.environ.get("KUBEDRA_SITUATIONS", "12"))
#: The seeds of the situations.
SEEDS = range(first := int(os.environ.get("KUBEDRA_FIRST_SITUATION", "0")), first + ROUNDS)

pytestmark = [
    pytest.mark.real_time,
    pytest.mark.skipif(KUBE_SCHEDULER is None, reason="no kube-scheduler on PATH"),
    pytest.mark.timeout(600),
]


def server_flags(gates: str) -> list[str]:
    """Return the flags of a server with these gates."""
    return [f"--feature-gates={gates}", "--runtime-config=api/all=true"] if gates else []


@asynccontextmanager
async def ours(directory: Path, configuration: Json | None = None, gates: str = "") -> AsyncIterator[Client]:
    flags = [f"--controllers=scheduler,{CONTROLLERS}", f"--kubeconfig={directory}/ours.conf", *server_flags(gates)]
    if configuration is not None:
        (directory / "ours.yaml").write_text(yaml.safe_dump(configuration))
        flags.append(f"--config={directory}/ours.yaml")
    with Child(directory / "ours", *flags):
        async with client_of(directory / "ours.conf") as client:
            yield client


@asynccontextmanager
async def theirs(directory: Path, configuration: Json | None = None, gates: str = "") -> AsyncIterator[Client]:
    assert KUBE_SCHEDULER is not None
    config = directory / "theirs.conf"
    with (
        Child(directory / "theirs", f"--controllers={CONTROLLERS}", f"--kubeconfig={config}", *server_flags(gates)),
        (directory / "kube-scheduler.log").open("w") as log,
    ):
        flags = ["--leader-elect=false", "--kube-api-qps=5000", "--kube-api-burst=5000", f"--kubeconfig={config}"]
        if configuration is not None:
            connection = {"kubeconfig": str(config), "qps": 5000, "burst": 5000}
            whole = {**configuration, "clientConnection": connection, "leaderElection": {"leaderElect": False}}
            (directory / "theirs.yaml").write_text(yaml.safe_dump(whole))
            flags = [f"--config={directory}/theirs.yaml"]
        command = [KUBE_SCHEDULER, "--secure-port=0", f"--feature-gates={gates}", *flags]
        process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: ASYNC220 - it does not wait
        try:
            async with client_of(config) as client:
                yield client
        finally:
            process.terminate()
            ended(process)


@asynccontextmanager
async def client_of(kubeconfig: Path) -> AsyncIterator[Client]:
    client = Client(HttpTransport(read_kubeconfig(kubeconfig)), user_agent="test")
    try:
        yield client
    finally:
        await client.close()


async def compare(
    directory: Path, situations: list[Situation], configuration: Json | None = None, gates: str = ""
) -> list[Verdicts]:
    """Compare both schedulers. Return the verdicts of kube-scheduler."""
    compared, recorded = 0, []
    async with ours(directory, configuration, gates) as mine, theirs(directory, configuration, gates) as real:
        for number, situation in enumerate(situations):
            found, expected = await asyncio.gather(play(mine, situation), play(real, situation))
            for client in (mine, real):
                await client.request("POST", "/-/reset", "", None)
            compared += same(found, expected, f"situation {number}")
            recorded.append(expected)
    total = sum(len(situation.pods) for situation in situations)
    assert compared >= total * 0.6, f"{compared} of {total}"
    return recorded


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
async def test_both_schedulers_have_the_same_verdicts(
    kind: Callable[[random.Random], Situation], tmp_path: Path
) -> None:
    recorded = await compare(tmp_path, [kind(random.Random(seed)) for seed in SEEDS])
    if os.environ.get("KUBEDRA_RECORD_VERDICTS"):
        record(kind, recorded)


async def test_both_schedulers_score_the_capacity_for_volumes(tmp_path: Path) -> None:
    situations = [volumes_and_claims(random.Random(seed)) for seed in SEEDS]
    await compare(tmp_path, situations, gates="StorageCapacityScoring=true")


async def test_both_schedulers_call_an_extender(tmp_path: Path) -> None:
    def with_labels(rng: random.Random) -> Situation:
        found = devices_and_resources(rng)
        for pod in found.pods:
            refused = {key: f"n{rng.randint(0, 2)}" for key in ("off", "never") if rng.random() < 0.5}
            pod["metadata"]["labels"] = {**refused, **({"broken": "yes"} if rng.random() < 0.1 else {})}
        return found

    with extender() as served:
        asked = {"urlPrefix": served.url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 2}
        situations = [with_labels(random.Random(seed)) for seed in SEEDS]
        await compare(tmp_path, situations, document(extenders=[asked]))


@pytest.mark.parametrize(
    ("kind", "gates"), [(gangs, GATES), (crowded, PREEMPTION)], ids=lambda it: getattr(it, "__name__", "")
)
async def test_both_schedulers_place_groups_alike(
    kind: Callable[[random.Random], Situation], gates: str, tmp_path: Path
) -> None:
    compared = 0
    async with ours(tmp_path, gates=gates) as mine, theirs(tmp_path, gates=gates) as real:
        for seed in SEEDS:
            situation, preempting = kind(random.Random(seed)), gates == PREEMPTION
            found, expected = await asyncio.gather(
                *(played_groups(client, situation, preempting=preempting) for client in (mine, real))
            )
            for client in (mine, real):
                await client.request("POST", "/-/reset", "", None)
            compared += same_groups(found, expected, f"seed {seed}")
    assert compared >= ROUNDS


async def test_both_schedulers_follow_a_configuration(tmp_path: Path) -> None:
    resources = [{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}]
    constraint = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    arguments: Json = {
        "NodeResourcesFit": {"scoringStrategy": {"type": "MostAllocated", "resources": resources}},
        "PodTopologySpread": {"defaultingType": "List", "defaultConstraints": [constraint]},
        "InterPodAffinity": {"hardPodAffinityWeight": 5},
        "DynamicResources": {"filterTimeout": "5s", "bindingTimeout": "1m"},
    }
    plugins = {
        "multiPoint": {"disabled": [{"name": "ImageLocality"}]},
        "score": {"enabled": [{"name": "NodeResourcesFit", "weight": 9}], "disabled": [{"name": "TaintToleration"}]},
        "filter": {"enabled": [{"name": "NodeResourcesFit"}]},
    }
    configuration = document(profile(plugins, **arguments), percentageOfNodesToScore=100)
    situations = [kind(random.Random(seed)) for seed in SEEDS for kind in (devices_and_resources, spread_by_default)]
    await compare(tmp_path, situations, configuration)


async def test_both_schedulers_follow_further_arguments(tmp_path: Path) -> None:
    shape = [{"utilization": 0, "score": 2}, {"utilization": 40, "score": 10}, {"utilization": 95, "score": 1}]
    resources = [{"name": "cpu", "weight": 2}, {"name": "memory", "weight": 1}]
    ratio = {"type": "RequestedToCapacityRatio", "resources": resources, "requestedToCapacityRatio": {"shape": shape}}
    on_ssd = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    not_first = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n0"]}]}
    added = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [not_first]},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": on_ssd}],
    }
    balanced = [{"name": name, "weight": 1} for name in ("cpu", "memory", "ephemeral-storage", "example.com/gpu")]
    arguments: Json = {
        "NodeResourcesFit": {"scoringStrategy": ratio},
        "NodeResourcesBalancedAllocation": {"resources": balanced},
        "NodeAffinity": {"addedAffinity": added},
    }
    situations = [neighbours(random.Random(seed)) for seed in range(SEEDS.start, SEEDS.stop + ROUNDS)]
    await compare(tmp_path, situations, document(profile(**arguments)))
