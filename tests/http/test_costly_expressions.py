"""Expressions about requests that take long: others are answered meanwhile, and what they say counts all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.fuzz.runner import Probe, Processor
from tests.support.wire import Child, Wire

Json = dict[str, Any]

GROUP = "/apis/admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
#: Within the budget of one expression, and some tenths of a second: comparing lists is charged little.
VARIABLES = [{"name": "l", "expression": "object.data.l.split(',')"}]
COSTLY = "variables.l.all(x, variables.l == variables.l)"
INLINE = "cel.bind(l, object.data.l.split(','), l.all(x, l == l))"
DATA = {"l": ",".join("1" for _ in range(1500))}
#: Seconds of the loop's own work for which somebody else may wait.
STALL = 0.1


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    with Child(tmp_path_factory.mktemp("costly") / "server", "--runtime-config=api/all=true") as running:
        yield running


def about(plural: str) -> Json:
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": [plural]}
    return {"resourceRules": [rule]}


def bind(wire: Wire, kind: str, name: str, spec: Json, binding: Json) -> None:
    plural = "validatingadmissionpolicies" if kind.startswith("Validating") else "mutatingadmissionpolicies"
    for path, body in (
        (plural, {"metadata": {"name": name}, "spec": spec}),
        (plural.replace("policies", "policybindings"), {"metadata": {"name": name}, "spec": binding}),
    ):
        made = wire.post(f"{GROUP}/{path}", body)
        assert made.status == 201, made.text


def stall(child: Child, act: Callable[[], Any]) -> float:
    """The longest time that the loop worked while somebody else waited."""
    processor = Processor(child.process.pid)
    probe = Probe(int(child.url.rpartition(":")[2]), processor, lambda: 0, 1e9, interval=0.001)
    probe.start()
    try:
        act()
    finally:
        probe.end()
        processor.close()
    assert probe.failure is None
    return probe.worst


def test_a_policy_that_takes_long_is_judged_beside_others_and_refuses_all_the_same(child: Child) -> None:
    wire = child.wire()
    rules = [
        {"expression": COSTLY},
        {"expression": f"!{COSTLY}", "message": "no such list", "reason": "Forbidden"},
        {"expression": "variables.l.size() == 0", "messageExpression": "'of ' + string(variables.l.size())"},
    ]
    spec = {"matchConstraints": about("configmaps"), "variables": VARIABLES, "validations": rules}
    annotations = [{"key": "size", "valueExpression": "string(variables.l.size())"}]
    binding = {"policyName": "slow", "validationActions": ["Deny"]}
    bind(wire, "Validating", "slow", {**spec, "auditAnnotations": annotations}, binding)
    bind(
        wire,
        "Validating",
        "warns",
        {**spec, "validations": rules[2:]},
        {"policyName": "warns", "validationActions": ["Warn"]},
    )
    answers = []
    worst = stall(child, lambda: answers.append(wire.post(MAPS, {"metadata": {"name": "a"}, "data": DATA})))
    assert worst < STALL
    assert answers[0].status == 403
    assert answers[0].json["message"].endswith("'slow' denied request: no such list")
    warnings = [value for name, value in answers[0].all_headers if name == "warning"]
    assert len(warnings) == 1, "what was begun on the loop leaves nothing behind"
    assert "of 1500" in warnings[0]
    for name in ("slow", "warns"):
        wire.request("DELETE", f"{GROUP}/validatingadmissionpolicybindings/{name}")


def test_a_policy_that_changes_objects_and_conditions_of_webhooks_take_long_beside_others(child: Child) -> None:
    wire = child.wire()
    change = {"patchType": "ApplyConfiguration", "applyConfiguration": {
        "expression": f"Object{{data: {{'twice': string({COSTLY}), 'before': string(variables.l.size())}}}}"
    }}  # fmt: skip
    bind(
        wire,
        "Mutating",
        "slow",
        {
            "matchConstraints": about("configmaps"),
            "matchConditions": [{"name": "c", "expression": INLINE}],
            "variables": VARIABLES,
            "mutations": [change],
            "reinvocationPolicy": "Never",
            "failurePolicy": "Fail",
        },
        {"policyName": "slow"},
    )
    hook = {
        "name": "none.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "matchConditions": [{"name": "never", "expression": f"!{INLINE}"}],
    }
    for kind in ("validating", "mutating"):
        made = wire.post(f"{GROUP}/{kind}webhookconfigurations", {"metadata": {"name": "none"}, "webhooks": [hook]})
        assert made.status == 201, made.text
    answers = []
    worst = stall(child, lambda: answers.append(wire.post(MAPS, {"metadata": {"name": "b"}, "data": DATA})))
    assert worst < STALL
    assert answers[0].status == 201, answers[0].text
    assert answers[0].json["data"] == {**DATA, "twice": "true", "before": "1500"}
