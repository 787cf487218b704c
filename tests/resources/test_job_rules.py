"""Jobs: generated fields, required fields, valid changes and final states."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from apiserver.registry.definition.options import DeleteOptions
from tests.resources.conftest import Judge, find


def job(pod: Json | None = None, **spec: Any) -> Json:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "img:1"}], **(pod or {})}}
    return {"metadata": {"uid": "u"}, "spec": {"template": template, **spec}}


def errors_of(judge: Judge, obj: Json) -> list[str]:
    return judge.create("jobs", obj)[1]


def change(judge: Judge, old: Json, **spec: Any) -> list[str]:
    return judge.update_spec("jobs", old, **spec)[1]


def test_a_job_selects_its_pods_by_its_own_uid(judge: Judge) -> None:
    stored = judge.create_valid("jobs", job())
    keys = {"controller-uid": "u", "job-name": "a"}
    prefixed = {f"batch.kubernetes.io/{key}": value for key, value in keys.items()}
    assert stored["spec"]["template"]["metadata"]["labels"] == {**keys, **prefixed}
    assert stored["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}
    assert stored["metadata"]["generation"] == 1


def test_a_job_without_labels_has_those_of_its_pods(judge: Judge) -> None:
    assert judge.create("jobs", job())[0]["metadata"]["labels"].keys() >= {"controller-uid", "job-name"}
    given = job()
    given["spec"]["template"]["metadata"] = {"labels": {"app": "x"}}
    assert judge.create("jobs", given)[0]["metadata"]["labels"].keys() >= {"app", "controller-uid"}
    given["metadata"]["labels"] = {"own": "y"}
    assert judge.create("jobs", given)[0]["metadata"]["labels"] == {"own": "y"}


def test_labels_of_somebody_else_are_no_selector(judge: Judge) -> None:
    given = job()
    given["spec"]["template"]["metadata"] = {"labels": {"controller-uid": "other"}}
    labels = '{"batch.kubernetes.io/controller-uid":"u","batch.kubernetes.io/job-name":"a","controller-uid":"other","job-name":"a"}'
    assert errors_of(judge, given) == [
        f"spec.template.metadata.labels[controller-uid]: Invalid value: {labels}: must be 'u'"
    ]


def test_with_a_manual_selector_nothing_is_made_up(judge: Judge) -> None:
    given = job(manualSelector=True, selector={"matchLabels": {"app": "x"}})
    assert errors_of(judge, given) == [
        "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`"
    ]
    given["spec"]["template"]["metadata"] = {"labels": {"app": "x"}}
    assert errors_of(judge, given) == []


INDEXED: Json = {"completionMode": "Indexed", "completions": 3}


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"parallelism": -1}, "spec.parallelism: Invalid value: -1: must be greater than or equal to 0"),
        (
            {"completionMode": "Indexed", "parallelism": 1},
            "spec.completions: Required value: when completion mode is Indexed",
        ),
        ({"backoffLimitPerIndex": 1}, "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"),
        (
            {"managedBy": "me"},
            'spec.managedBy: Invalid value: "me": must be a domain-prefixed path (such as "acme.io/foo")',
        ),
        (
            {"podFailurePolicy": {"rules": [{"action": "Stop", "onPodConditions": [{"type": "X"}]}]}},
            'spec.podFailurePolicy.rules[0].action: Unsupported value: "Stop": supported values: "Count", "FailIndex", "FailJob", "Ignore"',
        ),
        (
            {"podFailurePolicy": {"rules": [{"action": "Count"}]}},
            "spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
        ),
        (
            {"podFailurePolicy": {"rules": [{"action": "Count", "onExitCodes": {"operator": "In", "values": [3, 0]}}]}},
            "spec.podFailurePolicy.rules[0].onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator",
        ),
        (
            INDEXED | {"successPolicy": {"rules": [{"succeededIndexes": "1-4"}]}},
            'spec.successPolicy.rules[0].succeededIndexes: Invalid value: "1-4": error parsing succeededIndexes: too large index: "4"',
        ),
        (
            INDEXED | {"successPolicy": {"rules": [{"succeededIndexes": "0,2", "succeededCount": 3}]}},
            "spec.successPolicy.rules[0].succeededCount: Invalid value: 3: must be less than or equal to 2 (the number of indexes in the specified succeededIndexes field)",
        ),
    ],
)
def test_a_spec_that_makes_no_sense_is_errors_of(judge: Judge, spec: Json, error: str) -> None:
    assert errors_of(judge, job(**spec))[0] == error


def test_pods_of_a_job_end(judge: Judge) -> None:
    assert errors_of(judge, job({"restartPolicy": "Always"})) == [
        'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'
    ]


def test_the_template_has_the_rules_of_pods_below_its_own_path(judge: Judge) -> None:
    claims = [{"name": "C", "resourceClaimName": "x"}]
    given = job({"ephemeralContainers": [{"name": "e", "image": "i"}], "resourceClaims": claims})
    given["spec"]["template"]["metadata"] = {"labels": {"-": "v"}}
    assert [text.partition(":")[0] for text in errors_of(judge, given)] == [
        "spec.template.labels", "spec.template.spec.resourceClaims[0].name", "spec.template.spec.ephemeralContainers",
    ]  # fmt: skip


def test_a_template_does_not_change_unless_the_job_sleeps(judge: Judge) -> None:
    def patched(old: Json, **pod: Any) -> Json:
        template = old["spec"]["template"]
        return {**template, "spec": {**template["spec"], **pod}}

    awake, asleep = judge.create("jobs", job())[0], judge.create("jobs", job(suspend=True))[0]
    assert "field is immutable" in change(judge, awake, template=patched(awake, nodeSelector={"a": "b"}))[0]
    assert change(judge, asleep, template=patched(asleep, nodeSelector={"a": "b"})) == []
    resources = [{"name": "c", "image": "img:1", "resources": {"requests": {"cpu": "1"}}}]
    assert change(judge, asleep, template=patched(asleep, containers=resources)) == []
    [error] = change(judge, asleep, template=patched(asleep, containers=[{"name": "c", "image": "other:1"}]))
    assert error.startswith('spec.template.spec: Invalid value: {"Volumes":null,')
    assert change(judge, awake, parallelism=3, suspend=True) == []


def test_completions_of_an_indexed_job_go_along_with_its_parallelism(judge: Judge) -> None:
    plain = judge.create("jobs", job(completions=2))[0]
    assert change(judge, plain, completions=3) == ["spec.completions: Invalid value: 3: field is immutable"]
    indexed = judge.create("jobs", job(completionMode="Indexed", completions=2, parallelism=2))[0]
    assert change(judge, indexed, completions=3) == [
        "spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism"
    ]
    assert change(judge, indexed, completions=3, parallelism=3) == []


def ends(*kinds: str, **more: Any) -> Json:
    return {"conditions": [{"type": kind, "status": "True"} for kind in kinds], **more}


@pytest.mark.parametrize(
    ("before", "status", "errors"),
    [
        ({}, {"active": -1}, ["status.active: Invalid value: -1: must be greater than or equal to 0"]),
        ({}, {"active": 1, "ready": 2}, ["status.ready: Invalid value: 2: cannot set more ready pods than active"]),
        (
            {}, ends("Failed"),
            [
                "status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition",
                "status.startTime: Required value: startTime is required for finished job",
            ],
        ),
        ({}, ends("Failed", "FailureTarget", startTime="2026-01-01T00:00:00Z"), []),
        (
            {}, ends("Complete", "SuccessCriteriaMet", startTime="2026-01-02T00:00:00Z", completionTime="2026-01-01T00:00:00Z"),
            ['status.completionTime: Invalid value: "2026-01-01T00:00:00Z": must be equal to or after `startTime`'],
        ),
        (
            ends("Failed", "FailureTarget", startTime="2026-01-01T00:00:00Z"), ends("FailureTarget", startTime="2026-01-01T00:00:00Z"),
            ["status.conditions: Invalid value: cannot disable the terminal Failed=True condition"],
        ),
        ({"failed": 3}, {"failed": 2}, ["status.failed: Invalid value: 2: cannot decrease the failed counter"]),
        (
            {"startTime": "2026-01-01T00:00:00Z"}, {"startTime": "2026-01-02T00:00:00Z"},
            ['status.startTime: Invalid value: "2026-01-02T00:00:00Z": field is immutable for unsuspended job once set'],
        ),
    ],
)  # fmt: skip
def test_a_jobs_status_makes_sense_and_an_end_is_an_end(
    judge: Judge, before: Json, status: Json, errors: list[str]
) -> None:
    stored = judge.create("jobs", job())[0] | {"status": before}
    assert judge.update_status("jobs", stored, status)[1] == errors


def test_indexes_are_lists_that_rise_and_exclude_each_other(judge: Judge) -> None:
    stored = judge.create("jobs", job(completionMode="Indexed", completions=9, backoffLimitPerIndex=1))[0]

    def wrong(**status: Any) -> list[str]:
        return judge.update_status("jobs", stored, status)[1]

    assert wrong(completedIndexes="0-2,5", failedIndexes="3,7-8") == []
    assert wrong(completedIndexes="2,1")[0].endswith(
        "error parsing completedIndexes: non-increasing order, previous: 2, current: 1"
    )
    assert wrong(completedIndexes="0-5", failedIndexes="1-2,4") == [
        'status.failedIndexes: Invalid value: "1-2,4": failedIndexes and completedIndexes overlap at index: 1'
    ]


def test_who_deletes_a_job_and_not_its_pods_is_told(judge: Judge) -> None:
    resource = find("jobs")
    ctx = judge.context(resource, verb="delete")
    assert resource.strategy.garbage_collection == "orphan"
    assert resource.strategy.warnings_on_delete(ctx, DeleteOptions())[0].startswith(
        "child pods are preserved by default when jobs are deleted; "
    )
    assert resource.strategy.warnings_on_delete(ctx, DeleteOptions(propagation="Orphan")) == []
    assert resource.strategy.warnings_on_delete(ctx, DeleteOptions(orphan=False)) == []


def test_without_its_gate_a_field_of_a_new_job_goes(judge: Judge) -> None:
    old = Judge((1, 34), {"JobManagedBy": False})
    given = job(managedBy="a.io/b")
    assert "managedBy" not in old.create("jobs", given)[0]["spec"]
    assert judge.create("jobs", given)[0]["spec"]["managedBy"] == "a.io/b"


def test_old_annotations_of_templates_are_told(judge: Judge) -> None:
    given = job()
    key = "container.apparmor.security.beta.kubernetes.io/c"
    given["spec"]["template"]["metadata"] = {"annotations": {key: "unconfined"}}
    resource = find("jobs")
    told = resource.strategy.warnings_on_create(judge.context(resource), judge.create("jobs", given)[0])
    assert told == [
        f'spec.template.metadata.annotations[{key}]: deprecated since v1.30; use the "appArmorProfile" field instead'
    ]
    given["spec"]["template"]["spec"]["securityContext"] = {"appArmorProfile": {"type": "Unconfined"}}
    assert resource.strategy.warnings_on_create(judge.context(resource), judge.create("jobs", given)[0]) == []


def test_without_its_gates_only_jobs_with_a_success_policy_meet_criteria() -> None:
    old = Judge((1, 33), {"JobManagedBy": False, "JobPodReplacementPolicy": False})
    stored = old.create("jobs", job())[0]
    assert old.update_status("jobs", stored, ends("SuccessCriteriaMet"))[1] == [
        "status.conditions: Invalid value: cannot set SuccessCriteriaMet to NonIndexed Job",
        "status.conditions: Invalid value: cannot set SuccessCriteriaMet=True for Job without SuccessPolicy",
    ]
