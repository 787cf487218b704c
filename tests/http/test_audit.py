"""The audit log: the events that a policy selects."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from apiserver.api.objects import Json
from apiserver.http.audit.policy import Level, Policy, PolicyError, read_policy
from apiserver.request.info import request_info
from apiserver.request.messages import User
from tests.support.patience import wait_until
from tests.support.wire import Child

pytestmark = pytest.mark.integration

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {level: None, nonResourceURLs: ["/healthz*", "/version"]}
- {level: RequestResponse, resources: [{resources: [configmaps]}], omitManagedFields: true, omitStages: [RequestReceived]}
- {level: Request, resources: [{resources: [namespaces]}], omitStages: [RequestReceived]}
- {level: Metadata, verbs: [create, get, watch, delete]}
"""
TOKENS = 'root,root,1,"system:masters"\nalice,alice,2,\n'
#: Waits for events that a condition fits, and gives them.
Events = Callable[[Callable[[Json], bool]], list[Json]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Child, Events]]:
    directory = tmp_path_factory.mktemp("audit")
    policy, tokens, log = directory / "policy.yaml", directory / "tokens.csv", directory / "audit.log"
    policy.write_text(POLICY)
    tokens.write_text(TOKENS)
    flags = (f"--token-auth-file={tokens}", "--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount")

    def events(fits: Callable[[Json], bool]) -> list[Json]:
        found: list[Json] = []

        def read_events() -> bool:
            found[:] = [event for line in log.read_text().splitlines() if fits(event := json.loads(line))]
            return bool(found)

        wait_until(read_events, "the events are written")
        return found

    with Child(directory / "data", *flags, f"--audit-policy-file={policy}", f"--audit-log-path={log}") as child:
        yield child, events


def test_an_event_has_user_request_and_answer(server: tuple[Child, Events]) -> None:
    child, events = server
    answer = child.wire("root").post(MAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}}, User_Agent="me/1")
    (event,) = events(lambda event: event.get("objectRef", {}).get("name") == "a")

    assert (event["level"], event["stage"], event["verb"]) == ("RequestResponse", "ResponseComplete", "create")
    assert event["user"] == {"username": "root", "uid": "1", "groups": ["system:masters", "system:authenticated"]}
    assert (event["requestURI"], event["userAgent"]) == (MAPS, "me/1")
    reference = {"resource": "configmaps", "namespace": "default", "apiVersion": "v1", "name": "a"}
    assert event["objectRef"] == reference
    assert event["requestObject"] == {"metadata": {"name": "a"}, "data": {"k": "v"}}
    assert event["responseObject"]["data"] == {"k": "v"}
    assert "managedFields" in answer.json["metadata"]
    assert "managedFields" not in event["responseObject"]["metadata"]
    assert event["responseStatus"] == {"metadata": {}, "code": 201}
    assert event["annotations"]["authorization.k8s.io/decision"] == "allow"
    assert event["auditID"] == answer.headers["audit-id"]


def test_an_access_token_in_the_query_is_no_part_of_the_event(server: tuple[Child, Events]) -> None:
    child, events = server
    child.wire("alice").get(f"{MAPS}/redacted?access%5Ftoken=hidden&limit=1")
    (event,) = events(lambda event: event.get("objectRef", {}).get("name") == "redacted")
    assert event["requestURI"] == f"{MAPS}/redacted?access%5Ftoken=REDACTED&limit=1"


def test_refusals_and_impersonated_users_are_in_the_events(server: tuple[Child, Events]) -> None:
    child, events = server
    child.wire("alice").get(f"{MAPS}/secret")
    (event,) = events(lambda event: event.get("objectRef", {}).get("name") == "secret")
    assert event["responseStatus"]["reason"] == "Forbidden"
    assert event["annotations"]["authorization.k8s.io/decision"] == "forbid"

    child.wire("root").get(f"{MAPS}/other", Impersonate_User="alice")
    (event,) = events(lambda event: event.get("objectRef", {}).get("name") == "other")
    assert (event["user"]["username"], event["impersonatedUser"]["username"]) == ("root", "alice")
    assert event["authenticationMetadata"] == {"impersonationConstraint": "impersonate:user-info"}

    child.wire("alice").get(f"{MAPS}/third", Impersonate_User="root")
    (event,) = events(lambda event: event.get("objectRef", {}).get("name") == "third")
    assert (event["user"]["username"], event["responseStatus"]["code"]) == ("alice", 403)

    child.wire("wrong").get(f"{MAPS}/fourth")
    (event,) = events(lambda event: event.get("objectRef", {}).get("name") == "fourth")
    assert (event["user"], event["stage"]) == ({}, "ResponseStarted")
    assert event["responseStatus"]["message"] == "Authentication failed, attempted: bearer"


