"""Objects that the server keeps itself: its lease, component statuses, conditions of flow schemas, and APIServices."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from apiserver.controlplane.about import server_id
from apiserver.controlplane.component_statuses import ComponentHealth
from tests.support.extensions import make_definition
from tests.support.patience import wait_until
from tests.support.server import HeldTime, serve
from tests.support.tokens import token_flag
from tests.support.wire import Wire

pytestmark = pytest.mark.integration

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
IDENTITY = {"apiserver.kubernetes.io/identity": "kube-apiserver"}


def test_a_server_has_a_lease_and_ends_those_that_have_run_out(tmp_path: Path) -> None:
    with serve(token_flag(tmp_path), time=HeldTime()) as running:
        root = running.wire("root")
        [lease] = root.get(LEASES).json["items"]
        assert lease["metadata"]["name"] == server_id(socket.gethostname())
        assert lease["metadata"]["labels"] == {**IDENTITY, "kubernetes.io/hostname": socket.gethostname()}
        assert lease["spec"]["leaseDurationSeconds"] == 3600
        for name, labels in (("apiserver-gone", IDENTITY), ("other", {})):
            spec = {"renewTime": lease["spec"]["renewTime"], "leaseDurationSeconds": 1}
            root.create(LEASES, {"metadata": {"name": name, "labels": labels}, "spec": spec})
        running.time.advance(3599)
        kept = running.server._lease
        assert kept is not None
        running.call(kept.renew)
        running.time.advance(2)
        running.call(kept.clean)
        left = {item["metadata"]["name"]: item["spec"] for item in root.get(LEASES).json["items"]}
        assert set(left) == {server_id(socket.gethostname()), "other"}
        assert left[server_id(socket.gethostname())]["renewTime"] > lease["spec"]["renewTime"]


def test_an_open_server_or_one_without_the_gate_has_no_lease(tmp_path: Path) -> None:
    with serve() as running:
        assert running.wire().get(LEASES).json["items"] == []
    with serve(token_flag(tmp_path), "--feature-gates=APIServerIdentity=false") as running:
        assert running.wire("root").get(LEASES).json["items"] == []


def test_the_server_owns_the_fields_that_it_changes_itself() -> None:
    """The counted usage does not belong to an earlier writer of the quota's status."""
    with serve() as running:
        wire = running.wire()
        quotas, pods = (f"/api/v1/namespaces/default/{plural}" for plural in ("resourcequotas", "pods"))
        wire.create(quotas, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}})
        counted = {"status": {"hard": {"pods": "2"}, "used": {"pods": "0"}}}
        merge = {"Content-Type": "application/merge-patch+json", "User-Agent": "counter"}
        assert wire.request("PATCH", f"{quotas}/q/status", counted, merge).status == 200
        wire.create(pods, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
        owned = {
            entry["manager"]: entry["fieldsV1"]["f:status"]
            for entry in wire.get(f"{quotas}/q").json["metadata"]["managedFields"]
            if entry.get("subresource") == "status"
        }
        assert owned["kube-apiserver"] == {"f:used": {"f:pods": {}}}
        assert "f:pods" not in owned["counter"]["f:used"]


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


FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1"


def test_a_schema_has_a_condition_about_its_level() -> None:
    with serve() as running:
        wire = running.wire()

        def dangling(name: str) -> tuple[str, str, str]:
            conditions = wire.get(f"{FLOWS}/flowschemas/{name}").json["status"].get("conditions", [{}])
            found: dict[str, Any] = next((each for each in conditions if each.get("type") == "Dangling"), {})
            return found.get("status", ""), found.get("reason", ""), found.get("message", "")

        names = "This FlowSchema references the PriorityLevelConfiguration object named"
        for item in wire.get(f"{FLOWS}/flowschemas").json["items"]:
            level = item["spec"]["priorityLevelConfiguration"]["name"]
            assert dangling(item["metadata"]["name"]) == ("False", "Found", f'{names} "{level}" and it exists')
        probes = wire.get(f"{FLOWS}/flowschemas/probes").json["metadata"]["managedFields"]
        assert [(each["manager"].split("-")[-2], each.get("subresource")) for each in probes] == [
            ("consumer", "status"),
            ("producer", None),
        ]
        spec = {"priorityLevelConfiguration": {"name": "mine"}, "matchingPrecedence": 7, "rules": []}
        wire.create(f"{FLOWS}/flowschemas", {"metadata": {"name": "a"}, "spec": spec})
        missing = ("True", "NotFound", f'{names} "mine" but there is no such object')
        wait_until(lambda: dangling("a") == missing, "the schema has no level")
        limited = {"limitResponse": {"type": "Reject"}}
        level = {"metadata": {"name": "mine"}, "spec": {"type": "Limited", "limited": limited}}
        wire.create(f"{FLOWS}/prioritylevelconfigurations", level)
        wait_until(lambda: dangling("a") == ("False", "Found", f'{names} "mine" and it exists'), "the level is there")
        assert wire.delete(f"{FLOWS}/prioritylevelconfigurations/mine").status == 200
        wait_until(lambda: dangling("a") == missing, "the level is gone")


def test_a_wrong_condition_is_corrected_at_most_six_times_per_minute() -> None:
    with serve() as running:
        wire = running.wire()

        def status(name: str = "probes") -> str:
            conditions = wire.get(f"{FLOWS}/flowschemas/{name}").json["status"].get("conditions", [])
            return "".join(each["status"] for each in conditions)

        def contradict() -> None:
            wrong = {"status": {"conditions": [{"type": "Dangling", "status": "True"}]}}
            assert wire.patch(f"{FLOWS}/flowschemas/probes/status", wrong).status == 200

        for _ in range(6):
            contradict()
            wait_until(lambda: status() == "False", "it is said again")
        contradict()
        spec = {"priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": 7, "rules": []}
        wire.create(f"{FLOWS}/flowschemas", {"metadata": {"name": "new"}, "spec": spec})
        wait_until(lambda: status("new") == "False", "others are not concerned")
        assert status() == "True"


SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
DEFINITION = make_definition("things", "Thing", group="a.example.com", scope="Cluster")


def list_labels(wire: Wire) -> dict[str, str]:
    """Return the label of each API service by name."""
    label = "kube-aggregator.kubernetes.io/automanaged"
    items = wire.get(SERVICES).json["items"]
    return {item["metadata"]["name"]: item["metadata"].get("labels", {}).get(label, "") for item in items}


def test_served_versions_are_listed() -> None:
    with serve("--runtime-config=resource.k8s.io/v1beta1=false") as running:
        wire = running.wire()
        groups = wire.get("/apis").json["groups"]
        served = {f"{v['version']}.{group['name']}" for group in groups for v in group["versions"]} | {"v1."}
        # The group that lists all others is listed nowhere.
        assert set(list_labels(wire)) == served - {"v1.apiregistration.k8s.io"}
        assert set(list_labels(wire).values()) == {"onstart"}
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        wire.create(definitions, DEFINITION)
        wait_until(lambda: list_labels(wire).get("v1.a.example.com") == "true", "the custom group is listed")
        assert wire.delete(f"{definitions}/things.a.example.com").status == 200
        wait_until(lambda: "v1.a.example.com" not in list_labels(wire), "the custom group is not listed any more")
        before = {name: wire.get(f"{SERVICES}/{name}").json["metadata"]["uid"] for name in ("v1.apps", "v1.batch")}
        assert wire.delete(f"{SERVICES}/v1.batch").status == 200
        assert wire.post("/-/reset", {}).status == 200
        after = {name: wire.get(f"{SERVICES}/{name}").json["metadata"]["uid"] for name in before}
        assert after["v1.apps"] == before["v1.apps"]
        assert after["v1.batch"] != before["v1.batch"]
