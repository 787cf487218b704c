"""PriorityClasses: immutable values, reserved names, the only default; and the priority of pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from apiserver.api.objects import Json
from tests.resources.conftest import Judge
from tests.support.server import Running, serve

NODE, CLUSTER = "system-node-critical", "system-cluster-critical"
PATH = "/apis/scheduling.k8s.io/v1/priorityclasses"
PODS = "/api/v1/namespaces/default/pods"
RESERVED = (
    "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: "
)


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serve("--disable-admission-plugins=ServiceAccount") as running:
        yield running


def priority_class(name: str, value: int, **fields: Any) -> Json:
    return {"metadata": {"name": name}, "value": value, **fields}


def test_a_class_preempts_unless_it_says_otherwise(judge: Judge) -> None:
    made, wrong = judge.create("priorityclasses", {"value": 7})
    assert (made["preemptionPolicy"], made["metadata"]["generation"], wrong) == ("PreemptLowerPriority", 1, [])


@pytest.mark.parametrize(
    ("obj", "wrong"),
    [
        ({"value": 1_000_000_001}, "value: Forbidden: maximum allowed value of a user defined priority is 1000000000"),
        (priority_class("system-mine", 1), RESERVED + "system-mine is not a known system priority class"),
        (priority_class(NODE, 1), RESERVED + f"value of {NODE} PriorityClass must be 2000001000"),
        (
            priority_class(CLUSTER, 2_000_000_000, globalDefault=True),
            RESERVED + f"globalDefault of {CLUSTER} PriorityClass must be false",
        ),
        (
            {"preemptionPolicy": "Maybe"},
            'preemptionPolicy: Unsupported value: "Maybe": supported values: "PreemptLowerPriority", "Never"',
        ),
        ({"preemptionPolicy": ""}, "preemptionPolicy: Required value"),
    ],
)
def test_what_a_class_may_not_be(judge: Judge, obj: Json, wrong: str) -> None:
    assert judge.create("priorityclasses", obj)[1] == [wrong]


def test_value_and_policy_never_change(judge: Judge) -> None:
    stored = judge.create("priorityclasses", {"value": 7, "preemptionPolicy": "Never"})[0]
    assert judge.update("priorityclasses", stored, {"value": 8, "globalDefault": True, "description": "d"})[1] == [
        "value: Forbidden: may not be changed in an update.",
        'preemptionPolicy: Invalid value: "PreemptLowerPriority": field is immutable',
    ]
    wrong = judge.update("priorityclasses", stored, {"value": 7, "preemptionPolicy": "Never", "globalDefault": True})[1]
    assert wrong == []


def test_the_systems_classes_are_there_from_the_start_and_cannot_be_deleted(server: Running) -> None:
    wire = server.wire()
    assert {item["metadata"]["name"]: item["value"] for item in wire.get(PATH).json["items"]} == {
        "system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000,
    }  # fmt: skip
    refused = wire.request("DELETE", f"{PATH}/system-node-critical")
    text = 'priorityclasses.scheduling.k8s.io "system-node-critical" is forbidden: this is a system priority class and cannot be deleted'
    assert (refused.status, refused.json["message"]) == (403, text)


def test_a_reset_brings_the_systems_classes_back_as_they_were(server: Running) -> None:
    wire = server.wire()
    wire.post(PATH, priority_class("mine", 1))
    assert wire.request("DELETE", PATH).status == 200
    assert wire.get(PATH).json["items"] == []
    assert wire.post("/-/reset", {}).status == 200
    names = [item["metadata"]["name"] for item in wire.get(PATH).json["items"]]
    assert names == ["system-cluster-critical", "system-node-critical"]


def test_pods_get_the_number_of_their_class_and_there_is_one_default(server: Running) -> None:
    wire = server.wire()

    def pod(name: str, **spec: Any) -> Any:
        spec["containers"] = [{"name": "c", "image": "i"}]
        return wire.post(PODS, {"metadata": {"name": name}, "spec": spec}).json

    assert pod("plain")["spec"]["priority"] == 0
    assert pod("system", priorityClassName="system-node-critical")["spec"]["priority"] == 2_000_001_000
    message = pod("lost", priorityClassName="lost")["message"]
    assert message == 'pods "lost" is forbidden: no PriorityClass with name lost was found'
    assert wire.post(PATH, priority_class("low", 5, globalDefault=True, preemptionPolicy="Never")).status == 201
    spec = pod("default")["spec"]
    assert (spec["priorityClassName"], spec["priority"], spec["preemptionPolicy"]) == ("low", 5, "Never")
    second = wire.post(PATH, priority_class("second", 6, globalDefault=True))
    text = 'priorityclasses.scheduling.k8s.io "second" is forbidden: PriorityClass low is already marked as default. Only one default can exist'
    assert (second.status, second.json["message"]) == (403, text)
    same = priority_class("low", 5, globalDefault=True, preemptionPolicy="Never", description="still")
    assert wire.request("PUT", f"{PATH}/low", same).status == 200
    assert wire.request("DELETE", f"{PATH}/low").json["kind"] == "Status"
