"""Quotas on a running control plane: counted by the server as things come, and by the controller as they go."""

from typing import Any

import pytest

from kubedra import ApiError
from kubedra.pytest_plugin import Kube

pytestmark = pytest.mark.integration

CLASS = "gpu.example.com.deviceclass.resource.k8s.io/devices"


def quota(**hard: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def wait_until_used(kube: Any, **wanted: str) -> None:
    """Wait until so much is used."""
    kube.wait("resourcequota/q", lambda obj: (obj.get("status") or {}).get("used") == wanted)


def test_what_is_there_counts_and_what_goes_is_free_again(kube: Kube) -> None:
    kube.apply(config_map("before"))
    kube.apply(quota(**{"count/configmaps": "2"}))
    wait_until_used(kube, **{"count/configmaps": "1"})
    kube.apply(config_map("second"))
    wait_until_used(kube, **{"count/configmaps": "2"})
    with pytest.raises(ApiError, match="exceeded quota: q, requested: count/configmaps=1"):
        kube.apply(config_map("third"))
    kube.delete("configmap/before")
    wait_until_used(kube, **{"count/configmaps": "1"})
    kube.apply(config_map("third"))


def test_what_nothing_measures_has_no_usage(kube: Kube) -> None:
    kube.apply(quota(**{"example.com/x": "1", "count/configmaps": "2"}))
    wait_until_used(kube, **{"count/configmaps": "0"})


def test_a_pod_that_has_ended_counts_no_more(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply(quota(pods="1"))
    wait_until_used(kube, pods="0")
    spec = {"restartPolicy": "Never", "nodeName": "worker", "containers": [{"name": "c", "image": "i"}]}
    meta = {"name": "p", "annotations": {"kubedra.dev/exit-after": "0s"}}
    kube.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    kube.wait("pod/p", "phase=Succeeded")
    wait_until_used(kube, pods="0")


def test_devices_count_by_class_and_a_changed_quota_is_recalculated(kube: Kube) -> None:
    kube.apply(quota(**{CLASS: "4"}))
    wait_until_used(kube, **{CLASS: "0"})
    request = {"name": "r", "exactly": {"deviceClassName": "gpu.example.com", "count": 3}}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}}
    kube.apply({**claim, "spec": {"devices": {"requests": [request]}}})
    wait_until_used(kube, **{CLASS: "3"})
    kube.apply(quota(**{CLASS: "4", "count/resourceclaims.resource.k8s.io": "5"}))
    wait_until_used(kube, **{CLASS: "3", "count/resourceclaims.resource.k8s.io": "1"})


def test_what_an_object_uses_no_more_is_free_again(kube: Kube) -> None:
    name = "services.nodeports"
    kube.apply(quota(**{name: "1"}))
    wait_until_used(kube, **{name: "0"})
    spec = {"type": "NodePort", "ports": [{"port": 80}]}
    kube.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec})
    wait_until_used(kube, **{name: "1"})
    kube.client().patch("service/s", {"spec": {"type": "ClusterIP"}})
    wait_until_used(kube, **{name: "0"})


def test_a_pod_that_will_end_leaves_the_quota_of_those_that_will_not(kube: Kube) -> None:
    limits = quota(pods="1")
    kube.apply({**limits, "spec": {**limits["spec"], "scopes": ["NotTerminating"]}})
    wait_until_used(kube, pods="0")
    spec = {"containers": [{"name": "c", "image": "i"}]}
    kube.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    wait_until_used(kube, pods="1")
    kube.client().patch("pod/p", {"spec": {"activeDeadlineSeconds": 3600}})
    wait_until_used(kube, pods="0")
