"""Rules and selectors of policies and webhooks."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.admission.policies.matching import Matcher, Rule, RuleMatches, labels_of
from apiserver.admission.policies.requests import RequestScope
from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from tests.admission.asking import Situation

RULE: Json = {"operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}
PLACE = RequestScope("apps", "v1", "deployments", "")


def covers(rule: Json, operation: Any = "CREATE", scope: RequestScope = PLACE, *, in_namespace: bool = True) -> bool:
    return Rule(RULE | rule).covers(operation, scope, in_namespace=in_namespace)


@pytest.mark.parametrize(
    ("rule", "covered"),
    [
        ({}, True),
        ({"operations": ["*"]}, True),
        ({"operations": ["UPDATE", "CREATE"]}, True),
        ({"operations": ["UPDATE"]}, False),
        ({"operations": []}, False),
        ({"apiGroups": ["*"]}, True),
        ({"apiGroups": [""]}, False),
        ({"apiVersions": ["*"]}, True),
        ({"apiVersions": ["v2"]}, False),
        ({"resources": ["*"]}, True),
        ({"resources": ["*/*"]}, True),
        ({"resources": ["deployments/*"]}, True),
        ({"resources": ["deployments/status"]}, False),
        ({"resources": ["*/status"]}, False),
        ({"resources": ["pods", "deployments"]}, True),
        ({"resources": ["pods"]}, False),
        ({"scope": "*"}, True),
        ({"scope": "Namespaced"}, True),
        ({"scope": "Cluster"}, False),
    ],
)
def test_a_rule_covers_what_all_of_its_parts_name(rule: Json, covered: bool) -> None:
    assert covers(rule) is covered


def test_a_rule_names_subresources_and_scopes() -> None:
    status = PLACE._replace(subresource="status")
    for resources, covered in (
        ("deployments", False),
        ("deployments/status", True),
        ("*/*", True),
        ("*", False),
        ("deployments/*", True),
    ):
        assert covers({"resources": [resources]}, scope=status) is covered
    assert covers({"scope": "Cluster"}, in_namespace=False)
    assert not covers({"scope": "Namespaced"}, in_namespace=False)


OLD = PLACE._replace(version="v1beta1")


def matcher(*rules: Json, exclude: tuple[Json, ...] = (), equivalent: bool = True, **more: Any) -> Matcher:
    made = [RULE | rule for rule in rules] if rules else None
    return Matcher(rules=made, exclude=[RULE | rule for rule in exclude], equivalent=equivalent, **more)


def rule_matches(made: Matcher) -> RuleMatches | None:
    return made.covers("CREATE", [PLACE, OLD], in_namespace=True)


def match(made: Matcher, name: str = "x", new: Json | None = None, **more: Any) -> str | None:
    """Return the version in which a request matches."""
    about = rule_matches(made)
    if about is None:
        return None
    situation = Situation(more.pop("there", {}))
    obj = {"metadata": {"name": name}} if new is None else new
    request = situation.request("CREATE", "deployments", obj, group="apps", name=name, **more)
    scope = made.match(about, request)
    return None if scope is None else scope.version


def test_an_equivalent_rule_covers_other_versions_after_its_own() -> None:
    old = {"apiVersions": ["v1beta1"]}
    assert match(matcher({})) == "v1"
    assert match(matcher(old)) == "v1beta1"
    assert match(matcher(old, {})) == "v1"
    assert match(matcher(old, equivalent=False)) is None
    assert rule_matches(matcher({"operations": ["DELETE"]})) is None
    assert match(matcher()) == "v1", "without rules everything is meant"


def test_exclusions_hold_for_a_resource_or_for_names() -> None:
    assert rule_matches(matcher({}, exclude=({},))) is None
    assert rule_matches(matcher({}, exclude=({"apiVersions": ["v1beta1"]},))) is None
    assert match(matcher({}, exclude=({"operations": ["DELETE"]},))) == "v1"
    named = matcher({}, exclude=({"resourceNames": ["a", "b"]},))
    assert [match(named, name) for name in "abc"] == [None, None, "v1"]
    only = matcher({"resourceNames": ["a"]}, {"apiVersions": ["v1beta1"], "resourceNames": ["b"]})
    assert [match(only, name) for name in "abc"] == ["v1", "v1beta1", None]


def test_an_object_is_selected_by_its_labels_before_or_after() -> None:
    made = matcher({}, object_selector={"matchLabels": {"a": "b"}})
    with_label: Json = {"metadata": {"labels": {"a": "b"}}}
    assert match(made, new=with_label) == "v1"
    assert match(made, new={"metadata": {}}) is None
    assert match(made, new={}) is None
    request = Situation().request("UPDATE", "deployments", {"metadata": {}}, with_label, group="apps")
    assert labels_of(request) == [{}, {"a": "b"}]
    assert made.selects(labels_of(request))
    gone = Situation().request("DELETE", "deployments", None, with_label, group="apps")
    assert labels_of(gone) == [{"a": "b"}]
    assert matcher({}, object_selector={}).selects([])
    assert matcher({}, object_selector={"matchLabels": {}}).selects([])
    assert not made.selects([])


def test_a_namespace_is_selected_by_its_labels_and_what_is_in_none_always() -> None:
    made = matcher({}, namespace_selector={"matchLabels": {"a": "b"}})
    there: dict[str, list[Json]] = {
        "namespaces": [{"metadata": {"name": "n", "labels": {"a": "b"}}}, {"metadata": {"name": "m"}}]
    }
    assert match(made, there=there) == "v1"
    assert match(made, there=there, namespace="m") is None
    assert match(made, there=there, namespace="") == "v1"
    with pytest.raises(StatusError, match='namespaces "o" not found'):
        match(made, there=there, namespace="o")
    about = rule_matches(made)
    assert about is not None
    for operation, labels, subresource, selected in (
        ("CREATE", {"a": "b"}, "", True),
        ("CREATE", {}, "", False),
        ("UPDATE", {"a": "b"}, "", True),
        ("UPDATE", {}, "finalize", True),
        ("DELETE", {}, "", True),
    ):
        new = None if operation == "DELETE" else {"metadata": {"name": "n", "labels": labels}}
        request = Situation(there).request(
            operation, "namespaces", new, {"metadata": {}}, namespace="n", name="n", subresource=subresource  # type: ignore[arg-type]
        )  # fmt: skip
        assert (made.match(about, request) is not None) is selected


def test_the_resources_of_a_policy_match_exactly_unless_it_says_otherwise() -> None:
    old = [RULE | {"apiVersions": ["v1beta1"]}]
    assert rule_matches(Matcher.of_resources({"resourceRules": old})) is None
    assert rule_matches(Matcher.of_resources({"resourceRules": old, "matchPolicy": "Equivalent"})) is not None
    assert rule_matches(Matcher.of_resources({"resourceRules": [RULE], "excludeResourceRules": [RULE]})) is None
    several: list[Json | None] = [None, {}, {"resourceRules": []}]
    for everything in several:
        assert rule_matches(Matcher.of_resources(everything)) == RuleMatches(rule_matches(matcher()).scopes, ())  # type: ignore[union-attr]
