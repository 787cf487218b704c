"""Sets of changes that help only together. Each change is necessary; some answer rejections left by earlier ones."""

from __future__ import annotations

import pytest

from apiserver.api.objects import Json
from tests.controllers.test_explain import changes, claim, gpus, of_pod, partitions, pod, slice_, world
from tests.controllers.test_explain_reasons import (
    WANTS_ZONE,
    ZONE,
    bare,
    mounting,
    node,
    storage_class,
    volume,
    volume_claim,
    with_port,
)
from tests.support.objects import make_device_class

pytestmark = pytest.mark.integration

HARD = {"key": "hard", "value": "v", "effect": "NoSchedule"}
BAD = {"key": "bad", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        (
            [node("n", unschedulable=True, taints=[HARD]), bare()],
            ["uncordon node n and tolerate node taint hard=v:NoSchedule in the pod"],
        ),
        (
            [node("n", "a", taints=[HARD], unschedulable=True), bare(affinity=WANTS_ZONE)],
            [f"uncordon node n and tolerate node taint hard=v:NoSchedule in the pod and label node n {ZONE}=b"],
        ),
        (
            [
                node("n"),
                slice_("n", gpus(1)),
                claim("wanted"),
                claim("c", held=[("n", "gpu-0")]),
                with_port(pod()),
                with_port(bare("r", nodeName="n")),
            ],
            [
                "delete pod ns/r on node n and free claim ns/c (used by user-of-c)",
                "delete pod ns/r on node n and add 1 more device like gpu-0 (model=A1) of driver d to node n",
            ],
        ),
        (
            [
                node("n"),
                *partitions("n", gpus(2, taints=[BAD])),
                claim("wanted", 2),
                claim("c", held=[("n", "gpu-0")]),
                pod(),
            ],
            ["free claim ns/c (used by user-of-c) and tolerate device taint bad:NoSchedule in claim wanted"],
        ),
        (
            [node("n"), *partitions("n", gpus(1, taints=[BAD, HARD])), claim("wanted"), pod()],
            ["tolerate device taints bad:NoSchedule and hard=v:NoSchedule in claim wanted"],
        ),
    ],
    ids=["cordon and taint", "three of one node", "port and device", "claim and taint", "two device taints"],
)
def test_changes_that_help_only_together_are_found(objects: list[Json], said: list[str]) -> None:
    assert changes(of_pod(world(*objects)))[: len(said)] == said


def test_of_nodes_with_the_same_verdict_the_one_is_changed_on_which_the_pod_then_fits() -> None:
    nodes = [node("full", "a"), node("empty", "a"), node("also", "a")]
    found = of_pod(world(*nodes, bare(cpu="3", affinity=WANTS_ZONE), bare("r", cpu="3", nodeName="full")))
    assert changes(found) == [f"label node empty {ZONE}=b"]


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        (
            [*partitions("n", gpus(2)), claim("wanted", 4)],
            ["lower the count from 4 to 2 in request r of claim wanted"],
        ),
        (
            [
                *partitions("n", gpus(1)),
                claim("wanted", selectors=[{"cel": {"expression": each}} for each in ("true", "  1\n> 2")]),
            ],
            ["remove selector 1 > 2 from request r of claim wanted"],
        ),
    ],
    ids=["fewer", "others"],
)
def test_a_claim_may_request_less(objects: list[Json], said: list[str]) -> None:
    assert changes(of_pod(world(node("n"), pod(), *objects))) == said


def test_several_containers_together_request_less_or_a_larger_node_is_added() -> None:
    waiting = bare(cpu="500m")
    (container,) = waiting["spec"]["containers"]
    large = {"requests": {"cpu": "3800m", "memory": "1Gi"}, "limits": {"cpu": "5"}}
    waiting["spec"]["containers"] = [container, {**container, "name": "d", "resources": large}]
    found = of_pod(world(node("n"), waiting))
    assert changes(found) == ["request at most 4 cpu", "add one more node like n, but with 4.3 cpu"]
    # A resource without any node cannot be requested in smaller amounts, but a new node may have it.
    waiting["spec"]["containers"] = [{**container, "resources": {"requests": {"example.com/nic": "2"}}}]
    found = of_pod(world(node("n"), waiting))
    assert changes(found) == ["add one more node like n, but with 2 example.com/nic"]


