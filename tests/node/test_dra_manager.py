"""The DRA manager with scripted drivers and a real checkpoint file."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.kubelet.dra.checkpoint import CheckpointError, FileCheckpoint
from controllers.kubelet.dra.drivers import ClaimId, DriverCallError, DriverMissingError, PreparedClaim, PreparedDevice
from controllers.kubelet.dra.manager import DraError, DraFeatures, DraManager
from controllers.kubelet.dra.metrics import DraMetrics
from tests.support.objects import make_claim, make_pod

pytestmark = pytest.mark.integration

GPU, NIC = "gpu.example.com", "nic.example.com"


class ScriptedDriver:
    """A driver. `next` lists the results of the next calls; later calls succeed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls: list[tuple[str, list[str]]] = []
        self.next: list[Any] = []
        self.gate: asyncio.Event | None = None

    async def _answer(self, method: str, claims: Sequence[ClaimId], fine: Callable[[str], Any]) -> Any:
        self.calls.append((method, [claim.name for claim in claims]))
        if self.gate is not None:
            await self.gate.wait()
        answer = self.next.pop(0) if self.next else {}
        if isinstance(answer, Exception):
            raise answer
        return {claim.uid: fine(claim.uid) for claim in claims if answer.get(claim.name, 0) is not None} | {
            f"{name}-uid": value for name, value in answer.items() if value is not None
        }

    async def prepare(self, claims: Sequence[ClaimId]) -> Mapping[str, PreparedClaim]:
        answer: Mapping[str, PreparedClaim] = await self._answer(
            "prepare", claims, lambda uid: PreparedClaim((device(uid),))
        )
        return answer

    async def unprepare(self, claims: Sequence[ClaimId]) -> Mapping[str, str]:
        answer: Mapping[str, str] = await self._answer("unprepare", claims, lambda uid: "")
        return answer


def device(uid: str, request: str = "r", number: int = 0) -> PreparedDevice:
    return PreparedDevice("n1", f"dev-{number}", (request,), (f"v/c={uid}-{number}",))


class Node:
    """A manager with its surroundings; `restart` makes another one from the file."""

    def __init__(self, directory: Path, *names: str) -> None:
        self.directory = directory
        self.drivers = {name: ScriptedDriver(name) for name in names or (GPU,)}
        self.claims: dict[str, Json] = {}
        self.reads: list[str] = []
        self.restart()

    def restart(self) -> None:
        features = DraFeatures(workload_claims=True)
        self.manager = DraManager(self, self._read, FileCheckpoint(self.directory), features, DraMetrics())

    def get(self, name: str) -> ScriptedDriver:
        if name not in self.drivers:
            raise DriverMissingError(name)
        return self.drivers[name]

    async def _read(self, pod: Json, name: str) -> Json:
        self.reads.append(name)
        if name not in self.claims:
            raise StatusError(404, "NotFound", f'resourceclaims.resource.k8s.io "{name}" not found')
        return self.claims[name]

    def claim(self, name: str, *pods: str, drivers: Sequence[str] = (GPU,), uid: str = "") -> None:
        results = [{"request": "r", "driver": d, "pool": "n1", "device": "dev-0"} for d in drivers]
        reserved = [{"resource": "pods", "name": pod, "uid": f"{pod}-uid"} for pod in pods]
        status: Json = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}
        self.claims[name] = make_claim(name, uid=uid or f"{name}-uid", **status)

    async def prepare(self, name: str, *claims: str) -> None:
        await self.manager.prepare(pod(name, *claims))

    async def unprepare(self, name: str, *claims: str) -> None:
        await self.manager.unprepare(pod(name, *claims))

    def devices_of(self, pod: Json) -> list[str]:
        return self.manager.container_devices(pod, pod["spec"]["containers"][0])

    def held(self) -> dict[str, set[str]]:
        """Return the pods of each claim in the file."""
        outer = json.loads((self.directory / "dra_manager_state").read_bytes())
        entries = json.loads(outer["Data"])["ClaimInfoStateList"] or ()
        return {entry["ClaimName"]: set(entry["PodUIDs"]) for entry in entries}


