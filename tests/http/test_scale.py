"""The scale subresource: part of a workload, read and written as its own kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from apiserver.api.objects import Json
from tests.support.wire import Wire

pytestmark = pytest.mark.integration

BASE = "/apis/apps/v1/namespaces/default/deployments"
SCALE = f"{BASE}/d/scale"


@pytest.fixture
def wire(wire: Wire) -> Iterator[Wire]:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "img:1"}]}}
    body = {
        "metadata": {"name": "d"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "x"}}, "template": template},
    }
    wire.create(f"{BASE}?fieldManager=author", body)
    yield wire
    assert wire.delete(f"{BASE}/d").status == 200


def scale(replicas: int, **metadata: Any) -> Json:
    return {"metadata": {"name": "d", **metadata}, "spec": {"replicas": replicas}}


def managers(wire: Wire) -> list[tuple[str, str, bool]]:
    """Return the managers of the deployment: name, subresource, and whether they own the replicas."""
    entries = wire.get(f"{BASE}/d").json["metadata"]["managedFields"]
    return [
        (entry["manager"], entry.get("subresource", ""), "f:replicas" in entry["fieldsV1"]["f:spec"])
        for entry in entries
    ]


def test_a_scale_shows_replicas_and_the_pod_selector(wire: Wire) -> None:
    shown = wire.get(SCALE).json
    whole = wire.get(f"{BASE}/d").json["metadata"]
    assert (shown["kind"], shown["apiVersion"], shown["spec"], shown["status"]) == (
        "Scale", "autoscaling/v1", {"replicas": 2}, {"replicas": 0, "selector": "app=x"},
    )  # fmt: skip
    assert shown["metadata"] == {
        name: whole[name] for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    }
    assert wire.get(f"{BASE}/none/scale").message == 'deployments.apps "none" not found'
    put = wire.put(f"{BASE}/none/scale", {"metadata": {"name": "none"}, "spec": {"replicas": 1}})
    assert put.message == 'deployments.apps "none" not found'


def test_a_scale_update_takes_the_ownership_of_replicas(wire: Wire) -> None:
    assert wire.put(f"{SCALE}?fieldManager=hpa", scale(5)).json["spec"] == {"replicas": 5}
    whole = wire.get(f"{BASE}/d").json
    assert (whole["spec"]["replicas"], whole["metadata"]["generation"]) == (5, 2)
    assert managers(wire) == [("hpa", "scale", True), ("author", "", False)]


def test_a_scale_can_be_patched_and_applied(wire: Wire) -> None:
    merged = wire.patch(SCALE, {"spec": {"replicas": 3}})
    assert merged.json["spec"] == {"replicas": 3}
    body = {"kind": "Scale", "apiVersion": "autoscaling/v1", **scale(0)}
    taken = wire.patch(f"{SCALE}?fieldManager=a&force=true", body, "apply")
    assert (taken.status, taken.json["spec"]) == (200, {})
    assert wire.get(f"{BASE}/d").json["spec"]["replicas"] == 0
    refused = wire.patch(f"{SCALE}?fieldManager=b", {**body, "spec": {"replicas": 7}}, "apply")
    assert refused.refusal == (
        409,
        'Apply failed with 1 conflict: conflict with "a" with subresource "scale": .spec.replicas',
    )


def test_a_wrong_scale_is_refused_in_its_own_name(wire: Wire) -> None:
    negative = wire.put(SCALE, scale(-1)).json
    assert (
        negative["message"]
        == 'Scale.autoscaling "d" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0'
    )
    old = wire.get(SCALE).json["metadata"]["resourceVersion"]
    assert wire.put(SCALE, scale(4, resourceVersion=old)).status == 200
    assert wire.put(SCALE, scale(5, resourceVersion=old)).json["details"] == {
        "name": "d",
        "group": "apps",
        "kind": "deployments",
    }
    other = [{"op": "add", "path": "/metadata/uid", "value": "other"}]
    assert "deployments/scale" in wire.patch(SCALE, other, "json").message


def test_a_dry_run_scales_nothing(wire: Wire) -> None:
    assert wire.put(f"{SCALE}?dryRun=All", scale(9)).json["spec"] == {"replicas": 9}
    assert wire.get(SCALE).json["spec"] == {"replicas": 2}


def test_a_scale_has_a_row_of_its_own(wire: Wire) -> None:
    table = wire.get(SCALE, Accept="application/json;as=Table;v=v1;g=meta.k8s.io").json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
    assert table["rows"][0]["cells"][:3] == ["d", 2, 0]
    assert b"kind: Scale" in wire.get(SCALE, Accept="application/yaml").body


def test_an_annotation_that_should_be_a_number_is_refused_as_upstream_does(wire: Wire) -> None:
    key = "deprecated.deployment.rollback.to"
    wrong = wire.patch(f"{BASE}/d", {"metadata": {"annotations": {key: "x"}}})
    assert (wrong.status, wrong.json["details"]["causes"][0]["field"]) == (422, "patch")
    assert wrong.message.endswith(
        f'failed to parse annotation[{key}]=x as int64: strconv.ParseInt: parsing "x": invalid syntax'
    )
    negative = wire.patch(f"{BASE}/d", {"metadata": {"annotations": {key: "-1"}}})
    assert negative.message.endswith("spec.rollback.version: Invalid value: -1: must be greater than or equal to 0")
