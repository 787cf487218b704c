"""Explanations of waiting pods: every device is counted once, and every remedy helps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.explain.__main__ import main, table
from controllers.explain.claim_details import NotThereError, explain
from controllers.explain.world import World
from controllers.options.options import Options
from controllers.runtime.kinds import NODES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES, key_of
from kubedra import ControlPlane
from tests.support.objects import (
    make_claim,
    make_device_class,
    make_manifest,
    make_metadata,
    make_node,
    make_pod,
    make_request,
    make_slice,
)
from tests.support.recording import KINDS

pytestmark = pytest.mark.integration


def node(name: str, **more: Any) -> Json:
    made = make_node(name, **more)
    made["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return made


def slice_(node: str, devices: list[Json]) -> Json:
    return make_slice(node, devices, "d")


def gpus(count: int, **more: Any) -> list[Json]:
    def attributes(number: int) -> Json:
        return {"model": {"string": "A1"}, "uuid": {"string": f"u{number}"}, "memory": {"int": 80}}

    return [{"name": f"gpu-{n}", "attributes": attributes(n), **more} for n in range(count)]


def claim(name: str, count: int = 1, held: list[tuple[str, str]] | None = None, **request: Any) -> Json:
    """Build a claim. `held`: pools and names of its allocated devices."""
    status: Json = {}
    if held is not None:
        results = [{"request": "r", "driver": "d", "pool": pool, "device": device} for pool, device in held]
        users = [{"resource": "pods", "name": f"user-of-{name}", "uid": "u"}]
        status = {"allocation": {"devices": {"results": results}}, "reservedFor": users}
    return make_claim(name, requests=[make_request(count=count, **request)], **status)


def pod(name: str = "p", claims: tuple[str, ...] = ("wanted",), cpu: str = "1", **spec: Any) -> Json:
    return make_pod(name, requests={"cpu": cpu}, claims={each: each for each in claims}, **spec)


def world(*objects: Json, gates: Mapping[str, bool] | None = None) -> World:
    """Return a world of these objects, and the class `gpu`."""
    made = World.empty(Options(seed=0, gates=gates or {}))
    for obj in (make_device_class("gpu"), *objects):
        made.set(KINDS[obj["kind"]], key_of(obj), obj)
    return made


def of_pod(made: World, name: str = "p") -> Json:
    found: Json = explain(made, "pod", "ns", name).as_json()
    return found


def changes(found: Json) -> list[str]:
    return [" and ".join(each["changes"]) for each in found["changes"]]


def test_every_device_is_counted_once_under_the_reason_that_rules_it_out() -> None:
    devices: list[Json] = [
        {"name": "held", "attributes": {"model": {"string": "A1"}}},
        {"name": "other", "attributes": {"model": {"string": "B2"}}},
        {"name": "bad", "attributes": {"model": {"string": "A1"}}, "taints": [{"key": "k", "effect": "NoSchedule"}]},
    ]
    wanted = claim("wanted", selectors=[{"cel": {"expression": 'device.attributes["d"].model == "A1"'}}])
    found = of_pod(world(node("n"), slice_("n", devices), wanted, claim("c", held=[("n", "held")]), pod()))
    assert (found["verdict"], found["text"]) == (
        "unschedulable",
        "0/1 nodes are available: 1 cannot allocate all claims.",
    )
    (group,) = found["nodes"]
    (request,) = group["requests"]
    assert (request["devices"], request["usable"]) == (3, 0)
    assert {reason["kind"]: reason["count"] for reason in request["reasons"]} == {
        "allocated": 1,
        "selector": 1,
        "taint": 1,
    }
    assert group["held"] == {"ns/c": 1}
    assert set(changes(found)) >= {
        "free claim ns/c (used by user-of-c)",
        "tolerate device taint k:NoSchedule in claim wanted",
    }
    # One more device suffices: two more are not proposed.
    assert [each for each in changes(found) if "more device" in each] == [
        "add 1 more device like held (model=A1) of driver d to node n"
    ]


def test_nodes_with_the_same_verdict_form_one_group() -> None:
    found = of_pod(world(node("a"), node("b"), node("c", unschedulable=True), claim("wanted"), pod()))
    assert [(group["plugin"], group["nodes"]) for group in found["nodes"]] == [
        ("DynamicResources", ["a", "b"]),
        ("NodeUnschedulable", ["c"]),
    ]
    assert changes(found) == ["add 1 device of class gpu of any driver to node a"]


def test_only_helpful_changes_are_reported() -> None:
    held = [claim("one", held=[("n", "gpu-0")]), claim("two", held=[("n", "gpu-1")])]
    base = [node("n"), slice_("n", gpus(2)), pod()]
    found = of_pod(world(*base, claim("wanted"), *held))
    assert changes(found)[:2] == ["free claim ns/one (used by user-of-one)", "free claim ns/two (used by user-of-two)"]
    # A request for two devices needs both claims freed, or two more devices.
    found = of_pod(world(*base, claim("wanted", 2), *held))
    assert changes(found) == [
        "free claim ns/one (used by user-of-one) and free claim ns/two (used by user-of-two)",
        "add 2 more devices like gpu-0 (model=A1) of driver d to node n",
    ]


def partitions(on: str, devices: list[Json]) -> list[Json]:
    """Return slices of devices that consume counters of their pool. No more devices like them are proposed."""
    consumes = [{"counterSet": "s", "counters": {"c": {"value": "1"}}}]
    sets = [{"name": "s", "counters": {"c": {"value": "9"}}}]
    pool = {"name": on, "generation": 1, "resourceSliceCount": 2}
    specs = ({"devices": [{**each, "consumesCounters": consumes} for each in devices]}, {"sharedCounters": sets})
    return [
        {
            "kind": "ResourceSlice",
            "metadata": make_metadata(f"{on}-{number}"),
            "spec": {"driver": "d", "nodeName": on, "pool": pool, **spec},
        }
        for number, spec in enumerate(specs)
    ]


def test_no_more_claims_are_freed_than_necessary() -> None:
    held = [claim(f"c{n}", held=[("n", f"gpu-{n}")]) for n in range(4)]
    # The largest claim is tried first, but its node has too few devices: it is dropped.
    large = claim("large", 2, held=[("m", "gpu-0"), ("m", "gpu-1")])
    found = of_pod(
        world(
            node("n"),
            node("m"),
            *partitions("n", gpus(4)),
            *partitions("m", gpus(2)),
            claim("wanted", 4),
            large,
            *held,
            pod(),
        )
    )
    assert [(each["changes"], each["node"]) for each in found["changes"]] == [
        ([f"free claim ns/c{n} (used by user-of-c{n})" for n in range(4)], "n")
    ]


@pytest.mark.parametrize(
    ("nodes", "waiting", "text"),
    [
        ([node("n", unschedulable=True)], pod(claims=()), "uncordon node n"),
        ([node("n", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])], pod(claims=()), "tolerate node taint k=v:NoSchedule in the pod"),
        ([node("n")], pod(claims=(), nodeSelector={"zone": "moon"}), "label node n zone=moon"),
    ],
)  # fmt: skip
def test_rejections_of_other_plugins_have_remedies(nodes: list[Json], waiting: Json, text: str) -> None:
    assert changes(of_pod(world(*nodes, waiting))) == [text]


def test_pods_to_delete_are_listed_by_priority() -> None:
    running = [pod(f"r{n}", claims=(), cpu="3", nodeName="n", priority=2 - n) for n in range(1)]
    found = of_pod(world(node("n"), pod(claims=(), cpu="2"), *running))
    assert changes(found) == [
        "delete pod ns/r0 on node n",
        "request at most 1 cpu",
        "add one more node like n",
        "raise the priority above 2 (now 0)",
    ]
    assert "Insufficient cpu" in found["text"]


def test_an_unknown_attribute_is_reported_with_the_most_similar_one() -> None:
    wanted = claim("wanted", selectors=[{"cel": {"expression": 'device.attributes["d"].Model == "A1"'}}])
    found = of_pod(world(node("n"), slice_("n", gpus(3)), wanted, pod()))
    assert "no such key: Model" in found["text"]
    assert found["absent"] == [
        'no device has attributes d/Model (device.attributes["d"].Model == "A1"); did you mean model (3 devices)?'
    ]
    assert found["nodes"][0]["requests"][0]["reasons"][0]["kind"] == "selector-error"


def test_a_gated_pod_is_reported_with_its_gate_and_requeue_events() -> None:
    missing = of_pod(world(node("n"), pod()))
    assert (missing["verdict"], missing["text"]) == ("gated", 'could not find ResourceClaim "ns/wanted"')
    assert "its claim is created" in missing["wakes"]
    gated = of_pod(world(node("n"), pod(claims=(), schedulingGates=[{"name": "example.com/wait"}])))
    assert (gated["verdict"], gated["text"]) == ("gated", "scheduling gates: example.com/wait")
    assert gated["wakes"] == ["its scheduling gates are removed"]


def test_pods_not_waiting_for_this_scheduler_are_reported_as_such() -> None:
    pods = [
        pod("bound", claims=(), nodeName="n"),
        pod("other", claims=(), schedulerName="mine"),
        pod("free", claims=()),
    ]
    made = world(node("n"), node("idle"), *pods)
    assert of_pod(made, "bound")["text"] == "on node n, Pending"
    assert of_pod(made, "other")["text"] == "waits for scheduler mine"
    assert (of_pod(made, "free")["verdict"], of_pod(made, "free")["text"]) == ("fits", "best on idle")
    with pytest.raises(NotThereError, match='pods "missing" not found in namespace "ns"'):
        of_pod(made, "missing")


def test_a_pod_being_bound_is_reported_with_its_nominated_node() -> None:
    chosen = pod(claims=())
    chosen["status"]["nominatedNodeName"] = "n"
    found = of_pod(world(node("n"), chosen, pod("other", claims=())))
    assert (found["verdict"], found["nominated"]) == ("fits", "n")
    assert "node n is nominated: the pod waits for volumes, devices or evicted pods to terminate" in found["report"]
    assert "nominated" not in of_pod(world(node("n"), pod(claims=())))["report"]


def test_explaining_does_not_change_the_world() -> None:
    made = world(node("n"), slice_("n", gpus(2)), claim("wanted", 2), claim("c", held=[("n", "gpu-0")]), pod())
    before = {kind: deepcopy(made.objects(kind)) for kind in (NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES)}
    first = of_pod(made)
    assert first["changes"]
    assert {kind: made.objects(kind) for kind in before} == before
    assert of_pod(made) == first


def test_a_node_lists_the_claims_that_hold_its_devices() -> None:
    devices = [*gpus(2), {"name": "bad", "taints": [{"key": "k", "effect": "NoSchedule"}]}]
    running = pod("r", claims=(), cpu="500m", nodeName="n")
    running["spec"]["containers"][0]["resources"]["requests"]["memory"] = "1536Mi"
    made = world(node("n"), slice_("n", devices), claim("c", held=[("n", "gpu-0")]), running)
    found = explain(made, "node", "", "n").as_json()
    assert (found["devices"], found["free"], found["tainted"], found["held"]) == (3, 2, 1, {"ns/c": 1})
    assert found["pools"] == {"d/n": "usable"}
    assert "1 allocated to claim ns/c" in found["report"]
    assert found["report"].startswith("node n: ready, 1 pod\n")
    assert "cpu: 0.5 of 4 requested\nmemory: 1.5Gi of 8Gi requested\n" in found["report"]
    assert "3 devices: 2 free, 1 tainted" in found["report"]
    with pytest.raises(NotThereError, match='nodes "m" not found'):
        explain(made, "node", "", "m")


def test_a_node_tells_shared_devices_from_free_ones_and_omits_resources_that_claims_serve() -> None:
    devices = [{"name": "gpu-0", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "80Gi"}}}, *gpus(1)]
    devices[1]["name"] = "gpu-1"
    using = claim("c", held=[("n", "gpu-0")])
    using["status"]["allocation"]["devices"]["results"][0] |= {"shareID": "s", "consumedCapacity": {"memory": "10Gi"}}
    running = pod("r", claims=(), nodeName="n")
    running["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "1"
    report = explain(world(node("n"), slice_("n", devices), using, running), "node", "", "n").as_json()["report"]
    assert "2 devices: 1 free, 1 shared\n  1 allocated to claim ns/c" in report
    assert "example.com/gpu" not in report


def test_unreadable_collections_are_reported() -> None:
    made = world(node("n"), claim("wanted"))
    made.unread = {"pods": "pods is forbidden"}
    with pytest.raises(NotThereError, match=r"^pods cannot be read: pods is forbidden$"):
        of_pod(made)
    for kind, namespace, name in (("node", "", "n"), ("claim", "ns", "wanted")):
        found = explain(made, kind, namespace, name).as_json()
        assert found["unread"] == made.unread
        assert found["report"].endswith("\ncould not read pods: pods is forbidden")


def test_a_claim_explains_why_its_pods_wait() -> None:
    namesake = pod("namesake", namespace="elsewhere")
    made = world(node("n"), claim("wanted"), pod(), pod("other", claims=()), namesake)
    found = explain(made, "claim", "ns", "wanted").as_json()
    assert (found["claim"]["state"], found["pods"]) == ("pending", ["p"])
    assert found["waiting"][0]["text"] == "0/1 nodes are available: 1 cannot allocate all claims."


# On a server

DEVICE_CLASS = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu.example.com"}}
TEMPLATE = make_manifest(
    RESOURCE_CLAIM_TEMPLATES,
    "gpus",
    {"spec": {"devices": {"requests": [{"name": "g", "exactly": {"deviceClassName": "gpu.example.com", "count": 2}}]}}},
)


def with_gpus(name: str) -> Json:
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "g"}]}}
    entry = {"name": "g", "resourceClaimTemplateName": "gpus"}
    return make_manifest(PODS, name, {"containers": [container], "resourceClaims": [entry]})


def test_a_reported_remedy_helps(kube: Any) -> None:
    kube.add_node("worker", devices=2)
    kube.apply([{**DEVICE_CLASS, "spec": {}}, TEMPLATE, with_gpus("first")])
    kube.wait("pod/first", "phase=Running")
    kube.apply(with_gpus("second"))
    kube.wait("pod/second", "condition=PodScheduled=False")
    found = kube.explain("pod/second")
    assert found["text"] == "0/1 nodes are available: 1 cannot allocate all claims."
    assert found["queue"]["rejected_by"] == ["DynamicResources"]
    assert found["queue"]["place"] == "unschedulable, waiting for an event"
    assert found["changes"][0]["changes"][0].startswith("free claim default/first-g-")
    assert kube.explain("claim/" + found["claims"][0]["name"])["waiting"][0]["name"] == "second"
    kube.delete("pod/first", grace_period=0)
    assert kube.wait("pod/second", "phase=Running")["spec"]["nodeName"] == found["changes"][0]["node"]
    assert kube.explain("node/worker")["free"] == 0
    assert main(["node", "worker?x", "--server", kube.url]) == 2


def test_explaining_a_cluster_only_reads_it(capsys: pytest.CaptureFixture[str]) -> None:
    with ControlPlane(controllers=False) as plane, plane.client() as client:
        client.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"unschedulable": True}})
        client.create({**with_gpus("waits"), "spec": {"containers": [{"name": "c", "image": "i"}]}})
        client.request("DELETE", "/-/requests")
        assert main(["pod", "waits", "--kubeconfig", str(plane.kubeconfig), "-o", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["text"] == "0/1 nodes are available: 1 node(s) were unschedulable."
        assert found["queue"] is None
        assert {request["verb"] for request in client.requests()} == {"get", "list"}
        assert main(["pod/waits", "--kubeconfig", str(plane.kubeconfig)]) == 0
        assert "1 node(s) were unschedulable" in capsys.readouterr().out
        assert main(["pod", "missing", "--server", plane.url]) == 2
        assert capsys.readouterr().err.endswith(': pods "missing" not found in namespace "default"\n')


def test_a_table_has_one_line_per_request() -> None:
    made = world(
        node("n"),
        node("c", unschedulable=True),
        slice_("n", gpus(2)),
        claim("wanted", 3),
        claim("c", held=[("n", "gpu-0")]),
        pod(),
    )
    assert [line.split() for line in table(of_pod(made)).splitlines()] == [
        ["POD", "NODES", "FIRST", "CLAIM", "REQUEST", "DEVICES", "USABLE", "RULED", "OUT"],
        ["ns/p", "1", "n", "ns/wanted", "r", "2", "1", "1", "allocated"],
        ["ns/p", "1", "c", "-", "-", "-", "-", "node(s)", "were", "unschedulable;", "the", "node", "is", "cordoned"],
    ]


def test_errors_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for args, words in (
        (["pod"], "missing name: use pod NAME or pod/NAME"),
        (["pod/"], "missing name"),
        (["job/x"], "unknown kind job: use pod, claim, node or podgroup"),
        (["job", "x"], "unknown kind job: use pod, claim, node or podgroup"),
        (["pod", "x", "--kubeconfig", str(tmp_path / "none")], "no such file"),
        (["pod", "x", "--server", "http://127.0.0.1:1"], "127.0.0.1"),
    ):
        assert main(args) == 2
        said = capsys.readouterr()
        assert (said.out, said.err.count("\n")) == ("", 1)
        assert words in said.err
