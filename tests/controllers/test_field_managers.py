"""Field managers of the controllers' writes: those of upstream's components, whatever controller writes."""

from __future__ import annotations

import pytest

from apiserver.api.objects import Json
from controllers.runtime.kinds import DEPLOYMENTS, DEVICE_CLASSES, PODS, REPLICA_SETS, RESOURCE_CLAIM_TEMPLATES
from tests.scheduler.world import World
from tests.support.objects import make_device_class, make_pod, make_request

pytestmark = pytest.mark.integration


def managers_of(obj: Json) -> set[tuple[str, str]]:
    return {(entry["manager"], entry["operation"]) for entry in obj["metadata"]["managedFields"]}


async def test_controllers_write_as_kube_controller_manager() -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    async with World("deployment-controller", "replicaset-controller") as world:
        head = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "ns"}}
        await world.create(DEPLOYMENTS, {**head, "spec": spec})
        await world.until(DEPLOYMENTS, "ns/web", lambda obj: obj["status"].get("replicas"))
        [replica_set] = (await world.client.list(REPLICA_SETS, "ns"))["items"]
        [pod] = (await world.client.list(PODS, "ns"))["items"]
        deployment = await world.client.get(DEPLOYMENTS, "web", "ns")
    assert managers_of(replica_set) == {("kube-controller-manager", "Update")}
    assert managers_of(pod) == {("kube-controller-manager", "Update")}
    assert managers_of(deployment) == {("test", "Update"), ("kube-controller-manager", "Update")}


async def test_names_of_generated_claims_are_applied_as_resource_claim_controller() -> None:
    async with World("resourceclaim-controller") as world:
        await world.create(DEVICE_CLASSES, make_device_class())
        head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
        template = {
            "metadata": {"name": "one", "namespace": "ns"},
            "spec": {"spec": {"devices": {"requests": [make_request()]}}},
        }
        await world.create(RESOURCE_CLAIM_TEMPLATES, {**head, **template})
        await world.create(PODS, make_pod("p", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}]))
        pod = await world.until(PODS, "ns/p", lambda obj: obj["status"].get("resourceClaimStatuses"))
        claim = await world.claim(pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"])
    assert ("ResourceClaimController", "Apply") in managers_of(pod)
    assert managers_of(claim) == {("kube-controller-manager", "Update")}
