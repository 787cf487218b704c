"""Pods that would never end are collected, on a running control plane in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.runtime.kinds import PODS
from kubedra.pytest_plugin import Kube
from tests.scheduler.world import World
from tests.support.objects import make_manifest, make_pod
from tests.support.virtual import passes

pytestmark = [pytest.mark.integration, pytest.mark.kube(clock="virtual")]


def pod(name: str, **spec: Any) -> Json:
    return make_manifest(PODS, name, {"containers": [{"name": "c", "image": "i"}], **spec})


def names(kube: Any) -> list[str]:
    return sorted(item["metadata"]["name"] for item in kube.list("pods"))


def test_pods_of_a_node_that_stays_missing_are_failed_and_go(kube: Kube) -> None:
    kept = pod("kept", nodeName="gone")
    kept["metadata"]["finalizers"] = ["example.com/keep"]
    kube.add_node("worker")
    kube.apply([pod("a", nodeName="gone"), kept, pod("b", nodeName="worker")])
    kube.advance(seconds=35)
    assert names(kube) == ["a", "b", "kept"]
    kube.advance(seconds=30)
    assert names(kube) == ["b", "kept"]
    status = kube.get("pod/kept")["status"]
    (condition,) = (each for each in status["conditions"] if each["type"] == "DisruptionTarget")
    assert (status["phase"], condition["reason"], condition["message"]) == (
        "Failed", "DeletionByPodGC", "PodGC: node no longer exists",
    )  # fmt: skip
    kube.client().patch("pod/kept", {"metadata": {"finalizers": None}})


def test_pods_that_are_being_deleted_on_a_node_out_of_service_go(kube: Kube) -> None:
    taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoSchedule"}
    for name, status in (("down", "False"), ("up", "True")):
        kube.apply([{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"taints": [taint]}}])
        kube.patch_status(f"node/{name}", {"conditions": [{"type": "Ready", "status": status}]})
        kube.apply([pod(f"on-{name}", nodeName=name), pod(f"stays-{name}", nodeName=name)])
        kube.delete(f"pod/on-{name}")
    kube.advance(seconds=21)
    assert names(kube) == ["on-up", "stays-down", "stays-up"]


async def test_of_the_pods_that_ended_only_so_many_stay_and_evicted_ones_go_first() -> None:
    async with World("pod-garbage-collector-controller", options={"terminated_pod_gc_threshold": 2}) as world:
        for name in ("a", "b", "c", "d"):
            made = await world.create(PODS, make_pod(name))
            status = {"phase": "Failed", **({"reason": "Evicted"} if name == "c" else {})}
            await world.client.update_status(PODS, {**made, "status": status})
            await passes(1)
        await passes(21)
        left = await world.client.list(PODS, "ns")
        assert [each["metadata"]["name"] for each in left["items"]] == ["b", "d"]
