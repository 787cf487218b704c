"""Turn a cluster's objects into manifests: without the parts that servers and controllers set, ready for apply."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kubedra.runtime.objects import Json

__all__ = ["CONTROLLER_ANNOTATIONS", "LEFT_OUT_OF_MANIFESTS", "to_manifest", "to_manifests"]

#: Kinds whose objects are written by controllers, besides those that no copy has.
LEFT_OUT_OF_MANIFESTS: Final = frozenset(
    {
        "endpoints", "ipaddresses.networking.k8s.io", "certificatesigningrequests.certificates.k8s.io",
        "podcertificaterequests.certificates.k8s.io", "volumeattachments.storage.k8s.io",
        "resourcepoolstatusrequests.resource.k8s.io",
    }
)  # fmt: skip
_SET_BY_SERVER: Final = (
    "uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink", "deletionTimestamp",
    "deletionGracePeriodSeconds", "ownerReferences", "generateName",
)  # fmt: skip
#: Annotations that controllers set.
CONTROLLER_ANNOTATIONS: Final = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision",
        "deprecated.daemonset.template.generation", "pv.kubernetes.io/bind-completed",
        "pv.kubernetes.io/bound-by-controller", "volume.kubernetes.io/selected-node",
        "volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner",
        "node.alpha.kubernetes.io/ttl", "volumes.kubernetes.io/controller-managed-attach-detach",
        "batch.kubernetes.io/job-tracking",
    }
)  # fmt: skip
#: Labels of a Job's pods that name the Job.
_JOB_LABELS: Final = frozenset(
    {"controller-uid", "batch.kubernetes.io/controller-uid", "job-name", "batch.kubernetes.io/job-name"}
)
#: Finalizers that the server or a controller adds.
_FINALIZERS: Final = frozenset(
    {"kubernetes.io/pvc-protection", "kubernetes.io/pv-protection", "resource.kubernetes.io/delete-protection",
     "foregroundDeletion", "orphan", "batch.kubernetes.io/job-tracking"}
)  # fmt: skip
#: Objects that every cluster has, by kind.
_EVERYWHERE: Final[Mapping[str, frozenset[str]]] = {
    "Namespace": frozenset({"default", "kube-system", "kube-public", "kube-node-lease"}),
    "ServiceAccount": frozenset({"default"}),
    "PriorityClass": frozenset({"system-cluster-critical", "system-node-critical"}),
    "ServiceCIDR": frozenset({"kubernetes"}),
    "ConfigMap": frozenset(
        {
            "kube-root-ca.crt",
            "extension-apiserver-authentication",
            "kube-apiserver-legacy-service-account-token-tracking",
        }
    ),
}
_BOOTSTRAP: Final = "kubernetes.io/bootstrapping"
_TOKEN_VOLUME: Final = "kube-api-access-"  # noqa: S105 - the name of a volume
_ADDED_TOLERATIONS: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})


def to_manifest(obj: Json) -> Json | None:
    """Return the manifest of an object; None for one that controllers or every server create."""
    metadata = obj["metadata"]
    labels = metadata.get("labels") or {}
    owned = any(owner.get("controller") for owner in metadata.get("ownerReferences") or ())
    if (owned and obj["kind"] != "ResourceSlice") or labels.get(_BOOTSTRAP) == "rbac-defaults":
        return None
    if metadata["name"] in _EVERYWHERE.get(obj["kind"], ()) or _is_own_service(obj):
        return None
    if obj["kind"] == "Secret" and obj.get("type") == "kubernetes.io/service-account-token":
        return None
    kept = {name: value for name, value in obj.items() if name not in {"status", "metadata"}}
    manifest: Json = {
        "apiVersion": kept.pop("apiVersion"),
        "kind": kept.pop("kind"),
        "metadata": _metadata(obj),
        **kept,
    }
    change = _CHANGES.get(obj["kind"])
    if change is not None:
        manifest = change({**manifest, "status": obj.get("status")})
        if not manifest.get("status"):
            manifest.pop("status", None)
    return manifest


def _is_own_service(obj: Json) -> bool:
    metadata = obj["metadata"]
    return obj["kind"] in {"Service", "EndpointSlice"} and (metadata.get("namespace"), metadata["name"]) == (
        "default", "kubernetes",
    )  # fmt: skip


def _metadata(obj: Json) -> Json:
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _SET_BY_SERVER}
    _filter(metadata, "annotations", lambda key: key not in CONTROLLER_ANNOTATIONS)
    _filter(metadata, "labels", lambda key: key != "kubernetes.io/metadata.name")
    finalizers = [each for each in metadata.pop("finalizers", ()) if each not in _FINALIZERS]
    return {**metadata, "finalizers": finalizers} if finalizers else metadata


def _filter(holder: Json, field: str, keep: Callable[[str], bool]) -> None:
    """Keep some entries of a map; remove the map if none is left."""
    kept = {key: value for key, value in (holder.get(field) or {}).items() if keep(key)}
    if kept:
        holder[field] = kept
    else:
        holder.pop(field, None)


def _without(values: Json, *names: str) -> Json:
    return {name: value for name, value in values.items() if name not in names}


def _pod(manifest: Json) -> Json:
    """Remove a pod's node and what admission added."""
    spec = _without(manifest["spec"], "nodeName", "priority", "preemptionPolicy", "serviceAccount")
    spec["volumes"] = [each for each in spec.get("volumes") or () if not each["name"].startswith(_TOKEN_VOLUME)]
    spec["tolerations"] = [
        each for each in spec.get("tolerations") or ()
        if each.get("key") not in _ADDED_TOLERATIONS or each.get("tolerationSeconds") != 300
    ]  # fmt: skip
    for field in ("volumes", "tolerations"):
        if not spec[field]:
            del spec[field]
    for field in ("initContainers", "containers"):
        if spec.get(field):
            spec[field] = [_container(each) for each in spec[field]]
    return {**_without(manifest, "status"), "spec": spec}


