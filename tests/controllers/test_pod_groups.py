"""Groups of pods on a running control plane: they stay while a pod belongs to them."""

from pathlib import Path
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.runtime.kinds import DEVICE_CLASSES, PODS, RESOURCE_CLAIM_TEMPLATES
from kubedra.pytest_plugin import Kube
from tests.support.objects import make_manifest

pytestmark = pytest.mark.integration

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "pod-groups" / "shared-claim.yaml"
GATES = {"GenericWorkload": True}
ON = pytest.mark.kube(own=True, feature_gates=GATES, runtime_config="scheduling.k8s.io/v1alpha2=true")
ONCE = {"kubedra.dev/exit-after": "0.05"}


def group(name: str, **spec: Any) -> Json:
    body = {"schedulingPolicy": {"basic": {}}, **spec}
    return {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": name}, "spec": body}


def member(name: str, of: str, *, annotations: Json | None = None, **spec: Any) -> Json:
    body = {
        "schedulingGroup": {"podGroupName": of},
        "containers": [{"name": "c", "image": "i"}],
        "restartPolicy": "Never",
        **spec,
    }
    return make_manifest(PODS, name, body, annotations=annotations or {})


@ON
def test_a_deleted_group_goes_at_once_without_members_and_with_the_last_that_runs(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply([group("empty"), group("busy"), member("a", "busy"), member("b", "busy", annotations=ONCE)])
    kube.wait("pod/a", "phase=Running")
    kube.wait("pod/b", "phase=Succeeded")
    kube.delete("podgroup/empty")
    kube.wait("podgroup/empty", "delete")
    assert kube.delete("podgroup/busy")["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]
    assert kube.get("podgroup/busy")["metadata"]["deletionTimestamp"]
    kube.delete("pod/a")
    kube.wait("podgroup/busy", "delete")


@ON
def test_a_namespace_goes_with_its_groups(kube: Kube) -> None:
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    kube.apply({**group("g"), "metadata": {"name": "g", "namespace": "team"}})
    kube.delete("namespace/team")
    kube.wait("namespace/team", "delete")


@pytest.mark.kube(own=True, feature_gates=GATES)
def test_a_control_plane_that_does_not_serve_groups_starts_all_the_same(kube: Kube) -> None:
    assert kube.get("namespace/default")["status"]["phase"] == "Active"


# Claims of groups.

CLAIMS_ON = pytest.mark.kube(
    own=True,
    feature_gates={**GATES, "DRAWorkloadResourceClaims": True},
    runtime_config="scheduling.k8s.io/v1alpha2=true",
)
DEVICES = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
ENTRY = {"name": "shared", "resourceClaimTemplateName": "one"}
OWN = {"name": "own", "resourceClaimTemplateName": "one"}
CLASS = make_manifest(
    DEVICE_CLASSES, "gpu", {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]}
)
TEMPLATE = make_manifest(RESOURCE_CLAIM_TEMPLATES, "one", {"spec": DEVICES})


def names(obj: Json) -> dict[str, str]:
    return {entry["name"]: entry["resourceClaimName"] for entry in obj["status"].get("resourceClaimStatuses") or ()}


@CLAIMS_ON
def test_a_groups_claim_is_made_once_and_named_to_all_members(kube: Kube) -> None:
    kube.apply([CLASS, member("early", "g", resourceClaims=[ENTRY, OWN]), group("g", resourceClaims=[ENTRY])])
    kube.apply(TEMPLATE)
    kube.apply(member("late", "g", resourceClaims=[ENTRY]))
    made = names(kube.wait("podgroup/g", names))["shared"]
    early = names(kube.wait("pod/early", lambda pod: len(names(pod)) == 2))
    assert early["shared"] == made != early["own"]
    assert names(kube.wait("pod/late", names)) == {"shared": made}
    meta = kube.get(f"resourceclaim/{made}")["metadata"]
    assert meta["generateName"] == "g-shared-"
    assert meta["annotations"]["resource.kubernetes.io/pod-claim-name"] == "shared"
    (owner,) = meta["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"], owner["name"], owner["controller"]) == (
        "scheduling.k8s.io/v1alpha2",
        "PodGroup",
        "g",
        True,
    )
    assert {owner["kind"] for owner in kube.get(f"resourceclaim/{early['own']}")["metadata"]["ownerReferences"]} == {
        "Pod"
    }


@CLAIMS_ON
def test_a_missing_template_is_reported_for_the_group(kube: Kube) -> None:
    kube.apply(group("g", resourceClaims=[ENTRY]))
    client = kube.client()
    events = client.watch(client.path("v1", "Event"), timeout=300, fieldSelector="reason=FailedResourceClaimCreation")
    words = (
        'PodGroupResourceClaim shared: resource claim template "one": resourceclaimtemplate.resource.k8s.io "one" not'
        " found"
    )
    assert next(events)["object"]["message"] == words


@CLAIMS_ON
def test_a_reservation_for_a_group_ends_with_the_group_and_one_for_another_object_stays(kube: Kube) -> None:
    kube.apply([CLASS, group("g", resourceClaims=[{"name": "c", "resourceClaimName": "mine"}])])
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "mine"}, "spec": DEVICES}
    kube.apply(claim)
    client = kube.client()
    path = client.path("resource.k8s.io/v1", "ResourceClaim", None, "mine")
    uid = kube.get("podgroup/g")["metadata"]["uid"]
    of_group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": uid}
    job = {"apiGroup": "batch", "resource": "jobs", "name": "j", "uid": "u"}
    gone = {**of_group, "name": "never", "uid": "other"}
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "p", "device": "d"}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [of_group, gone, job]}
    client.request("PATCH", f"{path}/status", {"status": status}, content_type="application/merge-patch+json")
    kube.wait("resourceclaim/mine", lambda c: c["status"]["reservedFor"] == [of_group, job])
    kube.delete("podgroup/g")
    kube.wait("resourceclaim/mine", lambda c: c["status"]["reservedFor"] == [job])


