"""Configured authorizers: webhooks, policy files, and the configuration file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from apiserver.api.features.gates import Features
from apiserver.api.helpers.config_files import ConfigurationError
from apiserver.api.objects import Json
from apiserver.authorization.abac import PolicyFileError, read_policies
from apiserver.authorization.configuration import read_authorizers
from apiserver.options.authorization import read_access
from apiserver.options.flags import parser
from apiserver.registry.definition.authority import Question
from apiserver.request.messages import User
from apiserver.runtime.reloading import ReloadedConfiguration
from tests.support.extensions import make_rule
from tests.support.reviewers import Decider, authorized_by, configuration, with_tokens
from tests.support.server import HeldTime, serve

pytestmark = pytest.mark.integration

MAPS = "/api/v1/namespaces/default/configmaps"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def test_a_webhook_allows_denies_or_leaves_it_to_others(tmp_path: Path, webhook: Decider) -> None:
    once = {"cacheAuthorizedRequests": False, "cacheUnauthorizedRequests": False}
    with serve(*authorized_by(tmp_path, configuration(webhook, "AlwaysDeny", **once))) as running:
        root, ann = running.wire("root"), running.wire("ann")
        webhook.says({"allowed": True})
        assert ann.get(f"{MAPS}?labelSelector=a%3Db&fieldSelector=metadata.name%3Dm").status == 200
        [asked] = webhook.calls
        attributes = {
            "namespace": "default", "verb": "list", "version": "v1", "resource": "configmaps", "name": "m",
            "fieldSelector": {"requirements": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]},
            "labelSelector": {"requirements": [{"key": "a", "operator": "In", "values": ["b"]}]},
        }  # fmt: skip
        groups = ["devs", "qa", "system:authenticated"]
        assert asked["spec"] == {"resourceAttributes": attributes, "user": "ann", "uid": "2", "groups": groups}
        webhook.says({"allowed": False, "denied": True, "reason": "not you"})
        assert ann.get(MAPS).message.endswith(": not you")
        assert len(webhook.calls) == 1, "one call per request"
        webhook.says({"allowed": False, "reason": "who knows"})
        assert ann.get("/version").message.endswith(": who knows\nEverything is forbidden.")
        assert webhook.calls[0]["spec"]["nonResourceAttributes"] == {"path": "/version", "verb": "get"}
        webhook.says({"allowed": False, "denied": True, "reason": "no"})
        review = {"spec": {"user": "bob", "nonResourceAttributes": {"path": "/a", "verb": "get"}}}
        outcome = root.post(REVIEWS, review).json["status"]
        assert outcome == {"allowed": False, "denied": True, "reason": "no"}
        assert len(webhook.calls) == 1, "masters are always allowed"


def test_decisions_of_a_webhook_are_cached(tmp_path: Path, webhook: Decider) -> None:
    with serve(
        *authorized_by(tmp_path, configuration(webhook, authorizedTTL="10s", unauthorizedTTL="5s")), time=HeldTime()
    ) as running:
        ann = running.wire("ann")
        webhook.says({"allowed": True})
        assert [ann.get(MAPS).status for _ in range(3)] == [200] * 3
        assert len(webhook.calls) == 1
        running.time.advance(11)
        webhook.says({"allowed": False})
        assert [ann.get(MAPS).status for _ in range(3)] == [403] * 3
        assert len(webhook.calls) == 1


def test_a_denial_is_remembered_as_a_denial_and_each_decision_is_counted_once(tmp_path: Path, webhook: Decider) -> None:
    with serve(*authorized_by(tmp_path, configuration(webhook, "AlwaysAllow"))) as running:
        ann, root = running.wire("ann"), running.wire("root")
        root.create(MAPS, {"metadata": {"name": "m"}})
        webhook.says({"allowed": False, "denied": True}, {"allowed": True}, {"allowed": False})
        assert [ann.get(path).status for path in (f"{MAPS}/m",) * 2 + (MAPS,) * 3 + (f"{MAPS}/n",) * 2] == [
            403, 403, 200, 200, 200, 404, 404,
        ]  # fmt: skip
        assert len(webhook.calls) == 3
        counted = running.wire("root").get("/metrics").text
        for decision, count in (("denied", 2), ("allowed", 3)):
            labels = f'decision="{decision}",name="w",type="Webhook"'
            assert f"apiserver_authorization_decisions_total{{{labels}}} {count}" in counted


@pytest.mark.parametrize(("policy", "status"), [("Deny", 500), ("NoOpinion", 200)])
def test_a_webhook_that_fails_denies_or_has_no_opinion(
    tmp_path: Path, webhook: Decider, policy: str, status: int
) -> None:
    webhook.fails()
    with serve(*authorized_by(tmp_path, configuration(webhook, "AlwaysAllow", failurePolicy=policy))) as running:
        answer = running.wire("ann").get(MAPS)
        assert answer.status == status
        if status == 500:
            rejected = "the server rejected our request for an unknown reason"
            assert answer.text == f'Internal Server Error: "{MAPS}": {rejected}\n'


def test_a_webhook_is_called_if_its_conditions_hold(tmp_path: Path, webhook: Decider) -> None:
    conditions = [
        {"expression": "has(request.resourceAttributes) && request.resourceAttributes.resource == 'configmaps'"},
        {"expression": "!('qa' in request.groups) || request.resourceAttributes.verb != 'list'"},
    ]
    given = {"matchConditions": conditions, "matchConditionSubjectAccessReviewVersion": "v1"}
    webhook.says({"allowed": True})
    with serve(*authorized_by(tmp_path, configuration(webhook, "AlwaysDeny", **given))) as running:
        ann = running.wire("ann")
        statuses = [ann.get(path).status for path in (f"{MAPS}/none", MAPS, "/api/v1/nodes", "/version")]
        assert statuses == [404, 403, 403, 403]
        assert len(webhook.calls) == 1
        counted = running.wire("root").get("/metrics").text
        excluded = 'apiserver_authorization_match_condition_exclusions_total{name="w",type="Webhook"} 3'
        assert excluded in counted
        assert 'apiserver_authorization_webhook_evaluations_total{name="w",result="success"} 1' in counted


def test_a_webhook_decides_in_the_middle_of_a_write(tmp_path: Path, webhook: Decider) -> None:
    """A grant needs the rights of the role: the write checks the verb escalate after its own authorization."""
    with serve(*authorized_by(tmp_path, configuration(webhook)), time=HeldTime()) as running:
        roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        role = {"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}
        webhook.says({"allowed": True}, {"allowed": False})
        assert running.wire("ann").post(roles, role).status == 403
        assert [call["spec"]["resourceAttributes"]["verb"] for call in webhook.calls] == ["create", "escalate"]
        running.time.advance(31)
        webhook.says({"allowed": True})
        running.wire("ann").create(roles, role)


def bad(**said: Any) -> str:
    return json.dumps({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration", **said})


HOOK: Json = {
    "timeout": "1s", "failurePolicy": "Deny", "subjectAccessReviewVersion": "v1",
    "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": "/dev/null"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (bad(), "authorizers: Required value: at least one authorization mode must be defined"),
        (bad(authorizers=[{"type": "RBAC", "name": "rbac", "x": 1}]),
         'failed to load AuthorizationConfiguration from file: strict decoding error: unknown field "authorizers[0].x"'),
        (bad(authorizers=[{"type": "RBAC", "name": "rbac"}, {"type": "RBAC", "name": "b"}]),
         'authorizers[1].type: Duplicate value: "RBAC"'),
        (bad(authorizers=[{"type": "RBAC", "name": "other"}]), "expected name rbac for authorizer RBAC instead of other"),
        (bad(authorizers=[{"type": "Webhook", "name": "w"}]),
         "authorizers[0].webhook: Required value: required when type=Webhook"),
        (bad(authorizers=[{"type": "Webhook", "name": "w", "webhook": HOOK}]),
         'authorizers[0].connectionInfo.kubeConfigFile: Invalid value: "/dev/null": must be a regular file'),
        (bad(authorizers=[{"type": "Webhook", "name": "w", "webhook": {**HOOK, "timeout": "31s", "connectionInfo": {}}}]),
         "[" + 'authorizers[0].timeout: Invalid value: "31s": must be > 0s and <= 30s' + ", "
         + "authorizers[0].connectionInfo.type: Required value]"),
    ],
)  # fmt: skip
def test_errors_of_a_configuration_are_named(text: str, says: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        read_authorizers(text.encode(), Features())
    assert str(error.value) == says


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--authorization-mode=RBAC", "--authorization-config=x"], "--authorization-config can not be specified when"),
        (["--authorization-mode=ABAC"], "authorization-mode ABAC's authorization policy file not passed"),
        (["--authorization-mode=Webhook"], "authorization-mode Webhook's authorization config file not passed"),
        (["--authorization-webhook-config-file=x"], "cannot specify --authorization-webhook-config-file without mode"),
        (["--authorization-mode=RBAC,RBAC"], "has mode specified more than once"),
    ],
)  # fmt: skip
def test_flags_that_do_not_go_together_are_refused(given: list[str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_access(parser().parse_args(given), Features())


def test_a_configuration_is_taken_over_when_it_changes_unless_it_is_wrong(tmp_path: Path) -> None:
    path, taken = tmp_path / "c", []

    def load(text: bytes) -> None:
        if text == b"wrong":
            raise ValueError("wrong")
        taken.append(text)

    path.write_text("one")
    reloaded = ReloadedConfiguration("authorization", path, "id", load)
    for text in ("one", "two", "wrong", "two"):
        path.write_text(text)
        reloaded.reload()
    assert taken == [b"two"]
    digest = f"sha256:{hashlib.sha256(b'id').hexdigest()}"
    counted = "\n".join(lines for family in reloaded.families() for lines in family.lines())
    for status in ("success", "failure"):
        assert f'automatic_reloads_total{{apiserver_id_hash="{digest}",status="{status}"}} 1' in counted


ANN = User("ann", groups=("devs", "system:authenticated"))


def policy(**spec: Any) -> str:
    return json.dumps({"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": spec})


@pytest.mark.parametrize(
    ("line", "reads", "writes", "path"),
    [
        (policy(group="devs", readonly=True, namespace="a", resource="pods"), True, None, None),
        (policy(group="devs", user="bob", namespace="*", resource="*"), None, None, None),
        (policy(user="*", namespace="b", resource="*"), None, None, None),
        (policy(user="ann", nonResourcePath="/v*"), None, None, True),
        (policy(namespace="a", resource="pods"), None, None, None),
        ('{"readonly": true}', True, None, True),
        ('{"user": "ann", "resource": "pods"}', True, True, None),
    ],
)
def test_a_line_allows_what_it_names(
    tmp_path: Path, line: str, reads: bool | None, writes: bool | None, path: bool | None
) -> None:
    (tmp_path / "p").write_text(f"# a comment\n\n{line}\n")
    policies = read_policies(tmp_path / "p")
    asked = [policies.opinion(ANN, Question(verb, "", "pods", namespace="a"))[0] for verb in ("list", "create")]
    assert [*asked, policies.path_opinion(ANN, "get", "/version")[0]] == [reads, writes, path]


def test_the_error_names_a_line_that_is_not_a_policy(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("{}\n{")
    with pytest.raises(PolicyFileError, match=r"error reading policy file .*/p, line 2: {: "):
        read_policies(tmp_path / "p")


def test_policies_let_users_in_and_list_their_rules(tmp_path: Path) -> None:
    (tmp_path / "p").write_text(policy(user="ann", readonly=True, namespace="default", resource="configmaps"))
    with serve(
        *with_tokens(tmp_path, "--authorization-mode=ABAC", f"--authorization-policy-file={tmp_path / 'p'}")
    ) as it:
        ann = it.wire("ann")
        assert (ann.get(MAPS).status, ann.post(MAPS, {"metadata": {"name": "m"}}).status) == (200, 403)
        assert ann.get("/api/v1/nodes").message.endswith(": No policy matched.")


@pytest.mark.parametrize("padding", [0, 40_000], ids=["short", "long"])
def test_a_collection_deletion_answers_all_objects_although_a_webhook_decides_about_each(
    tmp_path: Path, webhook: Decider, padding: int
) -> None:
    """Missing decisions are requested without repeating the deletion, which would find fewer objects."""
    policies, name = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic", "ask"
    rule = make_rule("configmaps", operations="DELETE")
    asks = "authorizer.group('').resource('configmaps').name(oldObject.metadata.name).check('retire').allowed()"
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": asks}]}
    with serve(*authorized_by(tmp_path, configuration(webhook))) as running:
        root = running.wire("root")
        root.create(f"{policies}ies", {"metadata": {"name": name}, "spec": spec})
        binding = {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}}
        root.create(f"{policies}ybindings", binding)
        names = [f"m{number}" for number in range(5)]
        for each in names:
            root.create(MAPS, {"metadata": {"name": each, "labels": {"a": "b"}}})
        webhook.says({"allowed": True})
        answer = running.wire("ann").delete(f"{MAPS}?labelSelector=a%3Db", {"x": "x" * padding})
        assert answer.status == 200, answer.text
        assert [item["metadata"]["name"] for item in answer.json["items"]] == names
        asked = [call["spec"]["resourceAttributes"] for call in webhook.calls]
        assert sorted(each["name"] for each in asked if each["verb"] == "retire") == names
