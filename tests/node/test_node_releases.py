"""Nodes with real drivers in processes of their own, beside servers of other releases, gates and served versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from apiserver.api.features.gates import Features
from apiserver.api.helpers.flat_devices import template_from_hub
from apiserver.api.objects import Json
from controllers.options.follow import follow_server
from controllers.options.options import Options
from controllers.runtime.client import Client
from controllers.runtime.http import HttpTransport
from controllers.runtime.kinds import RESOURCE_CLAIMS, RESOURCE_SLICES
from kubedra import ControlPlane
from kubedra.kubeconfig.reader import read_kubeconfig
from kubedra.pytest_plugin import Kube
from tests.node.test_node_process import CLAIM_SPEC, CLASS, TEMPLATE, make_pod
from tests.node.test_python_driver import Gpus

pytestmark = pytest.mark.integration


@contextmanager
def serving(**options: Any) -> Iterator[Kube]:
    with ControlPlane(**options) as plane:
        kube = Kube(plane)
        try:
            yield kube
        finally:
            kube.close()


def at(version: str, obj: Json) -> Json:
    """Return an object of v1 in another version of resource.k8s.io."""
    return {**obj, "apiVersion": f"resource.k8s.io/{version}"}


BETA1: Mapping[str, Any] = {"emulated_version": "1.33", "feature_gates": "DynamicResourceAllocation=true"}
FLAT = template_from_hub({**TEMPLATE, "spec": {"spec": {"devices": dict(CLAIM_SPEC["devices"])}}})


@pytest.mark.parametrize(
    ("version", "options"),
    [
        ("v1beta1", {**BETA1, "runtime_config": "resource.k8s.io/v1beta1=true"}),
        ("v1beta2", {**BETA1, "runtime_config": "resource.k8s.io/v1beta2=true"}),
        ("v1", {"emulated_version": "1.34"}),
        ("v1beta1", {"runtime_config": "resource.k8s.io/v1=false,resource.k8s.io/v1beta1=true"}),
        ("v1", {"feature_gates": "DRAReservedForWorkloads=true"}),
    ],
)
def test_a_pod_runs_on_a_node_with_a_driver_of_its_own_and_ends(version: str, options: Mapping[str, Any]) -> None:
    with serving(**options) as kube:
        driver = Gpus()
        kube.add_node("n1", driver=driver)
        template = FLAT if version == "v1beta1" else TEMPLATE
        kube.apply([at(version, CLASS), at(version, template), make_pod()])
        kube.wait("pod/p", "phase=Running")
        (published,) = kube.list("resourceslices")
        assert ("basic" in published["spec"]["devices"][0]) == (version == "v1beta1")
        assert [len(devices) for devices in driver.prepared.values()] == [1]
        kube.delete("pod/p")
        kube.wait("pod/p", "delete")
        assert (driver.prepared, driver.errors, kube.list("resourceclaims")) == ({}, [], [])


def test_emulated_nodes_and_explanations_read_and_write_v1beta1() -> None:
    options = {**BETA1, "runtime_config": "resource.k8s.io/v1beta1=true"}
    with serving(**options, nodes=1, devices="gpu.example.com") as kube:
        wanted = {**CLASS, "metadata": {"name": "mine"}}
        kube.wait("deviceclass/gpu.example.com", "create")
        template = {**FLAT, "spec": {"spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "mine"}]}}}}
        kube.apply([at("v1beta1", wanted), at("v1beta1", template), make_pod()])
        kube.wait("pod/p", "phase=Running")
        assert "8 devices: 7 free" in kube.explain("node/node-1")["report"]


async def _follow(kube: Kube, **options: Any) -> tuple[Client, Options]:
    transport = HttpTransport(read_kubeconfig(kube.kubeconfig))
    given = Options(**options)
    try:
        client, found = await follow_server(Client(transport), given, is_release_set="emulated_version" in options)
        assert isinstance((await client.list(RESOURCE_CLAIMS))["items"], list)
    finally:
        await transport.close()
    return client, found


@pytest.mark.real_time
async def test_release_and_gates_are_those_of_the_server_unless_flags_set_them() -> None:
    gates = {"DRAReservedForWorkloads": True, "DRADeviceTaints": False, "DRADeviceTaintRules": False}
    with serving(feature_gates=gates) as kube:
        client, options = await _follow(kube)
        assert (client.release, dict(options.gates)) == (
            (1, 36),
            {"DRAReservedForWorkloads": True, "DRADeviceTaints": False},
        )
        _, options = await _follow(kube, gates={"DRAReservedForWorkloads": False})
        assert dict(options.gates) == {"DRAReservedForWorkloads": False, "DRADeviceTaints": False}
        client, options = await _follow(kube, emulated_version=(1, 34))
        assert (client.release, dict(options.gates), client.device_version) == ((1, 34), {}, "")
        assert Features(options.emulated_version, options.gates).enabled("DRAAdminAccess")
    with serving(emulated_version="1.35") as kube:
        client, options = await _follow(kube)
        assert (client.release, options.emulated_version, options.gates) == ((1, 35), (1, 35), {})
    with serving(**BETA1, runtime_config="resource.k8s.io/v1beta1=true") as kube:
        client, _ = await _follow(kube)
        assert (client.release, client.at(RESOURCE_SLICES).version) == ((1, 33), "v1beta1")


def test_pods_of_a_workload_share_its_claim_on_a_node_with_a_driver_of_its_own() -> None:
    """Such a claim is reserved for the Deployment, so a kubelet without the server's gate refuses its pods."""
    with serving(feature_gates="DRAReservedForWorkloads=true") as kube:
        kube.add_node("n1", driver=Gpus())
        pod = make_pod()
        spec = {**pod["spec"], "restartPolicy": "Always", "resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]}
        labels = {"app": "web"}
        template = {"metadata": {"labels": labels}, "spec": spec}
        deployment = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
        }
        owner = kube.create(deployment)["metadata"]
        reference = {"apiGroup": "apps", "resource": "deployments", "name": "web", "uid": owner["uid"]}
        claim = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "c"},
            "spec": {**CLAIM_SPEC, "reservedFor": reference},
        }
        kube.apply([CLASS, claim])
        kube.wait("deployment/web", lambda found: found["status"].get("readyReplicas") == 2)
        assert kube.get("resourceclaim/c")["status"]["reservedFor"] == [reference]