def pod(name: str, *claims: str) -> Json:
    return make_pod(name, uid=f"{name}-uid", claims={claim: claim for claim in claims})


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """Create a node with a claim `c` for the pods p and q."""
    made = Node(tmp_path)
    made.claim("c", "p", "q")
    return made


async def test_one_call_prepares_all_claims_of_a_pod_and_one_releases_them(node: Node) -> None:
    node.claim("b", "p")
    node.claim("a", "p")
    await node.prepare("p", "b", "a")
    assert node.held() == {"b": {"p-uid"}, "a": {"p-uid"}}
    await node.unprepare("p", "b", "a")
    assert node.get(GPU).calls == [("prepare", ["b", "a"]), ("unprepare", ["b", "a"])]
    assert node.held() == {}


async def test_a_prepared_claim_is_prepared_again_only_after_a_restart(node: Node) -> None:
    await node.prepare("p", "c")
    await node.prepare("q", "c")
    assert len(node.get(GPU).calls) == 1
    node.restart()
    assert node.devices_of(pod("p", "c")) == ["v/c=c-uid-0"], "the devices are in the file"
    await node.prepare("p", "c")
    assert len(node.get(GPU).calls) == 2
    assert node.devices_of(pod("p", "c")) == ["v/c=c-uid-0"]


async def test_a_shared_claim_is_released_with_its_last_pod(node: Node) -> None:
    await node.prepare("p", "c")
    await node.prepare("q", "c")
    await node.unprepare("p", "c")
    assert node.held() == {"c": {"q-uid"}}
    assert not node.manager.might_need_unprepare("p-uid")
    await node.unprepare("q", "c")
    assert [method for method, _ in node.get(GPU).calls] == ["prepare", "unprepare"]


async def test_a_claim_held_by_another_pod_is_not_released(node: Node) -> None:
    node.claim("own", "p")
    node.claim("shared", "p", "q")
    await node.prepare("p", "shared", "own")
    await node.prepare("q", "shared")
    await node.unprepare("stranger", "shared")
    node.get(GPU).next = [{"own": "busy"}, {}]
    with pytest.raises(DraError, match="failed for ResourceClaim own: busy"):
        await node.unprepare("p", "shared", "own")
    await node.unprepare("p", "shared", "own")
    assert [claims for method, claims in node.get(GPU).calls if method == "unprepare"] == [["own"], ["own"]]
    assert node.held() == {"shared": {"q-uid"}}


async def test_a_claim_that_a_pod_names_twice_is_prepared_once(node: Node) -> None:
    twice = pod("p", "c")
    twice["spec"]["resourceClaims"].append({"name": "again", "resourceClaimName": "c"})
    await node.manager.prepare(twice)
    await node.manager.unprepare(twice)
    assert node.get(GPU).calls == [("prepare", ["c"]), ("unprepare", ["c"])]


async def test_a_claim_that_is_being_released_is_prepared_again_for_the_next_pod(node: Node) -> None:
    await node.prepare("p", "c")
    gate = node.get(GPU).gate = asyncio.Event()
    releasing = asyncio.create_task(node.unprepare("p", "c"))
    await asyncio.sleep(0)
    preparing = asyncio.create_task(node.prepare("q", "c"))
    await asyncio.sleep(0)
    assert not preparing.done()
    gate.set()
    await asyncio.gather(releasing, preparing)
    assert [method for method, _ in node.get(GPU).calls] == ["prepare", "unprepare", "prepare"]
    assert node.held() == {"c": {"q-uid"}}


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (DriverCallError("Internal", "boom"), "NodePrepareResources: rpc error: code = Internal desc = boom"),
        ({"c": PreparedClaim(error="no")}, "NodePrepareResources failed for ResourceClaim c: no"),
        ({"c": None}, "NodePrepareResources skipped 1 ResourceClaims"),
        ({"d": PreparedClaim()}, "NodePrepareResources returned result for unknown claim UID d-uid"),
    ],
)
async def test_a_failed_preparation_says_why_is_tried_again_and_has_to_be_released(
    node: Node, answer: Any, text: str
) -> None:
    node.get(GPU).next = [answer]
    with pytest.raises(DraError) as caught:
        await node.prepare("p", "c")
    assert str(caught.value) == f"prepare dynamic resources: {text}"
    assert node.manager.might_need_unprepare("p-uid")
    assert node.held() == {"c": {"p-uid"}}
    await node.prepare("p", "c")
    assert len(node.get(GPU).calls) == 2


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (DriverCallError("Internal", "boom"), "NodeUnprepareResources: rpc error: code = Internal desc = boom"),
        ({"c": "no"}, "NodeUnprepareResources failed for ResourceClaim c: no"),
        ({"c": None}, "NodeUnprepareResources skipped 1 ResourceClaims"),
        ({"d": ""}, "NodeUnprepareResources returned result for unknown claim UID d-uid"),
    ],
)
async def test_a_failed_release_keeps_the_claim_until_it_succeeds(node: Node, answer: Any, text: str) -> None:
    await node.prepare("p", "c")
    node.get(GPU).next = [answer]
    with pytest.raises(DraError) as caught:
        await node.unprepare("p", "c")
    assert str(caught.value) == f"unprepare dynamic resources: {text}"
    assert node.held() == {"c": {"p-uid"}}
    await node.unprepare("p", "c")
    assert node.held() == {}


