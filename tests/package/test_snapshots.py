"""A cluster goes back to an earlier state, with all its components, and begins with that of a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubedra import ControlPlane
from kubedra.archive.archive import ArchiveError
from kubedra.archive.differences import compare
from kubedra.archive.objects import read_objects
from kubedra.client.client import ApiError, Client
from kubedra.client.clock import Clock
from tests.package.test_same_history import PODS, make_pod, template
from tests.support.ports import free_port
from tests.support.postgres import fresh_schema

pytestmark = pytest.mark.integration

POD_SPEC = {"containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]}  # fmt: skip
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": POD_SPEC},
    },
}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "racks.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "racks", "kind": "Rack"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(clock="virtual", nodes=2, devices="gpu.example.com") as plane:
        yield plane


@pytest.fixture
def client(plane: ControlPlane) -> Iterator[Client]:
    plane.reset()
    with plane.client() as client:
        yield client


@pytest.fixture
def clock(client: Client) -> Clock:
    return Clock(lambda: client)


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def facts(client: Client) -> dict[str, Any]:
    """Return what makes a workload: uids, phases, nodes and devices."""
    found: dict[str, Any] = {}
    for pod in client.list("pods"):
        found[pod["metadata"]["name"]] = pod["metadata"]["uid"], pod["status"]["phase"], pod["spec"]["nodeName"]
    for claim in client.list("resourceclaims"):
        devices = [each["device"] for each in claim["status"]["allocation"]["devices"]["results"]]
        found[claim["metadata"]["name"]] = claim["metadata"]["uid"], devices, claim["status"]["reservedFor"]
    return found


def test_watches_get_the_differences_as_events(client: Client) -> None:
    for name in ("kept", "changed", "deleted"):
        client.create(config_map(name, a="1"))
    before = client.snapshot()
    client.patch("configmap/changed", {"data": {"a": "2"}})
    client.delete("configmap/deleted")
    client.create(config_map("new"))
    uid = client.get("configmap/changed")["metadata"]["uid"]
    since = client.request("GET", "/api/v1/namespaces/default/configmaps")["metadata"]["resourceVersion"]
    watch = client.watch("/api/v1/namespaces/default/configmaps", timeout=20, resourceVersion=since)
    assert client.restore(before) == {"created": 1, "updated": 1, "deleted": 1, "resourceVersion": str(int(since) + 3)}
    events = [next(watch) for _ in range(3)]
    assert [(event["type"], event["object"]["metadata"]["name"], event["object"].get("data")) for event in events] == [
        ("DELETED", "new", None),
        ("MODIFIED", "changed", {"a": "1"}),
        ("ADDED", "deleted", {"a": "1"}),
    ]
    assert events[1]["object"]["metadata"]["uid"] == uid
    assert client.restore(before)["resourceVersion"] == str(int(since) + 3)


def test_a_workload_runs_on_after_each_restore(client: Client, clock: Clock) -> None:
    client.create(template())
    client.create(DEPLOYMENT)
    clock.run_until_idle()
    expected, before = facts(client), client.snapshot()
    assert len(expected) == 4
    for _ in range(2):
        client.delete("deployment/web")
        clock.advance(minutes=2)
        assert facts(client) == {}
        client.restore(before)
        clock.advance(minutes=1)
        assert facts(client) == expected
        client.scale("deployment/web", 4)
        clock.advance(minutes=2)
        more = facts(client)
        assert len(more) == 8
        assert expected.items() <= more.items()
        client.restore(before)
        clock.advance(minutes=1)
        assert facts(client) == expected


def test_a_pod_that_has_ended_runs_again(client: Client, clock: Clock) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "once"}, "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}  # fmt: skip
    client.create(pod)
    clock.run_until_idle()
    before = client.snapshot()
    client.patch("pod/once", {"metadata": {"annotations": {"kubedra.dev/exit-after": "1s"}}})
    clock.advance(minutes=1)
    client.restore(before)
    clock.advance(minutes=1)
    assert client.get("pod/once")["status"]["phase"] == "Running"


def test_a_node_that_was_deleted_is_back_with_its_devices_and_pods(client: Client, clock: Clock) -> None:
    client.create(template())
    client.create(DEPLOYMENT)
    clock.run_until_idle()
    expected, before = facts(client), client.snapshot()
    slices = {each["metadata"]["name"] for each in client.list("resourceslices", namespace="")}
    for node in ("node-1", "node-2"):
        client.delete(f"node/{node}")
    clock.advance(minutes=2)
    client.restore(before)
    clock.advance(minutes=1)
    assert facts(client) == expected
    assert {each["metadata"]["name"] for each in client.list("resourceslices", namespace="")} == slices
    assert all(client.wait(f"node/{node}", "condition=Ready") for node in ("node-1", "node-2"))


def test_custom_resources_are_served_when_a_restore_returns(client: Client) -> None:
    client.apply(CRD)
    rack = {"apiVersion": "example.com/v1", "kind": "Rack", "metadata": {"name": "r"}}
    uid = client.create(rack)["metadata"]["uid"]
    before = client.snapshot()
    client.delete("crd/racks.example.com")
    with pytest.raises(ApiError):
        client.request("GET", "/apis/example.com/v1/namespaces/default/racks/r")
    client.restore(before)
    assert client.request("GET", "/apis/example.com/v1/namespaces/default/racks/r")["metadata"]["uid"] == uid


def test_a_restore_keeps_faults_unless_it_resets(client: Client) -> None:
    before = client.snapshot()
    with client.fault(resource="configmaps", status=409, count=5) as fault:
        client.restore(before)
        with pytest.raises(ApiError):
            client.create(config_map("a"))
        assert fault.fired() == 1
        client.restore(before, reset=True)
        client.create(config_map("a"))


def test_a_file_of_another_server_can_be_restored(client: Client, plane: ControlPlane, tmp_path: Path) -> None:
    client.create(config_map("a", a="1"))
    client.snapshot("mine").save(tmp_path / "a.kubedra")
    uid = client.get("configmap/a")["metadata"]["uid"]
    with ControlPlane(storage="sqlite", controllers=False) as other, other.client() as second:
        second.create(config_map("b"))
        second.restore(tmp_path / "a.kubedra")
        assert [each["metadata"]["uid"] for each in second.list("configmaps", namespace="default")] == [uid]
        assert second.snapshots() == []
        # The server's own objects stay its own.
        port = second.get("endpoints/kubernetes")["subsets"][0]["ports"][0]["port"]
        assert other.url.endswith(f":{port}")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: content[:-9], "is truncated: its end is missing"),
        (lambda content: content[:60] + b"\0" + content[61:], "is altered: "),
        (lambda _: b"PK\x03\x04", "is not an archive of kubedra"),
        (lambda content: content.replace(b"archive 1", b"archive 9", 1), "has format 9; "),
        (lambda _: b"", "is not an archive of kubedra"),
    ],
)
def test_a_damaged_file_changes_nothing(client: Client, tmp_path: Path, damage: Any, message: str) -> None:
    file = tmp_path / "a.kubedra"
    client.snapshot("s").save(file)
    client.create(config_map("a"))
    revision = client.request("GET", "/-/info")["resourceVersion"]
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ArchiveError, match=rf"^{file} {message}"):
        client.restore(file)
    assert client.request("GET", "/-/info")["resourceVersion"] == revision
    assert [each.name for each in client.snapshots()][-1] == "s"


def test_a_snapshot_says_what_it_is(client: Client) -> None:
    snapshot = client.snapshot("named")
    assert snapshot.name == "named"
    assert snapshot.resource_version == client.request("GET", "/-/info")["resourceVersion"]
    assert snapshot.objects > 10
    snapshot.delete()
    with pytest.raises(ApiError, match="no snapshot 'named'"):
        client.restore(snapshot)
    with pytest.raises(ApiError, match="now is the current state"):
        client.snapshot("now")


def _continue(client: Client, clock: Clock) -> None:
    """Do things whose results depend on everything: uids, names, devices, times, the order of work."""
    clock.advance(seconds=30)
    for number in range(PODS, PODS + 10):
        client.create(make_pod(number))
    client.delete(f"pod/{client.list('pods')[0]['metadata']['name']}")
    clock.advance(minutes=2)
    client.create(DEPLOYMENT)
    clock.advance(minutes=4)


def test_each_storage_continues_a_snapshot_in_the_same_way(tmp_path: Path, postgres_url: str) -> None:
    """Objects, revisions, uids, names and times: byte for byte."""
    begun = tmp_path / "begun.kubedra"
    port = free_port()
    options: dict[str, Any] = {"nodes": 1, "devices": "gpu.example.com", "clock": "virtual"}
    with ControlPlane(**options, seed=7, args=[f"--port={port}"]) as plane, plane.client() as client:
        clock = Clock(lambda: client)
        client.create(template())
        for number in range(PODS):
            client.create(make_pod(number))
        clock.advance(seconds=40)
        client.snapshot().save(begun)
    results = {}
    for storage in ("memory", "sqlite", fresh_schema(postgres_url)):
        arguments = [f"--port={port}", f"--from={begun}"]
        with ControlPlane(**options, storage=storage, args=arguments) as plane, plane.client() as client:
            begin, end_file = tmp_path / "first.kubedra", tmp_path / "last.kubedra"
            client.snapshot("first").save(begin)
            _continue(client, Clock(lambda client=client: client))  # type: ignore[misc]
            client.snapshot("last").save(end_file)
            results[storage] = read_objects(str(begin)), read_objects(str(end_file))
    kept = read_objects(str(begun))
    for first, _ in results.values():
        # Components work from the start on; what they have not written is as it was, with its revision.
        same = {key: each for key, each in first.objects.items() if each.revision <= kept.header["revision"]}
        assert same == {key: kept.objects[key] for key in same}
        assert len(same) > len(kept.objects) - 10
    # Postgres answers in its own time, so the order of concurrent writes there is its own, too (docs/adr/0014-time.md).
    (one, end), (other, other_end), _ = results.values()
    assert len(end.objects) > len(one.objects) > PODS
    assert compare(one, other) == compare(end, other_end) == []
    assert (other.objects, other.header) == (one.objects, one.header)
    assert (other_end.objects, other_end.header) == (end.objects, end.header)
