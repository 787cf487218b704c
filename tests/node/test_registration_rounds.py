"""One reconcile of a node's labels, status and lease, without a server."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime import clock
from controllers.kubelet.emulation.registration import CAPACITY, CERTIFICATE, Endpoint, Registration
from controllers.options.options import Options
from controllers.runtime.client import Client
from controllers.runtime.informer import Informers
from controllers.runtime.times import go_time, micro_time
from controllers.runtime.transport import NoTransport
from tests.support.recording import RecordingClient

pytestmark = pytest.mark.integration

LABELS = {"kubernetes.io/hostname": "n", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}


def node(labels: Json | None = None, uid: str = "1-2", **status: Any) -> Json:
    return {"metadata": {"name": "n", "uid": uid, "labels": LABELS if labels is None else labels}, "status": status}


def registration(client: RecordingClient, options: Options | None = None) -> Registration:
    nothing = Client(NoTransport())
    return Registration(client, Informers(nothing), options or Options(node="n"))  # type: ignore[arg-type]


async def reconcile(*versions: Json, wait: float = 0, endpoint: Endpoint | None = None) -> list[RecordingClient]:
    """Reconcile versions of a node with a pause between them. Return the writes of each."""
    clients: list[RecordingClient] = []
    client = RecordingClient()
    part = registration(client)
    part.endpoint = endpoint
    for number, found in enumerate(versions):
        if number:
            await asyncio.sleep(wait)
        client.writes = []
        assert await part.reconcile(found) == timedelta(seconds=10)
        clients.append(RecordingClient())
        clients[-1].writes = client.writes
    return clients


def written(client: RecordingClient, kind: str, verb: str = "patch") -> list[tuple[str, Json]]:
    return [what for how, name, what in client.writes if (how, name) == (verb, kind)]


def status_of(client: RecordingClient) -> Json:
    [(name, body)] = written(client, "Node", "patch/status")
    assert (name, body["metadata"]["uid"]) == ("n", "1-2")
    status: Json = body["status"]
    return status


def healthy(since: str = "2020-01-01T00:00:00Z", heard: str = "", **but: str) -> list[Json]:
    kinds = {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": "True", **but}
    return [{"type": kind, "status": status, "lastTransitionTime": since, "lastHeartbeatTime": heard or since}
            for kind, status in kinds.items()]  # fmt: skip


async def test_a_new_node_is_registered() -> None:
    [client] = await reconcile(node({"a": "b", "kubernetes.io/os": "mine"}))
    missing = {key: value for key, value in LABELS.items() if key != "kubernetes.io/os"}
    assert written(client, "Node") == [("n", {"metadata": {"uid": "1-2", "labels": missing}})]
    status = status_of(client)
    assert status["capacity"] == status["allocatable"] == CAPACITY
    assert status["addresses"][1] == {"type": "Hostname", "address": "n"}
    assert status["addresses"][0]["type"] == "InternalIP"
    assert status["addresses"][0]["address"].startswith("172.18.")
    assert [(each["type"], each["status"]) for each in status["conditions"]] == [
        ("MemoryPressure", "False"), ("DiskPressure", "False"), ("PIDPressure", "False"), ("Ready", "True"),
    ]  # fmt: skip
    assert all(each["lastHeartbeatTime"] == each["lastTransitionTime"] for each in status["conditions"])
    info = status["nodeInfo"]
    assert (info["machineID"], info["systemUUID"], info["kubeletVersion"]) == ("12", "1-2", "v1.36.0")


async def test_a_kubelet_with_an_endpoint_is_announced_until_the_node_says_so() -> None:
    endpoint = Endpoint("127.0.0.1", 4711, "ab" * 32)
    [client] = await reconcile(
        ready_node(addresses=[{"type": "InternalIP", "address": "172.18.0.2"}]), endpoint=endpoint
    )
    assert written(client, "Node")[0][1]["metadata"]["annotations"] == {CERTIFICATE: "ab" * 32}
    status = status_of(client)
    assert status["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 4711}}
    assert status["addresses"] == endpoint.addresses
    assert endpoint.is_announced({**status, "addresses": [*endpoint.addresses, {"type": "ExternalIP", "address": "x"}]})
    assert not endpoint.is_announced({**status, "daemonEndpoints": {}})


async def test_missing_resources_are_added_to_the_capacity_of_a_node() -> None:
    [client] = await reconcile(node(capacity={"cpu": "8", "x/y": "1"}, allocatable={"cpu": "7"}))
    status = status_of(client)
    assert status["capacity"] == {**CAPACITY, "cpu": "8", "x/y": "1"}
    assert status["allocatable"] == {**CAPACITY, "cpu": "7", "x/y": "1"}


def ready_node(**more: Any) -> Json:
    room = {"cpu": "8"}
    return node(**{"capacity": room, "allocatable": room, "addresses": [{"type": "Hostname", "address": "n"}], **more})


@pytest.mark.parametrize(
    ("more", "ago", "writes"),
    [
        ({}, 299, False),
        ({}, 300, True),
        ({"capacity": {}}, 0, True),
        ({"allocatable": {}}, 0, True),
        ({"addresses": []}, 0, True),
    ],
)
async def test_a_healthy_node_is_reported_every_five_minutes(more: Json, ago: float, writes: bool) -> None:
    client, heard = RecordingClient(), go_time(clock.now())
    await asyncio.sleep(ago)
    await registration(client).reconcile(ready_node(**{"conditions": healthy(heard=heard), **more}))
    assert bool(written(client, "Node", "patch/status")) is writes


async def test_an_unhealthy_node_is_reported_and_unchanged_conditions_keep_their_times() -> None:
    for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready"):
        now = "9999-01-01T00:00:00Z"
        [client] = await reconcile(ready_node(conditions=healthy(heard=now, **{kind: "Unknown"})))
        times = {each["type"]: each["lastTransitionTime"] for each in status_of(client)["conditions"]}
        assert times.pop(kind) > "2026"
        assert set(times.values()) == {"2020-01-01T00:00:00Z"}
        assert "addresses" not in status_of(client)


async def test_added_capacity_becomes_allocatable_and_a_lower_value_stays() -> None:
    def of(capacity: Json, allocatable: Json) -> Json:
        return ready_node(conditions=healthy(heard="9999-01-01T00:00:00Z"), capacity=capacity, allocatable=allocatable)

    low = of({"cpu": "8", "g": "2"}, {"cpu": "4", "g": "2"})
    first, second, third, fourth = await reconcile(
        low, of({"cpu": "8", "g": "3"}, {"cpu": "4", "g": "2"}), of({"cpu": "8", "g": "3"}, {"cpu": "4", "g": "3"}),
        of({"cpu": "8", "g": "3", "new": "1"}, {"cpu": "4", "g": "3"}),
    )  # fmt: skip
    assert written(first, "Node", "patch/status") == written(third, "Node", "patch/status") == []
    assert status_of(second)["allocatable"] == {**CAPACITY, "cpu": "4", "g": "3"}
    assert status_of(fourth)["allocatable"] == {**CAPACITY, "cpu": "4", "g": "3", "new": "1"}


async def test_the_lease_is_renewed_every_ten_seconds_with_its_owner() -> None:
    found = ready_node(conditions=healthy(heard="9999-01-01T00:00:00Z"))
    first, second = await reconcile(found, found, wait=9.9)
    assert (len(written(first, "Lease")), written(second, "Lease")) == (1, [])
    first, second = await reconcile(found, found, wait=10)
    [(name, body)] = written(second, "Lease")
    assert (name, body["spec"]["holderIdentity"], body["spec"]["leaseDurationSeconds"]) == ("n", "n", 40)
    assert body["metadata"]["ownerReferences"] == [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1-2"}]
    assert body["spec"]["renewTime"] > written(first, "Lease")[0][1]["spec"]["renewTime"]


@pytest.mark.parametrize(("code", "reason"), [(404, "NotFound"), (500, "InternalError")])
async def test_a_missing_lease_is_created(code: int, reason: str) -> None:
    found = ready_node(conditions=healthy(heard="9999-01-01T00:00:00Z"))

    client = RecordingClient()
    client.refuses["patch"] = (code, reason)
    if reason != "NotFound":
        with pytest.raises(StatusError):
            await registration(client).reconcile(found)
        return
    await registration(client).reconcile(found)
    [made] = [what for verb, kind, what in client.writes if (verb, kind) == ("create", "Lease")]
    assert (made["kind"], made["metadata"]["namespace"]) == ("Lease", "kube-node-lease")
    assert made["spec"]["renewTime"] == micro_time(clock.now())
    client.refuses["create"] = (409, "AlreadyExists")
    await registration(client).reconcile(found)


async def provision(refuses: dict[str, tuple[int, str]] | None = None, **options: Any) -> list[tuple[str, Json | None]]:
    """Create the nodes of the options. Return kinds and annotations."""
    client = RecordingClient()
    client.refuses = refuses or {}
    await registration(client, Options(**options)).provision()
    found = [(kind, what) for verb, kind, what in client.writes if verb == "create"]
    return [(kind, what["metadata"].get("annotations")) for kind, what in found]


async def test_a_kubelet_of_one_node_creates_only_that_node() -> None:
    assert await provision(node="mine", nodes=3, devices="d") == [("Node", None)]
    assert await provision(nodes=0, devices="d") == []


async def test_nodes_are_created_with_their_annotations() -> None:
    emulated = {"kubedra.dev/emulated": "true"}
    assert await provision(nodes=2) == [("Node", emulated)] * 2
    gpus = {**emulated, "kubedra.dev/devices": "d=3"}
    made = await provision(nodes=2, devices="d", devices_per_node=3)
    assert ([kind for kind, _ in made], made[1:]) == (["DeviceClass", "Node", "Node"], [("Node", gpus)] * 2)
    profile = {**emulated, "kubedra.dev/profile": "p"}
    assert await provision(nodes=1, devices="d", profile="p") == [("Node", profile)]


async def test_existing_objects_stay_unchanged() -> None:
    made = await provision({"create": (409, "AlreadyExists")}, nodes=2, devices="d")
    assert [kind for kind, _ in made] == ["DeviceClass", "Node", "Node"]
    with pytest.raises(StatusError):
        await provision({"create": (403, "Forbidden")}, nodes=1)
    with pytest.raises(StatusError):
        await provision({"create": (403, "Forbidden")}, nodes=1, devices="d")


def test_an_address_is_used_while_its_node_exists() -> None:
    part = registration(RecordingClient(), Options(node="start"))
    own, named = node(uid="a"), [{"type": "Hostname", "address": "x"}, {"type": "InternalIP", "address": "172.18.0.9"}]
    found = node(uid="b", addresses=named)
    part.record(found)
    assert part._addresses.assign("b") == "172.18.0.9"
    assert part._addresses.assign(own["metadata"]["uid"]) != "172.18.0.9"
    part.remove(found)
    part.remove(found)
    assert part._addresses.assign("b") != "172.18.0.9"
