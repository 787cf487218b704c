"""Builders of API objects as the server serves them: complete enough for every component, with a new resourceVersion each.

    make_pod("p", claims={"gpu": "one"}, node="n1", status={"phase": "Running"})
    make_claim("one", requests=[make_request("r", count=2)])

Keywords that a builder does not name are fields of the spec (of the status for claims).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from apiserver.api.objects import Json
from controllers.runtime.kinds import Kind
from controllers.scheduler.state.pod_info import PodInfo

_numbers = count(1)


def make_metadata(name: str, namespace: str = "", uid: str = "", **fields: Any) -> Json:
    """Build metadata with a uid and a resourceVersion; fields without a value are left out."""
    scope = {"namespace": namespace} if namespace else {}
    given = {key: value for key, value in fields.items() if value}
    return {"name": name, **scope, "uid": uid or f"uid-{name}", "resourceVersion": str(next(_numbers)), **given}


def make_owner(owner: Json, **fields: Any) -> Json:
    """Build the controller reference to an object."""
    reference = {"apiVersion": owner.get("apiVersion", "v1"), "kind": owner.get("kind", "Pod"), "controller": True}
    return {**reference, **{key: owner["metadata"][key] for key in ("name", "uid")}, **fields}


def make_node(name: str, *, cpu: str = "4", memory: str = "8Gi", pods: str = "110", **more: Any) -> Json:
    """Build a Node; `more`: labels, taints, unschedulable, extra (further allocatable resources), images."""
    allocatable = {"cpu": cpu, "memory": memory, "pods": pods, **more.get("extra", {})}
    spec = {key: more[key] for key in ("taints", "unschedulable") if key in more}
    labels = {"kubernetes.io/hostname": name, **more.get("labels", {})}
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": make_metadata(name, uid=f"node-{name}", labels=labels),
        "spec": spec,
        "status": {"allocatable": allocatable, "capacity": allocatable, "images": more.get("images", [])},
    }


def make_pod(
    name: str = "",
    *,
    namespace: str = "ns",
    requests: dict[str, str] | None = None,
    claims: Mapping[str, str] | None = None,
    node: str = "",
    owner: Json | None = None,
    deleted: str = "",
    **spec: Any,
) -> Json:
    """Build a pending Pod of one container.

    Args:
        name: its name; a new one by default.
        namespace: its namespace.
        requests: resource requests of the container.
        claims: names of ResourceClaims by the pod's own names for them; the container uses all.
        node: the node that it is bound to.
        owner: its controller.
        deleted: its deletionTimestamp.
        spec: fields of the spec, and `labels`, `annotations`, `finalizers`, `uid`, `created`, `status`; `ports`,
            `command` and `env` belong to the container.
    """
    number = next(_numbers)
    name = name or f"pod-{number}"
    fields = {key: spec.pop(key, None) for key in ("annotations", "finalizers")}
    fields["creationTimestamp"] = spec.pop("created", None)
    labels, status = spec.pop("labels", {}), spec.pop("status", {})
    uid = spec.pop("uid", f"uid-{name}-{number}")
    container: Json = {"name": "c", "image": "image", "resources": {"requests": requests} if requests else {}}
    container |= {key: spec.pop(key) for key in ("ports", "command", "env") if key in spec}
    if claims:
        container["resources"]["claims"] = [{"name": entry} for entry in claims]
        spec["resourceClaims"] = [{"name": entry, "resourceClaimName": claim} for entry, claim in claims.items()]
    spec |= {"nodeName": node} if node else {}
    owners = [make_owner(owner)] if owner else []
    metadata = make_metadata(name, namespace, uid, ownerReferences=owners, deletionTimestamp=deleted, **fields)
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {**metadata, "labels": labels, "generation": 1},
        "spec": {"containers": [container], "schedulerName": "default-scheduler", **spec},
        "status": {"phase": "Pending", **status},
    }


def info(*args: Any, **kwargs: Any) -> PodInfo:
    return PodInfo(make_pod(*args, **kwargs))


def make_slice(
    node: str, devices: int | Sequence[Json] = 1, driver: str = "gpu.example.com", *, pool: str = "", **device: Any
) -> Json:
    """Build the ResourceSlice of a node's pool: `devices` of them, named gpu-0, gpu-1, …, or these."""
    listed = [{"name": f"gpu-{n}", **device} for n in range(devices)] if isinstance(devices, int) else list(devices)
    spec = {"driver": driver, "nodeName": node, "devices": listed}
    return {
        "kind": "ResourceSlice",
        "apiVersion": "resource.k8s.io/v1",
        "metadata": make_metadata(f"slice-{node}", uid=f"slice-{node}"),
        "spec": {**spec, "pool": {"name": pool or node, "generation": 1, "resourceSliceCount": 1}},
    }


