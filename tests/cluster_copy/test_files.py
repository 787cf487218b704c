"""A file of a copied cluster starts a control plane in which its pods run and wait as before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apiserver.command.import_cluster import write_copy
from apiserver.command.start import main as start
from apiserver.options.settings import read
from kubedra import ControlPlane
from kubedra.archive.archive import header, read_archive, write_archive
from kubedra.client.clock import Clock
from kubedra.cluster_copy.adapt import adapt_definition, adapt_node
from kubedra.cluster_copy.anonymize import anonymize
from kubedra.cluster_copy.collect import Selection, collect
from kubedra.cluster_copy.importing import run
from kubedra.cluster_copy.kinds import KindFilter
from kubedra.cluster_copy.progress import Progress
from kubedra.cluster_copy.source import Source
from kubedra.cluster_copy.target import send
from tests.cluster_copy.sources import build, cluster, production, write_config

Json = dict[str, Any]


def objects() -> list[Json]:
    """Return the production cluster as `collect` does."""
    found = production()
    for each in found:
        if each["kind"] == "Node":
            adapt_node(each)
        elif each["kind"] == "CustomResourceDefinition":
            adapt_definition(each)
    return [each for each in found if each["metadata"]["name"] != "orphan"]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place: Path = tmp_path_factory.mktemp("copy") / "prod.kubedra"
    assert write_copy(place, objects())["refused"] == []
    return place


@pytest.fixture(scope="module")
def plane(file: Path) -> Iterator[ControlPlane]:
    with ControlPlane(clock="virtual", args=[f"--from={file}"]) as plane:
        yield plane


def test_a_file_has_the_objects_and_no_leases(file: Path) -> None:
    with read_archive(file, "snapshot") as archive:
        keys = [line.split(b"\t")[0].decode() for line in archive]
        assert archive.header["release"] == "1.36"
    assert "/registry/pods/acme/training" in keys
    assert "/registry/acme.example/racks/r1" in keys
    assert not [key for key in keys if "/leases/" in key]


@pytest.mark.integration
def test_bound_pods_run_and_the_node_agent_keeps_ready_nodes_alive(plane: ControlPlane) -> None:
    with plane.client() as client:
        before = client.get("pod/payroll-9f55f9956-2pf4d", namespace="acme")
        Clock(lambda: client).advance(minutes=10)
        after = client.get("pod/payroll-9f55f9956-2pf4d", namespace="acme")
        assert (after["status"]["phase"], after["metadata"]["uid"]) == ("Running", before["metadata"]["uid"])
        ready, lost = (client.get(f"node/acme-node-{number}") for number in (1, 2))
        assert {c["status"] for c in ready["status"]["conditions"] if c["type"] == "Ready"} == {"True"}
        assert {c["status"] for c in lost["status"]["conditions"] if c["type"] == "Ready"} == {"Unknown"}
        assert ready["status"]["nodeInfo"]["kubeletVersion"] == "v1.35.3"
        assert [each["metadata"]["name"] for each in client.list("resourceslices")] == ["slice-1"]
        pods = client.list("pods", namespace="acme")
        assert sorted(each["metadata"]["name"] for each in pods) == ["payroll-9f55f9956-2pf4d", "training"]


@pytest.mark.integration
def test_a_pending_pod_is_explained_and_bound_after_a_change(plane: ControlPlane) -> None:
    with plane.client() as client:
        report = client.explain("pod/training", namespace="acme")["report"]
        assert "lower the count from 9 to 8 in request gpus of claim many-gpus (then it fits on acme-node-1)" in report
        claim = client.get("resourceclaim/many-gpus", namespace="acme")
        client.delete("resourceclaim/many-gpus", namespace="acme")
        claim["spec"]["devices"]["requests"][0]["exactly"]["count"] = 8
        metadata = {"name": "many-gpus", "namespace": "acme"}
        client.create({**claim, "metadata": metadata})
        pod = client.wait("pod/training", "phase=Running", namespace="acme", virtual=True)
        assert pod["spec"]["nodeName"] == "acme-node-1"


@pytest.mark.integration
def test_a_copy_of_the_started_control_plane_is_the_same(file: Path) -> None:
    wanted = Selection(with_secrets=True, kinds=KindFilter(["pods,nodes,secrets,racks,deploy,rs,resourceslices"]))
    with cluster(objects=objects()) as (_, source):
        first = collect(Source(source), wanted, Progress())
    with ControlPlane(controllers=False, args=[f"--from={file}"]) as plane, plane.client() as client:
        second = collect(Source(client), wanted, Progress())
    for each in (*first.objects, *second.objects):
        each["metadata"].pop("resourceVersion")
    assert second.objects == first.objects


def test_virtual_time_begins_when_the_file_was_written(file: Path) -> None:
    with read_archive(file) as archive:
        written = archive.header["created"]
    settings = read([f"--from={file}", "--clock=virtual"])
    assert settings.clock is not None
    assert settings.clock.strftime("%Y-%m-%dT%H:%M:%SZ") == written
    fixed = read([f"--from={file}", "--clock=virtual=2026-01-01T00:00:00Z"])
    assert fixed.clock is not None
    assert fixed.clock.year == 2026


def broken(file: Path, directory: Path, how: str) -> Path:
    content, place = file.read_bytes(), directory / f"{how}.kubedra"
    if how == "truncated":
        place.write_bytes(content[: len(content) // 2])
    elif how == "altered":
        place.write_bytes(content[:-200] + bytes([content[-200] ^ 1]) + content[-199:])
    elif how == "foreign":
        place.write_text("kind: Pod\n")
    elif how == "newer":
        place.write_bytes(content.replace(b"kubedra-archive 1", b"kubedra-archive 9"))
    elif how == "recording":
        with write_archive(place, header("recording", release="1.36", created="2026-01-01T00:00:00Z")):
            pass
    return place


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("truncated", "is truncated: its end is missing"),
        ("altered", "is altered: "),
        ("foreign", "is not an archive of kubedra"),
        ("newer", "has format 9; "),
        ("recording", "is a recording, not a snapshot"),
        ("missing", "no such file or directory"),
    ],
)
def test_an_unusable_file_is_one_line_and_deletes_nothing(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str, reason: str
) -> None:
    place = broken(file, tmp_path, how)
    data = tmp_path / "data"
    data.mkdir()
    (data / "kubedra.db").write_text("precious")
    assert start([f"--from={place}", "--fresh", f"--data-dir={data}", "--port=0"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("python -m apiserver: --from: ")
    assert reason in line
    assert (data / "kubedra.db").read_text() == "precious"


@pytest.mark.integration
def test_a_storage_with_objects_is_not_overwritten(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ControlPlane(controllers=False, storage="sqlite", data_dir=tmp_path):
        pass
    assert start([f"--from={file}", f"--data-dir={tmp_path}", "--port=0"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("the storage has objects of an earlier start; --fresh deletes them, without --from they stay")


def test_a_file_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster(objects=production()) as (_, client):
        config = write_config(tmp_path, client.url)
        assert run([f"--kubeconfig={config}", "-o", str(tmp_path / "none" / "x.kubedra")], write_copy) == 2
    line = capsys.readouterr().err
    assert line == f"kubedra import: cannot write {tmp_path}/none/x.kubedra: no such file or directory\n"


def test_an_anonymous_copy_is_accepted_as_a_whole(tmp_path: Path) -> None:
    with cluster(objects=production()) as (_, client):
        copy = collect(Source(client), Selection(anonymize=True), Progress())
    answer = write_copy(tmp_path / "shared.kubedra", anonymize(copy.objects))
    assert (answer["refused"], answer["warnings"]) == ([], {})
    assert b"acme" not in (tmp_path / "shared.kubedra").read_bytes()
    with read_archive(tmp_path / "shared.kubedra") as archive:
        assert not [line for line in archive if b"acme" in line or b"payroll" in line]


@pytest.mark.integration
def test_components_of_a_running_server_act_only_on_the_whole_copy() -> None:
    # So many objects between a ReplicaSet and its pod are several commits.
    fillers = [build("ConfigMap", f"filler-{number}", 1000 + number, "acme", data={}) for number in range(1500)]
    others, pods = ([each for each in objects() if (each["kind"] == "Pod") is wanted] for wanted in (False, True))
    with ControlPlane(args=["--components-apart"]) as plane, plane.client() as client:
        assert send(client, [*others, *fillers, *pods])["refused"] == []
        client.wait("node/acme-node-1", "condition=Ready")
        client.wait("deployment/payroll", "condition=Available", namespace="acme")
        names = [each["metadata"]["name"] for each in client.list("pods", namespace="acme")]
        assert sorted(names) == ["payroll-9f55f9956-2pf4d", "training"]
        assert not [event for event in client.events(namespace="acme") if event["reason"] == "SuccessfulCreate"]
