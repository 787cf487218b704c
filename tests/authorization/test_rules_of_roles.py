"""Rules as sets of rights, without a server."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.api.features.gates import Features, parse_gates
from apiserver.authorization.policy import node_rules, policy
from apiserver.authorization.roles import Grant, Rights
from apiserver.authorization.rules import describe, missing_rights
from apiserver.registry.definition.authority import Question

ANY = Grant("RoleBinding", "ns", "b", "Role", "r", ())


def rule(verbs: str, groups: str = "", resources: str = "pods", names: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {
        "verbs": verbs.split(","),
        "apiGroups": groups.split(","),
        "resources": resources.split(","),
    }
    return {**found, "resourceNames": names.split(",")} if names else found


def allows(
    rules: list[dict[str, Any]], verb: str, group: str, resource: str, subresource: str = "", name: str = ""
) -> bool:
    return (
        Rights([(each, ANY) for each in rules], []).find(Question(verb, group, resource, subresource, "ns", name))
        is not None
    )


@pytest.mark.parametrize(
    ("granted", "asked", "allowed"),
    [
        (rule("get"), ("get", "", "pods"), True),
        (rule("get"), ("list", "", "pods"), False),
        (rule("*"), ("list", "", "pods"), True),
        (rule("get"), ("get", "apps", "pods"), False),
        (rule("get", "*"), ("get", "apps", "pods"), True),
        (rule("get"), ("get", "", "pods", "status"), False),
        (rule("get", resources="pods/status"), ("get", "", "pods", "status"), True),
        (rule("get", resources="pods/status"), ("get", "", "pods"), False),
        (rule("get", resources="*/status"), ("get", "", "pods", "status"), True),
        (rule("get", resources="*/scale"), ("get", "", "pods", "status"), False),
        (rule("get", resources="*"), ("get", "", "pods", "status"), True),
        (rule("get", names="a"), ("get", "", "pods", "", "a"), True),
        (rule("get", names="a"), ("get", "", "pods", "", "b"), False),
        (rule("get", names="a"), ("get", "", "pods"), False),
    ],
)
def test_a_rule_allows_what_it_names(granted: dict[str, Any], asked: tuple[str, ...], allowed: bool) -> None:
    assert allows([granted], *asked) is allowed


@pytest.mark.parametrize(
    ("url", "path", "allowed"),
    [
        ("/healthz", "/healthz", True),
        ("/healthz", "/healthz/etcd", False),
        ("/api/*", "/api/v1", True),
        ("*", "/x", True),
    ],
)
def test_a_rule_about_paths_allows_the_path_or_what_its_star_covers(url: str, path: str, allowed: bool) -> None:
    rights = Rights([({"verbs": ["get"], "nonResourceURLs": [url]}, ANY)], [])
    assert (rights.find_path("get", path) is not None) is allowed
    assert rights.find_path("post", path) is None


words = st.lists(st.sampled_from(["a", "b", "*"]), min_size=1, max_size=2, unique=True)
resources = st.lists(st.sampled_from(["x", "y", "x/s", "*/s", "*"]), min_size=1, max_size=2, unique=True)
names = st.lists(st.sampled_from(["n", "m"]), max_size=2, unique=True)
rules = st.lists(
    st.builds(
        lambda v, g, r, n: {"verbs": v, "apiGroups": g, "resources": r, "resourceNames": n},
        words,
        words,
        resources,
        names,
    ),
    max_size=3,
)


@given(rules, rules)
def test_without_missing_rights_everything_a_role_allows_is_allowed(
    held: list[dict[str, Any]], wanted: list[dict[str, Any]]
) -> None:
    if missing_rights(held, wanted):
        return
    for asked in [(v, g, r, s, n) for v in "ab" for g in "ab" for r in "xy" for s in ("", "s") for n in ("", "n", "m")]:
        assert not allows(wanted, *asked) or allows(held, *asked)


@given(rules)
def test_without_rights_everything_is_missing(wanted: list[dict[str, Any]]) -> None:
    missing = missing_rights([], wanted)
    assert not missing_rights(missing, wanted)
    assert not missing_rights(wanted, missing)


def test_missing_rights_are_listed_by_resource_with_joined_verbs() -> None:
    missing = missing_rights(
        [rule("get")], [rule("get,list,watch"), rule("get", names="a"), {"verbs": ["get"], "nonResourceURLs": ["/x"]}]
    )
    assert [describe(each) for each in missing] == [
        '{NonResourceURLs:["/x"], Verbs:["get"]}',
        '{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}',
    ]


def rights_of(name: str, **features: Any) -> list[dict[str, Any]]:
    found = policy(Features(**features))
    return next((role["rules"] for role in found.cluster_roles if role["metadata"]["name"] == name), [])


def test_the_first_policy_depends_on_release_and_gates() -> None:
    scheduler = "system:kube-scheduler"
    assert allows(rights_of(scheduler), "patch", "resource.k8s.io", "resourceclaims", "binding")
    assert not allows(rights_of(scheduler, release=(1, 35)), "patch", "resource.k8s.io", "resourceclaims", "binding")
    assert not allows(rights_of(scheduler), "list", "resource.k8s.io", "devicetaintrules")
    gates = parse_gates("DRADeviceTaintRules=true")
    assert allows(rights_of(scheduler, settings=gates), "list", "resource.k8s.io", "devicetaintrules")
    assert not rights_of("system:controller:resource-claim-controller", release=(1, 33))
    assert rights_of("system:controller:resource-claim-controller")


def test_no_first_role_but_the_administrators_may_write_device_status_of_a_driver() -> None:
    may = {
        role["metadata"]["name"]
        for role in policy(Features()).cluster_roles
        if allows(role["rules"], "arbitrary-node:update", "resource.k8s.io", "resourceclaims", "driver", "d")
    }
    assert may == {"cluster-admin"}


def test_nodes_may_read_claims_and_delete_slices_by_their_fixed_rules() -> None:
    assert allows(node_rules(Features()), "get", "resource.k8s.io", "resourceclaims")
    assert allows(node_rules(Features()), "deletecollection", "resource.k8s.io", "resourceslices")
    assert not allows(node_rules(Features(release=(1, 33))), "get", "resource.k8s.io", "resourceclaims")


def test_the_gate_of_trust_bundles_adds_their_readers_and_the_publisher() -> None:
    def trust_bundles(features: Features) -> tuple[set[str], list[Any]]:
        made = policy(features)
        names = {each["metadata"]["name"] for each in made.cluster_roles + made.cluster_bindings}
        bundles = [rule for rule in node_rules(features) if "clustertrustbundles" in rule["resources"]]
        return {name for name in names if "trust-bundle" in name or "trustbundle" in name}, bundles

    publisher = "system:controller:kube-apiserver-serving-clustertrustbundle-publisher"
    read = {
        "verbs": ["get", "list", "watch"],
        "apiGroups": ["certificates.k8s.io"],
        "resources": ["clustertrustbundles"],
    }
    assert trust_bundles(Features()) == (set(), [])
    on = Features((1, 36), {"ClusterTrustBundle": True})
    assert trust_bundles(on) == ({publisher, "system:cluster-trust-bundle-discovery"}, [read])
