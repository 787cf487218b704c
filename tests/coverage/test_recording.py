"""What clients reach of a control plane with --coverage, and what pytest reports of a suite."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kubedra import ApiError, ControlPlane
from kubedra.client.client import Client
from kubedra.pytest_plugin import Kube
from tests.package.test_plugin import project, run_pytest
from tests.support.objects import pod_manifest

pytestmark = pytest.mark.integration

QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "q"},
    "spec": {"hard": {"pods": "0"}},
}
CALL = {
    "time": "2026-01-01T00:00:00Z",
    "node": "n",
    "driver": "d",
    "service": "s",
    "claims": [],
}


def refused(client: Client, obj: dict[str, Any]) -> int:
    with pytest.raises(ApiError) as error:
        client.create(obj)
    return error.value.code


def test_reached_behaviours_are_counted_and_known_ones_listed() -> None:
    gates = {"DRADeviceTaints": True}
    plane = ControlPlane(args=["--coverage"], emulated_version="1.35", feature_gates=gates)
    with plane, plane.client() as client:
        before = client.request("GET", "/-/coverage")
        assert not any(before["requests"].values()), "the components are no clients of a suite"
        client.add_node("worker", taints=[{"key": "broken", "effect": "NoSchedule"}])
        client.create(pod_manifest("web"))
        client.wait("pod/web", "condition=PodScheduled=False")
        assert refused(client, pod_manifest("web")) == 409
        assert refused(client, pod_manifest("x", hostNetwork="no", containers=[])) in (400, 422)
        assert refused(client, pod_manifest("x", containers=[{"name": "A", "image": "i"}])) == 422
        client.create(QUOTA)
        client.wait("resourcequota/q", lambda quota: "hard" in quota.get("status", {}))
        assert refused(client, pod_manifest("y")) == 403
        with client.fault(resource="secrets", status=503, count=1), pytest.raises(ApiError):
            client.list("secrets")
        calls = [
            {**CALL, "id": "1", "method": "GetInfo", "code": "OK"},
            {
                **CALL,
                "id": "2",
                "method": "NodePrepareResources",
                "code": "OK",
                "answer": {"claims": {"u": {"error": "no"}}},
            },
            {**CALL, "id": "3", "method": "NodePrepareResources", "code": ""},
        ]
        client.request("POST", "/-/drivers/calls", {"calls": calls})
        plane.reset()
        found = client.request("GET", "/-/coverage")
    reached = {category: {name for name, count in hits.items() if count} for category, hits in found.items()}
    assert reached["scheduling"] == {"unschedulable", "node(s) had untolerated taint(s)"}
    assert {"AlreadyExists", "Invalid", "Forbidden", "Invalid: FieldValueInvalid"} <= reached["rejections"]
    assert "pods spec.containers[*].name: FieldValueInvalid" in reached["causes"]
    assert reached["admission"] == {"ResourceQuota"}
    assert "FailedScheduling" in reached["events"]
    assert reached["faults"] == {"status 503"}
    assert reached["drivers"] == {"GetInfo OK", "NodePrepareResources claim failed"}
    assert reached["gates"] == {"DRADeviceTaints=true", "release 1.35"}
    assert reached["kinds"] == {"nodes", "pods", "resourcequotas"}
    assert "v1 pods create" in reached["requests"]
    assert found["requests"]["v1 pods/eviction create"] == 0, "known, as the suite uses pods"
    assert "v1 services create" not in found["requests"], "nor are services used"
    assert found["kinds"]["resourceclaims.resource.k8s.io"] == 0
    assert found["admission"]["LimitRanger"] == 0


def test_a_server_without_the_flag_records_nothing(kube: Kube) -> None:
    with pytest.raises(ApiError, match="start it with --coverage"):
        kube.client().request("GET", "/-/coverage")


SUITE = """
import pytest

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}

def test_pods(kube):
    kube.create(POD)

def test_configmaps(kube):
    kube.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})

@pytest.mark.kube(own=True, controllers=False)
def test_secrets(kube):
    kube.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}})
"""


@pytest.mark.timeout(300)
def test_a_suite_on_two_workers_has_one_report(tmp_path: Path) -> None:
    directory = project(tmp_path, SUITE)
    done = run_pytest(directory, "-q", "-n", "2", "--kubedra-cov=term,html,json")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((directory / ".kubedra-cov" / "report.json").read_text())
    kinds = {name for name, count in report["hits"]["kinds"].items() if count}
    assert kinds == {"pods", "configmaps", "secrets"}, "of both workers, and of the control plane of one test"
    assert "scheduler outcomes" in done.stdout
    assert "    never: scheduled; " in done.stdout
    assert "kubedra coverage" in (directory / ".kubedra-cov" / "index.html").read_text()
    done = run_pytest(directory, "-q", "-n", "0", "-k", "pods", "--kubedra-cov", "--kubedra-cov-fail-under=90")
    assert done.returncode == 1
    assert "1 passed" in done.stdout
    assert "no longer reached: kinds: configmaps" in done.stdout
    assert "--kubedra-cov-fail-under requires 90%" in done.stdout


def test_a_wrong_report_is_a_usage_error_and_a_suite_without_a_control_plane_is_told(tmp_path: Path) -> None:
    directory = project(tmp_path, "def test_nothing():\n    pass\n")
    done = run_pytest(directory, "--kubedra-cov=xml")
    assert done.returncode == 4
    assert "--kubedra-cov=xml: use term, term-missing, html, json" in done.stderr
    done = run_pytest(directory, "-q", "--kubedra-cov", "--kubedra-cov-fail-under=90")
    assert done.returncode == 0
    assert "no test used a control plane" in done.stdout
    assert not (directory / ".kubedra-cov").exists()
