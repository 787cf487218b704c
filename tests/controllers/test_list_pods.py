"""`kubedra claims list-pods`: workloads in status.reservedFor become lists of pods, so that a gate can be turned off."""

from __future__ import annotations

from pathlib import Path

import pytest

from apiserver.api.objects import Json
from controllers.resourceclaims.list_pods import main, replacement
from kubedra import ControlPlane
from tests.support.objects import make_claim, make_pod

pytestmark = pytest.mark.integration

JOB = {"apiGroup": "batch", "resource": "jobs", "name": "train", "uid": "train"}
GROUP = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "g"}
LISTED = {"resource": "pods", "name": "listed", "uid": "listed"}
CONTAINERS = {"containers": [{"name": "c", "image": "i"}]}
GATE = "DRAReservedForWorkloads"


def claim(*users: Json) -> Json:
    return make_claim("c", allocation={"devices": {}}, reservedFor=list(users))


def pod(name: str, **more: str) -> Json:
    made = make_pod(name, node=more.get("node", "n"), uid=name, status={"phase": more.get("phase", "Running")})
    spec = {**made["spec"], "resourceClaims": [{"name": "x", "resourceClaimName": more.get("claim", "c")}]}
    if "group" in more:
        spec["schedulingGroup"] = {"podGroupName": more["group"]}
    return {**made, "spec": spec}


def test_the_running_pods_of_a_claim_replace_its_workloads() -> None:
    pods = [
        pod("a"), pod("listed"), pod("done", phase="Succeeded"), pod("waiting", node=""), pod("other", claim="d"),
        pod("member", group="g"), {**pod("elsewhere"), "metadata": {**pod("elsewhere")["metadata"], "namespace": "x"}},
    ]  # fmt: skip
    found = replacement(claim(LISTED, JOB, GROUP), pods)
    assert found is not None
    assert found.users == [LISTED, GROUP, {"resource": "pods", "name": "a", "uid": "a"}]
    assert str(found) == "ns/c: 3 consumers instead of jobs/train"
    assert replacement(claim(LISTED, GROUP), pods) is None
    assert replacement(make_claim("c"), pods) is None


def test_more_pods_than_a_claim_can_list_are_reported() -> None:
    found = replacement(claim(JOB), [pod(f"p{number}") for number in range(257)])
    assert found is not None
    assert str(found) == "ns/c: 257 consumers instead of jobs/train; unchanged: at most 256 fit, scale down first"
    assert found.fits is False


def test_pods_of_an_open_claim_run_on_after_the_gate_was_turned_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def start(enabled: bool) -> ControlPlane:
        return ControlPlane(
            nodes=1,
            devices="gpu.example.com",
            storage="sqlite",
            data_dir=tmp_path,
            feature_gates={GATE: enabled},
        )

    def user(name: str) -> Json:
        spec = {**CONTAINERS, "resourceClaims": [{"name": "x", "resourceClaimName": "c"}]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}

    with start(True) as plane, plane.client() as client:
        job = client.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": {
            "suspend": True, "template": {"spec": {**CONTAINERS, "restartPolicy": "Never"}}}})  # fmt: skip
        requests = [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}]
        reference = {**JOB, "uid": job["metadata"]["uid"]}
        claim_spec = {"devices": {"requests": requests}, "reservedFor": reference}
        client.create({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"},
                       "spec": claim_spec})  # fmt: skip
        for name in "ab":
            client.create(user(name))
            client.wait(f"pod/{name}", "phase=Running")
        server = ("list-pods", "--server", plane.url)
        assert client.get("resourceclaims", "c")["status"]["reservedFor"] == [reference]
        assert main([*server, "--dry-run"]) == 0
        assert client.get("resourceclaims", "c")["status"]["reservedFor"] == [reference]
        assert main([*server, "-n", "default"]) == 0
        assert capsys.readouterr().out == "default/c: 2 consumers instead of jobs/train\n" * 2
        assert main([*server]) == 0
        assert capsys.readouterr().out == "no claim is reserved for a workload\n"
    with start(False) as plane, plane.client() as client:
        users = client.get("resourceclaims", "c")["status"]["reservedFor"]
        assert [user["name"] for user in users] == ["a", "b"]
        client.create(user("d"))
        client.wait("pod/d", "phase=Running")
        users = client.get("resourceclaims", "c")["status"]["reservedFor"]
        assert [user["name"] for user in users] == ["a", "b", "d"]
        for name in "abd":
            client.delete(f"pods/{name}", grace_period=0)
        client.wait("resourceclaim/c", lambda claim: not claim.get("status", {}).get("allocation"))


def test_a_usage_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list-pods", "--server", "nowhere"]) == 2
    assert main([]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_an_open_claim_whose_pods_were_listed_keeps_its_devices_while_an_unlisted_pod_runs() -> None:
    user = {"apiVersion": "v1", "kind": "Pod", "spec": {
        **CONTAINERS, "resourceClaims": [{"name": "x", "resourceClaimName": "c"}]}}  # fmt: skip
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}]
    reference = {"apiGroup": "example.com", "resource": "trainings", "name": "llm", "uid": "u"}
    claim_spec = {"devices": {"requests": requests}, "reservedFor": reference}
    gates = {GATE: True}
    with (
        ControlPlane(nodes=1, devices="gpu.example.com", feature_gates=gates) as plane,
        plane.client() as client,
    ):
        client.create({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"},
                       "spec": claim_spec})  # fmt: skip
        client.create({**user, "metadata": {"name": "a"}})
        client.wait("pod/a", "phase=Running")
        assert main(["list-pods", "--server", plane.url]) == 0
        client.create({**user, "metadata": {"name": "b"}})
        client.wait("pod/b", "phase=Running")
        users = client.get("resourceclaims", "c")["status"]["reservedFor"]
        assert [each["name"] for each in users] == ["a"]
        client.delete("pods/a", grace_period=0)
        client.wait("resourceclaim/c", lambda claim: not claim["status"].get("reservedFor"))
        assert "allocation" in client.get("resourceclaims", "c")["status"]
        client.delete("pods/b", grace_period=0)
        client.wait("resourceclaim/c", lambda claim: not claim.get("status", {}).get("allocation"))