def test_stages_follow_each_other_and_a_watch_has_all_of_them(server: tuple[Child, Events]) -> None:
    child, events = server
    with child.wire("root").watch(f"{PODS}?watch=true&resourceVersion=0&allowWatchBookmarks=true") as watch:
        assert watch.status == 200
    stages = ["RequestReceived", "ResponseStarted", "ResponseComplete"]
    wait_until(
        lambda: [event["stage"] for event in events(lambda event: event["verb"] == "watch")] == stages, "it has ended"
    )


def test_annotations_of_admission_are_in_the_event(server: tuple[Child, Events]) -> None:
    child, events = server
    wire = child.wire("root")
    labels = {"pod-security.kubernetes.io/audit": "baseline"}
    wire.post("/api/v1/namespaces", {"metadata": {"name": "watched", "labels": labels}})
    pod = {"metadata": {"name": "p"}, "spec": {"hostPID": True, "containers": [{"name": "c", "image": "i"}]}}
    wire.create("/api/v1/namespaces/watched/pods", pod)
    (event,) = events(
        lambda event: event["requestURI"].endswith("watched/pods") and event["stage"] == "ResponseComplete"
    )
    assert event["level"] == "Metadata"
    assert "requestObject" not in event
    assert event["annotations"]["pod-security.kubernetes.io/enforce-policy"] == "privileged:latest"
    assert event["annotations"]["pod-security.kubernetes.io/audit-violations"] == (
        'would violate PodSecurity "baseline:latest": host namespaces (hostPID=true)'
    )


@pytest.mark.parametrize(
    ("rule", "path", "level"),
    [
        ({"users": ["u"]}, "/api/v1/pods", Level.METADATA),
        ({"users": ["v"]}, "/api/v1/pods", Level.NONE),
        ({"userGroups": ["g"]}, "/api/v1/pods", Level.METADATA),
        ({"verbs": ["get"]}, "/api/v1/pods", Level.NONE),
        ({"namespaces": [""]}, "/api/v1/pods", Level.METADATA),
        ({"namespaces": [""]}, "/api/v1/namespaces/n/pods", Level.NONE),
        ({"namespaces": [""]}, "/version", Level.NONE),
        ({"resources": [{"group": "*"}]}, "/apis/apps/v1/deployments", Level.METADATA),
        ({"resources": [{"group": ""}]}, "/apis/apps/v1/deployments", Level.NONE),
        ({"resources": [{"resources": ["pods"]}]}, "/api/v1/namespaces/n/pods/p/log", Level.NONE),
        ({"resources": [{"resources": ["pods/log"]}]}, "/api/v1/namespaces/n/pods/p/log", Level.METADATA),
        ({"resources": [{"resources": ["*/log"]}]}, "/api/v1/namespaces/n/pods/p/log", Level.METADATA),
        ({"resources": [{"resources": ["pods/*"]}]}, "/api/v1/namespaces/n/pods/p", Level.METADATA),
        ({"resources": [{"resources": ["pods"], "resourceNames": ["q"]}]}, "/api/v1/namespaces/n/pods/p", Level.NONE),
        ({"nonResourceURLs": ["/met*"]}, "/metrics", Level.METADATA),
        ({"nonResourceURLs": ["*"]}, "/api/v1/pods", Level.NONE),
    ],
)
def test_a_rule_fits_by_user_verb_resource_and_path(rule: Json, path: str, level: Level) -> None:
    policy = Policy.model_validate(
        {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata", **rule}]}
    )
    assert policy.of(User("u", groups=("g",)), request_info("GET", path), path).level is level


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rules: []", "apiVersion: Field required"),
        ("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: []", "rules: Tuple should have at least 1 item"),
        ("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: All}]", "rules[0].level: Input should be 'None'"),
        (
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None, nonResourceURLs: [x]}]",
            "rules[0].nonResourceURLs: 'x': non-resource URL rules must begin with a '/' character",
        ),
        ("{", "while parsing a flow node"),
    ],
)
def test_an_unusable_policy_is_an_error_of_one_line(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    with pytest.raises(PolicyError) as caught:
        read_policy(file)
    assert str(caught.value).startswith(f"{file}: {said}")
    assert "\n" not in str(caught.value)
