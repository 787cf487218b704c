"""Builders of nodes, pods, slices and claims as the API serves them."""

from __future__ import annotations

from itertools import count
from typing import Any

from apiserver.api.objects import Json
from controllers.scheduler.state.pod_info import PodInfo

_numbers = count(1)


def a_node(name: str, *, cpu: str = "4", memory: str = "8Gi", pods: str = "110", **more: Any) -> Json:
    """`labels`, `taints`, `unschedulable`, `extra` (further allocatable resources), `images`."""
    allocatable = {"cpu": cpu, "memory": memory, "pods": pods, **more.get("extra", {})}
    spec = {key: more[key] for key in ("taints", "unschedulable") if key in more}
    labels = {"kubernetes.io/hostname": name, **more.get("labels", {})}
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": name, "uid": f"node-{name}", "labels": labels, "resourceVersion": str(next(_numbers))},
        "spec": spec,
        "status": {"allocatable": allocatable, "capacity": allocatable, "images": more.get("images", [])},
    }


def a_pod(name: str = "", *, requests: dict[str, str] | None = None, namespace: str = "ns", **spec: Any) -> Json:
    """A pod of one container; `labels`, `status`, `uid` and any field of the spec."""
    number = next(_numbers)
    name = name or f"pod-{number}"
    labels, status = spec.pop("labels", {}), spec.pop("status", {})
    uid = spec.pop("uid", f"uid-{name}-{number}")
    container: Json = {"name": "c", "image": "image", "resources": {"requests": requests} if requests else {}}
    if "ports" in spec:
        container["ports"] = spec.pop("ports")
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name, "namespace": namespace, "uid": uid, "labels": labels, "resourceVersion": str(number),
            "generation": 1,
        },
        "spec": {"containers": [container], "schedulerName": "default-scheduler", **spec},
        "status": {"phase": "Pending", **status},
    }  # fmt: skip


def info(*args: Any, **kwargs: Any) -> PodInfo:
    return PodInfo(a_pod(*args, **kwargs))


def a_slice(node: str, devices: int, driver: str = "gpu.example.com", **device: Any) -> Json:
    return {
        "kind": "ResourceSlice",
        "apiVersion": "resource.k8s.io/v1",
        "metadata": {"name": f"slice-{node}", "uid": f"slice-{node}", "resourceVersion": str(next(_numbers))},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{n}", **device} for n in range(devices)],
        },
    }


def a_class(name: str = "gpu") -> Json:
    return {
        "kind": "DeviceClass",
        "apiVersion": "resource.k8s.io/v1",
        "metadata": {"name": name, "uid": f"class-{name}", "resourceVersion": str(next(_numbers))},
        "spec": {},
    }


def a_claim(name: str, *, count: int = 1, owner: Json | None = None, namespace: str = "ns", **status: Any) -> Json:
    metadata: Json = {
        "name": name,
        "namespace": namespace,
        "uid": f"claim-{name}",
        "resourceVersion": str(next(_numbers)),
    }
    if owner is not None:
        metadata["ownerReferences"] = [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "controller": True,
                **{k: owner["metadata"][k] for k in ("name", "uid")},
            }
        ]
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}}
    return {
        "kind": "ResourceClaim",
        "apiVersion": "resource.k8s.io/v1",
        "metadata": metadata,
        "spec": {"devices": {"requests": [request]}},
        "status": status,
    }


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
