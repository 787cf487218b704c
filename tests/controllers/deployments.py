"""Builders of a Deployment and its ReplicaSets, and one call that reconciles it."""

from __future__ import annotations

from typing import Any

from apiserver.api.objects import Json
from controllers.workloads.deployment.component import Deployments
from controllers.workloads.deployment.replicasets import DESIRED, HASH_LABEL, MAX_REPLICAS, REVISION
from tests.support import recording
from tests.support.recording import RecordingClient

#: The start of virtual time.
NOW, BEFORE = "2026-01-01T00:00:00Z", "2025-12-31T23:58:00Z"
AVAILABLE = {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable",
             "message": "Deployment has minimum availability."}  # fmt: skip


def template(image: str) -> Json:
    return {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": image}]}}


def deployment(
    image: str = "new", replicas: int = 4, surge: Any = 1, missing: Any = 0, status: Json | None = None,
    annotations: Json | None = None, **spec: Any,
) -> Json:  # fmt: skip
    """Build the Deployment `ns/d`. `missing`: its maxUnavailable; `annotations`: its own."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": missing}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "x"}}, "template": template(image),
            "strategy": strategy, "progressDeadlineSeconds": 60, **spec}  # fmt: skip
    metadata = {"name": "d", "namespace": "ns", "uid": "u", "generation": 3, "annotations": annotations or {}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec, "status": status or {}}


def held(name: str, size: int, number: int, available: int | None = None, *, of: int = 0, **more: Any) -> Json:
    """Build the ReplicaSet of an image. `number`: its revision; `of`: the annotated size of its Deployment."""
    ready = size if available is None else available
    annotations = {
        REVISION: str(number),
        **({DESIRED: str(of), MAX_REPLICAS: str(of + 1)} if of else {}),
        **more.pop("annotations", {}),
    }
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u", "controller": True}
    made = template(name)
    made["metadata"]["labels"][HASH_LABEL] = name
    counts = {"replicas": size, "availableReplicas": ready, "readyReplicas": ready, "observedGeneration": 1}
    metadata = {"name": f"d-{name}", "namespace": "ns", "uid": name, "generation": 1, "labels": {"app": "x"},
                "creationTimestamp": f"2025-12-0{number}T00:00:00Z", "annotations": annotations, "ownerReferences": [owner]}  # fmt: skip
    spec = {"replicas": size, "selector": {"matchLabels": {"app": "x"}}, "template": made}
    status = {name: n for name, n in counts.items() if n} | more
    return {"kind": "ReplicaSet", "metadata": metadata, "spec": spec, "status": status}


def progress(reason: str, status: str = "True", at: str = NOW) -> Json:
    return {"type": "Progressing", "status": status, "reason": reason, "lastUpdateTime": at, "lastTransitionTime": at}


class DeploymentClient(RecordingClient):
    """Records the writes for the Deployment `ns/d`."""

    @property
    def made(self) -> list[Json]:
        return self.bodies("create", "ReplicaSet")

    @property
    def sizes(self) -> dict[str, int]:
        """The new sizes of existing ReplicaSets, by their images."""
        return {each["metadata"]["uid"]: each["spec"]["replicas"] for each in self.bodies("update", "ReplicaSet")}

    @property
    def messages(self) -> list[str]:
        return [message for _, _, message in self.events]

    @property
    def gone(self) -> list[str]:
        return [name.removeprefix("ns/d-") for name, _ in self.bodies("delete", "ReplicaSet")]

    @property
    def progress(self) -> tuple[str, str] | None:
        found = [each for each in self.status.get("conditions", ()) if each["type"] == "Progressing"]
        return (found[0]["status"], found[0]["reason"]) if found else None


def build(of: Json, *objects: Json, **more: Any) -> DeploymentClient:
    """Build the component over a Deployment with ReplicaSets and pods."""
    return recording.build(Deployments, DeploymentClient(), of, *objects, **more)


async def reconcile(of: Json, *objects: Json, **more: Any) -> DeploymentClient:
    """Reconcile a Deployment with ReplicaSets and pods once."""
    return await build(of, *objects, **more).reconcile("ns/d")
