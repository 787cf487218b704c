"""Explanations of waiting pod groups: missing members, placements, preemption and remedies."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.explain.__main__ import main, table
from controllers.explain.claim_details import NotThereError, explain
from controllers.explain.world import World
from kubedra import ControlPlane
from tests.controllers.test_explain import changes, claim, gpus, slice_, world
from tests.controllers.test_explain import node as make_node
from tests.controllers.test_explain_reasons import bare
from tests.support.objects import make_metadata

pytestmark = pytest.mark.integration

GATES = {"GenericWorkload": True, "GangScheduling": True, "TopologyAwareWorkloadScheduling": True}
PREEMPTION = {**GATES, "WorkloadAwarePreemption": True}
RACK = "example.com/rack"


def node(name: str, rack: str) -> Json:
    return make_node(name, labels={RACK: rack})


def group(count: int, rack: bool = False, **spec: Any) -> Json:
    if rack:
        spec["schedulingConstraints"] = {"topology": [{"key": RACK}]}
    spec = {"schedulingPolicy": {"gang": {"minCount": count}}, **spec}
    return {"kind": "PodGroup", "metadata": make_metadata("g", "ns"), "spec": spec}


def members(count: int, cpu: str = "3", **spec: Any) -> list[Json]:
    return [bare(f"m{n}", cpu=cpu, schedulingGroup={"podGroupName": "g"}, **spec) for n in range(count)]


def of_group(made: World) -> Json:
    found: Json = explain(made, "podgroup", "ns", "g").as_json()
    return found


def test_an_incomplete_gang_is_reported_with_the_number_of_missing_pods() -> None:
    made = world(node("n", "a"), group(3), *members(1), gates=GATES)
    found = of_group(made)
    assert (found["verdict"], found["text"], found["missing"]) == ("gated", "waits for 2 more pods", 2)
    assert found["members"] == {"m0": ""}


def test_each_placement_is_reported_with_its_placed_pods_and_the_first_blocked_one() -> None:
    nodes = [node("n1", "a"), node("n2", "a"), node("n3", "b")]
    made = world(*nodes, group(3, rack=True), *members(3), gates=GATES)
    found = of_group(made)
    assert found["verdict"] == "unschedulable"
    assert [(each["name"], each["nodes"], each["placed"], each["fits"]) for each in found["placements"]] == [
        (f"{RACK}=a", 2, 2, False),
        (f"{RACK}=b", 1, 1, False),
    ]
    first = found["placements"][0]
    assert first["blocked"] == "ns/m2"
    # The members placed before it use the resources.
    assert first["details"][0]["details"][0].startswith("cpu: 3 requested, 1 of 4 left, used by ns/m")
    assert "the group does not fit" in found["report"]
    assert [line.split()[:5] for line in table(found).splitlines()[1:]] == [
        ["ns/g", f"{RACK}=a", "2", "2", "3"],
        ["ns/g", f"{RACK}=b", "1", "1", "3"],
    ]


def test_remedies_of_a_group_are_tried_on_the_whole_group() -> None:
    nodes = [node("n1", "a"), node("n2", "a"), node("n3", "b")]
    found = of_group(world(*nodes, group(3, rack=True), *members(3), gates=GATES))
    assert changes(found) == [
        "lower minCount from 3 to 2",
        f"remove the topology constraint on {RACK}",
        "add 1 more node like n1 (without devices)",
        "add 2 more nodes like n3 (without devices)",
    ]


def test_the_fewest_pods_are_deleted_for_a_group() -> None:
    running = [bare(f"r{n}", cpu="2", nodeName=f"n{n}", priority=n) for n in (1, 2)]
    nodes = [node("n1", "a"), node("n2", "a")]
    made = world(*nodes, group(1), *members(1), *running, gates=PREEMPTION)
    found = of_group(made)
    assert found["preemption"]["text"] == "No preemption victims found for incoming preemptor"
    # The pod of lowest priority is deleted although the group has no higher priority; a higher one is proposed, too.
    assert changes(found)[:2] == [
        "delete pod ns/r1",
        "use a priority class above 1 that may preempt: it evicts them",
    ]
    urgent = of_group(world(*nodes, group(1, priority=9), *members(1), *running, gates=PREEMPTION))
    assert urgent["preemption"]["victims"] == ["ns/r1"]
    assert "preemption would evict 1 pod: ns/r1" in urgent["report"]


def test_devices_of_a_member_are_counted_after_those_of_earlier_members() -> None:
    claims = [claim(f"c{n}") for n in range(2)]
    pods = members(2, cpu="1")
    for number, each in enumerate(pods):
        each["spec"]["resourceClaims"] = [{"name": "d", "resourceClaimName": f"c{number}"}]
    made = world(node("n", "a"), slice_("n", gpus(1)), *claims, group(2), *pods, gates=GATES)
    (placement,) = of_group(made)["placements"]
    (request,) = placement["details"][0]["requests"]
    assert (placement["placed"], request["usable"], request["reasons"][0]["kind"]) == (1, 0, "allocated")
    # All reservations are reverted.
    assert of_group(made)["placements"] == [placement]


def test_a_kubedra_server_reports_a_missing_group_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """Only the server knows its gates; a client would assume that they are off."""
    version = "scheduling.k8s.io/v1alpha2=true"
    with ControlPlane(feature_gates={"GenericWorkload": True}, runtime_config=version) as plane:
        assert main(["podgroup", "missing", "--kubeconfig", str(plane.kubeconfig)]) == 2
    assert capsys.readouterr().err.endswith(': podgroups "missing" not found in namespace "default"\n')


def test_a_pod_that_waits_for_its_group_is_reported_as_such() -> None:
    made = world(node("n", "a"), group(2), *members(2), gates=GATES)
    found = explain(made, "pod", "ns", "m0").as_json()
    assert found["verdict"] == "unschedulable"
    assert found["text"].startswith("its group waits: ")
    assert found["group"][0].startswith("podgroup ns/g: unschedulable")


def test_a_fitting_or_scheduled_group_is_reported_as_such() -> None:
    made = world(node("n", "a"), group(2), *members(2, cpu="1"), gates=GATES)
    assert of_group(made)["verdict"] == "fits"
    placed = world(node("n", "a"), group(2), *members(2, cpu="1", nodeName="n"), gates=GATES)
    assert (of_group(placed)["verdict"], of_group(placed)["members"]) == ("scheduled", {"m0": "n", "m1": "n"})


def test_a_group_is_explained_in_a_running_loop_and_in_a_thread() -> None:
    async def inside() -> list[Json]:
        made = world(node("n", "a"), group(2), *members(2), gates=GATES)
        return [of_group(made), await asyncio.to_thread(of_group, made)]

    one, other = asyncio.run(inside())
    assert one == other


def test_without_the_gate_there_are_no_groups() -> None:
    with pytest.raises(
        NotThereError, match=r'podgroups "g" not found in namespace "ns" \(the feature gate GenericWorkload is off\)'
    ):
        of_group(world(group(1)))
