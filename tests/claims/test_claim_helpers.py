"""References of pods to claims, owners and reservations, configurations of results, and taints of devices."""

from __future__ import annotations

import pytest

from apiserver.api.helpers.tolerations import tolerates
from apiserver.api.objects import Json
from controllers.resourceclaims import (
    ClaimNotCreated,
    ClaimReference,
    ClaimReferenceError,
    SliceTracker,
    bind_to,
    claim_reference,
    config_for_result,
    group_claim_reference,
    is_reserved_for_pod,
    not_for_group,
    not_for_pod,
    pod_statuses_equal,
)
from tests.support.objects import make_claim, make_owner, make_pod, make_pod_group

POD = make_pod("p", uid="pod-uid")
GROUP = make_pod_group()
MEMBER = make_pod("p", uid="pod-uid", schedulingGroup={"podGroupName": "g"})


def test_a_reference_to_a_named_claim_needs_no_owner_check() -> None:
    assert claim_reference(POD, {"name": "x", "resourceClaimName": "c"}) == ClaimReference("c", False)


def test_a_reference_to_a_generated_claim_is_in_the_status_and_needs_an_owner_check() -> None:
    entry = {"name": "x", "resourceClaimTemplateName": "t"}
    pod = {**POD, "status": {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "p-x-abc"}]}}
    assert claim_reference(pod, entry) == ClaimReference("p-x-abc", True)
    deliberately_none = {**POD, "status": {"resourceClaimStatuses": [{"name": "x"}]}}
    assert claim_reference(deliberately_none, entry) == ClaimReference(None, True)


def test_a_missing_claim_and_an_invalid_reference_are_different_errors() -> None:
    with pytest.raises(ClaimNotCreated, match=r'^pod "ns/p": ResourceClaim not created yet$'):
        claim_reference(POD, {"name": "x", "resourceClaimTemplateName": "t"})
    text = '^pod "ns/p", spec.resourceClaim "x": none of the supported fields are set$'
    with pytest.raises(ClaimReferenceError, match=text):
        claim_reference(POD, {"name": "x"})
    with pytest.raises(ClaimNotCreated, match=r"^PodGroup ns/g: ResourceClaim not created yet$"):
        group_claim_reference(GROUP, {"name": "x", "resourceClaimTemplateName": "t"})
    with pytest.raises(ClaimReferenceError, match=r"^PodGroup ns/g, spec.resourceClaim x: none of"):
        group_claim_reference(GROUP, {"name": "x"})


def test_a_generated_claim_belongs_to_the_pod_that_controls_it() -> None:
    own = make_claim("c", owner=POD)
    assert not_for_pod(POD, own) is None
    foreign = "ResourceClaim ns/c was not created for Pod ns/p (Pod is not owner)"
    assert not_for_pod(POD, make_claim("c", owner=make_pod("other"))) == foreign
    own["metadata"]["ownerReferences"] = [make_owner(POD, controller=False)]
    assert not_for_pod(POD, own) == foreign
    elsewhere = "ResourceClaim elsewhere/c is not in the same namespace as Pod ns/p"
    assert not_for_pod(POD, make_claim("c", namespace="elsewhere")) == elsewhere


def test_with_workload_claims_the_group_of_the_pod_may_be_the_owner() -> None:
    of_group, of_other = make_claim("c", owner=GROUP), make_claim("c", owner=make_pod("x"))
    assert not_for_pod(MEMBER, of_group, workload_claims=True) is None
    assert not_for_pod(MEMBER, of_group) is not None
    neither = "ResourceClaim ns/c was not created for Pod ns/p (neither Pod nor PodGroup g is the owner)"
    assert not_for_pod(MEMBER, of_other, workload_claims=True) == neither
    assert "(Pod is not owner)" in str(not_for_pod(POD, of_other, workload_claims=True))
    assert not_for_group(GROUP, of_group) is None
    not_owner = "ResourceClaim ns/c was not created for PodGroup ns/g (PodGroup is not owner)"
    assert not_for_group(GROUP, make_claim("c")) == not_owner


def test_a_reservation_is_for_a_pod_by_uid_or_for_its_group_by_name() -> None:
    assert is_reserved_for_pod(POD, {"status": {"reservedFor": [{"uid": "pod-uid", "resource": "anything"}]}})
    group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-g"}
    reserved = {"status": {"reservedFor": [group]}}
    assert is_reserved_for_pod(MEMBER, reserved, workload_claims=True)
    assert not is_reserved_for_pod(MEMBER, reserved)
    assert not is_reserved_for_pod(POD, reserved, workload_claims=True)


