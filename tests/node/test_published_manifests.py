"""Manifests that vendors publish run as they promise, on nodes with the hardware of a profile.

The manifests are not part of this repository, but in a folder beside it. docs/reference/manifests.md has the same table.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from apiserver.api.objects import Json
from controllers.manager.manager import COMPONENTS
from controllers.runtime.kinds import NODES, PODS, Kind
from tests.scheduler.world import World
from tests.support.objects import make_emulated_node
from tests.support.virtual import passes

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT.parent / "shared" / "real"
PAGE = ROOT / "docs" / "reference" / "manifests.md"
#: Cluster-scoped kinds of the manifests.
CLUSTER = {
    "Namespace",
    "DeviceClass",
    "DeviceTaintRule",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}
GATES = "DRADeviceTaintRules=true,GenericWorkload=true,DRAWorkloadResourceClaims=true,GangScheduling=true"

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="the folder of published manifests is not there"),
]


@dataclass(frozen=True)
class Case:
    """The expected numbers of pods at the end: running, waiting and evicted."""

    files: tuple[str, ...]
    profile: str
    runs: int
    waits: int = 0
    gone: int = 0
    after: float = 60
    nodes: int = 1

    @property
    def row(self) -> str:
        """The row in the page."""
        parts = [f"{self.runs} run"] if self.runs else []
        parts += [f"{number} {what}" for number, what in ((self.waits, "wait"), (self.gone, "evicted")) if number]
        nodes = f"{self.nodes} × `{self.profile}`" if self.nodes > 1 else f"`{self.profile}`"
        return f"| {self.name} | {nodes} | {', '.join(parts)} |"

    @property
    def name(self) -> str:
        folder, _, file = self.files[0].removesuffix(".yaml").partition("/")
        return f"{folder}: {'/'.join(file.split('--')[: 2 if len(self.files) > 1 else 1])}"


def example(name: str, runs: int, profile: str = "example-gpu", waits: int = 0) -> Case:
    return Case((f"dra-example-driver/{name}--{name}.yaml",), profile, runs, waits)


_TAINTS = "dra-example-driver/device-taints-tolerations--device-taint-"
CASES = [
    example("basic-resourceclaimtemplate", 2),
    example("basic-multiple-requests", 1),
    example("basic-resourceclaim-opaque-config", 1),
    example("basic-shared-claim-across-containers", 1),
    example("basic-shared-claim-across-pods", 2),
    example("initcontainer-shared-gpu", 1),
    example("cel-selector", 1),
    example("prioritized-alternatives", 2),
    example("admin-access", 1),
    example("binding-conditions", 1),
    example("extended-resource-request", 2),
    example("partitionable-devices", 1, "example-gpu-partitions"),
    example("gpu-allow-multiple-allocations", 2, "example-gpu-shared"),
    example("gpu-allow-multiple-allocations-partitionable", 2, "example-gpu-partitions"),
    example("net-consumable-capacity", 2, "example-net"),
    example("native-resource-request", 1, "example-cpu"),
    example("podgroup-resourceclaimtemplate", 4),
    Case(
        tuple(
            f"{_TAINTS}configurable-pod-eviction-time--{part}.yaml"
            for part in ("1-basic-resourceclaimtemplate", "2-device-taint-rule")
        ),
        "example-gpu", 1, gone=2, after=400,
    ),
    Case(
        tuple(
            f"{_TAINTS}pod-noexecute--{part}.yaml"
            for part in ("1-basic-resourceclaimtemplate", "2-pod-to-be-evicted", "3-device-taint-rule", "4-pod-no-execute")
        ),
        "example-gpu", 0, waits=1, gone=1,
    ),
    Case(
        tuple(
            f"{_TAINTS}pod-noschedule--{part}.yaml"
            for part in (
                "1-basic-resourceclaimtemplate", "2-pod-keeps-running", "3-device-taint-rule", "4-pod-not-scheduled",
            )
        ),
        "example-gpu", 1, waits=1,
    ),
    Case(
        tuple(
            f"{_TAINTS}pod-toleration--{part}.yaml"
            for part in ("1-device-taint-rule", "2-basic-resourceclaimtemplate")
        ),
        "example-gpu", 1, waits=1,
    ),
    *(
        Case((f"nvidia-quickstart/{version}-gpu-test{number}.yaml",), profile, runs, nodes=nodes)
        for version in ("v1", "v1beta1")
        for number, profile, runs, nodes in (
            (1, "8xa100", 2, 1), (2, "8xa100", 1, 1), (3, "8xa100", 2, 1), (4, "mig", 4, 2), (5, "8xa100", 1, 1), (6, "8xa100", 4, 1),
        )
    ),
]  # fmt: skip


def kind_of(obj: Json) -> Kind:
    group, _, version = obj["apiVersion"].rpartition("/")
    name = obj["kind"]
    plural = f"{name.lower()}es" if name.endswith("ss") else f"{name.lower()}s"
    plural = f"{name.lower()[:-1]}ies" if name.endswith("cy") else plural
    return Kind(group, version, plural, name, namespaced=name not in CLUSTER)


async def apply(world: World, file: str) -> None:
    for obj in yaml.safe_load_all((FOLDER / file).read_text()):
        if obj:
            # One pod has no apiVersion. kubectl rejects it.
            obj.setdefault("apiVersion", "v1")
            if obj["kind"] not in CLUSTER:
                obj["metadata"].setdefault("namespace", "ns")
            await world.client.create(kind_of(obj), obj)


async def play(case: Case) -> tuple[int, int, int]:
    """Return the numbers of ready, waiting and evicted pods at the end."""
    components = [name for name in COMPONENTS if name != "garbage-collector-controller"]
    async with World(*components, gates=GATES) as world:
        await world.create(NODES, *(make_emulated_node(f"n{n}", profile=case.profile) for n in range(case.nodes)))
        await passes(1)
        seen: set[str] = set()
        for file in case.files:
            await apply(world, file)
            await passes(5)
            seen |= {pod["metadata"]["uid"] for pod in await world.items(PODS, "")}
        await passes(case.after)
        pods = await world.items(PODS, "")
        seen |= {pod["metadata"]["uid"] for pod in pods}
        running = [pod for pod in pods if pod["status"]["phase"] == "Running"]
        assert all(status["ready"] for pod in running for status in pod["status"]["containerStatuses"])
        return len(running), sum(pod["status"]["phase"] == "Pending" for pod in pods), len(seen) - len(pods)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_a_published_manifest_runs_as_it_promises(case: Case) -> None:
    assert await play(case) == (case.runs, case.waits, case.gone)


def test_the_page_has_the_rows_of_this_table() -> None:
    """`python -m tests.node.test_published_manifests` prints the rows."""
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith(("| dra-", "| nvidia-"))]
    assert rows == [case.row for case in CASES]


if __name__ == "__main__":
    print(*(case.row for case in CASES), sep="\n")
