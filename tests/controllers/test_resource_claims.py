"""The resource claim controller, and the scheduler and node agent with it, on a running control plane."""

import httpx
import pytest

from apiserver.api.objects import Json
from controllers.resourceclaims.generated_claims import base_name, generated_claim
from controllers.runtime.kinds import DEVICE_CLASSES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from kubedra.pytest_plugin import Kube
from tests.support.objects import make_manifest
from tests.support.patience import wait_until

pytestmark = pytest.mark.integration

CLASS = make_manifest(
    DEVICE_CLASSES, "gpu", {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]}
)
FINALIZER = "resource.kubernetes.io/delete-protection"


def spec(count: int = 1) -> Json:
    return {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": count}}]}}


def template(name: str = "one", count: int = 1) -> Json:
    body = {"metadata": {"labels": {"from": "template"}}, "spec": spec(count)}
    return make_manifest(RESOURCE_CLAIM_TEMPLATES, name, body)


def pod(name: str, *, annotations: Json | None = None, node: str | None = None, **entry: str) -> Json:
    body = {
        "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}],
        "resourceClaims": [{"name": "gpu", **(entry or {"resourceClaimTemplateName": "one"})}],
        "restartPolicy": "Never",
        **({"nodeName": node} if node else {}),
    }
    return make_manifest(PODS, name, body, annotations=annotations or {})


def claim_of(kube: Kube, name: str) -> Json:
    statuses = kube.get(f"pod/{name}")["status"]["resourceClaimStatuses"]
    return kube.get(f"resourceclaim/{statuses[0]['resourceClaimName']}")


@pytest.fixture
def cluster(kube: Kube) -> Kube:
    kube.add_node("worker", devices=2)
    kube.apply([CLASS, template()])
    return kube


def test_a_claim_is_generated_from_the_template_and_owned_by_the_pod(cluster: Kube) -> None:
    cluster.apply(pod("p"))
    running = cluster.wait("pod/p", "phase=Running")
    meta = claim_of(cluster, "p")["metadata"]
    assert meta["name"].startswith("p-gpu-")
    assert meta["labels"] == {"from": "template"}
    assert meta["annotations"]["resource.kubernetes.io/pod-claim-name"] == "gpu"
    assert [(owner["kind"], owner["uid"], owner["controller"]) for owner in meta["ownerReferences"]] == [
        ("Pod", running["metadata"]["uid"], True)
    ]
    assert meta["finalizers"] == [FINALIZER]


def test_a_running_pods_claim_is_allocated_on_its_node_and_reserved_for_it(cluster: Kube) -> None:
    cluster.apply(pod("p"))
    running = cluster.wait("pod/p", "phase=Running")
    status = claim_of(cluster, "p")["status"]
    (result,) = status["allocation"]["devices"]["results"]
    assert (result["driver"], result["pool"]) == ("gpu.example.com", "worker")
    assert status["reservedFor"] == [{"resource": "pods", "name": "p", "uid": running["metadata"]["uid"]}]


@pytest.mark.kube(own=True)
def test_claims_are_counted_by_how_they_came_to_be(cluster: Kube) -> None:
    def samples() -> set[str]:
        text = httpx.get(f"{cluster.url}/metrics").text
        return {line for line in text.splitlines() if line.startswith("resourceclaim_controller_")}

    cluster.apply(
        [
            make_manifest(RESOURCE_CLAIMS, "by-hand", spec(9)),
            pod("p"),
        ]
    )
    cluster.wait("pod/p", "phase=Running")
    label = 'admin_access="false"'
    expected = {
        f'resourceclaim_controller_creates_total{{status="success",{label}}} 1',
        f'resourceclaim_controller_resource_claims{{allocated="false",{label},source=""}} 1',
        f'resourceclaim_controller_resource_claims{{allocated="true",{label},source="resource_claim_template"}} 1',
    }
    wait_until(lambda: samples() == expected, "the controller has seen both claims")


def test_a_deleted_pod_takes_its_generated_claim_with_it(cluster: Kube) -> None:
    cluster.apply(pod("p"))
    cluster.wait("pod/p", "phase=Running")
    claim = claim_of(cluster, "p")["metadata"]["name"]
    cluster.delete("pod/p")
    cluster.wait("pod/p", "delete")
    cluster.wait(f"resourceclaim/{claim}", "delete")


def test_a_finished_pods_generated_claim_goes_while_the_pod_stays(cluster: Kube) -> None:
    cluster.apply(pod("p", annotations={"kubedra.dev/exit-after": "0.05"}))
    cluster.wait("pod/p", "phase=Succeeded")
    claim = cluster.get("pod/p")["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
    cluster.wait(f"resourceclaim/{claim}", "delete")
    assert cluster.get("pod/p")["status"]["phase"] == "Succeeded"


def test_a_claim_that_the_user_made_is_deallocated_with_its_last_user_and_kept(cluster: Kube) -> None:
    cluster.apply(
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "shared"}, "spec": spec()}
    )
    cluster.apply([pod("a", resourceClaimName="shared"), pod("b", resourceClaimName="shared")])
    cluster.wait("pod/a", "phase=Running")
    cluster.wait("pod/b", "phase=Running")
    cluster.delete("pod/a")
    after_first = cluster.wait("resourceclaim/shared", lambda claim: len(claim["status"].get("reservedFor") or ()) == 1)
    assert "allocation" in after_first["status"]
    cluster.delete("pod/b")
    after_last = cluster.wait("resourceclaim/shared", lambda claim: not claim["metadata"].get("finalizers"))
    assert "allocation" not in after_last["status"]
    assert "reservedFor" not in after_last["status"]


