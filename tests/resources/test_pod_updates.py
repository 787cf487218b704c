"""Valid changes of a pod and of its status."""

from __future__ import annotations

from copy import deepcopy

import pytest

from tests.resources.conftest import Judge, find
from tests.resources.pods import pod


def test_a_gated_pod_waits_with_a_condition(judge: Judge) -> None:
    stored, _ = judge.create("pods", pod(schedulingGates=[{"name": "example.com/g"}]))
    assert stored["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": "2026-01-02T03:04:05Z",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
    ]


def test_an_image_may_change_and_counts_as_a_generation(judge: Judge) -> None:
    stored, _ = judge.create("pods", pod())
    new = judge.update_valid("pods", stored, pod({"image": "img:2"}))
    assert new["metadata"]["generation"] == 2


def test_anything_else_may_not_change_and_the_difference_is_shown(judge: Judge) -> None:
    stored, _ = judge.create("pods", pod({"resources": {"requests": {"cpu": "200m"}}}))
    (wrong,) = judge.update("pods", stored, pod({"resources": {"requests": {"cpu": "300m"}}}))[1]
    assert wrong.startswith("spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,")
    assert wrong.endswith(
        '\n@@ -14,7 +14,7 @@\n    "Resources": {\n     "Limits": null,\n     "Requests": {\n-     "cpu": "200m"\n+    '
        ' "cpu": "300m"\n     },\n     "Claims": null\n    },\n'
    )


def test_tolerations_are_only_added_and_gates_only_removed(judge: Judge) -> None:
    old = pod(tolerations=[{"key": "a", "operator": "Exists"}], schedulingGates=[{"name": "g"}])
    stored, _ = judge.create("pods", old)
    more = pod(tolerations=[*old["spec"]["tolerations"], {"key": "b", "operator": "Exists"}])
    assert judge.update("pods", stored, more)[1] == []
    assert judge.update("pods", stored, pod(schedulingGates=[{"name": "h"}]))[1][:2] == [
        "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
        "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'h'",
    ]


def test_the_number_of_containers_does_not_change(judge: Judge) -> None:
    stored, _ = judge.create("pods", pod())
    two = {"spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]}}
    assert judge.update("pods", stored, two)[1] == [
        "spec.containers: Forbidden: pod updates may not add or remove containers"
    ]


def test_a_status_keeps_spec_owners_and_quality_of_service(judge: Judge) -> None:
    stored, _ = judge.create("pods", pod())
    stored["metadata"]["ownerReferences"] = [{"uid": "u"}]
    given = {"metadata": {"labels": {"a": "b"}}, "spec": {}, "status": {"phase": "Running"}}
    new = judge.update_valid("pods", stored, given, status=True)
    assert new["spec"] == stored["spec"]
    assert new["status"] == {"phase": "Running", "qosClass": "BestEffort"}
    assert new["metadata"]["ownerReferences"] == [{"uid": "u"}]
    assert new["metadata"]["labels"] == {"a": "b"}


def test_the_address_of_a_pod_is_the_first_of_its_addresses(judge: Judge) -> None:
    stored, _ = judge.create("pods", pod())
    new, _ = judge.update_status("pods", stored, {"podIPs": [{"ip": "10.0.0.1"}]})
    assert new["status"]["podIP"] == "10.0.0.1"
    (wrong,) = judge.update_status("pods", stored, {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]})[1]
    assert wrong.endswith("may specify no more than one IP for each IP family")


def test_claim_statuses_belong_to_claims_of_the_pod(judge: Judge) -> None:
    stored, _ = judge.create("pods", pod(resourceClaims=[{"name": "g", "resourceClaimTemplateName": "t"}]))
    fine = {"resourceClaimStatuses": [{"name": "g", "resourceClaimName": "a-g-x"}]}
    assert judge.update_status("pods", stored, fine)[1] == []
    assert judge.update_status("pods", stored, {"resourceClaimStatuses": [{"name": "h"}]})[1] == [
        'status.resourceClaimStatuses[0].name: Invalid value: "h": must match the name of an entry in `spec.resourceClaims`'
    ]


def test_what_has_ended_for_good_stays_ended(judge: Judge) -> None:
    stored, _ = judge.create("pods", pod(restartPolicy="Never"))
    ended = {"containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 1}}}]}
    running = {"containerStatuses": [{"name": "c", "state": {"running": {}}}]}
    done = judge.update_status_valid("pods", stored, ended)
    assert judge.update_status("pods", done, running)[1] == [
        "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"
    ]
    restarting, _ = judge.create("pods", pod(restartPolicy="OnFailure"))
    restarting = judge.update_status("pods", restarting, ended)[0]
    assert judge.update_status("pods", restarting, running)[1] == []


@pytest.mark.parametrize(
    ("node", "phase", "requested", "grace"),
    [
        ("n", "Running", None, 30),
        ("n", "Running", 5, 5),
        ("n", "Running", -1, 1),
        ("", "Pending", None, 0),
        ("n", "Succeeded", 5, 0),
    ],
)
def test_a_pod_that_runs_is_given_time_to_end(
    judge: Judge, node: str, phase: str, requested: int | None, grace: int
) -> None:
    resource = find("pods")
    obj = {"metadata": {}, "spec": {"nodeName": node, "terminationGracePeriodSeconds": 30}, "status": {"phase": phase}}
    assert resource.strategy.deletion_grace(judge.context(resource), deepcopy(obj), requested) == grace


@pytest.mark.parametrize(
    ("cost", "taken"),
    [("0", True), ("-7", True), ("2147483647", True), ("2147483648", False), ("007", False), ("²", False),
     ("9" * 5000, False), ("x", False)],
)  # fmt: skip
def test_what_deleting_a_pod_costs_is_a_number_of_32_bits(judge: Judge, cost: str, taken: bool) -> None:
    name = "controller.kubernetes.io/pod-deletion-cost"
    _, wrong = judge.create("pods", {**pod(), "metadata": {"name": "p", "annotations": {name: cost}}})
    assert [text[:40] for text in wrong] == ([] if taken else [f"metadata.annotations[{name}]: Invalid"[:40]])
