"""Costly expressions run beside other requests and keep their effect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from apiserver.api.objects import Json
from tests.support.extensions import make_definition, make_rule, make_version, make_webhook
from tests.support.patience import wait_until
from tests.support.wire import Child, Wire
from tools.fuzz.probe import Probe, Processor

pytestmark = pytest.mark.integration

GROUP = "/apis/admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
#: Within the budget of one expression, and some tenths of a second: comparing lists is charged little.
VARIABLES = [{"name": "l", "expression": "object.data.l.split(',')"}]
COSTLY = "variables.l.all(x, variables.l == variables.l)"
INLINE = "[object.data.l.split(',')].all(l, l.all(x, l == l))"
DATA = {"l": ",".join("1" for _ in range(1500))}
#: Seconds of work on the loop for which another request may wait.
STALL = 0.1


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    with Child(tmp_path_factory.mktemp("costly") / "server", "--runtime-config=api/all=true") as running:
        yield running


def about(plural: str) -> Json:
    rule = make_rule(plural, group="*", versions=("*",))
    return {"resourceRules": [rule]}


def bind(wire: Wire, kind: str, name: str, spec: Json, binding: Json) -> None:
    plural = "validatingadmissionpolicies" if kind.startswith("Validating") else "mutatingadmissionpolicies"
    for path, body in (
        (plural, {"metadata": {"name": name}, "spec": spec}),
        (plural.replace("policies", "policybindings"), {"metadata": {"name": name}, "spec": binding}),
    ):
        wire.create(f"{GROUP}/{path}", body)


def stall(child: Child, act: Callable[[], Any]) -> float:
    """Return the longest time in seconds that the loop worked while another request waited."""
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
    warns = {"policyName": "warns", "validationActions": ["Warn"]}
    bind(wire, "Validating", "warns", {**spec, "validations": rules[2:]}, warns)
    answers = []
    worst = stall(child, lambda: answers.append(wire.post(MAPS, {"metadata": {"name": "a"}, "data": DATA})))
    assert worst < STALL
    assert answers[0].status == 403
    assert answers[0].message.endswith("'slow' denied request: no such list")
    warnings = [value for name, value in answers[0].all_headers if name == "warning"]
    assert len(warnings) == 1, "what was begun on the loop leaves nothing behind"
    assert "of 1500" in warnings[0]
    for name in ("slow", "warns"):
        wire.delete(f"{GROUP}/validatingadmissionpolicybindings/{name}")


def test_a_policy_that_changes_objects_and_conditions_of_webhooks_take_long_beside_others(child: Child) -> None:
    wire = child.wire()
    change = {"patchType": "ApplyConfiguration", "applyConfiguration": {
        "expression": f"Object{{data: {{'twice': string({COSTLY}), 'before': string(variables.l.size())}}}}"
    }}  # fmt: skip
    spec = {
        "matchConstraints": about("configmaps"), "matchConditions": [{"name": "c", "expression": INLINE}],
        "variables": VARIABLES, "mutations": [change], "reinvocationPolicy": "Never", "failurePolicy": "Fail",
    }  # fmt: skip
    bind(wire, "Mutating", "slow", spec, {"policyName": "slow"})
    never = [{"name": "never", "expression": f"!{INLINE}"}]
    hook = make_webhook("none", "https://127.0.0.1:1/", make_rule("configmaps"), matchConditions=never)
    for kind in ("validating", "mutating"):
        wire.create(f"{GROUP}/{kind}webhookconfigurations", {"metadata": {"name": "none"}, "webhooks": [hook]})
    answers = []
    worst = stall(child, lambda: answers.append(wire.post(MAPS, {"metadata": {"name": "b"}, "data": DATA})))
    assert worst < STALL
    assert answers[0].status == 201, answers[0].text
    assert answers[0].json["data"] == {**DATA, "twice": "true", "before": "1500"}


def test_rules_of_custom_resources_run_and_compile_beside_other_requests(child: Child) -> None:
    wire = child.wire()
    rule = "self.l.all(x, self.l.exists(y, y == x))"
    rules = [{"rule": rule, "message": "always"}] * 7 + [{"rule": f"!({rule})", "message": "never"}]
    texts = {"type": "array", "maxItems": 300, "items": {"type": "string", "maxLength": 5}}
    spec = {"type": "object", "properties": {"l": texts}, "x-kubernetes-validations": rules}
    definition = make_definition("costs", "Cost", make_version("v1", {"type": "object", "properties": {"spec": spec}}))
    wire.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    path = "/apis/example.com/v1/namespaces/default/costs"
    wait_until(lambda: wire.get(path).status == 200, "the resource is served")
    answers = []
    body = {"apiVersion": "example.com/v1", "kind": "Cost", "metadata": {"name": "a"},
            "spec": {"l": [str(number) for number in range(300)]}}  # fmt: skip
    worst = stall(child, lambda: answers.append(wire.post(path, body)))
    assert worst < STALL
    assert answers[0].status == 422
    assert [cause["message"].rpartition(": ")[2] for cause in answers[0].json["details"]["causes"]] == ["never"]


def test_a_small_change_of_a_large_object_lets_others_be_answered(child: Child) -> None:
    wire = child.wire()
    containers = [{"name": f"c{number}", "image": "i", "env": [{"name": "a"}] * 9} for number in range(2500)]
    path = "/api/v1/namespaces/default/pods"
    wire.create(path, {"metadata": {"name": "large"}, "spec": {"containers": containers}})
    answers = []
    patch = {"metadata": {"labels": {"a": "b"}}}
    worst = stall(child, lambda: answers.append(wire.patch(f"{path}/large", patch, "strategic")))
    assert worst < STALL
    assert answers[0].status == 200
