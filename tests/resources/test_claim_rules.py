"""Valid ResourceClaims."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from tests.resources.conftest import Judge


def claim(*requests: Json, **devices: Any) -> Json:
    return {"spec": {"devices": {"requests": list(requests), **devices}}}


def request(name: str = "r", **exactly: Any) -> Json:
    return {"name": name, "exactly": {"deviceClassName": "gpu.example.com", **exactly}}


def errors(judge: Judge, obj: Json, version: str = "") -> list[str]:
    return judge.create("resourceclaims", obj, version)[1]


def test_a_request_gets_its_mode_and_count(judge: Judge) -> None:
    stored = judge.create_valid("resourceclaims", claim(request()))
    expected = {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": 1}
    assert stored["spec"]["devices"]["requests"][0]["exactly"] == expected
    assert stored["status"] == {}


def test_a_claim_without_requests_is_valid_and_shows_null(judge: Judge) -> None:
    stored = judge.create_valid("resourceclaims", claim())
    assert stored["spec"]["devices"]["requests"] is None


def test_empty_lists_are_shown_by_errors_and_gone_from_what_is_stored(judge: Judge) -> None:
    stored, _ = judge.create("resourceclaims", claim(request(selectors=[]), constraints=[]))
    assert stored["spec"]["devices"] == judge.create("resourceclaims", claim(request()))[0]["spec"]["devices"]
    _, wrong = judge.update(
        "resourceclaims", stored, claim(request(tolerations=[], capacity={"requests": {}}), config=[])
    )
    assert (
        '"Tolerations":[],"Capacity":{"Requests":{}}},"FirstAvailable":null}],"Constraints":null,"Config":[]}}: field'
        " is immutable" in wrong[0]
    )
    assert judge.update("resourceclaims", stored, claim(request(selectors=[]), config=[]))[1] == []


def test_an_empty_list_makes_a_flat_request_exact(judge: Judge) -> None:
    flat = {"name": "r", "selectors": [], "firstAvailable": [{"name": "s", "deviceClassName": "c"}]}
    (wrong,) = errors(judge, claim(flat), "v1beta1")
    assert "multiple fields are set" in wrong


def test_a_request_is_exact_or_a_list_of_alternatives(judge: Judge) -> None:
    alternatives = {"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "c"}]}
    assert errors(judge, claim(alternatives)) == []
    assert errors(judge, claim({"name": "r"})) == [
        "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required"
    ]
    both = {**request(), **alternatives}
    assert errors(judge, claim(both)) == [
        "spec.devices.requests[0]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
    ]


def test_names_of_requests_are_labels_and_unique(judge: Judge) -> None:
    (wrong,) = errors(judge, claim(request("A")))
    assert wrong.startswith('spec.devices.requests[0].name: Invalid value: "A": a lowercase RFC 1123 label')
    assert errors(judge, claim(request(), request())) == ['spec.devices.requests[1]: Duplicate value: "r"']


def test_lists_are_limited_and_too_long_ones_are_not_looked_into(judge: Judge) -> None:
    assert errors(judge, claim(*(request(f"r{i}") for i in range(32)))) == []
    assert errors(judge, claim(*(request("BAD") for _ in range(33)))) == [
        "spec.devices.requests: Too many: 33: must have at most 32 items"
    ]


@pytest.mark.parametrize(
    ("mode", "count", "wrong"),
    [
        ("ExactCount", 2, []),
        ("All", 0, []),
        (
            "All",
            1,
            [
                "spec.devices.requests[0].exactly.count: Invalid value: 1: must not be specified when allocationMode is 'All'"
            ],
        ),
        ("ExactCount", -1, ["spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero"]),
        (
            "Some",
            1,
            [
                'spec.devices.requests[0].exactly.allocationMode: Unsupported value: "Some": supported values: "All", "ExactCount"'
            ],
        ),
    ],
)
def test_the_count_belongs_to_the_mode(judge: Judge, mode: str, count: int, wrong: list[str]) -> None:
    assert errors(judge, claim(request(allocationMode=mode, count=count))) == wrong


def test_a_toleration_has_a_value_only_where_values_are_compared(judge: Judge) -> None:
    fine = {"key": "example.com/a", "operator": "Exists", "effect": "NoSchedule"}
    assert errors(judge, claim(request(tolerations=[fine, {"key": "b", "value": "c"}]))) == []
    assert errors(judge, claim(request(tolerations=[{**fine, "value": "x", "effect": "Bad"}]))) == [
        'spec.devices.requests[0].exactly.tolerations[0].value: Invalid value: "x": must be empty for operator `Exists`',
        'spec.devices.requests[0].exactly.tolerations[0].effect: Unsupported value: "Bad": supported values: "NoExecute", "NoSchedule", "None"',
    ]


def test_selectors_are_compiled(judge: Judge) -> None:
    assert errors(judge, claim(request(selectors=[{"cel": {"expression": 'device.driver == "a"'}}]))) == []
    assert errors(judge, claim(request(selectors=[{}]))) == [
        "spec.devices.requests[0].exactly.selectors[0].cel: Required value"
    ]
    (wrong,) = errors(judge, claim(request(selectors=[{"cel": {"expression": "nope"}}])))
    assert wrong.startswith(
        'spec.devices.requests[0].exactly.selectors[0].cel.expression: Invalid value: "nope": compilation failed: ERROR: '
    )
    (wrong,) = errors(judge, claim(request(selectors=[{"cel": {"expression": "1"}}])))
    assert wrong.endswith("must evaluate to bool or the unknown type, not int")


def test_expressions_are_limited_in_length_and_cost(judge: Judge) -> None:
    (wrong,) = errors(judge, claim(request(selectors=[{"cel": {"expression": "true" + " " * 10240}}])))
    assert wrong.endswith("expression: Too long: may not be more than 10240 bytes")
    costly = "[1,2,3,4,5,6,7,8,9,10].all(a, " * 6 + "true" + ")" * 6
    (wrong,) = errors(judge, claim(request(selectors=[{"cel": {"expression": costly}}])))
    assert wrong.endswith("expression: Forbidden: too complex, exceeds cost limit")


def test_constraints_name_requests_of_the_claim(judge: Judge) -> None:
    fine = {"requests": ["r"], "matchAttribute": "example.com/a"}
    assert errors(judge, claim(request(), constraints=[fine])) == []
    (wrong,) = errors(judge, claim(request(), constraints=[{**fine, "requests": ["x"]}]))
    assert wrong.startswith(
        'spec.devices.constraints[0].requests[0]: Invalid value: "x": must be the name of a request in the claim'
    )
    assert errors(judge, claim(request(), constraints=[{**fine, "requests": ["r", "r"]}])) == [
        'spec.devices.constraints[0].requests[1]: Duplicate value: "r"'
    ]


def test_an_alternative_is_named_with_its_request(judge: Judge) -> None:
    listed = {"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "c"}]}
    for name, known in (("r", True), ("r/s", True), ("r/x", False), ("s", False)):
        wrong = errors(judge, claim(listed, constraints=[{"requests": [name], "matchAttribute": "example.com/a"}]))
        assert (wrong == []) is known, name


def test_a_constraint_has_an_attribute_with_a_domain(judge: Judge, judge_with: Any) -> None:
    (wrong,) = errors(judge, claim(request(), constraints=[{"matchAttribute": "a"}]))
    assert wrong.endswith('"a": a fully qualified name must be a domain and a name separated by a slash')
    assert errors(judge, claim(request(), constraints=[{}])) == [
        'spec.devices.constraints[0]: Required value: exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
    ]
    without = judge_with(DRAConsumableCapacity=False)
    assert errors(without, claim(request(), constraints=[{}])) == [
        "spec.devices.constraints[0].matchAttribute: Required value"
    ]


def test_configuration_is_a_driver_and_an_object(judge: Judge) -> None:
    fine = {"opaque": {"driver": "gpu.example.com", "parameters": {"a": 1}}}
    assert errors(judge, claim(request(), config=[fine])) == []
    assert errors(judge, claim(request(), config=[{}])) == ["spec.devices.config[0].opaque: Required value"]
    assert errors(judge, claim(request(), config=[{"opaque": {"driver": "d", "parameters": [1]}}])) == [
        'spec.devices.config[0].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON object'
    ]
    (wrong,) = errors(judge, claim(request(), config=[{"opaque": {"driver": "d", "parameters": {"a": "x" * 10240}}}]))
    assert wrong == "spec.devices.config[0].opaque.parameters: Too long: may not be more than 10240 bytes"


def test_the_spec_never_changes_but_may_be_written_differently(judge: Judge) -> None:
    stored, _ = judge.create("resourceclaims", claim(request(capacity={"requests": {"m": "1Gi"}})))
    assert judge.update("resourceclaims", stored, claim(request(capacity={"requests": {"m": "1024Mi"}})))[1] == []
    (wrong,) = judge.update("resourceclaims", stored, claim(request(count=2)))[1]
    assert wrong.startswith(
        'spec: Invalid value: {"Devices":{"Requests":[{"Name":"r","Exactly":{"DeviceClassName":"gpu.example.com","Selectors":null,'
    )
    assert wrong.endswith("field is immutable")


def test_the_main_resource_ignores_status(judge: Judge) -> None:
    stored, _ = judge.create("resourceclaims", claim(request()))
    new = judge.update_valid("resourceclaims", stored, {**claim(request()), "status": {"allocation": {}}})
    assert new["status"] == {}


def test_admin_access_needs_a_label_on_the_namespace(judge: Judge) -> None:
    wanted = claim(request(), request("admin", adminAccess=True))
    judge.objects["", "namespaces", "", "ns"] = {
        "metadata": {"name": "ns", "labels": {"resource.kubernetes.io/admin-access": "true"}}
    }
    assert errors(judge, wanted) == []
    judge.objects["", "namespaces", "", "ns"] = {
        "metadata": {"name": "ns", "labels": {"resource.kubernetes.io/admin-access": "yes"}}
    }
    (wrong,) = errors(judge, wanted)
    assert wrong.startswith(
        "spec.devices.requests[1].adminAccess: Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true`"
    )


def test_a_flat_request_of_v1beta1_is_the_same_request(judge: Judge) -> None:
    flat = {"spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "gpu.example.com"}]}}}
    assert judge.create("resourceclaims", flat, "v1beta1") == judge.create("resourceclaims", claim(request()))


def test_a_flat_request_without_a_class_is_not_defaulted(judge: Judge) -> None:
    flat = {"spec": {"devices": {"requests": [{"name": "r", "count": 1}]}}}
    assert errors(judge, flat, "v1beta1") == [
        "spec.devices.requests[0].exactly.deviceClassName: Required value",
        'spec.devices.requests[0].exactly.allocationMode: Unsupported value: "": supported values: "All", "ExactCount"',
    ]
