"""ComponentStatuses are not stored: each request checks the parts of the control plane."""

from __future__ import annotations

import asyncio

import pytest

from apiserver.controlplane.component_statuses import ComponentHealth
from tests.support.wire import Wire

pytestmark = pytest.mark.integration

PATH = "/api/v1/componentstatuses"


def health(running: tuple[str, ...], problem: str = "") -> list[tuple[str, bool, str]]:
    async def stored() -> str:
        return problem

    return asyncio.run(ComponentHealth(lambda: running, stored)())


def test_components_in_this_process_are_healthy_and_the_store_reports_itself() -> None:
    assert health(("kube-scheduler", "job-controller")) == [
        ("scheduler", True, "ok"),
        ("controller-manager", True, "ok"),
        ("etcd-0", True, "ok"),
    ]
    scheduler, manager, store = health(("kube-scheduler",), "the disk is full")
    assert scheduler[1]
    assert not manager[1]
    assert manager[2].startswith('Get "https://127.0.0.1:10257/healthz": dial tcp 127.0.0.1:10257: connect: ')
    assert store == ("etcd-0", False, "the disk is full")


def test_they_are_listed_and_selected_as_they_are_now(wire: Wire) -> None:
    listed = wire.get(PATH)
    assert listed.headers["warning"] == '299 - "v1 ComponentStatus is deprecated in v1.19+"'
    assert listed.json["metadata"] == {}
    names = [item["metadata"] for item in listed.json["items"]]
    assert names == [{"name": "scheduler"}, {"name": "controller-manager"}, {"name": "etcd-0"}]
    selected = wire.get(f"{PATH}?fieldSelector=metadata.name%3Detcd-0").json["items"]
    assert [item["conditions"] for item in selected] == [[{"type": "Healthy", "status": "True", "message": "ok"}]]
    assert wire.get(f"{PATH}?labelSelector=a").json["items"] == []
    assert wire.get(f"{PATH}/etcd-0").json["conditions"] == selected[0]["conditions"]
    table = wire.get(PATH, accept="application/json;as=Table;v=v1;g=meta.k8s.io").json
    assert table["rows"][2]["cells"] == ["etcd-0", "Healthy", "ok", ""]


def test_there_is_nothing_to_watch_to_change_or_to_count(wire: Wire) -> None:
    missing = wire.get(f"{PATH}/x")
    assert missing.refusal == (404, 'componentstatus "x" not found')
    watched = wire.get(f"{PATH}?watch=1")
    text = 'watch is not supported on resources of kind "componentstatuses"'
    assert watched.refusal == (405, text)
    assert wire.delete(f"{PATH}/etcd-0").status == 405
    (resource,) = [each for each in wire.get("/api/v1").json["resources"] if each["name"] == "componentstatuses"]
    assert "storageVersionHash" not in resource
    assert 'apiserver_storage_objects{resource="componentstatuses"}' not in wire.get("/metrics").text
