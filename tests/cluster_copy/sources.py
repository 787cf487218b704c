"""A small production cluster, as its API server shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

from kubedra.client.client import Client
from kubedra.cluster_copy.target import send
from tests.support.objects import pod_manifest
from tests.support.server import Running, serve

Json = dict[str, Any]
_CREATED: Final = "2026-11-20T08:00:00Z"
_PASSWORD: Final = "aHVudGVyMg=="


def _uid(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"


def build(kind: str, name: str, number: int, namespace: str = "", *, version: str = "v1", **fields: Any) -> Json:
    """Build an object with the metadata that a server sets."""
    metadata = {"name": name, "uid": _uid(number), "creationTimestamp": _CREATED, **fields.pop("metadata", {})}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def owned(owner: Json) -> Json:
    metadata = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
    return {"ownerReferences": [{**reference, "name": metadata["name"], "uid": metadata["uid"]}]}


def build_node(name: str, number: int, ready: str) -> Json:
    capacity = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": _CREATED, "lastHeartbeatTime": _CREATED}]
    info = {"kubeletVersion": "v1.35.3", "osImage": "Acme Linux 9", "architecture": "amd64", "operatingSystem": "linux"}
    status = {"capacity": capacity, "allocatable": capacity, "conditions": conditions, "nodeInfo": info}
    labels = {"kubernetes.io/hostname": name, "acme.example/rack": "rack-7"}
    return build("Node", name, number, metadata={"labels": labels}, status=status, spec={})


#: The definition of a custom resource with a conversion webhook, which stores its second version.
DEFINITION: Final = build(
    "CustomResourceDefinition", "racks.acme.example", 40, version="apiextensions.k8s.io/v1",
    spec={
        "group": "acme.example", "scope": "Cluster",
        "names": {"plural": "racks", "singular": "rack", "kind": "Rack", "listKind": "RackList"},
        "conversion": {
            "strategy": "Webhook",
            "webhook": {"clientConfig": {"url": "https://acme.example/convert"}, "conversionReviewVersions": ["v1"]},
        },
        "versions": [
            {"name": name, "served": True, "storage": name == "v1beta1", "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
            for name in ("v1", "v1beta1")
        ],
    },
    status={
        "acceptedNames": {"plural": "racks", "singular": "rack", "kind": "Rack", "listKind": "RackList"},
        "conditions": [
            {"type": kind, "status": "True", "reason": "Done", "message": "", "lastTransitionTime": _CREATED}
            for kind in ("NamesAccepted", "Established")
        ],
        "storedVersions": ["v1", "v1beta1"],
    },
)  # fmt: skip


def production() -> list[Json]:
    """Return the objects of the cluster: two nodes, a Deployment, a pod that waits for a GPU, Secrets, a rack."""
    template = {"metadata": {"labels": {"app": "payroll"}}, "spec": pod_manifest("")["spec"]}
    selector = {"matchLabels": {"app": "payroll"}}
    deployment = build(
        "Deployment", "payroll", 10, "acme", version="apps/v1",
        spec={"replicas": 1, "selector": selector, "template": template},
    )  # fmt: skip
    hashed = {"app": "payroll", "pod-template-hash": "9f55f9956"}
    replicas = build(
        "ReplicaSet", "payroll-9f55f9956", 11, "acme", version="apps/v1",
        metadata={
            "labels": hashed, "annotations": {"deployment.kubernetes.io/revision": "1"}, **owned(deployment),
        },
        spec={
            "replicas": 1, "selector": {"matchLabels": hashed}, "template": {**template, "metadata": {"labels": hashed}},
        },
    )  # fmt: skip
    running = build(
        "Pod", "payroll-9f55f9956-2pf4d", 12, "acme", metadata={"labels": hashed, **owned(replicas)},
        spec={**pod_manifest("")["spec"], "nodeName": "acme-node-1"},
        status={"phase": "Running", "podIP": "10.1.2.3", "startTime": _CREATED},
    )  # fmt: skip
    request = {"name": "gpus", "exactly": {"deviceClassName": "gpu.example.com", "count": 9}}
    waiting = build(
        "Pod", "training", 13, "acme", status={"phase": "Pending"},
        spec={
            **pod_manifest("", nodeSelector={"acme.example/rack": "rack-7"})["spec"],
            "resourceClaims": [{"name": "gpus", "resourceClaimName": "many-gpus"}],
        },
    )  # fmt: skip
    return [
        deepcopy(DEFINITION),
        build("Namespace", "acme", 1, spec={"finalizers": ["kubernetes"]}, status={"phase": "Active"}),
        build("Namespace", "other", 2, spec={"finalizers": ["kubernetes"]}, status={"phase": "Active"}),
        build_node("acme-node-1", 20, "True"), build_node("acme-node-2", 21, "Unknown"),
        build("DeviceClass", "gpu.example.com", 30, version="resource.k8s.io/v1",
              spec={"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]}),
        build("ResourceSlice", "slice-1", 31, version="resource.k8s.io/v1", spec={
            "driver": "gpu.example.com", "nodeName": "acme-node-1",
            "pool": {"name": "acme-node-1", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{index}", "attributes": {"model": {"string": "A100"}}} for index in range(8)],
        }),
        build("ResourceClaim", "many-gpus", 32, "acme", version="resource.k8s.io/v1",
              spec={"devices": {"requests": [request]}}),
        deployment, replicas, running, waiting,
        build("Secret", "db", 50, "acme", type="Opaque", data={"password": _PASSWORD},
              metadata={"annotations": {"kubectl.kubernetes.io/last-applied-configuration": _PASSWORD}}),
        build("Secret", "token", 51, "acme", type="kubernetes.io/service-account-token", data={"token": _PASSWORD},
              metadata={"annotations": {"kubernetes.io/service-account.name": "default"}}),
        build("ConfigMap", "settings", 52, "acme", data={"mode": "fast"}),
        build("ConfigMap", "orphan", 53, "other", data={}, metadata=owned(build("Wheel", "w", 99, version="x.example/v1"))),
        build("Rack", "r1", 60, version="acme.example/v1beta1", spec={"slots": 42}),
    ]  # fmt: skip


@contextmanager
def cluster(*flags: str, objects: Sequence[Json] = ()) -> Iterator[tuple[Running, Client]]:
    """Serve a cluster with these objects until the block ends."""
    with serve("--audit-policy-file=", *flags) as running, Client(running.url) as client:
        if objects:
            answer = send(client, objects)
            assert answer["refused"] == []
        yield running, client


def write_config(directory: Path, url: str, name: str = "config") -> Path:
    """Write a kubeconfig for a server."""
    import yaml

    path = directory / name
    path.write_text(yaml.safe_dump({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "contexts": [{"name": "c", "context": {"cluster": "c"}}],
    }))  # fmt: skip
    return path