def make_device_class(name: str = "gpu", **spec: Any) -> Json:
    """Build a DeviceClass that selects every device."""
    metadata = make_metadata(name, uid=f"class-{name}")
    return {"kind": "DeviceClass", "apiVersion": "resource.k8s.io/v1", "metadata": metadata, "spec": spec}


def make_request(name: str = "r", count: int = 1, *, device_class: str = "gpu", **fields: Any) -> Json:
    """Build a request for exactly so many devices."""
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}
    return {"name": name, "exactly": {**exactly, **fields}}


def make_claim(
    name: str,
    *,
    count: int = 1,
    requests: Sequence[Json] | None = None,
    owner: Json | None = None,
    namespace: str = "ns",
    deleted: str = "",
    **status: Any,
) -> Json:
    """Build a ResourceClaim with these requests, or one for `count` devices; `status`: fields of its status."""
    owners = [make_owner(owner)] if owner else []
    metadata = make_metadata(
        name, namespace, status.pop("uid", f"claim-{name}"), ownerReferences=owners, deletionTimestamp=deleted
    )
    return {
        "kind": "ResourceClaim",
        "apiVersion": "resource.k8s.io/v1",
        "metadata": metadata,
        "spec": {"devices": {"requests": [make_request(count=count)] if requests is None else list(requests)}},
        "status": status,
    }


def make_claim_template(name: str = "t", **claim: Any) -> Json:
    """Build a ResourceClaimTemplate for claims as `make_claim` builds them."""
    return {
        "kind": "ResourceClaimTemplate",
        "apiVersion": "resource.k8s.io/v1",
        "metadata": make_metadata(name, "ns"),
        "spec": {"spec": make_claim(name, **claim)["spec"]},
    }


def make_pod_group(name: str = "g", count: int = 0, **spec: Any) -> Json:
    """Build a PodGroup: a gang of at least `count` pods, or with 0 one whose pods need not be placed together."""
    policy = {"gang": {"minCount": count}} if count else {"basic": {}}
    return {
        "kind": "PodGroup",
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "metadata": make_metadata(name, "ns"),
        "spec": {"schedulingPolicy": policy, **spec},
    }


def make_annotations(**values: str) -> dict[str, str]:
    """Build annotations of kubedra: `exit_after__c="2"` becomes `kubedra.dev/exit-after.c: "2"`."""
    return {f"kubedra.dev/{key.replace('__', '.').replace('_', '-')}": value for key, value in values.items()}


def make_emulated_node(name: str, **annotations: str) -> Json:
    """Build a Node for kubedra to emulate, with further annotations and without a status."""
    found = make_annotations(emulated="true", **annotations)
    return {"kind": "Node", "apiVersion": "v1", "metadata": make_metadata(name, annotations=found)}


def make_manifest(kind: Kind, name: str, spec: Json | None = None, **metadata: Any) -> Json:
    """Build an object as a user writes it, without uid, resourceVersion and status."""
    made: Json = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, **metadata}}
    return made if spec is None else {**made, "spec": spec}


def term(key: str, operator: str, *values: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def node_affinity(*terms: Json) -> Json:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def near(app: str, key: str = "zone", anti: bool = False, weight: int = 0) -> Json:
    wanted = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    field = (
        "preferredDuringSchedulingIgnoredDuringExecution"
        if weight
        else "requiredDuringSchedulingIgnoredDuringExecution"
    )
    item = {"weight": weight, "podAffinityTerm": wanted} if weight else wanted
    return {"podAntiAffinity" if anti else "podAffinity": {field: [item]}}


def pod_manifest(name: str, annotations: Mapping[str, str] | None = None, **spec: Any) -> Json:
    """Build a Pod to create or apply: one container, and these fields of the spec."""
    metadata = {"name": name, **({"annotations": dict(annotations)} if annotations else {})}
    spec = {"containers": [{"name": "c", "image": "i"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
