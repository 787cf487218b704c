"""Disruption budgets are counted, and evictions follow them, on a running control plane in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from kubedra.client.client import ApiError
from kubedra.pytest_plugin import Kube

pytestmark = [pytest.mark.integration, pytest.mark.kube(clock="virtual")]

SHOPS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "shops.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "shops", "kind": "Shop"},
        "versions": [
            {
                "name": "v1", "served": True, "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                "subresources": {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.has"}},
            },
            {
                "name": "v2", "served": True, "storage": False,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            },
        ],
    },
}  # fmt: skip


def pod(name: str, owner: Json | None = None, **spec: Any) -> Json:
    metadata: Json = {"name": name, "labels": {"app": "web"}}
    if owner is not None:
        reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
        metadata["ownerReferences"] = [{**reference, **{key: owner["metadata"][key] for key in ("name", "uid")}}]
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }  # fmt: skip


def budget(name: str = "web", **spec: Any) -> Json:
    selector = {"matchLabels": {"app": "web"}}
    metadata = {"name": name}
    return {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata,
        "spec": {"selector": selector, **spec},
    }  # fmt: skip


def status_of(kube: Any) -> tuple[int, int, int, int, str]:
    """Return the expected, healthy, desired and allowed pods, and the reason."""
    found = kube.get("poddisruptionbudget/web")["status"]
    (condition,) = found["conditions"]
    return (
        found["expectedPods"], found["currentHealthy"], found["desiredHealthy"], found["disruptionsAllowed"],
        condition["reason"],
    )  # fmt: skip


def evict(kube: Any, name: str) -> None:
    client = kube.client()
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    client.request("POST", client.path("v1", "Pod", "default", name) + "/eviction", body)


def reasons_of(kube: Any, target: str) -> set[str]:
    return {event["reason"] for event in kube.events(target)}


def test_as_many_pods_may_go_as_are_healthy_beyond_those_that_have_to_stay(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply([budget(minAvailable=1), pod("a"), pod("b")])
    kube.advance(seconds=5)
    assert status_of(kube) == (2, 2, 1, 1, "SufficientPods")
    evict(kube, "a")
    with pytest.raises(ApiError, match="would violate the pod's disruption budget"):
        evict(kube, "b")
    kube.advance(seconds=40)
    assert status_of(kube) == (1, 1, 1, 0, "InsufficientPods")
    kube.apply([pod("c", schedulingGates=[{"name": "example.com/wait"}])])
    kube.advance(seconds=5)
    assert status_of(kube)[:2] == (2, 1)


def test_shares_are_of_the_pods_that_their_owners_ask_for_and_are_rounded_up(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply([SHOPS])
    kube.wait("customresourcedefinition/shops.example.com", "condition=Established")
    owners = kube.apply(
        [
            {"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": name}, "spec": {"replicas": 3}}
            for name in ("one", "two")
        ]
    )
    kube.apply([budget(maxUnavailable="25%"), *(pod(f"{n}{m}", owner) for n, owner in enumerate(owners) for m in "ab")])
    kube.advance(seconds=5)
    assert status_of(kube) == (6, 4, 4, 0, "InsufficientPods")
    kube.apply([budget(minAvailable="40%")])
    kube.advance(seconds=5)
    assert status_of(kube) == (6, 4, 3, 1, "SufficientPods")


def test_where_pods_cannot_be_counted_none_may_go_and_events_are_emitted(kube: Kube) -> None:
    kube.apply([SHOPS])
    kube.wait("customresourcedefinition/shops.example.com", "condition=Established")
    (owner,) = kube.apply([{"apiVersion": "example.com/v2", "kind": "Shop", "metadata": {"name": "one"}}])
    kube.apply([budget(maxUnavailable=1), pod("a", owner)])
    kube.advance(seconds=5)
    (condition,) = kube.get("poddisruptionbudget/web")["status"]["conditions"]
    assert condition["reason"] == "SyncFailed"
    assert condition["message"] == "shops.example.com does not implement the scale subresource"
    assert "CalculateExpectedPodCountFailed" in reasons_of(kube, "poddisruptionbudget/web")
    kube.delete("pod/a")
    kube.apply([pod("b")])
    kube.advance(seconds=40)
    assert status_of(kube) == (0, 0, 0, 0, "InsufficientPods")
    assert "UnmanagedPods" in reasons_of(kube, "poddisruptionbudget/web")


def test_an_eviction_that_is_granted_and_not_carried_out_is_taken_back(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply([budget(minAvailable=0), pod("a")])
    kube.advance(seconds=1)
    assert status_of(kube)[:2] == (1, 1)
    now = kube.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    granted = {"disruptedPods": {"a": now, "gone": now}}
    kube.client().patch("poddisruptionbudget/web", {"status": granted}, subresource="status")
    target = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "lastTransitionTime": now,
    }
    kube.patch_status("pod/a", {"conditions": [target]})
    kube.advance(seconds=110)
    assert kube.get("poddisruptionbudget/web")["status"]["disruptedPods"] == {"a": now}
    assert status_of(kube)[:2] == (1, 0)
    kube.advance(seconds=12)
    assert "disruptedPods" not in kube.get("poddisruptionbudget/web")["status"]
    assert status_of(kube)[:2] == (1, 1)
    assert "NotDeleted" in reasons_of(kube, "pod/a")
    (found,) = (c for c in kube.get("pod/a")["status"]["conditions"] if c["type"] == "DisruptionTarget")
    assert (found["status"], found.get("reason")) == ("False", None)
