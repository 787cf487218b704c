"""Storage plugins: finalizers of claims and volumes, the default class, and expansion."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from tests.support.wire import Wire

pytestmark = pytest.mark.integration

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


def claim(name: str, **spec: Any) -> Json:
    return {
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec},
    }


def storage_class(name: str, **parts: Any) -> Json:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    return {"metadata": {"name": name, "annotations": annotations}, "provisioner": "example.com/disks", **parts}


def test_volumes_and_claims_are_protected_from_deletion(wire: Wire) -> None:
    made = wire.post(CLAIMS, claim("protected")).json
    assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert "storageClassName" not in made["spec"]
    volume = {
        "metadata": {"name": "v"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}},
    }
    assert wire.post("/api/v1/persistentvolumes", volume).json["metadata"]["finalizers"] == [
        "kubernetes.io/pv-protection"
    ]
    wire.delete("/api/v1/persistentvolumes/v")
    assert "deletionTimestamp" in wire.get("/api/v1/persistentvolumes/v").json["metadata"]


def test_a_claim_that_names_no_class_gets_the_default_one(wire: Wire) -> None:
    for name in ("b", "a"):
        wire.create(CLASSES, storage_class(name))
    names = {
        item["metadata"]["name"]: item["metadata"]["creationTimestamp"] for item in wire.get(CLASSES).json["items"]
    }
    youngest = min((name for name in names if names[name] == max(names.values())), default="")
    assert wire.post(CLAIMS, claim("unsaid")).json["spec"]["storageClassName"] == youngest
    assert wire.post(CLAIMS, claim("none", storageClassName="")).json["spec"]["storageClassName"] == ""


def test_a_bound_claim_grows_where_its_class_allows_it(wire: Wire) -> None:
    wire.create(CLASSES, storage_class("growing", allowVolumeExpansion=True))
    for name, allowed in (("growing", True), ("fixed", False)):
        wire.post(CLAIMS, claim(name, storageClassName=name, volumeName="v"))
        bound = wire.get(f"{CLAIMS}/{name}").json
        bound["status"] = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
        bound = wire.put(f"{CLAIMS}/{name}/status", bound).json
        bound["spec"]["resources"]["requests"]["storage"] = "2Gi"
        answer = wire.put(f"{CLAIMS}/{name}", bound)
        assert answer.status == (200 if allowed else 403)
    assert (
        answer.message
        == 'persistentvolumeclaims "fixed" is forbidden: only dynamically provisioned pvc can be resized and the'
        " storageclass that provisions the pvc must support resize"
    )
