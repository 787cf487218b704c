"""Objects from files, as a server would store them: defaulted, validated, with workloads expanded to pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Final

from apiserver.api.codec.codec import DecodeError
from apiserver.api.codec.strictness import examine
from apiserver.api.objects import Json
from apiserver.api.schema.defaulting import fill_defaults
from apiserver.api.schema.language import Struct
from apiserver.runtime.clock import now
from controllers.runtime.device_form import reader
from kubedra.client.manifests import Document, Manifest, documents

__all__ = ["UNLIMITED", "Hypothetical", "ManifestError", "bare_node", "numbered_copy"]

#: Resources of nodes for which only devices are given.
UNLIMITED: Final = {"cpu": "1000000", "memory": "1000Ti", "ephemeral-storage": "1000Ti", "pods": "1000000"}
_RESOURCE: Final = "resource.k8s.io/"


class ManifestError(ValueError):
    """A document is invalid; the text names it."""


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
    """Objects from files, by kind. `ignored` lists the kinds without effect here, in order."""

    def __init__(self, manifests: Iterable[Manifest]) -> None:
        self._schemas = _schemas()
        self.objects: dict[str, list[Json]] = {}
        self.ignored: list[str] = []
        self._count = 0
        for manifest in manifests:
            for document in documents(manifest):
                self._add(document)

    def of(self, kind: str) -> list[Json]:
        """Return the objects of a kind, in the order of the files."""
        return self.objects.get(kind, [])

    def pods(self, replicas: int | None = None) -> Iterator[Json]:
        """Yield all pods, including those of workloads. `replicas` overrides the count of each."""
        for pod, count in self.pods_with_counts():
            yield from copies(pod, count if replicas is None else replicas)

    def pods_with_counts(self) -> Iterator[tuple[Json, int | None]]:
        """Yield one pod per object and its replica count; None for a single pod."""
        for kind, objects in self.objects.items():
            for obj in objects:
                if kind == "Pod":
                    yield obj, None
                elif "template" in (obj.get("spec") or {}):
                    yield pod_of(obj), _count(obj)

    def _add(self, document: Document) -> None:
        """Decode and default a document. Raise ManifestError."""
        obj = deepcopy(document.obj)
        api_version, kind = obj["apiVersion"], obj["kind"]
        if api_version.startswith(_RESOURCE) and api_version != "resource.k8s.io/v1":
            obj = _convert(obj)
            api_version = obj["apiVersion"]
        schema = self._schemas.get((api_version, kind))
        if schema is None:
            if kind not in self.ignored and kind != "Namespace":
                self.ignored.append(kind)
            return
        try:
            clean, problems, _, _ = examine(schema, obj, b"")
        except DecodeError as error:
            raise ManifestError(f"{document}: {error}") from error
        if problems:
            raise ManifestError(f"{document}: {', '.join(problems)}")
        fill_defaults(schema, clean, now())
        self._count += 1
        clean["metadata"] = with_server_fields(
            clean["metadata"], f"{kind}-{self._count}", namespaced=kind in _NAMESPACED
        )
        self.objects.setdefault(kind, []).append(clean)


_NAMESPACED: Final = frozenset(
    ("Pod", "ReplicationController", "Deployment", "StatefulSet", "ReplicaSet", "Job", "ResourceClaim",
     "ResourceClaimTemplate", "PersistentVolumeClaim", "CSIStorageCapacity", "PodGroup", "PodDisruptionBudget")
)  # fmt: skip


def with_server_fields(metadata: Json, number: str, *, namespaced: bool) -> Json:
    """Return metadata with the fields that a server adds."""
    name = metadata.get("name") or f"{metadata.get('generateName', 'object-')}{number.lower()}"
    complete = {**metadata, "name": name, "uid": metadata.get("uid") or f"hypothetical-{number}"}
    complete.setdefault("resourceVersion", "0")
    if namespaced:
        complete["namespace"] = metadata.get("namespace") or "default"
    return complete


def copies(pod: Json, count: int | None) -> Iterator[Json]:
    """Yield `count` numbered copies of a pod, or the pod itself for None."""
    if count is None:
        yield pod
    else:
        yield from (numbered_copy(pod, number) for number in range(count))


def numbered_copy(pod: Json, number: int) -> Json:
    """Copy a pod under a numbered name and uid."""
    meta = pod["metadata"]
    own = {**meta, "name": f"{meta['name']}-{number}", "uid": f"{meta['uid']}-{number}"}
    return {**pod, "metadata": own, "status": {"phase": "Pending"}}


def pod_of(workload: Json) -> Json:
    """Return a pod from the template of a workload."""
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
    """Turn the volumeClaimTemplates of a StatefulSet into ephemeral volumes: one claim per pod, too."""
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
    count = spec.get("parallelism") if workload["kind"] == "Job" else spec.get("replicas")
    return 1 if count is None else int(count)


def bare_node(name: str, allocatable: Json) -> Json:
    """Return a ready node with these resources."""
    metadata = {
        "name": name,
        "uid": f"hypothetical-{name}",
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


def _convert(obj: Json) -> Json:
    """Convert an object of resource.k8s.io/v1beta1 or v1beta2 to v1."""
    convert = reader(obj["kind"], obj["apiVersion"].rpartition("/")[2])
    return {**(convert(obj) if convert else obj), "apiVersion": "resource.k8s.io/v1"}
