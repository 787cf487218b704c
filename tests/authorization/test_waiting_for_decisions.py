"""A request waits for the decision of an authorization webhook and runs only once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apiserver.api.objects import Json
from apiserver.controlplane.dependencies import Dependencies
from apiserver.http.handlers.chain import Handler
from apiserver.http.sinks.jsonlines import JsonLines
from apiserver.request.messages import Request, Response, Stream
from apiserver.runtime.offload import LONG
from tests.support.extensions import make_rule, make_webhook
from tests.support.patience import wait_until
from tests.support.reviewers import Decider, authorized_by, configuration
from tests.support.server import Running, serve

pytestmark = pytest.mark.integration

POLICIES = "/apis/admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
CHECK = 'authorizer.requestResource.check("use").allowed()'
RESERVED = {"status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}}
ROLE = {"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}


@pytest.fixture(params=[False, True], ids=["real time", "virtual time"])
def server(request: pytest.FixtureRequest, tmp_path: Path, webhook: Decider) -> Iterator[Running]:
    """Serve with the webhook as the authorizer and without cached decisions."""
    uncached = {"cacheAuthorizedRequests": False, "cacheUnauthorizedRequests": False}
    with serve(*authorized_by(tmp_path, configuration(webhook, **uncached)), standing=request.param) as running:
        yield running


def list_calls(webhook: Decider) -> list[str]:
    """Return the verbs and resources of the calls."""
    found = [call["spec"]["resourceAttributes"] for call in webhook.calls]
    return [f"{each['verb']} {'/'.join(filter(None, (each['resource'], each.get('subresource'))))}" for each in found]


class Counting:
    """A link that records the paths of requests."""

    next: Handler

    def __init__(self) -> None:
        self.paths: list[str] = []

    def try_fast(self, request: Request) -> Response | None:
        return None

    async def handle(self, request: Request) -> Response | Stream:
        self.paths.append(request.path)
        return await self.next.handle(request)


def test_a_request_that_waits_passes_each_link_once(server: Running, webhook: Decider) -> None:
    counting = Counting()
    server.server.chain.append_link(counting)
    webhook.says({"allowed": True})
    server.wire("ann").create(ROLES, ROLE)
    assert list_calls(webhook) == ["create clusterroles", "escalate clusterroles"]
    assert counting.paths == [ROLES]


@pytest.mark.parametrize(
    ("outcome", "code", "decision"),
    [
        ({"allowed": True, "reason": "a friend"}, 200, {"decision": "allow", "reason": "a friend"}),
        ({"allowed": False, "reason": "a stranger"}, 403, {"decision": "forbid", "reason": "a stranger"}),
        (None, 500, {"reason": "internal error"}),
    ],
    ids=["allowed", "forbidden", "failed"],
)
def test_the_audit_log_has_the_decision_that_the_request_waited_for(
    tmp_path: Path, webhook: Decider, outcome: Json | None, code: int, decision: dict[str, str]
) -> None:
    webhook.says(outcome) if outcome is not None else webhook.fails()
    once = {"cacheAuthorizedRequests": False, "cacheUnauthorizedRequests": False}
    [event] = audited(tmp_path, configuration(webhook, failurePolicy="Deny", **once), [code])
    assert event["annotations"] == {f"authorization.k8s.io/{key}": value for key, value in decision.items()}
    assert len(webhook.calls) == 1


def test_the_audit_log_has_the_reason_of_a_cached_decision(tmp_path: Path, webhook: Decider) -> None:
    webhook.says({"allowed": True, "reason": "a friend"})
    events = audited(tmp_path, configuration(webhook), [200, 200])
    assert [each["annotations"]["authorization.k8s.io/reason"] for each in events] == ["a friend"] * 2
    assert len(webhook.calls) == 1


def audited(directory: Path, authorizers: str, codes: list[int]) -> list[Json]:
    """Send requests of ann with these status codes; return the events of their completion."""
    policy, log = directory / "policy", directory / "log"
    rules = [{"level": "Metadata", "users": ["ann"]}, {"level": "None"}]
    policy.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}))
    dependencies = Dependencies(audit_log=JsonLines("--audit-log-path", str(log), log.open("wb")))
    flags = (*authorized_by(directory, authorizers), f"--audit-policy-file={policy}")
    with serve(*flags, dependencies=dependencies) as running:
        assert [running.wire("ann").get(MAPS).status for _ in codes] == codes
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert [each["stage"] for each in events] == ["RequestReceived", "ResponseComplete"] * len(codes)
    return events[1::2]


def test_a_webhook_that_fails_once_is_called_again(server: Running, webhook: Decider) -> None:
    """The pause before the second call follows the system's clock, because virtual time stands still."""
    webhook.says({"allowed": True}, failures=1)
    assert server.wire("ann").get(MAPS).status == 200
    assert list_calls(webhook) == ["list configmaps"] * 2


def test_a_deletion_of_many_waits_for_the_policies_of_each(server: Running, webhook: Decider) -> None:
    root = server.wire("root")
    for name in ("a", "b"):
        root.create(MAPS, {"metadata": {"name": name}})
    bind(server, "validatingadmissionpolicies", validations=[{"expression": CHECK}])
    webhook.says({"allowed": True})
    assert server.wire("ann").delete(MAPS).status == 200
    assert list_calls(webhook) == ["deletecollection configmaps", "use configmaps", "use configmaps"]
    assert root.get(MAPS).json["items"] == []