def _container(container: Json) -> Json:
    mounts = [each for each in container.get("volumeMounts") or () if not each["name"].startswith(_TOKEN_VOLUME)]
    rest = _without(container, "volumeMounts")
    return {**rest, "volumeMounts": mounts} if mounts else rest


def _service(manifest: Json) -> Json:
    """Remove the allocated addresses and ports."""
    spec = _without(manifest["spec"], "healthCheckNodePort")
    if spec.get("clusterIP") != "None":
        spec = _without(spec, "clusterIP", "clusterIPs")
    spec["ports"] = [_without(each, "nodePort") for each in spec.get("ports") or ()]
    return {**_without(manifest, "status"), "spec": spec if spec["ports"] else _without(spec, "ports")}


def _job(manifest: Json) -> Json:
    """Remove the selector that the server generates, with its labels."""
    spec = {**manifest["spec"]}
    if not spec.get("manualSelector"):
        spec.pop("selector", None)
        template = {**spec["template"], "metadata": {**(spec["template"].get("metadata") or {})}}
        for holder in (template["metadata"], manifest["metadata"]):
            _filter(holder, "labels", lambda key: key not in _JOB_LABELS)
        spec["template"] = template
    return {**_without(manifest, "status"), "spec": spec}


def _claim(manifest: Json) -> Json:
    """Remove the volume that a claim was bound to; a claim for a fixed volume keeps it."""
    return {**_without(manifest, "status"), "spec": _without(manifest["spec"], "volumeName")}


def _volume(manifest: Json) -> Json:
    spec = {**manifest["spec"]}
    if spec.get("claimRef"):
        spec["claimRef"] = _without(spec["claimRef"], "uid", "resourceVersion")
    return {**_without(manifest, "status"), "spec": spec}


def _namespace(manifest: Json) -> Json:
    return _without(manifest, "status", "spec")


def _account(manifest: Json) -> Json:
    return _without(manifest, "status", "secrets")


def _node(manifest: Json) -> Json:
    """Keep the capacity, which a node may be created with; remove the taints of its conditions."""
    spec = {**(manifest.get("spec") or {})}
    taints = [each for each in spec.pop("taints", ()) if not each["key"].startswith("node.kubernetes.io/")]
    status = {key: value for key, value in (manifest["status"] or {}).items() if key in {"capacity", "allocatable"}}
    return {**manifest, "spec": {**spec, "taints": taints} if taints else spec, "status": status}


_CHANGES: Final[Mapping[str, Callable[[Json], Json]]] = {
    "Pod": _pod,
    "Service": _service,
    "Job": _job,
    "PersistentVolumeClaim": _claim,
    "PersistentVolume": _volume,
    "Namespace": _namespace,
    "ServiceAccount": _account,
    "Node": _node,
}


def to_manifests(objects: Iterable[Json]) -> list[Json]:
    """Return the manifests of the objects that have one, in the same order."""
    return [manifest for each in objects if (manifest := to_manifest(each)) is not None]
