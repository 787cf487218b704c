"""The runner of the DRA manager's vectors on cases of our own: shapes that recorded files may have or lack."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest

from apiserver.api.objects import Json
from tests.conformance.dramanager_compare import unmarked_hazard
from tests.conformance.vector_dramanager import handle
from tests.support.objects import make_claim, make_pod

pytestmark = pytest.mark.closed_loop

DRIVER, DRA, HEALTH = "gpu.example.com", "v1.DRAPlugin", "v1alpha1.DRAResourceHealth"
START, REGISTER = {"step": "start"}, {"step": "register", "plugin": "gpu"}
CANCELED = (
    "prepare dynamic resources: NodePrepareResources: rpc error: code = Canceled desc = grpc: the client connection is"
    " closing"
)


def use(name: str, *entries: str) -> Json:
    """Make a pod that uses claim c under these names."""
    return make_pod(name, uid=f"{name}-uid", claims=dict.fromkeys(entries, "c"))


def case(*steps: tuple[Json, Json], **more: Any) -> Json:
    """Make a case of steps with the outcome that each is compared with."""
    results = [{"request": "r", "driver": DRIVER, "pool": "n1", "device": "d"}]
    users = [{"resource": "pods", "name": name, "uid": f"{name}-uid"} for name in ("p", "q")]
    claim = make_claim("c", uid="c-uid", allocation={"devices": {"results": results}}, reservedFor=users)
    device = {"poolName": "n1", "deviceName": "d", "requestNames": ["r"], "cdiDeviceIds": ["v/c=d"]}
    gates = ("DRAExtendedResource", "ResourceHealthStatus", "ResourceHealthStatusMessage")
    socket, endpoint = "<registry>/gpu-reg.sock", "<plugins>/gpu.sock"
    info = {"socket": socket, "type": "DRAPlugin", "name": DRIVER, "endpoint": endpoint, "supportedVersions": [DRA]}
    plugin = {
        "driver": DRIVER, "endpoint": endpoint, "services": [DRA, HEALTH], "serves": [DRA, HEALTH], "listening": True,
        "devices": {"c-uid": [device]}, "registration": info,
    }  # fmt: skip
    return {
        "name": "own",
        "node": "n1",
        "featureGates": {"DRAWorkloadResourceClaims": False, **dict.fromkeys(gates, True)},
        "claims": [claim],
        "pods": {"p": use("p", "x"), "q": use("q", "y", "z")},
        "plugins": {"gpu": plugin},
        "slices": [],
        "steps": [step for step, _ in steps],
        "expected": [{"error": None, **outcome} for _, outcome in steps],
        **more,
    }


def checkpoint(*pods: str) -> Json:
    """Make the compared part of a checkpoint: the claim with these pods."""
    device = {"PoolName": "n1", "DeviceName": "d", "RequestNames": ["r"], "CDIDeviceIDs": ["v/c=d"]}
    info = {
        "ClaimUID": "c-uid", "ClaimName": "c", "Namespace": "ns", "PodUIDs": {f"{pod}-uid": {} for pod in pods},
        "DriverState": {DRIVER: {"Devices": [device]}},
    }  # fmt: skip
    kinds = {"kind": "DRACheckpoint", "apiVersion": "checkpoint.dra.kubelet.k8s.io/v1"}
    return {"checkpoint": {**kinds, "ClaimInfoStateList": [info]}}


def test_a_driver_that_deregisters_in_a_call_cancels_it() -> None:
    played = case(
        (START, {}),
        (REGISTER, {}),
        ({"step": "prepare", "pod": "p", "async": "a", "waitCalls": 1, "answers": {"gpu": [{"block": "b"}]}}, {}),
        ({"step": "deregister", "plugin": "gpu"}, {"registered": {}}),
        ({"step": "await", "async": "a"}, {"error": CANCELED}),
    )
    assert handle(played) is None


def test_a_health_stream_that_ends_without_an_error_makes_the_health_unknown() -> None:
    def health(state: str) -> Json:
        resources = [{"resourceID": "v/c=d", "health": state}]
        return {"allocatedResourcesStatus": {"c": [{"name": "claim:x", "resources": resources}]}}

    reported = [{"pool": "n1", "device": "d", "health": "HEALTHY"}]
    played = case(
        (START, {}),
        (REGISTER, {}),
        ({"step": "prepare", "pod": "p"}, {}),
        ({"step": "health", "plugin": "gpu", "devices": reported}, {}),
        ({"step": "status", "pod": "p"}, health("Healthy")),
        ({"step": "healthEnd", "plugin": "gpu"}, {"healthState": "{}"}),
        ({"step": "status", "pod": "p"}, health("Unknown")),
    )
    assert handle(played) is None


def test_a_socket_that_is_created_again_registers_again() -> None:
    registered = {"registered": {DRIVER: [{"connected": True, "endpoint": "<plugins>/gpu.sock", "service": DRA}]}}
    played = case(
        (START, {}),
        ({"step": "addSocket", "plugin": "gpu", "waitCalls": 2}, registered),
        ({"step": "recreateSocket", "plugin": "gpu", "waitCalls": 2}, registered),
        pluginManager=True,
    )
    assert handle(played) is None


@pytest.mark.parametrize(
    "data", ["[]", '{"ClaimInfoStateList":{"c":1}}', '{"ClaimInfoStateList":[5]}', '{"ClaimInfoStateList":"x"}']
)
def test_data_of_another_shape_ends_the_start(data: str) -> None:
    content = json.dumps({"Data": data, "Checksum": zlib.crc32(data.encode())})
    start = "create ResourceClaim cache: GetEntries() on checkpoint: json: cannot unmarshal"
    kept = {"checkpoint": json.loads(data)}
    played = case(
        ({"step": "writeFile", "file": "<state>/dra_manager_state", "content": content}, kept),
        (START, {**kept, "error": f"{start} …", "errorPrefix": start}),
    )
    assert handle(played) is None


def release(pod: str, *uids: str) -> Json:
    claims = [{"name": "c", "namespace": "ns", "uid": uid} for uid in uids]
    return {"method": "NodeUnprepareResources", "plugin": "gpu", "service": DRA, "claims": claims}


def test_a_claim_that_one_pod_uses_twice_stays_for_the_other_pod() -> None:
    """Upstream drops the pod at the claim's first name, and releases the claim of the other pod at the second."""
    played = case(
        (START, {}),
        (REGISTER, {}),
        ({"step": "prepare", "pod": "p"}, checkpoint("p")),
        ({"step": "prepare", "pod": "q"}, checkpoint("p", "q")),
        ({"step": "unprepare", "pod": "q"}, {"calls": [release("q", "c-uid")], "checkpoint": None}),
        ({"step": "unprepare", "pod": "p"}, {"calls": [], "checkpoint": None}),
    )
    assert unmarked_hazard(played) == "foreign-unprepare"
    assert handle(played) is None
    harmless = case(*zip(played["steps"][:4], played["expected"][:4], strict=True))
    assert unmarked_hazard(harmless) is None