def bind(server: Running, kind: str, **spec: Any) -> None:
    """Write a policy about ConfigMaps with its binding."""
    rule = make_rule("configmaps")
    if kind.startswith("mutating"):
        rule["operations"] = ["CREATE"]
    root, singular = server.wire("root"), kind.replace("policies", "policy")
    policy = {"metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": [rule]}, **spec}}
    root.create(f"{POLICIES}/{kind}", policy)
    actions = {"validationActions": ["Deny"]} if kind.startswith("validating") else {}
    binding = {"metadata": {"name": "p"}, "spec": {"policyName": "p", **actions}}
    root.create(f"{POLICIES}/{singular}bindings", binding)


@pytest.mark.parametrize("size", [1, 2 * LONG], ids=["short", "long"])
def test_an_expression_of_a_policy_waits_for_a_decision_and_makes_it_once(
    server: Running, webhook: Decider, size: int
) -> None:
    """A long request does not block its thread either."""
    bind(server, "validatingadmissionpolicies", validations=[{"expression": CHECK}] * 2)
    made = {"metadata": {"name": "a"}, "data": {"k": "x" * size}}
    webhook.says({"allowed": True}, {"allowed": False})
    refused = server.wire("ann").post(MAPS, made)
    assert (refused.status, refused.message.rpartition(": ")[2]) == (422, CHECK)
    assert list_calls(webhook) == ["create configmaps", "use configmaps"]
    webhook.says({"allowed": True})
    server.wire("ann").create(MAPS, made)


def test_an_expression_that_changes_an_object_waits(server: Running, webhook: Decider) -> None:
    change = f'Object{{data: {{"may": string({CHECK})}}}}'
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": change}}
    bind(server, "mutatingadmissionpolicies", reinvocationPolicy="Never", mutations=[mutation])
    webhook.says({"allowed": True}, {"allowed": False})
    made = server.wire("ann").post(MAPS, {"metadata": {"name": "a"}})
    assert (made.status, made.json["data"]) == (201, {"may": "false"})


def test_a_match_condition_of_a_webhook_waits(server: Running, webhook: Decider) -> None:
    rule = make_rule("configmaps", operations="CREATE")
    hook = make_webhook("w", "https://127.0.0.1:1/", rule, matchConditions=[{"name": "c", "expression": CHECK}])
    hooks = {"metadata": {"name": "w"}, "webhooks": [hook]}
    server.wire("root").create(f"{POLICIES}/validatingwebhookconfigurations", hooks)
    webhook.says({"allowed": True}, {"allowed": False})
    assert server.wire("ann").post(MAPS, {"metadata": {"name": "a"}}).status == 201, "the webhook is not called"
    assert list_calls(webhook) == ["create configmaps", "use configmaps"]


def test_rules_of_a_claim_wait_for_decisions(server: Running, webhook: Decider) -> None:
    server.wire("root").create(CLAIMS, {"metadata": {"name": "c"}, "spec": {}})
    webhook.says({"allowed": True}, {"allowed": False})
    answer = server.wire("ann").patch(f"{CLAIMS}/c/status", RESERVED)
    assert answer.status == 422
    assert 'requires resource="resourceclaims/binding"' in answer.message
    assert list_calls(webhook) == ["patch resourceclaims/status", "patch resourceclaims/binding"]


def test_rules_wait_for_a_webhook_that_a_reloaded_configuration_adds(tmp_path: Path, webhook: Decider) -> None:
    text = json.loads(configuration(webhook, "AlwaysAllow", cacheAuthorizedRequests=False))
    first = {**text, "authorizers": text["authorizers"][1:]}
    with serve(*authorized_by(tmp_path, json.dumps(first))) as server:
        root = server.wire("root")
        root.create(CLAIMS, {"metadata": {"name": "c"}, "spec": {}})
        (tmp_path / "authorizers").write_text(json.dumps(text))
        reloaded = re.compile(r'authorization_config_controller_automatic_reloads_total{.*status="success"} 1')
        wait_until(lambda: reloaded.search(root.get("/metrics").text), "the configuration is reloaded")
        webhook.says({"allowed": True}, {"allowed": False, "denied": True})
        answer = server.wire("ann").patch(f"{CLAIMS}/c/status", RESERVED)
        assert answer.status == 422
        assert list_calls(webhook) == ["patch resourceclaims/status", "patch resourceclaims/binding"]


def test_rules_of_a_new_policy_wait_for_decisions(server: Running, webhook: Decider) -> None:
    kind = {"apiVersion": "v1", "kind": "Secret"}
    rule = make_rule("configmaps", operations="CREATE")
    rules = {"resourceRules": [rule]}
    spec = {"matchConstraints": rules, "paramKind": kind, "validations": [{"expression": "true"}]}
    webhook.says({"allowed": True}, {"allowed": False})
    answer = server.wire("ann").post(
        f"{POLICIES}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec}
    )
    assert answer.status == 422
    assert list_calls(webhook) == ["create validatingadmissionpolicies", "get secrets"]


def test_an_object_that_a_put_makes_waits_for_the_right_to_create_it(server: Running, webhook: Decider) -> None:
    lease = {"metadata": {"name": "l"}, "spec": {}}
    webhook.says({"allowed": True}, {"allowed": False})
    answer = server.wire("ann").put("/apis/coordination.k8s.io/v1/namespaces/default/leases/l", lease)
    assert (answer.status, list_calls(webhook)) == (403, ["update leases", "create leases"])


def test_a_webhook_that_allows_everything_makes_an_administrator(server: Running, webhook: Decider) -> None:
    webhook.says({"allowed": False})
    assert server.wire("ann").get("/-/requests").status == 403
    webhook.says({"allowed": True})
    assert server.wire("ann").get("/-/requests").status == 200
    assert list_calls(webhook) == ["* *"]