def test_a_claim_is_reserved_for_the_group_if_the_group_has_the_same_entry() -> None:
    entry = {"name": "x", "resourceClaimTemplateName": "t"}
    group = {**GROUP, "spec": {"resourceClaims": [entry]}}
    pod_consumer = {"resource": "pods", "name": "p", "uid": "pod-uid"}
    assert bind_to(MEMBER, None, entry) == pod_consumer
    assert bind_to(MEMBER, group, {**entry, "name": "y"}) == pod_consumer
    assert bind_to(MEMBER, group, entry)["resource"] == "podgroups"
    with pytest.raises(ClaimReferenceError, match=r"^Pod ns/p does not belong to a PodGroup$"):
        bind_to(POD, group, entry)
    with pytest.raises(ClaimReferenceError, match=r"^Pod ns/p belongs to PodGroup ns/g, not PodGroup ns/other$"):
        bind_to(MEMBER, {**group, "metadata": {**GROUP["metadata"], "name": "other"}}, entry)


def test_claim_statuses_are_compared_in_order() -> None:
    one, two = {"name": "a", "resourceClaimName": "x"}, {"name": "b"}
    assert pod_statuses_equal([one, two], [dict(one), dict(two)])
    assert not pod_statuses_equal([one, two], [two, one])
    assert pod_statuses_equal(None, [])


def test_a_configuration_applies_to_its_requests_their_alternatives_or_to_all() -> None:
    configs: list[Json] = [
        {"opaque": {}, "requests": []},
        {"opaque": {}, "requests": ["r"]},
        {"opaque": {}, "requests": ["r/s"]},
        {"opaque": {}, "requests": ["r/t"]},
        {"requests": ["r"]},
    ]
    assert config_for_result(configs, {"request": "r/s"}) == configs[:3]
    assert config_for_result(configs, {"request": "r"}) == configs[:2]


@pytest.mark.parametrize(
    ("toleration", "accepted"),
    [
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "operator": "Equal", "value": "w"}, False),
        ({"key": "k", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"operator": "Sometimes"}, False),
        ({"value": "v"}, True),
    ],
)
def test_a_toleration_accepts_by_effect_key_and_value(toleration: dict[str, str], accepted: bool) -> None:
    assert tolerates(toleration, "k", "v", "NoSchedule") is accepted


def slice_of(name: str, *devices: Json, pool: str = "p") -> Json:
    return {"metadata": {"name": name}, "spec": {"driver": "d", "pool": {"name": pool}, "devices": list(devices)}}


def rule(name: str, selector: dict[str, str] | None, key: str = "k") -> Json:
    taint = {"key": key, "effect": "NoSchedule"}
    return {"metadata": {"name": name}, "spec": {"deviceSelector": selector, "taint": taint}}


def keys(tracker: SliceTracker, name: str) -> list[list[str]]:
    return [[taint["key"] for taint in device.get("taints", ())] for device in tracker.slices[name]["spec"]["devices"]]


def test_rules_append_their_taints_in_the_order_of_their_names() -> None:
    tracker = SliceTracker()
    item = slice_of("s", {"name": "a", "taints": [{"key": "own"}]}, {"name": "b"})
    tracker.upsert_slice(item)
    tracker.upsert_rule(rule("2", {}, "second"))
    tracker.upsert_rule(rule("1", {"device": "a"}, "first"))
    assert keys(tracker, "s") == [["own", "first", "second"], ["second"]]
    assert item == slice_of("s", {"name": "a", "taints": [{"key": "own"}]}, {"name": "b"})


def test_only_slices_with_changed_taints_are_reported() -> None:
    tracker = SliceTracker()
    for name, pool in (("s", "p"), ("t", "q")):
        assert [change.old for change in tracker.upsert_slice(slice_of(name, {"name": "a"}, pool=pool))] == [None]
    [change] = tracker.upsert_rule(rule("r", {"pool": "q"}))
    assert change.new is tracker.slices["t"]
    assert tracker.upsert_rule(rule("r", {"pool": "q"})) == []
    assert len(tracker.upsert_rule(rule("r", {"pool": "p"}))) == 2
    [change] = tracker.remove_rule("r")
    assert change.new is tracker.slices["s"]
    [change] = tracker.remove_slice("s")
    assert change.new is None
    assert tracker.remove_slice("s") == []


def test_a_slice_without_a_matching_rule_is_not_copied() -> None:
    tracker = SliceTracker()
    tracker.upsert_rule(rule("r", {"device": "other"}))
    item = slice_of("s", {"name": "a"})
    tracker.upsert_slice(item)
    assert tracker.slices["s"] is item


def test_without_rules_enabled_no_slice_changes() -> None:
    tracker = SliceTracker(rules_enabled=False)
    tracker.upsert_slice(slice_of("s", {"name": "a"}))
    assert tracker.upsert_rule(rule("r", {})) == []
    assert keys(tracker, "s") == [[]]
