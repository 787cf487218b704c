"""The status of a claim: valid writes, their time and the required permissions."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from apiserver.api.objects import Json
from tests.resources.conftest import Judge

SPEC: Json = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}
RESULT: Json = {"request": "r", "driver": "gpu.example.com", "pool": "p", "device": "d0"}
DEVICE: Json = {"driver": "gpu.example.com", "pool": "p", "device": "d0"}
CONSUMER: Json = {"resource": "pods", "name": "p", "uid": "u1"}
SHARE = "5a1d1a5c-0000-4000-8000-000000000001"


def allocation(*results: Json, **more: Any) -> Json:
    return {"devices": {"results": list(results) or [RESULT]}, **more}


def with_status(**status: Any) -> Json:
    return {"spec": SPEC, "status": deepcopy(status)}


def stored(judge: Judge, **status: Any) -> Json:
    made = judge.create_valid("resourceclaims", {"spec": SPEC})
    return {**made, "status": deepcopy(status)}


def update(judge: Judge, old: Json, **status: Any) -> tuple[Json, list[str]]:
    return judge.update("resourceclaims", old, with_status(**status), status=True)


def test_an_allocation_names_requests_of_the_claim(judge: Judge) -> None:
    assert update(judge, stored(judge), allocation=allocation())[1] == []
    (wrong,) = update(judge, stored(judge), allocation=allocation({**RESULT, "request": "x"}))[1]
    assert wrong.startswith(
        'status.allocation.devices.results[0].request: Invalid value: "x": must be the name of a request'
    )


def test_an_allocation_is_checked_when_it_is_set_only(judge: Judge) -> None:
    odd = allocation({**RESULT, "pool": "BAD POOL"})
    assert update(judge, stored(judge), allocation=odd)[1]
    assert update(judge, stored(judge, allocation=odd), allocation=odd)[1] == []


def test_an_allocation_does_not_change_but_may_go(judge: Judge) -> None:
    old = stored(judge, allocation=allocation())
    (wrong,) = update(judge, old, allocation=allocation({**RESULT, "device": "d1"}))[1]
    assert wrong.startswith(
        'status.allocation: Invalid value: {"Devices":{"Results":[{"Request":"r","Driver":"gpu.example.com",'
    )
    assert wrong.endswith('"NodeSelector":null,"AllocationTimestamp":null}: field is immutable')
    assert update(judge, old)[1] == []


def test_reservations_need_an_allocation(judge: Judge) -> None:
    assert update(judge, stored(judge), reservedFor=[CONSUMER], allocation=allocation())[1] == []
    assert update(judge, stored(judge), reservedFor=[CONSUMER])[1] == [
        "status.reservedFor: Forbidden: may not be specified when `allocated` is not set"
    ]


def test_consumers_are_complete_unique_and_limited(judge: Judge) -> None:
    old = stored(judge, allocation=allocation())
    many = [{**CONSUMER, "uid": f"u{i}"} for i in range(257)]
    assert update(judge, old, allocation=allocation(), reservedFor=many[:256])[1] == []
    assert update(judge, old, allocation=allocation(), reservedFor=many)[1] == [
        "status.reservedFor: Too many: 257: must have at most 256 items"
    ]
    assert update(judge, old, allocation=allocation(), reservedFor=[CONSUMER, CONSUMER])[1] == [
        'status.reservedFor[1]: Duplicate value: "u1"'
    ]
    assert update(judge, old, allocation=allocation(), reservedFor=[{"resource": "pods"}])[1] == [
        "status.reservedFor[0].name: Required value", "status.reservedFor[0].uid: Required value",
    ]  # fmt: skip


def test_a_claim_under_deletion_takes_no_new_consumers(judge: Judge) -> None:
    old = stored(judge, allocation=allocation(), reservedFor=[CONSUMER])
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    keep = {**with_status(allocation=allocation(), reservedFor=[CONSUMER])}
    assert judge.update("resourceclaims", old, keep, status=True)[1] == []
    more = with_status(allocation=allocation(), reservedFor=[CONSUMER, {**CONSUMER, "uid": "u2"}])
    assert judge.update("resourceclaims", old, more, status=True)[1] == [
        "status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
    ]


def test_reported_devices_are_allocated_ones(judge: Judge) -> None:
    old = stored(judge, allocation=allocation())
    assert update(judge, old, allocation=allocation(), devices=[DEVICE])[1] == []
    assert update(judge, old, allocation=allocation(), devices=[{**DEVICE, "device": "d1"}])[1] == [
        'status.devices[0]: Invalid value: {"Driver":"gpu.example.com","Pool":"p","Device":"d1","ShareID":""}: must be an allocated device in the claim'
    ]


def test_what_was_reported_goes_with_the_allocation(judge: Judge) -> None:
    old = stored(judge, allocation=allocation(), devices=[DEVICE])
    new, wrong = update(judge, old, devices=[DEVICE])
    assert wrong == []
    assert "devices" not in new["status"]


@pytest.mark.parametrize(
    ("address", "wrong"),
    [
        ("10.9.8.7/24", []),
        ("2001:db8::1/64", []),
        ("10.9.8.7", ["must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"]),
        ("010.9.8.7/24", ['must be in canonical form ("10.9.8.7/24")']),
        ("2001:DB8::1/64", ['must be in canonical form ("2001:db8::1/64")']),
    ],
)
def test_network_data_is_in_canonical_form(judge: Judge, address: str, wrong: list[str]) -> None:
    old = stored(judge, allocation=allocation())
    device = {**DEVICE, "networkData": {"ips": [address]}}
    at = f'status.devices[0].networkData.ips[0]: Invalid value: "{address}": '
    assert update(judge, old, allocation=allocation(), devices=[device])[1] == [at + text for text in wrong]


def test_the_name_of_an_interface_is_limited(judge: Judge) -> None:
    device = {**DEVICE, "networkData": {"interfaceName": "x" * 257}}
    assert update(judge, stored(judge, allocation=allocation()), allocation=allocation(), devices=[device])[1] == [
        "status.devices[0].networkData.interfaceName: Too long: may not be more than 256 bytes"
    ]


def test_a_share_is_named_by_a_normal_uuid(judge: Judge) -> None:
    assert update(judge, stored(judge), allocation=allocation({**RESULT, "shareID": SHARE}))[1] == []
    (wrong,) = update(judge, stored(judge), allocation=allocation({**RESULT, "shareID": SHARE.upper()}))[1]
    assert "uid must be in RFC 4122 normalized form" in wrong
    (wrong,) = update(judge, stored(judge), allocation=allocation({**RESULT, "shareID": "x"}))[1]
    assert wrong.endswith("error validating uid: invalid UUID length: 1")


def test_conditions_of_a_device_are_complete(judge: Judge) -> None:
    moment = "2026-01-01T00:00:00Z"
    good = {"type": "Ready", "status": "True", "reason": "Ok", "message": "", "lastTransitionTime": moment}
    old = stored(judge, allocation=allocation())
    assert update(judge, old, allocation=allocation(), devices=[{**DEVICE, "conditions": [good]}])[1] == []
    wrong = {**DEVICE, "conditions": [{**good, "status": "Maybe", "reason": ""}]}
    assert update(judge, old, allocation=allocation(), devices=[wrong])[1] == [
        'status.devices[0].conditions[0].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown"',
        "status.devices[0].conditions[0].reason: Required value",
    ]


def test_binding_conditions_come_in_both_kinds_and_do_not_overlap(judge: Judge) -> None:
    both = {**RESULT, "bindingConditions": ["a"], "bindingFailureConditions": ["b"]}
    assert update(judge, stored(judge), allocation=allocation(both))[1] == []
    path = "status.allocation.devices.results[0]"
    assert update(judge, stored(judge), allocation=allocation({**both, "bindingFailureConditions": ["a"]}))[1] == [
        f'{path}.bindingFailureConditions[0]: Invalid value: "a": bindingFailureConditions must not overlap with bindingConditions'
    ]
    assert update(judge, stored(judge), allocation=allocation({**RESULT, "bindingConditions": ["a"]}))[1] == [
        f"{path}.bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use bindingConditions"
    ]


def test_spec_and_metadata_stay_when_the_status_is_written(judge: Judge) -> None:
    old = stored(judge)
    old["metadata"]["labels"] = {"a": "b"}
    given = {"metadata": {"labels": {"c": "d"}}, "spec": {}, "status": {}}
    new, _ = judge.update("resourceclaims", old, given, status=True)
    assert new["spec"] == old["spec"]
    assert new["metadata"]["labels"] == {"a": "b"}


def test_allocating_needs_the_binding_permission_cluster_wide(judge: Judge) -> None:
    asked: list[tuple[str, ...]] = []

    def deny(*question: str) -> bool:
        asked.append(question)
        return False

    judge.allowed = deny
    (wrong,) = update(judge, stored(judge), allocation=allocation())[1]
    assert asked == [("update", "resource.k8s.io", "resourceclaims", "binding", "", "")]
    assert (
        wrong == "status.allocation: Forbidden: changing status.allocation or status.reservedFor requires"
        ' resource="resourceclaims/binding", verb="update" permission: resourceclaims.resource.k8s.io is forbidden:'
        ' User "alice" cannot update resource "resourceclaims/binding" in API group "resource.k8s.io" at the cluster'
        " scope"
    )


def test_reporting_on_devices_needs_the_drivers_permission(judge: Judge) -> None:
    old = stored(judge, allocation=allocation())
    judge.allowed = lambda verb, _group, _resource, subresource, *_: (
        subresource == "driver" and verb == "arbitrary-node:update"
    )
    assert update(judge, old, allocation=allocation(), devices=[DEVICE])[1] == []
    judge.allowed = lambda *_: False
    (wrong,) = update(judge, old, allocation=allocation(), devices=[DEVICE])[1]
    assert wrong.startswith(
        'status.devices: Forbidden: changing status.devices requires resource="resourceclaims/driver", verb="[arbitrary-node:update]"'
    )
    reported = stored(judge, allocation=allocation(), devices=[DEVICE])
    assert update(judge, reported, allocation=allocation(), devices=[DEVICE])[1] == []


def test_without_the_gate_the_status_permission_is_enough(judge_with: Any) -> None:
    judge = judge_with(DRAResourceClaimGranularStatusAuthorization=False)
    judge.allowed = lambda *_: False
    assert update(judge, stored(judge), allocation=allocation())[1] == []
