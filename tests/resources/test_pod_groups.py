"""Workloads and PodGroups: valid fields, immutable fields, fields of disabled gates, and when they are served."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from apiserver.api.codec.codec import decode, encode
from apiserver.api.features.gates import Features
from apiserver.api.objects import Json
from apiserver.api.protobuf import decode as from_protobuf
from apiserver.api.protobuf import encode as to_protobuf
from apiserver.registry.catalog.served import parse_runtime_config, select_served
from apiserver.resources import CATALOG
from tests.codec.schema_objects import full
from tests.resources.conftest import Judge, find
from tests.support.server import Running, serve

ALL = {
    "GenericWorkload": True, "GangScheduling": True, "DRAWorkloadResourceClaims": True, "WorkloadAwarePreemption": True,
    "TopologyAwareWorkloadScheduling": True,
}  # fmt: skip
BASIC: Json = {"schedulingPolicy": {"basic": {}}}
CLAIMS: list[Json] = [{"name": "a", "resourceClaimName": "c"}, {"name": "b", "resourceClaimTemplateName": "t"}]
GATED: Json = {
    "schedulingConstraints": {"topology": [{"key": "topology.kubernetes.io/rack"}]},
    "resourceClaims": CLAIMS,
    "disruptionMode": "PodGroup",
    "priorityClassName": "high",
    "priority": 7,
}
GATE_OF = {
    "schedulingConstraints": "TopologyAwareWorkloadScheduling", "resourceClaims": "DRAWorkloadResourceClaims",
    **dict.fromkeys(("disruptionMode", "priorityClassName", "priority"), "WorkloadAwarePreemption"),
}  # fmt: skip
IMMUTABLE = "Invalid value: null: field is immutable"
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
WORKLOADS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/workloads"
FINALIZER = "scheduling.k8s.io/podgroup-protection"


@pytest.fixture
def on() -> Judge:
    return Judge(gates=ALL)


@pytest.fixture
def off() -> Judge:
    return Judge(gates={"GenericWorkload": True})


def group(**spec: Any) -> Json:
    return {"spec": deepcopy({**BASIC, **spec})}


def workload(*templates: Json, **spec: Any) -> Json:
    return {"spec": {"podGroupTemplates": list(deepcopy(templates)), **spec}}


# What they may hold.


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"schedulingPolicy": {}}, ['spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`']),
        (
            {"schedulingPolicy": {"basic": {}, "gang": {"minCount": -1}}},
            [
                'spec.schedulingPolicy: Invalid value: "{basic, gang}": must specify exactly one of: `basic`, `gang`',
                "spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1",
            ],
        ),
        ({"schedulingPolicy": {"gang": {}}}, ["spec.schedulingPolicy.gang.minCount: Required value"]),
        ({"podGroupTemplateRef": {}}, ['spec.podGroupTemplateRef: Invalid value: "": must specify one of: `workload`']),
        (
            {"podGroupTemplateRef": {"workload": {}}},
            [
                f"spec.podGroupTemplateRef.workload.{field}: Required value"
                for field in ("workloadName", "podGroupTemplateName")
            ],
        ),
        (
            {"schedulingConstraints": {"topology": [{"key": "a"}] * 2}},
            ["spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item"],
        ),
        ({"schedulingConstraints": {"topology": [{}]}}, ["spec.schedulingConstraints.topology[0].key: Required value"]),
        ({"resourceClaims": CLAIMS * 3}, ["spec.resourceClaims: Too many: 6: must have at most 4 items"]),
        (
            {"resourceClaims": CLAIMS + CLAIMS[:1]},
            ['spec.resourceClaims[2]: Duplicate value: {"name":"a","resourceClaimName":"c"}'],
        ),
        (
            {"resourceClaims": [{}]},
            [
                'spec.resourceClaims[0]: Invalid value: "": must specify one of: `resourceClaimName`, `resourceClaimTemplateName`',
                "spec.resourceClaims[0].name: Required value",
            ],
        ),
        (
            {"disruptionMode": "All"},
            ['spec.disruptionMode: Unsupported value: "All": supported values: "Pod", "PodGroup"'],
        ),
        (
            {"priority": 1_000_000_001},
            ["spec.priority: Invalid value: 1000000001: must be less than or equal to 1000000000"],
        ),
    ],
)
def test_what_a_group_may_not_hold(on: Judge, spec: Json, wrong: list[str]) -> None:
    assert on.create("podgroups", group(**spec))[1] == wrong


def test_names_are_judged_in_the_words_of_generated_rules(on: Judge) -> None:
    (wrong,) = on.create("podgroups", group(resourceClaims=[{"name": "a" * 64, "resourceClaimName": "c"}]))[1]
    assert wrong.endswith("must be no more than 63 bytes")


def test_templates_are_judged_as_groups_are_and_have_names(on: Judge) -> None:
    assert on.create("workloads", workload())[1] == ["spec.podGroupTemplates: Required value"]
    template = {"name": "t", **BASIC}
    assert on.create("workloads", workload(*[{**template, "name": f"t{index}"} for index in range(9)]))[1] == [
        "spec.podGroupTemplates: Too many: 9: must have at most 8 items"
    ]
    assert on.create("workloads", workload(template, {"name": "t"}, controllerRef={"kind": "a/b"}))[1] == [
        "spec.controllerRef.kind: Invalid value: \"a/b\": may not contain '/'",
        "spec.controllerRef.name: Required value",
        'spec.podGroupTemplates[1]: Duplicate value: {"name":"t","schedulingPolicy":{},"schedulingConstraints":null}',
        'spec.podGroupTemplates[1].schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`',
    ]


# What never changes.


def test_no_field_of_a_group_changes(on: Judge) -> None:
    reference = {"podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}}
    stored = on.create("podgroups", group(**GATED, **reference))[0]
    assert on.update("podgroups", stored, group(**GATED, **reference))[1] == []
    plain = {"schedulingPolicy": {"gang": {"minCount": 1}}, "resourceClaims": CLAIMS * 3}
    assert on.update("podgroups", stored, group(**plain))[1] == [
        f"spec.podGroupTemplateRef: {IMMUTABLE}",
        f"spec.schedulingPolicy: {IMMUTABLE}",
        f"spec.schedulingConstraints: {IMMUTABLE}",
        f"spec.resourceClaims: {IMMUTABLE}",
        "spec.resourceClaims: Too many: 6: must have at most 4 items",
        *(f"spec.{name}: {IMMUTABLE}" for name in ("disruptionMode", "priorityClassName", "priority")),
    ]


def test_a_stored_field_of_a_disabled_gate_may_go_but_not_change(on: Judge, off: Judge) -> None:
    stored = on.create("podgroups", group(**GATED))[0]
    changed = {"schedulingConstraints": {}, "priority": 8, "disruptionMode": "Pod", "resourceClaims": CLAIMS}
    assert off.update("podgroups", stored, group(**changed))[1] == [
        "spec.schedulingConstraints: Forbidden", "spec.disruptionMode: Forbidden", "spec.priority: Forbidden",
    ]  # fmt: skip
    assert off.update("podgroups", stored, group(resourceClaims=CLAIMS, disruptionMode="PodGroup"))[1] == []


def test_no_field_of_a_workload_changes(on: Judge) -> None:
    stored = on.create("workloads", workload({"name": "t", **BASIC}))[0]
    assert on.update("workloads", stored, workload({"name": "t", **BASIC}))[1] == []
    assert on.update("workloads", stored, workload(controllerRef={"kind": "Job", "name": "j"}))[1] == [
        f"spec.controllerRef: {IMMUTABLE}",
        f"spec.podGroupTemplates: {IMMUTABLE}",
        "spec.podGroupTemplates: Required value",
    ]
    templates = [{"name": f"t{index}", **BASIC} for index in range(9)]
    immutable = f"spec.podGroupTemplates: {IMMUTABLE}"
    assert on.update("workloads", stored, workload(*templates[:8]))[1] == [immutable]
    errors = [immutable, "spec.podGroupTemplates: Too many: 9: must have at most 8 items"]
    assert on.update("workloads", stored, workload(*templates))[1] == errors


# The status.


def set_claims(judge: Judge, stored: Json, *statuses: Json) -> tuple[Json, list[str]]:
    """Write resourceClaimStatuses to the status of a group."""
    changed = {**deepcopy(stored), "status": {"resourceClaimStatuses": list(statuses)}}
    return judge.update("podgroups", stored, changed, status=True)


def test_claims_of_the_status_are_those_of_the_spec(on: Judge) -> None:
    given = {**group(resourceClaims=CLAIMS), "status": {"resourceClaimStatuses": [{"name": "b"}]}}
    stored = on.create("podgroups", given)[0]
    assert stored["status"] == {}
    status = {"name": "b", "resourceClaimName": "x"}
    assert set_claims(on, stored, status) == ({**stored, "status": {"resourceClaimStatuses": [status]}}, [])
    wrong = {"name": "z", "resourceClaimName": "X_"}
    assert [text.partition(": a lower")[0] for text in set_claims(on, stored, wrong, wrong)[1]] == [
        'status.resourceClaimStatuses[0].name: Invalid value: "z": must match the name of an entry in `spec.resourceClaims`',
        'status.resourceClaimStatuses[1].name: Invalid value: "z": must match the name of an entry in `spec.resourceClaims`',
        'status.resourceClaimStatuses[1]: Duplicate value: {"name":"z","resourceClaimName":"X_"}',
        'status.resourceClaimStatuses[0].resourceClaimName: Invalid value: "X_"',
        'status.resourceClaimStatuses[1].resourceClaimName: Invalid value: "X_"',
    ]


def test_claims_of_the_status_are_kept_while_the_spec_has_any(on: Judge, off: Judge) -> None:
    status = {"name": "b", "resourceClaimName": "x"}
    stored = on.create("podgroups", group(resourceClaims=CLAIMS))[0]
    assert set_claims(off, stored, status)[0]["status"] == {"resourceClaimStatuses": [status]}
    plain = off.create("podgroups", group())[0]
    assert set_claims(off, plain, status) == (plain, [])


# Gates.


@pytest.mark.parametrize("name", GATED)
def test_a_field_of_a_disabled_gate_is_dropped_where_the_stored_object_has_none(
    on: Judge, off: Judge, name: str
) -> None:
    value = {name: GATED[name]}
    without = {"disruptionMode": "Pod"}
    assert off.create("podgroups", group(**value))[0]["spec"] == {"podGroupTemplateRef": None, **BASIC, **without}
    stored = on.create("podgroups", group(**value))[0]
    assert off.update("podgroups", stored, group(**value)) == (stored, [])
    template = {"name": "t", **BASIC, "schedulingConstraints": None}
    plain = off.create("workloads", workload({**template, **value}))[0]
    assert plain["spec"]["podGroupTemplates"] == [template]
    assert list(plain["spec"]["podGroupTemplates"][0]) == list(template)
    stored = on.create("workloads", workload({**template, **value}))[0]
    assert off.update("workloads", stored, workload({**template, **value})) == (stored, [])


def test_everything_survives_json_and_protobuf() -> None:
    for plural in ("podgroups", "workloads", "priorityclasses"):
        schema = find(plural).versions[0].schema
        obj = decode(schema, full(schema)).obj
        del obj["kind"], obj["apiVersion"]
        assert decode(schema, json.loads(encode(obj))).obj == obj
        assert from_protobuf(schema, to_protobuf(schema, obj)) == obj


def test_they_are_served_with_the_gate_and_the_version_switched_on() -> None:
    def names(release: tuple[int, int], gate: bool, text: str) -> set[str]:
        features = Features(release, {"GenericWorkload": True} if gate else {})
        return {
            resource.plural
            for resource, _ in select_served(CATALOG, features, parse_runtime_config(text))
            if resource.group == "scheduling.k8s.io"
        }

    everything = {"podgroups", "priorityclasses", "workloads"}
    assert names((1, 36), True, "scheduling.k8s.io/v1alpha2=true") == everything
    assert names((1, 35), True, "api/alpha=true") == everything
    for release, gate, text in (
        ((1, 36), True, ""),
        ((1, 36), False, "api/all=true"),
        ((1, 33), False, "scheduling.k8s.io/v1alpha2=true"),
    ):
        assert names(release, gate, text) == {"priorityclasses"}


# On a server.


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serve("--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1alpha2=true") as running:
        yield running


def test_a_new_group_has_the_finalizer_and_what_it_lost_is_told(server: Running) -> None:
    wire = server.wire()
    made = wire.post(GROUPS, {"metadata": {"name": "g"}, **group(**GATED)})
    assert made.status == 201
    assert made.json["metadata"]["finalizers"] == [FINALIZER]
    assert made.json["spec"] == {"podGroupTemplateRef": None, **BASIC, "disruptionMode": "Pod"}
    (loss,) = wire.get("/-/dropped?kind=PodGroup&name=g").json
    assert {field["path"]: field["gate"] for field in loss["fields"]} == {
        f"spec.{name}": gate for name, gate in GATE_OF.items()
    }
    wire.post(GROUPS, {"metadata": {"name": "plain"}, **group()})
    assert wire.get("/-/dropped?name=plain").json == []


def test_the_workload_that_a_group_refers_to_exists(server: Running) -> None:
    wire = server.wire()
    reference = {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}
    body = {"metadata": {"name": "x"}, **group(podGroupTemplateRef=reference)}
    start = 'podgroups.scheduling.k8s.io "x" is forbidden: PodGroup rejected: '
    assert wire.post(GROUPS, body).json["message"] == start + 'Workload "w" not found'
    made = {"metadata": {"name": "w", "finalizers": ["example.com/held"]}, **workload({"name": "other", **BASIC})}
    assert wire.post(WORKLOADS, made).status == 201
    assert wire.post(GROUPS, body).json["message"] == start + 'PodGroupTemplate "t" not found in Workload "w"'
    wire.request("DELETE", f"{WORKLOADS}/w")
    assert wire.post(GROUPS, body).json["message"] == start + 'Workload "w" is being deleted'


def test_a_row_of_a_group_tells_policy_and_state(server: Running) -> None:
    wire = server.wire()
    wire.post(GROUPS, {"metadata": {"name": "row"}, **group(schedulingPolicy={"gang": {"minCount": 2}})})

    def cells() -> list[Any]:
        answer = wire.get(f"{GROUPS}/row", Accept="application/json;as=Table;v=v1;g=meta.k8s.io")
        return list(answer.json["rows"][0]["cells"][:4])

    def set_condition(kind: str, status: str, reason: str) -> None:
        entry = {"type": kind, "status": status, "reason": reason, "message": ""}
        body = {"status": {"conditions": [{**entry, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}
        headers = {"Content-Type": "application/strategic-merge-patch+json"}
        answer = wire.request("PATCH", f"{GROUPS}/row/status", body, headers)
        assert answer.status == 200, answer.text

    assert cells() == ["row", "Gang", "<none>", "Pending"]
    set_condition("PodGroupScheduled", "False", "Unschedulable")
    assert cells()[3] == "Unschedulable"
    set_condition("PodGroupScheduled", "True", "Scheduled")
    assert cells()[3] == "Scheduled"
    set_condition("DisruptionTarget", "True", "PreemptionByScheduler")
    assert cells()[3] == "PreemptionByScheduler"


def test_a_group_gets_its_priority_by_its_class_with_preemption_of_groups() -> None:
    gates = "--feature-gates=GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true"
    with serve(gates, "--runtime-config=scheduling.k8s.io/v1alpha2=true") as running:
        wire = running.wire()
        wire.post("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 9})
        made = wire.post(GROUPS, {"metadata": {"name": "g"}, **group(priorityClassName="high")})
        assert list(made.json["spec"].items())[-2:] == [("priorityClassName", "high"), ("priority", 9)]
        refused = wire.post(GROUPS, {"metadata": {"name": "h"}, **group(priority=3)})
        text = "priority set in the pod group (3) must match the priority computed (0) based on the priority class set in the spec"
        assert refused.json["message"] == f'podgroups.scheduling.k8s.io "h" is forbidden: {text}'
