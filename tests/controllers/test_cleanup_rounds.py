"""What ends things at one look: namespaces and ranges of addresses that go, objects that are in use no more."""

from __future__ import annotations

import ipaddress
from datetime import timedelta
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.cleanup.namespaces import Findings
from controllers.cluster.cluster_roles import ClusterRoles, aggregate_rules
from controllers.cluster.service_accounts import ServiceAccounts
from controllers.cluster.service_cidrs import FINALIZER, ServiceRanges, _is_usable
from controllers.options.options import Options
from controllers.protection.persistent_volume_claims import _uses
from controllers.protection.persistent_volumes import build as volume_protection
from controllers.protection.pod_groups import PodGroupProtection
from controllers.protection.volume_attributes_classes import VolumeAttributesClassProtection, _classes
from controllers.runtime.kinds import (
    CLUSTER_ROLES,
    IP_ADDRESSES,
    JOBS,
    NAMESPACES,
    POD_GROUPS,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICE_CIDRS,
    VOLUME_ATTRIBUTES_CLASSES,
    VOLUMES,
)
from tests.controllers.test_ended_rounds import pod
from tests.support.recording import RecordingClient, make_informers
from tests.support.virtual import run

pytestmark = pytest.mark.integration

NOW, BEFORE = "2026-01-01T00:00:00Z", "2025-12-31T23:59:00Z"


# --- namespaces


def test_conditions_of_a_namespace_say_what_keeps_it() -> None:
    findings = Findings(["b", "a"])
    held = [{"metadata": {"finalizers": ["x", "y"]}}, {"metadata": {"finalizers": ["x"]}}]
    findings.add_remaining(PODS, held)
    findings.add_remaining(JOBS, [{"metadata": {}}])
    kept = {"type": "Mine", "status": "True"}
    fine = {"type": "NamespaceDeletionDiscoveryFailure", "status": "False", "lastTransitionTime": BEFORE}
    turned = {"type": "NamespaceContentRemaining", "status": "False", "lastTransitionTime": BEFORE}
    found = findings.conditions([turned, kept, fine], NOW)
    assert [each["type"] for each in found[:3]] == [turned["type"], "Mine", fine["type"]]
    said = {
        each["type"]: (each["status"], each.get("reason"), each.get("message"), each.get("lastTransitionTime"))
        for each in found
    }
    assert said == {
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


def test_every_living_namespace_has_a_service_account() -> None:
    def look(found: Json | None, *accounts: Json, reason: str = "") -> Any:
        informers = make_informers(NAMESPACES, *([found] if found else []))
        make_informers(SERVICE_ACCOUNTS, *accounts, informers=informers)
        client = RecordingClient()
        if reason:
            client.refuses["create"] = (400, reason)
        run(lambda: ServiceAccounts(client, informers).reconcile("ns"))  # type: ignore[arg-type]
        return [(what["kind"], what["metadata"]) for _, _, what in client.writes]

    living, default = {"metadata": {"name": "ns"}}, {"metadata": {"name": "default", "namespace": "ns"}}
    assert look(living) == [("ServiceAccount", {"name": "default", "namespace": "ns"})]
    assert look(living, {"metadata": {"name": "other", "namespace": "ns"}}) != []
    assert look(living, default) == look(None) == look({"metadata": {"name": "ns", "deletionTimestamp": NOW}}) == []
    for reason in ("AlreadyExists", "NotFound", "Forbidden"):
        look(living, reason=reason)
    with pytest.raises(StatusError):
        look(living, reason="Invalid")


# --- ranges of addresses


@pytest.mark.parametrize(
    ("address", "network", "usable"),
    [
        ("10.0.0.1", "10.0.0.0/30", True), ("10.0.0.0", "10.0.0.0/30", False), ("10.0.0.3", "10.0.0.0/30", False),
        ("10.0.0.4", "10.0.0.0/30", False), ("fd00::3", "fd00::/126", True), ("fd00::", "fd00::/126", False),
        ("10.0.0.1", "fd00::/126", False),
    ],
)  # fmt: skip
def test_services_get_neither_the_first_address_of_a_range_nor_the_last_of_ipv4(
    address: str, network: str, usable: bool
) -> None:
    assert _is_usable(ipaddress.ip_address(address), [ipaddress.ip_network(network)]) is usable


def range_(name: str, *cidrs: str, going: str = "", **more: Any) -> Json:
    metadata = {"name": name, "uid": name, "finalizers": [FINALIZER], **({"deletionTimestamp": going} if going else {})}
    return {"metadata": {**metadata, **more.pop("metadata", {})}, "spec": {"cidrs": list(cidrs)}, **more}


def address(ip: str, owner: str = "ipallocator.k8s.io") -> Json:
    return {"metadata": {"name": ip, "uid": ip, "labels": {"ipaddress.kubernetes.io/managed-by": owner}}}


def looked_at(ranges: list[Json], addresses: list[Json], refuses: str = "") -> tuple[list[Any], timedelta | None]:
    informers = make_informers(SERVICE_CIDRS, *ranges)
    make_informers(IP_ADDRESSES, *addresses, informers=informers)
    client, found = RecordingClient(), []
    if refuses:
        client.refuses["patch"] = (400, refuses)

    async def scenario() -> None:
        found.append(await ServiceRanges(client, informers).reconcile("a"))  # type: ignore[arg-type]

    run(scenario)
    return [(verb, what[1]) for verb, _, what in client.writes], found[0]


GOING = "2025-12-31T23:59:00Z"
LETS_GO = ("patch", {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}})


