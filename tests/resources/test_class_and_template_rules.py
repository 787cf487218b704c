"""DeviceClasses, ResourceClaimTemplates, DeviceTaintRules and ResourcePoolStatusRequests."""

from __future__ import annotations

from typing import Any

from apiserver.api.objects import Json
from tests.resources.conftest import Judge

CONFIG: Json = {"opaque": {"driver": "gpu.example.com", "parameters": {}}}


def create(judge: Judge, plural: str, spec: Json, **metadata: Any) -> tuple[Json, list[str]]:
    made: tuple[Json, list[str]] = judge.create(plural, {"metadata": metadata, "spec": spec})
    return made


def test_a_class_has_selectors_configuration_and_a_resource_name(judge: Judge) -> None:
    spec = {
        "selectors": [{"cel": {"expression": "true"}}],
        "config": [CONFIG],
        "extendedResourceName": "example.com/gpu",
    }
    assert create(judge, "deviceclasses", spec)[1] == []
    assert create(judge, "deviceclasses", {"extendedResourceName": "gpu"})[1] == [
        'spec.extendedResourceName: Invalid value: "gpu": must be a valid extended resource name'
    ]
    assert create(judge, "deviceclasses", {"config": [{}]})[1] == ["spec.config[0].opaque: Required value"]


def test_what_a_class_already_had_is_not_judged_by_newer_rules(judge: Judge, judge_with: Any) -> None:
    expression = "device.allowMultipleAllocations == true"
    without = judge_with(DRAConsumableCapacity=False)
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    assert create(without, "deviceclasses", spec)[1]
    stored, wrong = create(judge, "deviceclasses", spec)
    assert wrong == []
    assert without.update("deviceclasses", stored, {"spec": {**spec, "config": [CONFIG]}})[1] == []
    assert without.update("deviceclasses", stored, {"spec": {"selectors": [*spec["selectors"], *spec["selectors"]]}})[1]


def test_a_classes_generation_counts_what_is_kept(judge_with: Any) -> None:
    judge = judge_with(DRAExtendedResource=False)
    stored, _ = create(judge, "deviceclasses", {"extendedResourceName": "example.com/gpu"})
    assert stored["spec"] == {}
    dropped, _ = judge.update("deviceclasses", stored, {"spec": {"extendedResourceName": "example.com/other"}})
    assert dropped["metadata"].get("generation", 1) == 1
    changed, _ = judge.update("deviceclasses", stored, {"spec": {"config": [CONFIG]}})
    assert changed["metadata"]["generation"] == 2


def template(*requests: Json, **metadata: Any) -> Json:
    return {"metadata": metadata, "spec": {"devices": {"requests": list(requests)}}}


REQUEST: Json = {"name": "r", "exactly": {"deviceClassName": "c"}}


def test_a_template_gives_its_claims_labels_and_annotations_only(judge: Judge) -> None:
    assert create(judge, "resourceclaimtemplates", template(REQUEST, labels={"a": "b"}))[1] == []
    assert create(judge, "resourceclaimtemplates", template(REQUEST, name="x", finalizers=["a/b"]))[1] == [
        "spec.metadata.name: Forbidden: cannot be set", "spec.metadata.finalizers: Forbidden: cannot be set",
    ]  # fmt: skip
    (wrong,) = create(judge, "resourceclaimtemplates", template(REQUEST, labels={"-": ""}))[1]
    assert wrong.startswith('spec.metadata.labels: Invalid value: "-"')


