"""An anonymous copy has no names, and the same structure."""

from __future__ import annotations

import json
from typing import Any

from kubedra.cluster_copy.anonymize import anonymize
from tests.cluster_copy.sources import build, owned, production

Json = dict[str, Any]
_KINDS = {
    "Namespace", "Node", "Pod", "Deployment", "ReplicaSet", "Secret", "ConfigMap", "ResourceSlice", "ResourceClaim",
    "DeviceClass",
}  # fmt: skip


def anonymous(*more: Json) -> dict[str, list[Json]]:
    """Return an anonymous copy of the production cluster, by kind."""
    found: dict[str, list[Json]] = {}
    for each in anonymize([*(each for each in production() if each["kind"] in _KINDS), *more]):
        found.setdefault(each["kind"], []).append(each)
    return found


def test_no_name_is_left() -> None:
    pod = build(
        "Pod", "billing-canary", 70, "acme",
        metadata={"annotations": {"acme.example/owner": "alice"}, "labels": {"team": "red-team"},
                  "managedFields": [{"manager": "alice"}]},
        spec={
            "containers": [{
                "name": "ledger", "image": "registry.acme.example/ledger:7", "command": ["ledger", "--for=alice"],
                "env": [{"name": "TOKEN", "value": "hunter2"}], "volumeMounts": [{"name": "d", "mountPath": "/srv/acme"}],
            }],
            "serviceAccountName": "payer", "hostname": "billing.acme.example",
            "volumes": [{"name": "d", "hostPath": {"path": "/srv/acme"}}],
        },
        status={"message": "alice did it", "hostIP": "8.8.8.8", "podIP": "10.1.2.3",
                "containerStatuses": [{"imageID": "registry.acme.example/ledger@sha256:1"}]},
    )  # fmt: skip
    text = json.dumps(anonymous(pod))
    for word in ("acme", "payroll", "alice", "billing", "ledger", "red-team", "hunter2", "payer", "8.8.8.8", "rack-7"):
        assert word not in text, word
    assert "10.1.2.3" in text


def test_references_selectors_and_hardware_stay_consistent() -> None:
    copy = anonymous()
    node, _ = copy["Node"]
    (slice_,) = copy["ResourceSlice"]
    (claim,) = copy["ResourceClaim"]
    running, waiting = copy["Pod"]
    name = node["metadata"]["name"]
    assert name == "node-1"
    assert slice_["spec"]["nodeName"] == slice_["spec"]["pool"]["name"] == running["spec"]["nodeName"] == name
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == name
    assert waiting["spec"]["nodeSelector"].items() <= node["metadata"]["labels"].items()
    assert waiting["spec"]["resourceClaims"][0]["resourceClaimName"] == claim["metadata"]["name"]
    assert claim["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpu.example.com"
    assert slice_["spec"]["devices"] == production()[6]["spec"]["devices"]
    assert slice_["spec"]["driver"] == "gpu.example.com"
    assert copy["DeviceClass"][0]["spec"] == production()[5]["spec"]


def test_generated_names_keep_their_endings() -> None:
    copy = anonymous()
    deployment, replicas, pod = (copy[kind][0] for kind in ("Deployment", "ReplicaSet", "Pod"))
    name = deployment["metadata"]["name"]
    assert replicas["metadata"]["name"] == f"{name}-9f55f9956"
    assert pod["metadata"]["name"] == f"{name}-9f55f9956-2pf4d"
    assert pod["metadata"]["ownerReferences"][0]["name"] == replicas["metadata"]["name"]
    assert replicas["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()


def test_pods_and_volumes_of_a_stateful_set_keep_their_ordinals() -> None:
    workload = build(
        "StatefulSet", "ledger", 80, "acme", version="apps/v1",
        spec={"replicas": 2, "volumeClaimTemplates": [{"metadata": {"name": "data"}}]},
    )  # fmt: skip
    pod = build("Pod", "ledger-1", 81, "acme", metadata=owned(workload))
    claim = build("PersistentVolumeClaim", "data-ledger-1", 82, "acme")
    copy = anonymous(workload, pod, claim)
    name = copy["StatefulSet"][0]["metadata"]["name"]
    template = copy["StatefulSet"][0]["spec"]["volumeClaimTemplates"][0]["metadata"]["name"]
    assert copy["Pod"][-1]["metadata"]["name"] == f"{name}-1"
    assert copy["PersistentVolumeClaim"][0]["metadata"]["name"] == f"{template}-{name}-1"


def test_the_same_cluster_gets_the_same_names_again() -> None:
    assert anonymous() == anonymous()


def test_contents_and_opaque_parameters_are_removed() -> None:
    claim = build(
        "ResourceClaim", "c", 90, "acme", version="resource.k8s.io/v1",
        spec={"devices": {
            "requests": [{"name": "main", "firstAvailable": [{"name": "big", "deviceClassName": "gpu.example.com"}]}],
            "config": [{"requests": ["main/big"], "opaque": {"driver": "gpu.example.com", "parameters": {"key": "hunter2"}}}],
        }},
    )  # fmt: skip
    copy = anonymous(claim)
    assert all("data" not in each for each in (*copy["Secret"], *copy["ConfigMap"]))
    devices = copy["ResourceClaim"][-1]["spec"]["devices"]
    main, big = devices["requests"][0]["name"], devices["requests"][0]["firstAvailable"][0]["name"]
    assert devices["config"] == [
        {"requests": [f"{main}/{big}"], "opaque": {"driver": "gpu.example.com", "parameters": {}}}
    ]