@pytest.mark.parametrize(
    ("others", "addresses", "goes"),
    [
        ([], [], True),
        ([], [address("10.0.0.5")], False),
        ([], [address("10.0.0.5", "me")], True),
        ([], [address("10.1.0.5")], True),
        ([range_("b", "10.0.0.0/16")], [address("10.0.0.5")], True),
        ([range_("b", "10.0.0.0/30")], [address("10.0.0.5")], False),
        ([range_("b", "10.0.0.0/28")], [address("10.0.0.5")], True),
        ([range_("b", "fd00::/64")], [address("10.0.0.5")], False),
    ],
)
def test_a_range_stays_while_an_address_has_no_other(others: list[Json], addresses: list[Json], goes: bool) -> None:
    writes, again = looked_at([range_("a", "10.0.0.0/24", going=GOING), *others], addresses)
    assert again is None
    if goes:
        assert writes == [LETS_GO]
    else:
        [(verb, body)] = writes
        [condition] = body["status"]["conditions"]
        assert (verb, condition["status"], condition["reason"]) == ("patch/status", "False", "Terminating")


def test_a_range_is_marked_once_and_waits_ten_seconds() -> None:
    assert looked_at([range_("a", "10.0.0.0/24", going="2025-12-31T23:59:55Z")], []) == ([], timedelta(seconds=5))
    assert looked_at([range_("a", "10.0.0.0/24", going=GOING, metadata={"finalizers": []})], []) == ([], None)
    ready = {"type": "Ready", "status": "True", "reason": "", "message": "Kubernetes Service CIDR is ready"}
    assert looked_at([range_("a", "10.0.0.0/24", status={"conditions": [ready]})], []) == ([], None)
    (first, finalizer), (second, marked) = looked_at([range_("a", "10.0.0.0/24", metadata={"finalizers": []})], [])[0]
    assert (first, second) == ("patch", "patch/status")
    assert finalizer == {"metadata": {"finalizers": [FINALIZER]}}
    assert marked["status"]["conditions"] == [{**ready, "lastTransitionTime": NOW}]
    assert looked_at([], []) == ([], None)
    looked_at([range_("a", metadata={"finalizers": []})], [], "NotFound")
    with pytest.raises(StatusError):
        looked_at([range_("a", metadata={"finalizers": []})], [], "Invalid")


# --- what is in use


def protected(
    kind: Any, name: str, finalizer: str, build: Any, *finalizers: str, going: bool, **more: Any
) -> list[Any]:
    gone = {"deletionTimestamp": NOW} if going else {}
    obj = {"metadata": {"name": name, "uid": name, "finalizers": list(finalizers), **gone}, "spec": {}, **more}
    client = RecordingClient()
    run(lambda: build(client, make_informers(kind, obj)).reconcile(name))
    return [what["metadata"]["finalizers"] for _, _, what in client.writes]


def test_a_volume_that_is_bound_stays() -> None:
    held = "kubernetes.io/pv-protection"

    def look(*finalizers: str, going: bool = True, phase: str = "Released") -> list[Any]:
        build = lambda client, informers: volume_protection(client, informers, Options())  # noqa: E731
        return protected(VOLUMES, "v", held, build, *finalizers, going=going, status={"phase": phase})

    assert look("mine", held) == [["mine"]]
    assert look(held) == [[]]
    assert look(held, phase="Bound") == look(held, going=False) == look("mine") == []