@CLAIMS_ON
def test_a_member_put_on_a_node_by_hand_has_the_claim_reserved_for_its_group(kube: Kube) -> None:
    kube.add_node("worker")
    entry = {"name": "c", "resourceClaimName": "mine"}
    kube.apply([CLASS, group("g", resourceClaims=[entry])])
    kube.apply(
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "mine"}, "spec": DEVICES}
    )
    client = kube.client()
    path = client.path("resource.k8s.io/v1", "ResourceClaim", None, "mine")
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "p", "device": "d"}
    client.request(
        "PATCH",
        f"{path}/status",
        {"status": {"allocation": {"devices": {"results": [result]}}}},
        content_type="application/merge-patch+json",
    )
    kube.apply(member("a", "g", nodeName="worker", resourceClaims=[entry]))
    claim = kube.wait("resourceclaim/mine", lambda c: c["status"].get("reservedFor"))
    (consumer,) = claim["status"]["reservedFor"]
    assert (consumer["apiGroup"], consumer["resource"], consumer["name"]) == ("scheduling.k8s.io", "podgroups", "g")


@CLAIMS_ON
def test_the_claim_of_the_example_is_reserved_for_the_group_once_and_given_up_with_it(kube: Kube) -> None:
    kube.add_node("worker", devices=1)
    kube.apply(EXAMPLE)
    for name in ("worker-0", "worker-1"):
        kube.wait(f"pod/{name}", "phase=Running")
    made = kube.get("podgroup/training")
    claim = names(made)["shared"]
    consumer = {
        "apiGroup": "scheduling.k8s.io",
        "resource": "podgroups",
        "name": "training",
        "uid": made["metadata"]["uid"],
    }
    assert kube.get(f"resourceclaim/{claim}")["status"]["reservedFor"] == [consumer]
    for name in ("worker-0", "worker-1"):
        kube.delete(f"pod/{name}")
        kube.wait(f"pod/{name}", "delete")
    assert "allocation" in kube.get(f"resourceclaim/{claim}")["status"]
    kube.delete("podgroup/training")
    kube.wait("podgroup/training", "delete")
    kube.wait(f"resourceclaim/{claim}", "delete")


def scheduled(kube: Kube, name: str) -> Json:
    found = kube.get(f"podgroup/{name}").get("status", {}).get("conditions", ())
    return next((condition for condition in found if condition["type"] == "PodGroupScheduled"), {})


def asking(name: str, of: str, count: str) -> Json:
    needs = {"resources": {"requests": {"cpu": count}}}
    return member(name, of, containers=[{"name": "c", "image": "i", **needs}])


@ON
def test_a_group_is_unschedulable_until_its_pods_fit(kube: Kube) -> None:
    kube.add_node("n", devices=0)
    kube.apply(group("work"))
    kube.apply(asking("greedy", "work", "100000"))
    kube.wait("podgroup/work", "condition=PodGroupScheduled=False")
    waits = scheduled(kube, "work")
    assert (waits["reason"], waits["message"]) == ("Unschedulable", "pod group is unschedulable")
    kube.apply(asking("modest", "work", "1"))
    kube.wait("podgroup/work", "condition=PodGroupScheduled")
    assert scheduled(kube, "work")["reason"] == "Scheduled"
    kube.delete("pod/modest", grace_period=0)
    kube.wait("pod/modest", "delete")
    assert scheduled(kube, "work")["status"] == "True"
