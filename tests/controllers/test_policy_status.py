"""The status of policies reports type errors of their expressions, on a running control plane in virtual time."""

from typing import Any

import pytest

from controllers.runtime.kinds import VALIDATING_ADMISSION_POLICIES
from kubedra.pytest_plugin import Kube
from tests.support.objects import make_manifest

pytestmark = [pytest.mark.integration, pytest.mark.kube(clock="virtual")]


def policy(name: str, resources: list[str], *expressions: str, **spec: Any) -> dict[str, Any]:
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": resources}
    return make_manifest(
        VALIDATING_ADMISSION_POLICIES,
        name,
        {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": expression} for expression in expressions],
            **spec,
        },
    )


def warnings_of(kube: Any, name: str) -> tuple[int, list[tuple[str, str]]]:
    kube.advance(seconds=1)
    status = kube.get(f"validatingadmissionpolicy/{name}")["status"]
    warnings = status["typeChecking"].get("expressionWarnings") or []
    return status["observedGeneration"], [(item["fieldRef"], item["warning"]) for item in warnings]


def test_the_status_of_a_policy_reports_unknown_fields_and_wrong_types(kube: Kube) -> None:
    spec = {"variables": [{"name": "replicas", "expression": "object.spec.replicas"}]}
    kube.apply(
        policy(
            "p",
            ["deployments"],
            "object.replicas > 1",
            "variables.replicas < 'x'",
            "has(object.metadata.labels)",
            **spec,
        )
    )
    generation, warnings = warnings_of(kube, "p")
    assert generation == 1
    assert [place for place, _ in warnings] == ["spec.validations[0].expression", "spec.validations[1].expression"]
    assert warnings[0][1] == (
        "apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'replicas'\n | object.replicas > 1\n | ......^\n"
    )
    assert "found no matching overload for '_<_' applied to '(int, string)'" in warnings[1][1]


def test_every_type_that_a_policy_names_counts_and_a_changed_policy_is_checked_again(kube: Kube) -> None:
    kube.apply(policy("q", ["deployments", "daemonsets"], "object.spec.replicas > 1"))
    assert warnings_of(kube, "q") == (
        1,
        [
            (
                "spec.validations[0].expression",
                (
                    "apps/v1, Kind=DaemonSet: ERROR: <input>:1:12: undefined field 'replicas'\n"
                    " | object.spec.replicas > 1\n | ...........^\n"
                ),
            )
        ],
    )
    kube.apply(policy("q", ["deployments"], "object.spec.replicas > 1"))
    assert warnings_of(kube, "q") == (2, [])


def test_what_is_not_named_one_by_one_and_what_there_is_not_are_not_checked(kube: Kube) -> None:
    kube.apply(policy("r", ["*"], "object.nope == 1"))
    kube.apply(policy("s", ["nopes"], "object.nope == 1"))
    assert warnings_of(kube, "r") == (1, [])
    assert warnings_of(kube, "s") == (1, [])