async def test_nothing_is_remembered_of_a_pod_whose_driver_never_was_there(node: Node) -> None:
    node.claim("a", "p")
    node.claim("b", "p", drivers=(NIC,))
    with pytest.raises(DraError, match=r"^prepare dynamic resources: DRA driver nic.example.com is not registered$"):
        await node.prepare("p", "a", "b")
    assert node.get(GPU).calls == []
    assert not node.manager.might_need_unprepare("p-uid")


async def test_a_driver_that_went_is_waited_for_before_its_claim_is_released(tmp_path: Path) -> None:
    node = Node(tmp_path, GPU, NIC)
    node.claim("c", "p", drivers=(GPU, NIC))
    await node.prepare("p", "c")
    gone = node.drivers.pop(NIC)
    node.restart()
    with pytest.raises(DraError, match="DRA driver nic"):
        await node.unprepare("p", "c")
    assert node.held() == {"c": {"p-uid"}}
    node.drivers[NIC] = gone
    await node.unprepare("p", "c")
    assert [method for method, _ in gone.calls] == ["prepare", "unprepare"]
    assert node.held() == {}


async def test_of_two_drivers_one_failing_both_are_asked_again_and_both_released(tmp_path: Path) -> None:
    node = Node(tmp_path, GPU, NIC)
    node.claim("c", "p", drivers=(GPU, NIC))
    node.get(NIC).next = [DriverCallError("Internal", "boom")]
    with pytest.raises(DraError):
        await node.prepare("p", "c")
    await node.prepare("p", "c")
    assert [m for m, _ in node.get(GPU).calls] == [m for m, _ in node.get(NIC).calls] == ["prepare", "prepare"]
    assert len(node.devices_of(pod("p", "c"))) == 2
    await node.unprepare("p", "c")
    assert [node.get(name).calls[-1][0] for name in (GPU, NIC)] == ["unprepare", "unprepare"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda c: c["status"].update(reservedFor=[]), "pod p (p-uid) is not allowed to use ResourceClaim c (c-uid)"),
        (lambda c: c["status"].pop("allocation"), "ResourceClaim c: not allocated"),
        (lambda c: c.clear(), 'fetch ResourceClaim c: resourceclaims.resource.k8s.io "c" not found'),
    ],
)
async def test_a_claim_that_the_pod_may_not_use_is_not_prepared(node: Node, change: Any, text: str) -> None:
    change(node.claims["c"])
    node.claims = {name: claim for name, claim in node.claims.items() if claim}
    with pytest.raises(DraError) as caught:
        await node.prepare("p", "c")
    assert str(caught.value) == f"prepare dynamic resources: {text}"
    assert node.get(GPU).calls == []


async def test_a_claim_of_the_same_name_waits_until_the_old_one_is_released(node: Node) -> None:
    await node.prepare("p", "c")
    node.claim("c", "q", uid="new-uid")
    with pytest.raises(DraError, match="old ResourceClaim with same name c and different UID c-uid still exists"):
        await node.prepare("q", "c")
    await node.manager.release_lost(set())
    await node.prepare("q", "c")
    assert node.held() == {"c": {"q-uid"}}