def test_a_deleted_claim_in_use_stays_until_its_pod_is_gone(cluster: Kube) -> None:
    cluster.apply(
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "shared"}, "spec": spec()}
    )
    cluster.apply(pod("a", resourceClaimName="shared"))
    cluster.wait("pod/a", "phase=Running")
    deleted = cluster.delete("resourceclaim/shared")
    assert deleted["metadata"]["deletionTimestamp"]
    assert cluster.get("pod/a")["status"]["phase"] == "Running"
    cluster.delete("pod/a")
    cluster.wait("resourceclaim/shared", "delete")


def test_a_missing_template_is_reported_for_the_pod_until_it_is_created(cluster: Kube) -> None:
    cluster.apply(pod("p", resourceClaimTemplateName="late"))
    events = cluster.client().watch(
        cluster.client().path("v1", "Event"), timeout=300, fieldSelector="reason=FailedResourceClaimCreation"
    )
    words = (
        'PodResourceClaim gpu: resource claim template "late": resourceclaimtemplate.resource.k8s.io "late" not found'
    )
    assert next(events)["object"]["message"] == words
    cluster.apply(template("late"))
    cluster.wait("pod/p", "phase=Running")


def test_a_pod_put_on_a_node_by_hand_gets_its_allocated_claim_reserved(cluster: Kube) -> None:
    cluster.apply(
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "shared"}, "spec": spec()}
    )
    cluster.apply(pod("a", resourceClaimName="shared"))
    cluster.wait("pod/a", "phase=Running")
    cluster.apply(pod("b", resourceClaimName="shared", node="worker"))
    cluster.wait("pod/b", "phase=Running")
    assert {user["name"] for user in cluster.get("resourceclaim/shared")["status"]["reservedFor"]} == {"a", "b"}


def test_devices_that_are_taken_keep_a_pod_pending_until_they_are_free(cluster: Kube) -> None:
    cluster.apply([pod("a"), pod("b"), pod("c")])
    waiting = []
    for name in "abc":
        state = cluster.wait(
            f"pod/{name}",
            lambda p: (
                p["status"]["phase"] == "Running"
                or any(c["reason"] == "Unschedulable" for c in p["status"].get("conditions") or () if "reason" in c)
            ),
        )
        waiting += [name] if state["status"]["phase"] == "Pending" else []
    assert len(waiting) == 1
    message = next(
        c["message"] for c in cluster.get(f"pod/{waiting[0]}")["status"]["conditions"] if c["type"] == "PodScheduled"
    )
    assert message.startswith("0/1 nodes are available: 1 cannot allocate all claims.")
    cluster.delete(f"pod/{'b' if waiting == ['a'] else 'a'}")
    cluster.wait(f"pod/{waiting[0]}", "phase=Running")


def test_the_allocation_of_a_claim_that_two_pods_want_is_on_one_node(cluster: Kube) -> None:
    cluster.add_node("other", devices=2)
    cluster.apply(
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "pair"}, "spec": spec(2)}
    )
    cluster.apply([pod("a", resourceClaimName="pair"), pod("b", resourceClaimName="pair")])
    nodes = {cluster.wait(f"pod/{name}", "phase=Running")["spec"]["nodeName"] for name in "ab"}
    assert len(nodes) == 1


@pytest.mark.parametrize(("owner", "entry"), [("pod", "gpu"), ("p" * 63, "c" * 63), ("p" * 200, "c"), ("p", "c" * 63)])
def test_generated_names_leave_room_for_the_servers_letters(owner: str, entry: str) -> None:
    base = base_name(owner, entry)
    assert len(base) <= 58
    assert base.startswith(owner[:1])
    assert f"-{entry[:1]}" in base


def test_a_generated_claim_carries_the_templates_metadata_without_changing_it() -> None:
    wanted = template()
    made = generated_claim({"metadata": {"name": "p", "namespace": "n", "uid": "u"}}, PODS, "gpu", wanted)
    assert made["spec"] == wanted["spec"]["spec"]
    assert "annotations" not in wanted["spec"]["metadata"]
