"""Objects from files as a server would have stored them, for a world that is only imagined: defaults filled in, unknown
fields refused, workloads as the pods that they would make.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Final

from apiserver.api.codec.codec import DecodeError
from apiserver.api.codec.strictness import examine
from apiserver.api.schema.defaulting import fill_defaults
from apiserver.api.schema.language import Struct
from apiserver.runtime.clock import now
from controllers.runtime.kinds import Json
from kubedra.client.manifests import Document, Manifest, documents

__all__ = ["UNLIMITED", "Hypothetical", "ManifestError", "bare_node", "numbered"]

#: Of nodes of which nothing is known but their devices.
UNLIMITED: Final = {"cpu": "1000000", "memory": "1000Ti", "ephemeral-storage": "1000Ti", "pods": "1000000"}
_RESOURCE: Final = "resource.k8s.io/"


class ManifestError(ValueError):
    """A document that cannot be used; the text names it."""


def _schemas() -> dict[tuple[str, str], Struct]:
    from apiserver.api.types import apps, batch, policy, scheduling, storage
    from apiserver.api.types.core import nodes, persistentvolumes, pods, replication
    from apiserver.api.types.resource import v1

    return {
        ("v1", "Pod"): pods.Pod,
        ("v1", "Node"): nodes.Node,
        ("v1", "ReplicationController"): replication.ReplicationController,
        ("v1", "PersistentVolume"): persistentvolumes.PersistentVolume,
        ("v1", "PersistentVolumeClaim"): persistentvolumes.PersistentVolumeClaim,
        ("storage.k8s.io/v1", "StorageClass"): storage.StorageClass,
        ("storage.k8s.io/v1", "CSINode"): storage.CSINode,
        ("storage.k8s.io/v1", "CSIDriver"): storage.CSIDriver,
        ("storage.k8s.io/v1", "CSIStorageCapacity"): storage.CSIStorageCapacity,
        ("scheduling.k8s.io/v1", "PriorityClass"): scheduling.PriorityClass,
        ("scheduling.k8s.io/v1alpha2", "PodGroup"): scheduling.PodGroup,
        ("policy/v1", "PodDisruptionBudget"): policy.PodDisruptionBudget,
        ("apps/v1", "Deployment"): apps.Deployment,
        ("apps/v1", "StatefulSet"): apps.StatefulSet,
        ("apps/v1", "ReplicaSet"): apps.ReplicaSet,
        ("batch/v1", "Job"): batch.Job,
        ("resource.k8s.io/v1", "DeviceClass"): v1.DeviceClass,
        ("resource.k8s.io/v1", "ResourceClaim"): v1.ResourceClaim,
        ("resource.k8s.io/v1", "ResourceClaimTemplate"): v1.ResourceClaimTemplate,
        ("resource.k8s.io/v1", "ResourceSlice"): v1.ResourceSlice,
    }


class Hypothetical:
    """What files hold, by kind. `left_out` are kinds that make no difference here, in order."""

    def __init__(self, manifests: Iterable[Manifest]) -> None:
        self._schemas = _schemas()
        self.objects: dict[str, list[Json]] = {}
        self.left_out: list[str] = []
        self._made = 0
        for manifest in manifests:
            for document in documents(manifest):
                self._add(document)

    def of(self, kind: str) -> list[Json]:
        """The objects of a kind, in the order of the files."""
        return self.objects.get(kind, [])

    def pods(self, replicas: int | None = None) -> Iterator[Json]:
        """Pods, and those that workloads would make; of each as many as it says, or `replicas`."""
        for pod, count in self.each():
            yield from copies(pod, count if replicas is None else replicas)

    def each(self) -> Iterator[tuple[Json, int | None]]:
        """A pod of each, and how many there are to be; None for a pod that is none of many."""
        for kind, objects in self.objects.items():
            for obj in objects:
                if kind == "Pod":
                    yield obj, None
                elif "template" in (obj.get("spec") or {}):
                    yield pod_of(obj), _count(obj)

    def _add(self, document: Document) -> None:
        """Raises ManifestError."""
        obj = deepcopy(document.obj)
        api_version, kind = obj["apiVersion"], obj["kind"]
        if api_version.startswith(_RESOURCE) and api_version != "resource.k8s.io/v1":
            obj = _newest(obj)
            api_version = obj["apiVersion"]
        schema = self._schemas.get((api_version, kind))
        if schema is None:
            if kind not in self.left_out and kind != "Namespace":
                self.left_out.append(kind)
            return
        try:
            clean, problems, _, _ = examine(schema, obj, b"")
        except DecodeError as error:
            raise ManifestError(f"{document}: {error}") from error
        if problems:
            raise ManifestError(f"{document}: {', '.join(problems)}")
        fill_defaults(schema, clean, now())
        self._made += 1
        clean["metadata"] = stored(clean["metadata"], f"{kind}-{self._made}", namespaced=kind in _NAMESPACED)
        self.objects.setdefault(kind, []).append(clean)


_NAMESPACED: Final = frozenset(
    ("Pod", "ReplicationController", "Deployment", "StatefulSet", "ReplicaSet", "Job", "ResourceClaim",
     "ResourceClaimTemplate", "PersistentVolumeClaim", "CSIStorageCapacity", "PodGroup", "PodDisruptionBudget")
)  # fmt: skip


def stored(metadata: Json, number: str, *, namespaced: bool) -> Json:
    """Metadata with what a server adds."""
    name = metadata.get("name") or f"{metadata.get('generateName', 'object-')}{number.lower()}"
    made = {**metadata, "name": name, "uid": metadata.get("uid") or f"imagined-{number}"}
    made.setdefault("resourceVersion", "0")
    if namespaced:
        made["namespace"] = metadata.get("namespace") or "default"
    return made


def copies(pod: Json, count: int | None) -> Iterator[Json]:
    """So many pods alike; with None the pod itself."""
    if count is None:
        yield pod
    else:
        yield from (numbered(pod, number) for number in range(count))


def numbered(pod: Json, number: int) -> Json:
    """A pod like this one with a name of its own."""
    meta = pod["metadata"]
    own = {**meta, "name": f"{meta['name']}-{number}", "uid": f"{meta['uid']}-{number}"}
    return {**pod, "metadata": own, "status": {"phase": "Pending"}}


def pod_of(workload: Json) -> Json:
    """The pod that a workload makes."""
    meta, template = workload["metadata"], workload["spec"]["template"]
    labels = (template.get("metadata") or {}).get("labels") or {}
    owner = {"apiVersion": workload["apiVersion"], "kind": workload["kind"], "name": meta["name"], "uid": meta["uid"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "uid": meta["uid"],
            "resourceVersion": "0",
            "labels": labels,
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": _with_own_volumes(deepcopy(template["spec"]), workload),
        "status": {"phase": "Pending"},
    }


def _with_own_volumes(spec: Json, workload: Json) -> Json:
    """Each pod of a StatefulSet has claims of its own: here they are ephemeral volumes, which comes to the same."""
    templates = workload["spec"].get("volumeClaimTemplates") or ()
    own = [
        {"name": template["metadata"]["name"], "ephemeral": {"volumeClaimTemplate": template}} for template in templates
    ]
    if own:
        names = {volume["name"] for volume in own}
        spec["volumes"] = [*(v for v in spec.get("volumes") or () if v["name"] not in names), *own]
    return spec


def _count(workload: Json) -> int:
    spec = workload["spec"]
    wanted = spec.get("parallelism") if workload["kind"] == "Job" else spec.get("replicas")
    return 1 if wanted is None else int(wanted)


def bare_node(name: str, allocatable: Json) -> Json:
    """A node that is ready and has these resources."""
    metadata = {
        "name": name,
        "uid": f"imagined-{name}",
        "resourceVersion": "0",
        "labels": {"kubernetes.io/hostname": name},
    }
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": {},
        "status": {"allocatable": allocatable, "capacity": allocatable, "conditions": ready},
    }


def _newest(obj: Json) -> Json:
    """An object of resource.k8s.io/v1beta1 or v1beta2 in v1."""
    obj["apiVersion"] = "resource.k8s.io/v1"
    spec = obj.get("spec") or {}
    for number, device in enumerate(spec.get("devices") or ()) if obj["kind"] == "ResourceSlice" else ():
        if "basic" in device:
            spec["devices"][number] = {"name": device["name"], **device["basic"]}
    claim: Json = (spec.get("spec") or {}) if obj["kind"] == "ResourceClaimTemplate" else spec
    asked = claim.get("devices") if obj["kind"].startswith("ResourceClaim") else None
    requests: list[Json] = (asked or {}).get("requests") or []
    for number, request in enumerate(requests):
        if "exactly" not in request and "firstAvailable" not in request:
            exactly = {key: value for key, value in request.items() if key != "name"}
            requests[number] = {"name": request["name"], "exactly": exactly}
    return obj