async def test_lost_claims_are_released_and_others_kept(node: Node) -> None:
    for name in ("gone", "there"):
        node.claim(f"of-{name}", name)
        await node.manager.prepare(pod(name, f"of-{name}"))
    node.restart()
    await node.manager.release_lost({"there-uid"})
    assert node.held() == {"of-there": {"there-uid"}}


async def test_no_call_is_made_before_the_file_says_for_whom(node: Node, tmp_path: Path) -> None:
    (tmp_path / "dra_manager_state").unlink()
    tmp_path.rmdir()
    tmp_path.write_text("in the way")
    with pytest.raises(DraError, match="checkpoint ResourceClaim cache: could not save checkpoint dra_manager_state"):
        await node.prepare("p", "c")
    assert node.get(GPU).calls == []


async def test_a_container_gets_only_the_devices_of_its_request(node: Node) -> None:
    answer = PreparedClaim((device("c", "a", 0), device("c", "b", 1), PreparedDevice("n1", "all", (), ("v/c=all",))))
    node.get(GPU).next = [{"c": answer}]
    await node.prepare("p", "c")
    for request, devices in (("a", ["v/c=c-0", "v/c=all"]), ("b", ["v/c=c-1", "v/c=all"])):
        using = pod("p", "c")
        using["spec"]["containers"][0]["resources"]["claims"][0]["request"] = request
        assert node.devices_of(using) == devices


EXAMPLE = (
    '{"Data":"{\\"kind\\":\\"DRACheckpoint\\",\\"apiVersion\\":\\"checkpoint.dra.kubelet.k8s.io/v1\\",\\"ClaimInfoStateList\\":[{\\"ClaimUID\\":'
    '\\"067798be-454e-4be4-9047-1aa06aea63f7\\",\\"ClaimName\\":\\"example\\",\\"Namespace\\":\\"default\\",\\"PodUIDs\\":{\\"139cdb46-f989-4f17-9561-ca10cfb509a6'
    '\\":{}},\\"DriverState\\":{\\"test-driver.cdi.k8s.io\\":{\\"Devices\\":[{\\"PoolName\\":\\"worker-1\\",\\"DeviceName\\":\\"dev-1\\",\\"ShareID\\":null,'
    '\\"RequestNames\\":[\\"test request\\"],\\"CDIDeviceIDs\\":[\\"example.com/example=cdi-example\\"]}]}}}]}","Checksum":2570581864}'
)


def test_the_file_equals_the_kubelets_byte_by_byte(tmp_path: Path) -> None:
    """The checksum is upstream's for this content."""
    file = tmp_path / "dra_manager_state"
    file.write_text(EXAMPLE)
    infos = FileCheckpoint(tmp_path).load()
    assert infos[0].pods == {"139cdb46-f989-4f17-9561-ca10cfb509a6"}
    FileCheckpoint(tmp_path).save(infos)
    assert file.read_text() == EXAMPLE
    assert [path.name for path in tmp_path.iterdir()] == ["dra_manager_state"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (EXAMPLE[:-4] + "1}", "checkpoint is corrupted"),
        (EXAMPLE[:300], "unexpected end of JSON input|invalid character"),
        ("garbage", "invalid character 'g' looking for beginning of value"),
    ],
)
def test_a_torn_file_is_refused_in_one_line(tmp_path: Path, content: str, text: str) -> None:
    (tmp_path / "dra_manager_state").write_text(content)
    with pytest.raises(CheckpointError, match=f"failed to get checkpoint dra_manager_state: .*({text})"):
        FileCheckpoint(tmp_path).load()


def test_a_file_of_another_version_is_read(tmp_path: Path) -> None:
    data = json.loads(EXAMPLE)["Data"].replace("k8s.io/v1", "k8s.io/v0").replace('"ClaimUID"', '"claimuid"')
    (tmp_path / "dra_manager_state").write_text(json.dumps({"Data": data, "Checksum": zlib.crc32(data.encode())}))
    (info,) = FileCheckpoint(tmp_path).load()
    assert (info.uid, info.name) == ("067798be-454e-4be4-9047-1aa06aea63f7", "example")


def test_a_directory_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="please drain node and remove DRA state file"):
        FileCheckpoint(tmp_path / "file" / "below")