def test_a_templates_claim_has_a_claims_rules_and_defaults(judge: Judge) -> None:
    stored, wrong = create(judge, "resourceclaimtemplates", template(REQUEST))
    assert wrong == []
    assert stored["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1
    assert create(judge, "resourceclaimtemplates", template({"name": "r"}))[1] == [
        "spec.spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required"
    ]


def test_a_template_does_not_change(judge: Judge) -> None:
    stored, _ = create(judge, "resourceclaimtemplates", template(REQUEST))
    assert judge.update("resourceclaimtemplates", stored, {"spec": template(REQUEST)})[1] == []
    (wrong,) = judge.update("resourceclaimtemplates", stored, {"spec": template({**REQUEST, "name": "s"})})[1]
    assert wrong.startswith('spec: Invalid value: {"Spec":{"Devices":{"Requests":[{"Name":"s"')


def test_a_taint_rule_selects_devices_and_taints_them(judge: Judge) -> None:
    spec = {"deviceSelector": {"driver": "gpu.example.com"}, "taint": {"key": "a", "effect": "NoSchedule"}}
    stored, wrong = create(judge, "devicetaintrules", spec)
    assert wrong == []
    assert stored["spec"]["taint"]["timeAdded"] == "2026-01-02T03:04:05Z"
    assert create(
        judge, "devicetaintrules", {"deviceSelector": {"driver": ""}, "taint": {"key": "a", "effect": "Bad"}}
    )[1] == [
        "spec.deviceSelector.driver: Required value",
        'spec.taint.effect: Unsupported value: "Bad": supported values: "NoExecute", "NoSchedule", "None"',
    ]


def test_a_taint_with_another_effect_is_a_new_taint(judge: Judge) -> None:
    spec = {"taint": {"key": "a", "effect": "NoSchedule", "timeAdded": "2020-01-01T00:00:00Z"}}
    stored, _ = create(judge, "devicetaintrules", spec)
    changed, _ = judge.update("devicetaintrules", stored, {"spec": {"taint": {**spec["taint"], "effect": "NoExecute"}}})
    assert changed["spec"]["taint"]["timeAdded"] == "2026-01-02T03:04:05Z"
    taint = {"key": "a", "effect": "NoExecute", "timeAdded": "2021-01-01T00:00:00Z"}
    explicit, _ = judge.update("devicetaintrules", stored, {"spec": {"taint": taint}})
    assert explicit["spec"]["taint"]["timeAdded"] == "2021-01-01T00:00:00Z"


def test_an_effect_that_is_not_known_may_stay_but_not_come(judge: Judge) -> None:
    taint = {"key": "a", "effect": "NoSchedule", "timeAdded": "2020-01-01T00:00:00Z"}
    stored, _ = create(judge, "devicetaintrules", {"taint": taint})
    stored["spec"]["taint"]["effect"] = "OfALaterRelease"

    def wrong(effect: str) -> list[str]:
        return judge.update("devicetaintrules", stored, {"spec": {"taint": {**taint, "effect": effect}}})[1]

    assert wrong("OfALaterRelease") == []
    assert wrong("NoExecute") == []
    (refused,) = wrong("OfAnother")
    assert refused.startswith('spec.taint.effect: Unsupported value: "OfAnother"')


def test_a_request_about_pools_is_answered_once_and_later_answers_are_still_checked(judge: Judge) -> None:
    plural = "resourcepoolstatusrequests"
    stored, wrong = create(judge, plural, {"driver": "gpu.example.com"})
    assert wrong == []
    assert stored["spec"]["limit"] == 100
    assert create(judge, plural, {"driver": "", "limit": 1001})[1] == [
        "spec.driver: Required value", "spec.limit: Invalid value: 1001: must be less than or equal to 1000",
    ]  # fmt: skip
    answered = judge.update_valid(plural, stored, {"spec": {}, "status": {"poolCount": 1}}, status=True)
    (error,) = judge.update(plural, answered, {"spec": {}, "status": {"poolCount": 2}}, status=True)[1]
    assert error == 'status: Invalid value: {"PoolCount":2,"Pools":null,"Conditions":null}: field is immutable'
    wrong = judge.update(plural, answered, {"spec": {}, "status": {"poolCount": -1}}, status=True)[1]
    assert [text.partition(":")[0] for text in wrong] == ["status", "status.poolCount"]


def test_a_time_with_a_fraction_is_a_change_each_time_it_is_sent(judge: Judge) -> None:
    taint = {"key": "k", "effect": "NoSchedule", "timeAdded": "2026-01-02T03:04:05.5Z"}
    stored, _ = judge.create("devicetaintrules", {"spec": {"taint": taint}})
    assert stored["spec"]["taint"]["timeAdded"] == "2026-01-02T03:04:05Z"
    assert judge.update("devicetaintrules", stored, {"spec": {"taint": taint}})[0]["metadata"]["generation"] == 2
    whole = {**taint, "timeAdded": "2026-01-02T03:04:05.000Z"}
    assert judge.update("devicetaintrules", stored, {"spec": {"taint": whole}})[0]["metadata"].get("generation") != 2