def test_a_class_of_attributes_stays_while_it_is_named_and_gets_its_finalizer() -> None:
    held = "kubernetes.io/vac-protection"

    def look(*finalizers: str, going: bool, user: Json | None = None) -> list[Any]:
        def build(client: Any, informers: Any) -> Any:
            made = VolumeAttributesClassProtection(client, informers, Options())
            if user:
                informers.of(VOLUMES).set_object("v", {"metadata": {"name": "v", "uid": "v"}, **user})
            return made

        return protected(VOLUME_ATTRIBUTES_CLASSES, "c", held, build, *finalizers, going=going)

    assert look("mine", going=False) == [["mine", held]]
    assert look(held, going=False) == look(going=True) == []
    assert look(held, going=True) == [[]]
    assert look(held, going=True, user={"spec": {"volumeAttributesClassName": "c"}}) == []
    assert look(held, going=True, user={"spec": {"volumeAttributesClassName": "d"}}) == [[]]
    modified = {"currentVolumeAttributesClassName": "b", "modifyVolumeStatus": {"targetVolumeAttributesClassName": "c"}}
    assert list(_classes({"spec": {"volumeAttributesClassName": "a"}, "status": modified})) == ["a", "b", "c"]
    assert list(_classes({"spec": {}})) == []


def test_a_group_stays_while_a_pod_of_it_may_run() -> None:
    held = "scheduling.k8s.io/podgroup-protection"

    def look(*members: Json) -> list[Any]:
        def build(client: Any, informers: Any) -> Any:
            made = PodGroupProtection(client, informers, enabled=True)
            for each in members:
                informers.of(PODS).set_object(f"ns/{each['metadata']['name']}", each)
            return made

        gone = {"name": "g", "namespace": "ns", "uid": "g", "finalizers": [held], "deletionTimestamp": NOW}
        client = RecordingClient()
        run(lambda: build(client, make_informers(POD_GROUPS, {"metadata": gone})).reconcile("ns/g"))
        return client.writes

    def member(phase: str, group: str = "g") -> Json:
        made = pod("p", phase)
        return {**made, "spec": {**made["spec"], "schedulingGroup": {"podGroupName": group}}}

    assert look(member("Running")) == look(member("Pending")) == []
    assert all(look(each) for each in (member("Succeeded"), member("Failed"), member("Running", "other")))
    assert look()


def test_a_claim_is_used_by_pods_that_have_a_node() -> None:
    claim = {"metadata": {"name": "c", "ownerReferences": [{"controller": True, "uid": "u-p"}]}}

    def user(on: str = "n", shut: bool = False, name: str = "c", ephemeral: str = "") -> Json:
        source: Json = (
            {"name": ephemeral, "ephemeral": {}} if ephemeral else {"persistentVolumeClaim": {"claimName": name}}
        )
        if ephemeral:
            source["ephemeral"] = {"volumeClaimTemplate": {}}
        made = pod("p", on=on)
        made["metadata"] |= {"deletionTimestamp": NOW, "deletionGracePeriodSeconds": 0} if shut else {}
        return {**made, "spec": {**made["spec"], "volumes": [source]}}

    assert _uses(user(), claim)
    assert not _uses(user(on=""), claim)
    assert not _uses(user(name="d"), claim)
    assert _uses(user(shut=True), claim)
    made_for = {**claim, "metadata": {**claim["metadata"], "name": "p-e"}}
    assert _uses(user(ephemeral="e"), made_for)
    assert not _uses(user(ephemeral="e", shut=True), made_for)
    assert not _uses(user(ephemeral="e"), {"metadata": {"name": "p-e"}})


# --- roles of roles


def role(name: str, *rules: str, labels: Json | None = None, selects: Json | None = None) -> Json:
    made: Json = {
        "metadata": {"name": name, "uid": name, "labels": labels or {}},
        "rules": [{"verbs": [each]} for each in rules],
    }
    return {
        **made,
        **(
            {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": each} for each in selects]}}
            if selects
            else {}
        ),
    }


def test_a_role_has_the_rules_of_those_that_it_selects_each_once() -> None:
    both = role("all", selects=[{"b": "1"}, {"a": "1"}])
    others = [
        role("z", "get", labels={"a": "1"}),
        role("y", "list", "get", labels={"a": "1"}),
        role("x", "get", "put", labels={"b": "1"}),
    ]
    itself = role("all", "own", labels={"a": "1"})
    found = aggregate_rules(both, [*others, itself, role("none", "drop")])
    assert [rule["verbs"] for rule in found] == [["get"], ["put"], ["list"]]

    def look(known: Json) -> list[Any]:
        client = RecordingClient()
        run(lambda: ClusterRoles(client, make_informers(CLUSTER_ROLES, known, *others)).reconcile("all"))  # type: ignore[arg-type]
        return [what[1]["rules"] for _, _, what in client.writes]

    assert look(both) == [found]
    assert look({**both, "rules": found}) == look(role("all", "x")) == []
