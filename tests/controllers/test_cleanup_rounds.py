"""One pass of components that end things: namespaces that go, and objects that are in use no more."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.cleanup.namespaces import Findings
from controllers.cluster.cluster_roles import aggregate_rules
from controllers.cluster.cluster_roles import build as cluster_roles
from controllers.cluster.service_accounts import build as service_accounts
from controllers.protection.persistent_volume_claims import _uses
from controllers.protection.persistent_volumes import build as volumes
from controllers.protection.pod_groups import PodGroupProtection
from controllers.protection.volume_attributes_classes import _classes
from controllers.protection.volume_attributes_classes import build as attributes_classes
from controllers.runtime.kinds import JOBS, PODS, key_of
from tests.support.objects import make_metadata, make_pod
from tests.support.recording import reconcile_once

pytestmark = pytest.mark.integration

NOW, BEFORE = "2026-01-01T00:00:00Z", "2025-12-31T23:59:00Z"


# --- namespaces


def test_conditions_of_a_namespace_list_what_remains() -> None:
    findings = Findings(["b", "a"])
    held = [{"metadata": {"finalizers": ["x", "y"]}}, {"metadata": {"finalizers": ["x"]}}]
    findings.add_remaining(PODS, held)
    findings.add_remaining(JOBS, [{"metadata": {}}])
    kept = {"type": "Mine", "status": "True"}
    fine = {"type": "NamespaceDeletionDiscoveryFailure", "status": "False", "lastTransitionTime": BEFORE}
    turned = {"type": "NamespaceContentRemaining", "status": "False", "lastTransitionTime": BEFORE}
    found = findings.conditions([turned, kept, fine], NOW)
    assert [each["type"] for each in found[:3]] == [turned["type"], "Mine", fine["type"]]
    by_type = {
        each["type"]: (each["status"], each.get("reason"), each.get("message"), each.get("lastTransitionTime"))
        for each in found
    }
    assert by_type == {
        "Mine": ("True", None, None, None),
        "NamespaceDeletionDiscoveryFailure":
            ("False", "ResourcesDiscovered", "All resources successfully discovered", BEFORE),
        "NamespaceDeletionGroupVersionParsingFailure":
            ("False", "ParsedGroupVersions", "All legacy kube types successfully parsed", NOW),
        "NamespaceDeletionContentFailure":
            ("True", "ContentDeletionFailed", "Failed to delete all resource types, 2 remaining: a, b", NOW),
        "NamespaceContentRemaining":
            ("True", "SomeResourcesRemain",
             "Some resources are remaining: jobs.batch has 1 resource instances, pods. has 2 resource instances", NOW),
        "NamespaceFinalizersRemaining":
            ("True", "SomeFinalizersRemain",
             "Some content in the namespace has finalizers remaining: x in 2 resource instances, y in 1 resource instances",
             NOW),
    }  # fmt: skip
    again = Findings().conditions(found, "later")
    assert {each["status"] for each in again if each["type"] != "Mine"} == {"False"}


async def test_every_living_namespace_has_a_service_account() -> None:
    def account(name: str) -> Json:
        return {"kind": "ServiceAccount", "metadata": {"name": name, "namespace": "ns"}}

    living = {"kind": "Namespace", "metadata": make_metadata("ns")}
    deleted = {"kind": "Namespace", "metadata": make_metadata("ns", deletionTimestamp=NOW)}
    for objects, verbs in (
        ([living], ["create"]),
        ([living, account("other")], ["create"]),
        ([living, account("default")], []),
        ([deleted], []),
        ([], []),
    ):
        client = await reconcile_once(service_accounts, "ns", *objects)
        assert client.verbs == verbs
        assert [body["metadata"] for body in client.bodies("create")] == [account("default")["metadata"] for _ in verbs]
    for reason, fails in (("AlreadyExists", False), ("NotFound", False), ("Forbidden", False), ("Invalid", True)):
        client = await reconcile_once(service_accounts, "ns", living, refuses={"create": (400, reason)})
        assert (client.error is not None) is fails


# --- protection


async def protect(
    builder: Any, kind: str, *finalizers: str, deleted: bool = True, others: Any = (), **fields: Any
) -> list[Any]:
    """Reconcile an object with these finalizers once, and return the finalizers that were written."""
    metadata = make_metadata("x", fields.pop("namespace", ""), deletionTimestamp=NOW if deleted else "")
    obj = {"kind": kind, "metadata": {**metadata, "finalizers": list(finalizers)}, "spec": {}, **fields}
    client = await reconcile_once(builder, key_of(obj), obj, *others)
    return [body["metadata"]["finalizers"] for _, _, body in client.writes]


async def test_a_volume_that_is_bound_stays() -> None:
    ours = "kubernetes.io/pv-protection"
    for finalizers, deleted, phase, written in (
        (["mine", ours], True, "Released", [["mine"]]),
        ([ours], True, "Released", [[]]),
        ([ours], True, "Bound", []),
        ([ours], False, "Released", []),
        (["mine"], True, "Released", []),
    ):
        status = {"phase": phase}
        found = await protect(volumes, "PersistentVolume", *finalizers, deleted=deleted, status=status)
        assert found == written


async def test_a_class_of_attributes_stays_while_it_is_named_and_gets_its_finalizer() -> None:
    ours = "kubernetes.io/vac-protection"

    def user(name: str) -> Json:
        spec = {"volumeAttributesClassName": name}
        return {"kind": "PersistentVolume", "metadata": make_metadata("v"), "spec": spec}

    for finalizers, deleted, users, written in (
        (["mine"], False, [], [["mine", ours]]),
        ([ours], False, [], []),
        ([], True, [], []),
        ([ours], True, [], [[]]),
        ([ours], True, [user("x")], []),
        ([ours], True, [user("y")], [[]]),
    ):
        found = await protect(attributes_classes, "VolumeAttributesClass", *finalizers, deleted=deleted, others=users)
        assert found == written
    modified = {"currentVolumeAttributesClassName": "b", "modifyVolumeStatus": {"targetVolumeAttributesClassName": "c"}}
    assert list(_classes({"spec": {"volumeAttributesClassName": "a"}, "status": modified})) == ["a", "b", "c"]
    assert list(_classes({"spec": {}})) == []


async def test_a_group_stays_while_a_pod_of_it_may_run() -> None:
    def build(client: Any, informers: Any, _: Any) -> PodGroupProtection:
        return PodGroupProtection(client, informers, enabled=True)

    def member(phase: str, group: str = "x") -> Json:
        return make_pod("p", schedulingGroup={"podGroupName": group}, status={"phase": phase})

    cases: list[tuple[list[Json], list[Any]]] = [
        ([], [[]]),
        ([member("Running")], []),
        ([member("Pending")], []),
        ([member("Succeeded")], [[]]),
        ([member("Failed")], [[]]),
        ([member("Running", "other")], [[]]),
    ]
    for members, written in cases:
        ours = "scheduling.k8s.io/podgroup-protection"
        assert await protect(build, "PodGroup", ours, namespace="ns", others=members) == written


def test_a_claim_is_used_by_pods_that_have_a_node() -> None:
    claim = {"metadata": {"name": "c", "ownerReferences": [{"controller": True, "uid": "u-p"}]}}

    def user(node: str = "n", name: str = "c", ephemeral: str = "", shut: bool = False) -> Json:
        claimed = {"name": "v", "persistentVolumeClaim": {"claimName": name}}
        source = {"name": ephemeral, "ephemeral": {"volumeClaimTemplate": {}}} if ephemeral else claimed
        made = make_pod("p", uid="u-p", node=node, volumes=[source], deleted=NOW if shut else "")
        made["metadata"] |= {"deletionGracePeriodSeconds": 0} if shut else {}
        return made

    assert _uses(user(), claim)
    assert not _uses(user(node=""), claim)
    assert not _uses(user(name="d"), claim)
    assert _uses(user(shut=True), claim)
    made_for = {**claim, "metadata": {**claim["metadata"], "name": "p-e"}}
    assert _uses(user(ephemeral="e"), made_for)
    assert not _uses(user(ephemeral="e", shut=True), made_for)
    assert not _uses(user(ephemeral="e"), {"metadata": {"name": "p-e"}})


# --- roles of roles


def role(name: str, *rules: str, selects: Any = (), **labels: str) -> Json:
    metadata = make_metadata(name, labels=labels)
    selectors = {"clusterRoleSelectors": [{"matchLabels": each} for each in selects]}
    found = {"kind": "ClusterRole", "metadata": metadata, "rules": [{"verbs": [each]} for each in rules]}
    return {**found, "aggregationRule": selectors} if selects else found


async def test_a_role_has_the_rules_of_those_that_it_selects_each_once() -> None:
    both = role("all", selects=[{"b": "1"}, {"a": "1"}])
    others = [role("z", "get", a="1"), role("y", "list", "get", a="1"), role("x", "get", "put", b="1")]
    found = aggregate_rules(both, [*others, role("all", "own", a="1"), role("none", "drop")])
    assert [rule["verbs"] for rule in found] == [["get"], ["put"], ["list"]]
    for known, written in ((both, [found]), ({**both, "rules": found}, []), (role("all", "x"), [])):
        client = await reconcile_once(cluster_roles, "all", known, *others)
        assert [body["rules"] for _, body in client.bodies("patch")] == written
