"""Claims reserved for a workload: the reference in the spec, the mark in the allocation, and the gate of both."""

from __future__ import annotations

from copy import deepcopy

import pytest

from apiserver.api.codec.codec import decode
from apiserver.api.features.gates import FeatureError, Features
from apiserver.api.objects import Json
from apiserver.api.protobuf import decode as from_protobuf
from apiserver.api.protobuf import encode as to_protobuf
from tests.resources.conftest import Judge, find

GATE = "DRAReservedForWorkloads"
JOB: Json = {"apiGroup": "batch", "resource": "jobs", "name": "train", "uid": "u1"}
REQUEST: Json = {"name": "r", "exactly": {"deviceClassName": "c"}}
PLAIN: Json = {"devices": {"requests": [REQUEST]}}
RESERVED: Json = {**PLAIN, "reservedFor": JOB}
RESULT: Json = {"request": "r", "driver": "gpu.example.com", "pool": "p", "device": "d0"}
FOR_ANY_POD: Json = {"allocation": {"devices": {"results": [RESULT]}, "reservedForAnyPod": True}, "reservedFor": [JOB]}
KINDS = pytest.mark.parametrize(
    ("plural", "path"), [("resourceclaims", "spec"), ("resourceclaimtemplates", "spec.spec")]
)


@pytest.fixture
def on() -> Judge:
    return Judge(gates={GATE: True})


def with_spec(plural: str, spec: Json) -> Json:
    return {"spec": deepcopy(spec) if plural == "resourceclaims" else {"spec": deepcopy(spec)}}


def claim_spec(plural: str, obj: Json) -> Json:
    spec: Json = obj["spec"] if plural == "resourceclaims" else obj["spec"]["spec"]
    return spec


def test_the_gate_is_alpha_and_off_from_1_36_on_and_needs_dynamic_resource_allocation() -> None:
    assert Features().stages()[GATE] == ("Alpha", False)
    assert Features(settings={GATE: True}).enabled(GATE)
    assert GATE not in Features((1, 35)).stages()
    with pytest.raises(FeatureError):
        Features((1, 34), {"DynamicResourceAllocation": False, GATE: True})


@KINDS
def test_the_reference_is_kept_with_the_gate_and_dropped_without(
    judge: Judge, on: Judge, plural: str, path: str
) -> None:
    made = on.create_valid(plural, with_spec(plural, RESERVED))
    assert claim_spec(plural, made)["reservedFor"] == JOB
    made = judge.create_valid(plural, with_spec(plural, RESERVED))
    assert "reservedFor" not in claim_spec(plural, made)


@KINDS
def test_the_reference_names_resource_name_and_uid(on: Judge, plural: str, path: str) -> None:
    missing = [f"{path}.reservedFor.{field}: Required value" for field in ("resource", "name", "uid")]
    assert on.create(plural, with_spec(plural, {**PLAIN, "reservedFor": {}}))[1] == missing
    complete = {"apiGroup": "any", "resource": "any", "name": "n", "uid": "u"}
    assert on.create(plural, with_spec(plural, {**PLAIN, "reservedFor": complete}))[1] == []


@KINDS
def test_the_reference_never_changes(on: Judge, plural: str, path: str) -> None:
    stored = on.create(plural, with_spec(plural, RESERVED))[0]
    assert on.update(plural, deepcopy(stored), with_spec(plural, RESERVED))[1] == []
    (wrong,) = on.update(plural, deepcopy(stored), with_spec(plural, {**PLAIN, "reservedFor": {**JOB, "uid": "u2"}}))[1]
    assert '"ReservedFor":{"APIGroup":"batch","Resource":"jobs","Name":"train","UID":"u2"}' in wrong
    assert wrong.startswith("spec: Invalid value: ")
    assert wrong.endswith(": field is immutable")


@KINDS
def test_a_stored_reference_stays_when_the_gate_is_off_again(judge: Judge, on: Judge, plural: str, path: str) -> None:
    stored = on.create(plural, with_spec(plural, RESERVED))[0]
    made = judge.update_valid(plural, deepcopy(stored), with_spec(plural, RESERVED))
    assert claim_spec(plural, made)["reservedFor"] == JOB
    plain = on.create(plural, with_spec(plural, PLAIN))[0]
    made = judge.update_valid(plural, deepcopy(plain), with_spec(plural, RESERVED))
    assert "reservedFor" not in claim_spec(plural, made)


def test_errors_about_claims_without_the_fields_do_not_speak_of_them(judge: Judge) -> None:
    stored = judge.create("resourceclaims", {"spec": PLAIN})[0]
    changed = {"spec": {"devices": {"requests": [{**REQUEST, "name": "x"}]}}}
    (wrong,) = judge.update("resourceclaims", deepcopy(stored), changed)[1]
    assert wrong.endswith('"Constraints":null,"Config":null}}: field is immutable')


def test_the_mark_is_set_with_the_allocation_and_stays_as_it_is(judge: Judge, on: Judge) -> None:
    claim = on.create("resourceclaims", {"spec": RESERVED})[0]
    stored = on.update_status_valid("resourceclaims", deepcopy(claim), FOR_ANY_POD)
    assert stored["status"] == FOR_ANY_POD
    kept, wrong = judge.update("resourceclaims", deepcopy(stored), deepcopy(stored), status=True)
    assert (kept["status"], wrong) == (FOR_ANY_POD, [])
    other = {**deepcopy(stored), "status": {"allocation": {**FOR_ANY_POD["allocation"], "reservedForAnyPod": False}}}
    (error,) = on.update("resourceclaims", deepcopy(stored), other, status=True)[1]
    assert error.endswith('"AllocationTimestamp":null,"ReservedForAnyPod":false}: field is immutable')


def test_the_mark_is_dropped_without_the_gate(judge: Judge) -> None:
    claim = judge.create("resourceclaims", {"spec": PLAIN})[0]
    made = judge.update_status_valid("resourceclaims", deepcopy(claim), FOR_ANY_POD)
    assert made["status"] == {"allocation": {"devices": {"results": [RESULT]}}, "reservedFor": [JOB]}


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_every_version_has_the_fields_in_json_and_in_protobuf(version: str) -> None:
    served = find("resourceclaims").version(version)
    assert served is not None
    hub = {"metadata": {"name": "a", "namespace": "ns"}, "spec": RESERVED, "status": FOR_ANY_POD}
    out = served.from_hub(deepcopy(hub))
    assert out["spec"]["reservedFor"] == JOB
    assert served.to_hub(decode(served.schema, deepcopy(out)).obj) == hub
    again = served.to_hub(from_protobuf(served.schema, to_protobuf(served.schema, out)))
    assert again["spec"]["reservedFor"] == JOB
    assert again["status"] == FOR_ANY_POD