def test_a_claim_waiting_for_its_first_consumer_needs_no_manual_binding() -> None:
    waiting = mounting("p", "gone")
    waiting["spec"]["volumes"].append({"name": "w", "persistentVolumeClaim": {"claimName": "data"}})
    objects = [storage_class(), volume(size="20Gi"), volume_claim()]
    found = of_pod(world(node("n"), waiting, *objects))
    assert changes(found) == ["create volume claim gone and bind it to a volume reachable from every node"]


def test_a_claim_with_a_volume_name_is_bound_to_that_volume() -> None:
    named = volume_claim(volumeName="v")
    base = [node("n", "a"), mounting(), named]
    found = of_pod(world(*base, volume(zone="b")))
    assert "is not bound (10Gi of class local): its volume v is not bound to it yet" in found["report"]
    assert changes(found) == [f"bind volume claim data to its volume v and label node n {ZONE}=b"]
    found = of_pod(world(*base))
    assert "its volume v does not exist" in found["report"]
    assert changes(found) == ["create volume v for claim data, reachable from every node"]


def test_a_pod_may_lower_its_pod_level_requests() -> None:
    waiting = bare(cpu="2", resources={"requests": {"cpu": "5"}, "limits": {"cpu": "6"}})
    found = of_pod(world(node("n"), waiting, bare("r", cpu="3", nodeName="n", priority=9)))
    assert "request at most 1 cpu" in changes(found)


def test_resources_served_by_devices_are_not_reported_as_insufficient() -> None:
    waiting = bare(cpu="3")
    asked = {"requests": {"cpu": "3", "example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
    waiting["spec"]["containers"][0]["resources"] = asked
    classes = [make_device_class(extendedResourceName="example.com/gpu")]
    made = world(*classes, node("n"), slice_("n", gpus(1)), waiting, bare("r", cpu="2", nodeName="n", priority=9))
    found = of_pod(made)
    assert found["text"] == "0/1 nodes are available: 1 Insufficient cpu."
    assert found["nodes"][0]["details"] == ["cpu: 3 requested, 2 of 4 left, used by ns/r (2)"]
    assert "request at most 2 cpu" in changes(found)


def test_a_change_may_help_by_preemption() -> None:
    lower = bare("r", cpu="3", nodeName="n", priority=1)
    found = of_pod(world(node("n", "a"), bare(cpu="3", priority=9, affinity=WANTS_ZONE), lower))
    assert found["preemption"]["node"] == ""
    assert found["changes"] == [{"changes": [f"label node n {ZONE}=b"], "node": "n after preempting ns/r"}]
    # If preemption already helps, a change that only enables other preemption is no remedy.
    busy = [bare(name, cpu="2", nodeName="m", priority=1) for name in ("q1", "q2")]
    waiting = pod(cpu="3", priority=9, affinity=WANTS_ZONE)
    found = of_pod(
        world(
            node("n", "a"),
            node("m", "b"),
            slice_("n", gpus(1)),
            slice_("m", gpus(1)),
            claim("wanted"),
            waiting,
            lower,
            *busy,
        )
    )
    assert found["preemption"]["node"] == "m"
    assert f"label node n {ZONE}=b" not in changes(found)


def test_two_changes_of_the_pod_may_be_necessary() -> None:
    found = of_pod(world(node("n", taints=[HARD]), bare(cpu="5")))
    assert changes(found)[:1] == ["tolerate node taint hard=v:NoSchedule in the pod and request at most 4 cpu"]


def test_three_changes_of_each_sort_are_reported() -> None:
    held = [claim(f"c{n}", held=[("n", f"gpu-{n}")]) for n in range(4)]
    found = of_pod(world(node("n"), *partitions("n", gpus(4)), claim("wanted"), *held, pod()))
    assert changes(found) == [f"free claim ns/c{n} (used by user-of-c{n})" for n in range(3)]
