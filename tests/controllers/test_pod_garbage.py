"""Pods that would never end are collected, on a running control plane in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.runtime.kinds import PODS
from kubedra.pytest_plugin import Kube
from tests.support.objects import make_manifest

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
