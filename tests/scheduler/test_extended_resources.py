"""Extended resources that devices serve: from a request for `example.com/gpu: 1` to a claim of the pod."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.runtime.client import Client
from controllers.runtime.kinds import PODS, RESOURCE_CLAIMS, Kind
from controllers.scheduler.dra.extended_resources import ClassNames, RequestBuilder, special_claim
from controllers.scheduler.framework.events import ClusterEvent, Event
from controllers.scheduler.framework.framework import Plugin
from controllers.scheduler.plugins.resources import node_resources_fit
from controllers.scheduler.state.pod_info import PodInfo
from tests.scheduler.cluster import Cluster
from tests.scheduler.world import World, scheduler_world
from tests.support.objects import (
    info,
    make_claim,
    make_device_class,
    make_node,
    make_owner,
    make_pod,
    make_request,
    make_slice,
)

pytestmark = pytest.mark.integration

GPU = "example.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"
NO_DEVICES = (
    "0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, "
    "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
)


def named_class(name: str = "gpu", resource: str | None = GPU, created: str = "2026-01-01T00:00:00Z") -> Json:
    item = make_device_class(name, **({"extendedResourceName": resource} if resource else {}))
    item["metadata"]["creationTimestamp"] = created
    return item


def asking(amount: int = 1, resource: str = GPU, name: str = "", **spec: Any) -> Json:
    """Build a pod whose container requests an extended resource; limits equal requests as the API requires."""
    pod = make_pod(name, **spec)
    pod["spec"]["containers"][0]["resources"] = {field: {resource: str(amount)} for field in ("requests", "limits")}
    return pod


def with_class(*nodes: Json, devices: int = 1, device_class: Json | None = None) -> Cluster:
    cluster = Cluster(*nodes)
    chosen = device_class or named_class()
    cluster.allocator.inventory.upsert_class(chosen)
    cluster.classes.upsert(chosen)
    cluster.publish(*(make_slice(node["metadata"]["name"], devices) for node in nodes))
    return cluster


def test_a_class_serves_its_explicit_name_and_its_implicit_name() -> None:
    names = ClassNames()
    names.upsert(named_class())
    assert (names.get(GPU), names.get(IMPLICIT), names.get("example.com/other")) == ("gpu", "gpu", None)
    names.upsert(named_class(resource="example.com/other"))
    assert (names.get(GPU), names.get("example.com/other")) == (None, "gpu")
    names.remove("gpu")
    assert (names.get("example.com/other"), names.get(IMPLICIT)) == (None, None)


def test_the_newest_of_the_classes_with_a_name_serves_it() -> None:
    names = ClassNames()
    for item in (named_class("b"), named_class("a"), named_class("old", created="2025-01-01T00:00:00Z")):
        names.upsert(item)
    assert names.get(GPU) == "a"
    names.upsert(named_class("new", created="2026-02-01T00:00:00Z"))
    assert names.get(GPU) == "new"
    for gone, next_one in (("new", "a"), ("a", "b"), ("b", "old")):
        names.remove(gone)
        assert names.get(GPU) == next_one


def container(name: str, **requests: int) -> Json:
    return {"name": name, "resources": {"requests": {f"example.com/{key}": str(v) for key, v in requests.items()}}}


def build_requests(
    init: list[Json], regular: list[Json], *resources: str
) -> tuple[dict[str, int], list[tuple[str, str, str]]]:
    pod = make_pod()
    pod["spec"] = {"initContainers": init, "containers": regular}
    builder = RequestBuilder(PodInfo(pod), lambda name: name.rpartition("/")[2])
    for resource in sorted(resources):
        builder.add(f"example.com/{resource}")
    builder.finish()
    requests = {request["name"]: request["exactly"]["count"] for request in builder.requests}
    assert all(request["exactly"]["allocationMode"] == "ExactCount" for request in builder.requests)
    fields = ("containerName", "resourceName", "requestName")
    mappings: Any = [tuple(mapping[field] for field in fields) for mapping in builder.mappings]
    return requests, mappings


def test_every_container_gets_a_request_named_by_its_position_and_the_resource() -> None:
    requests, mappings = build_requests([], [container("a", x=1), container("b", y=2, x=3)], "x", "y")
    assert requests == {"container-0-request-0": 1, "container-1-request-0": 3, "container-1-request-1": 2}
    assert mappings == [
        ("a", "example.com/x", "container-0-request-0"),
        ("b", "example.com/x", "container-1-request-0"),
        ("b", "example.com/y", "container-1-request-1"),
    ]


def test_init_containers_reuse_the_devices_of_later_containers_and_share_the_rest() -> None:
    sidecar = {**container("sidecar", x=1), "restartPolicy": "Always"}
    init = [container("first", x=2), sidecar, container("second", x=7), container("third", x=1)]
    requests, mappings = build_requests(init, [container("main", x=4)], "x")
    # The second one needs 7 and reuses the 4 of main, but not that of the running sidecar: 3 more.
    assert requests == {"container-1-request-0": 1, "container-2-request-0": 3, "container-4-request-0": 4}
    assert mappings == [
        ("sidecar", "example.com/x", "container-1-request-0"),
        ("main", "example.com/x", "container-4-request-0"),
        ("first", "example.com/x", "container-1-request-0"),
        ("first", "example.com/x", "container-4-request-0"),
        ("second", "example.com/x", "container-4-request-0"),
        ("second", "example.com/x", "container-2-request-0"),
        ("third", "example.com/x", "container-4-request-0"),
    ]


def test_only_the_largest_further_need_of_init_containers_becomes_a_request() -> None:
    requests, mappings = build_requests(
        [container("a", x=2), container("b", x=5), container("c", x=5)], [container("m")], "x"
    )
    assert requests == {"container-1-request-0": 5}
    assert mappings == [(name, "example.com/x", "container-1-request-0") for name in "abc"]


def test_devices_serve_resources_that_the_node_does_not_list() -> None:
    cluster = with_class(make_node("n"), devices=2)
    assert cluster.place(PodInfo(asking(2))) == "n"
    assert cluster.place(PodInfo(asking(1, IMPLICIT))) == "n"
    assert cluster.refusal(PodInfo(asking(3))) == "0/1 nodes are available: 1 cannot allocate all claims."
    other = PodInfo(asking(1, "example.com/other"))
    assert cluster.refusal(other) == "0/1 nodes are available: 1 Insufficient example.com/other."


def test_resources_that_the_node_lists_are_counted_and_use_no_devices() -> None:
    cluster = with_class(make_node("n", extra={GPU: "1"}), devices=5)
    assert cluster.place(PodInfo(asking(1))) == "n"
    assert cluster.refusal(PodInfo(asking(2))) == f"0/1 nodes are available: 1 Insufficient {GPU}."
    cluster = with_class(make_node("n", extra={GPU: "0"}), devices=2)
    assert cluster.place(PodInfo(asking(2))) == "n"


async def test_with_the_gate_off_only_nodes_serve_extended_resources() -> None:
    async with scheduler_world(*gpu_node(), asking(name="p"), component_gates={"DRAExtendedResource": False}) as world:
        assert f"1 Insufficient {GPU}" in await world.unschedulable("p")


def test_only_pods_of_equal_shape_share_verdicts() -> None:
    cluster = with_class(make_node("n"), devices=2)
    assert cluster.place(PodInfo(asking(2))) == "n"
    assert "cannot allocate" in cluster.refusal(PodInfo(asking(3)))
    pod = asking(1)
    pod["spec"]["containers"].append({**pod["spec"]["containers"][0], "name": "d"})
    assert cluster.place(PodInfo(pod)) == "n"


def test_a_claim_left_from_an_earlier_attempt_rejects_the_pod() -> None:
    cluster = with_class(make_node("n"))
    pod = asking(name="p")
    left = special_claim(pod, "left")
    left["metadata"] |= {"name": "p-extended-resources-abcde", "resourceVersion": "7"}
    left["spec"] = make_claim("x")["spec"]
    cluster.claims.added(left)
    assert cluster.refusal(PodInfo(pod)) == "0/1 nodes are available: 1 cannot schedule extended resource claim."
    cluster.claims.deleted(left)
    assert cluster.place(PodInfo(pod)) == "n"


FIT: Plugin = node_resources_fit(ClassNames())
HINTS = [
    ("the name comes with a class", None, named_class(), True),
    ("the class of the implicit name comes", None, named_class(resource=None), True),
    ("another class comes", None, named_class("other", None), False),
    ("a class gets the name", named_class("x", None), named_class("x"), True),
    ("a class that has the name changes", named_class("x"), named_class("x"), False),
    ("a class gets another name", named_class("x", None), named_class("x", "example.com/z"), False),
]


@pytest.mark.parametrize(("old", "new", "wakes"), [case[1:] for case in HINTS], ids=[case[0] for case in HINTS])
def test_classes_wake_pods_that_request_their_resources(old: Json | None, new: Json, wakes: bool) -> None:
    pod = info(requests={GPU: "1", IMPLICIT: "1"})
    assert FIT.hints is not None
    hint = FIT.hints[ClusterEvent.CLASS_ADD if old is None else ClusterEvent.CLASS_UPDATE]
    assert hint is not None
    assert hint(pod, Event(ClusterEvent.CLASS_ADD, old, new)) == wakes


def gpu_node(devices: int = 1, **node: Any) -> tuple[Json, ...]:
    return named_class(), make_node("n", **node), make_slice("n", devices)


async def test_the_claim_is_created_when_the_pod_is_bound_and_the_status_maps_containers_to_requests() -> None:
    async with scheduler_world(*gpu_node(2), asking(2, name="p")) as world:
        pod = await world.bound("p")
        (claim,) = await world.items(RESOURCE_CLAIMS)
        metadata, uid = claim["metadata"], pod["metadata"]["uid"]
        assert metadata["name"].startswith("p-extended-resources-")
        assert metadata["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
        assert metadata["ownerReferences"] == [make_owner(pod)]
        assert metadata["finalizers"] == ["resource.kubernetes.io/delete-protection"]
        assert claim["spec"]["devices"]["requests"] == [make_request("container-0-request-0", 2)]
        results = claim["status"]["allocation"]["devices"]["results"]
        assert [result["device"] for result in results] == ["gpu-0", "gpu-1"]
        assert claim["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": uid}]
        mapping = {"containerName": "c", "resourceName": GPU, "requestName": "container-0-request-0"}
        expected = {"requestMappings": [mapping], "resourceClaimName": metadata["name"]}
        assert pod["status"]["extendedResourceClaimStatus"] == expected


async def test_a_pod_gets_the_devices_of_a_finished_pod_whose_claim_the_controller_deletes() -> None:
    async with World("scheduler", "resourceclaim-controller", "garbage-collector-controller") as world:
        await world.add(*gpu_node(), asking(name="first"))
        first = await world.bound("first")
        await world.add(asking(name="second"))
        assert await world.unschedulable("second") == NO_DEVICES
        await world.client.update_status(PODS, {**first, "status": {**first["status"], "phase": "Succeeded"}})
        await world.bound("second")
        names = {claim["metadata"]["ownerReferences"][0]["name"] for claim in await world.items(RESOURCE_CLAIMS)}
        assert "second" in names


async def test_a_class_that_gets_the_name_later_wakes_the_pod() -> None:
    async with scheduler_world(make_node("n"), make_slice("n", 1), asking(name="p")) as world:
        assert f"1 Insufficient {GPU}. no new claims to deallocate, preemption" in await world.unschedulable("p")
        await world.add(named_class())
        await world.bound("p")


async def test_a_pod_on_a_node_that_lists_the_resource_gets_no_claim_for_it() -> None:
    async with scheduler_world(*gpu_node(extra={GPU: "4"})) as world:
        await world.add(make_claim("own"), asking(name="p", resourceClaims=[{"name": "g", "resourceClaimName": "own"}]))
        pod = await world.bound("p")
        assert [claim["metadata"]["name"] for claim in await world.items(RESOURCE_CLAIMS)] == ["own"]
        assert "extendedResourceClaimStatus" not in pod["status"]


async def test_a_failed_binding_deletes_the_claim_and_frees_its_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: Any) -> None:
        raise StatusError(403, "Forbidden", "not here")

    async with scheduler_world(*gpu_node()) as world:
        with monkeypatch.context() as patched:
            patched.setattr(Client, "bind", refuse)
            await world.add(asking(name="p"))
            assert await world.unschedulable("p") == 'running Bind plugin "DefaultBinder": not here'
            assert await world.items(RESOURCE_CLAIMS) == []
        await world.add(asking(name="q"))
        await world.bound("q")


async def test_a_failed_creation_of_the_claim_is_reported_in_upstreams_words(monkeypatch: pytest.MonkeyPatch) -> None:
    create = Client.create

    async def refuse(self: Client, kind: Kind, obj: Json, **more: Any) -> Json:
        if kind == RESOURCE_CLAIMS:
            raise StatusError(403, "Forbidden", "no claims today")
        return await create(self, kind, obj, **more)

    async with scheduler_world(*gpu_node()) as world:
        monkeypatch.setattr(Client, "create", refuse)
        await world.add(asking(name="p"))
        text = 'running PreBind plugin "DynamicResources": create claim for extended resources ns/: no claims today'
        assert await world.unschedulable("p") == text


async def test_a_claim_left_from_an_earlier_attempt_is_replaced() -> None:
    async with scheduler_world(*gpu_node()) as world:
        pod = await world.add(asking(name="p", schedulingGates=[{"name": "g"}]))
        left = special_claim(pod, "")
        del left["metadata"]["name"], left["metadata"]["uid"]
        left["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
        made = await world.client.create(RESOURCE_CLAIMS, {**left, "spec": make_claim("x")["spec"]})
        await world.client.patch(PODS, "p", {"spec": {"schedulingGates": None}}, "ns", type="merge")
        await world.bound("p")
        (claim,) = await world.items(RESOURCE_CLAIMS)
        assert claim["metadata"]["uid"] != made["metadata"]["uid"]
