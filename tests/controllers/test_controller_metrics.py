"""Metrics of controllers have the names and labels of kube-controller-manager. The server is real, time is virtual."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from apiserver.runtime.metrics import lines_of
from controllers.options.options import Options
from controllers.runtime.client import Client
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import (
    CONFIG_MAPS,
    ENDPOINTS,
    JOBS,
    NODES,
    PODS,
    REPLICA_SETS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
)
from controllers.workloads.common.component import Workload
from tests.controllers.test_endpoints import a_service, node, pod
from tests.scheduler.world import World
from tests.support.objects import make_pod
from tests.support.virtual import passes

pytestmark = pytest.mark.integration


def samples(world: World, *names: str) -> dict[str, float]:
    """Return the samples with these prefixes."""
    lines = lines_of(family for component in world.manager.components for family in component.metrics)
    return {
        name: float(number)
        for name, _, number in (line.rpartition(" ") for line in lines)
        if name.startswith(names) and "_bucket" not in name
    }


async def test_slices_of_services_and_their_endpoints_are_counted() -> None:
    async with World("endpointslice-controller", "endpointslice-mirroring-controller") as world:
        await node(world, "n1", "z1")
        await world.create(SERVICES, a_service(trafficDistribution="PreferSameZone"), a_service("own", {}))
        await passes(2)
        prefix = "endpoint_slice_controller"
        assert samples(world, f"{prefix}_num", f"{prefix}_desired", f"{prefix}_endpoints_desired") == {
            f"{prefix}_num_endpoint_slices": 1,
            f"{prefix}_desired_endpoint_slices": 1,
            f"{prefix}_endpoints_desired": 0,
        }
        for number in (1, 2):
            await pod(world, f"p{number}", number)
            await passes(2)
        assert samples(world, f"{prefix}_endpoints_desired") == {f"{prefix}_endpoints_desired": 2}
        assert samples(world, f"{prefix}_endpoints_added_per_sync_sum") == {f"{prefix}_endpoints_added_per_sync_sum": 2}
        assert samples(world, f"{prefix}_services_count") == {
            f'{prefix}_services_count_by_traffic_distribution{{traffic_distribution="PreferSameZone"}}': 1
        }
        labels = '{topology="Disabled",traffic_distribution="PreferSameZone"}'
        changed = f"{prefix}_endpointslices_changed_per_sync_sum{labels}"
        # The empty slice, which takes the first endpoint, and then the second.
        assert samples(world, changed) == {changed: 3}
        assert samples(world, f"{prefix}_syncs")[f'{prefix}_syncs{{result="success"}}'] >= 3
        await world.client.delete(PODS, "p1", "ns", grace_period=0)
        await passes(2)
        removed = f"{prefix}_endpoints_removed_per_sync_sum"
        assert samples(world, removed) == {removed: 1}
        await world.client.delete(SERVICES, "web", "ns")
        await passes(2)
        assert samples(world, f"{prefix}_endpoints_desired", f"{prefix}_services_count") == {
            f"{prefix}_endpoints_desired": 0
        }
        await check_mirroring(world)


async def check_mirroring(world: World) -> None:
    prefix = "endpoint_slice_mirroring_controller"

    async def write(*addresses: Json) -> None:
        body = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "own", "namespace": "ns"}}
        subsets = [{"addresses": list(addresses), "ports": [{"port": 80}]}]
        if world.manager.informers.of(ENDPOINTS).get("ns/own") is None:
            await world.create(ENDPOINTS, {**body, "subsets": subsets})
        else:
            await world.client.patch(ENDPOINTS, "own", {"subsets": subsets}, "ns")
        await passes(2)

    def sums() -> list[float]:
        names = [f"{prefix}_endpoints_{what}_per_sync_sum" for what in ("added", "updated", "removed")]
        return [samples(world, name)[name] for name in names]

    await write({"ip": "10.1.0.1"}, {"ip": "10.1.0.2"})
    assert sums() == [2, 0, 0]
    await write({"ip": "10.1.0.1", "nodeName": "n1"}, {"ip": "10.1.0.3"})
    assert sums() == [3, 1, 1]
    held = {f"{prefix}_{what}": 1 for what in ("num_endpoint_slices", "desired_endpoint_slices")}
    assert samples(world, *held) == held
    assert samples(world, f"{prefix}_endpoints_desired") == {f"{prefix}_endpoints_desired": 2}
    assert samples(world, f"{prefix}_addresses_skipped_per_sync_sum") == {f"{prefix}_addresses_skipped_per_sync_sum": 0}
    assert samples(world, f"{prefix}_endpoints_sync_duration_count")[f"{prefix}_endpoints_sync_duration_count"] >= 2


async def test_volumes_and_claims_are_counted_by_class() -> None:
    async with World("persistentvolume-binder-controller", "ephemeral-volume-controller") as world:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        ephemeral = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {**spec, "storageClassName": "c"}}}}
        await world.create(PODS, make_pod("p", volumes=[ephemeral]))
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a", "namespace": "ns"}}
        await world.create(VOLUME_CLAIMS, {**claim, "spec": spec})
        for name, source in (
            ("one", {"hostPath": {"path": "/x"}}),
            ("two", {"csi": {"driver": "d", "volumeHandle": "h"}}),
        ):
            volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}}
            sizes = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "storageClassName": name}
            await world.create(VOLUMES, {**volume, "spec": {**sizes, **source}})
        await passes(2)
        default = {"storageclass.kubernetes.io/is-default-class": "true"}
        storage = {
            "metadata": {"name": "one", "annotations": default},
            "provisioner": "kubernetes.io/no-provisioner",
        }
        await world.create(STORAGE_CLASSES, {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", **storage})
        await passes(2)
        assert samples(world, "pv_collector", "retroactive", "ephemeral_volume_controller") == {
            'pv_collector_total_pv_count{plugin_name="kubernetes.io/host-path",volume_mode="Filesystem"}': 1,
            'pv_collector_total_pv_count{plugin_name="kubernetes.io/csi:d",volume_mode="Filesystem"}': 1,
            'pv_collector_bound_pv_count{storage_class="one"}': 1,
            'pv_collector_unbound_pv_count{storage_class="two"}': 1,
            'pv_collector_bound_pvc_count{namespace="ns",storage_class="one",volume_attributes_class=""}': 1,
            'pv_collector_unbound_pvc_count{namespace="ns",storage_class="c",volume_attributes_class=""}': 1,
            "retroactive_storageclass_total": 1,
            "retroactive_storageclass_errors_total": 0,
            "ephemeral_volume_controller_create_total": 1,
            "ephemeral_volume_controller_create_failures_total": 0,
        }


def a_set(**spec: Any) -> Json:
    template = {"metadata": {"labels": {"app": "s"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"app": "s"}}, "template": template, "serviceName": "s", "replicas": 2, **spec}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s", "namespace": "ns"}, "spec": spec}


async def test_unavailable_pods_of_stateful_sets_and_their_limit_are_measured() -> None:
    gates = "MaxUnavailableStatefulSet=true"
    async with World("statefulset-controller", gates=gates) as world:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "60%"}}
        await world.create(STATEFUL_SETS, a_set(podManagementPolicy="Parallel", updateStrategy=strategy))
        await passes(2)
        labels = '{statefulset_namespace="ns",statefulset_name="s",pod_management_policy="Parallel"}'
        prefix = "statefulset_controller_statefulset"
        assert samples(world, prefix) == {
            f"{prefix}_max_unavailable{labels}": 1,
            f"{prefix}_unavailable_replicas{labels}": 2,
        }
        await world.client.delete(STATEFUL_SETS, "s", "ns")
        await passes(2)
        assert samples(world, prefix) == {}


async def test_jobs_that_outlived_their_time_and_pods_that_they_held_are_counted() -> None:
    names = ("job-controller", "ttl-after-finished-controller", "garbage-collector-controller")
    async with World(*names) as world:
        template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "ns"}}
        await world.create(JOBS, {**body, "spec": {"template": template, "ttlSecondsAfterFinished": 5}})
        await passes(2)
        [made] = (await world.client.list(PODS, "ns"))["items"]
        await world.client.update_status(PODS, {**made, "status": {"phase": "Succeeded"}})
        await passes(20)
        held = "job_controller_terminated_pods_tracking_finalizer_total"
        assert samples(world, held) == {f'{held}{{event="add"}}': 1, f'{held}{{event="delete"}}': 1}
        late = "ttl_after_finished_controller_job_deletion_duration_seconds_count"
        assert samples(world, late) == {late: 1}
        unknown = "garbagecollector_controller_resources_sync_error_total"
        assert samples(world, unknown) == {unknown: 0}


async def test_passes_over_nodes_and_namespaces_are_timed() -> None:
    names = ("node-lifecycle-controller", "root-ca-certificate-publisher-controller")
    async with World(*names, options={"root_ca": "PEM"}) as world:
        await world.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
        await passes(6)
        one, total = (f"node_collector_update_{what}_health_duration_seconds_count" for what in ("node", "all_nodes"))
        found = samples(world, one, total)
        assert found[one] >= 1
        assert found[total] >= found[one]
        looks = 'root_ca_cert_publisher_sync_total{code="200"}'
        before = samples(world, "root_ca_cert_publisher_sync_total")[looks]
        await world.client.delete(CONFIG_MAPS, "kube-root-ca.crt", "ns")
        await passes(1)
        assert samples(world, looks)[looks] > before
        timed = 'root_ca_cert_publisher_sync_duration_seconds_count{code="200"}'
        assert samples(world, timed)[timed] == samples(world, looks)[looks]


class _Still(Workload):
    """Does nothing."""

    async def sync(self, key: str, owner: Json) -> None:
        return None


async def test_a_pass_over_a_stale_informer_is_counted() -> None:
    async with World() as world:
        client: Client = world.client
        informers = Informers(client)
        component = _Still(
            "replicaset-controller", client, informers, Options(), REPLICA_SETS,
            source="s", queue="q", skips="replicaset_controller",
        )  # fmt: skip
        owner = {"metadata": {"namespace": "ns", "name": "r", "resourceVersion": "1000000"}}
        component.record_write(owner)
        assert await component.reconcile("ns/r") is not None
        lines = [line for line in lines_of(component.metrics) if "skips" in line and line[0] != "#"]
        assert lines == ['replicaset_controller_stale_sync_skips_total{group="apps",resource="replicasets"} 1']
