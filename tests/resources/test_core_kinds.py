"""Namespaces, nodes, config maps, secrets, services, leases, events, service accounts."""

from __future__ import annotations

import pytest

from apiserver.api.objects import Json
from apiserver.resources import CATALOG
from apiserver.resources.core.events import from_hub, to_hub
from tests.resources.conftest import Judge, find


def test_a_namespace_starts_active_with_its_finalizer_and_its_name_as_label(judge: Judge) -> None:
    stored = judge.create_valid("namespaces", {"status": {"phase": "Terminating"}})
    assert stored["status"] == {"phase": "Active"}
    assert stored["spec"]["finalizers"] == ["kubernetes"]
    assert stored["metadata"]["labels"] == {"kubernetes.io/metadata.name": "a"}


def test_a_namespaces_phase_follows_its_deletion(judge: Judge) -> None:
    stored, _ = judge.create("namespaces", {})
    assert judge.update("namespaces", stored, {"status": {"phase": "Terminating"}}, status=True)[1] == [
        "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"
    ]
    assert judge.update("namespaces", stored, {"status": {"phase": "Active"}}, status=True)[1] == []


def test_finalizers_of_a_namespace_only_change_through_finalize(judge: Judge) -> None:
    stored, _ = judge.create("namespaces", {})
    new = judge.update_valid("namespaces", stored, {"spec": {"finalizers": []}})
    assert new["spec"]["finalizers"] == ["kubernetes"]
    resource = find("namespaces")
    ctx = judge.context(resource, subresource="finalize")
    expected = (
        'spec.finalizers[0]: Invalid value: "bad": name is neither a standard finalizer name nor is it fully qualified'
    )
    (error,) = resource.strategy.validate_subresource(ctx, "finalize", {"spec": {"finalizers": ["bad"]}}, stored)
    assert error.text == expected


def test_a_node_can_use_what_it_has(judge: Judge) -> None:
    stored = judge.create_valid("nodes", {"status": {"capacity": {"cpu": "4"}}})
    assert stored["status"]["allocatable"] == {"cpu": "4"}


def test_a_nodes_taints_are_checked_under_the_path_that_clients_know(judge: Judge) -> None:
    taint = {"key": "a", "effect": "NoSchedule"}
    assert judge.create("nodes", {"spec": {"taints": [taint]}})[1] == []
    assert judge.create("nodes", {"spec": {"taints": [taint, taint]}})[1] == [
        'metadata.taints[1]: Duplicate value: {"Key":"a","Value":"","Effect":"NoSchedule","TimeAdded":null}: taints must be unique by key and effect pair'
    ]


def test_a_nodes_range_of_addresses_is_set_once(judge: Judge) -> None:
    stored = judge.create_valid("nodes", {"spec": {"podCIDR": "10.0.0.0/24"}})
    assert stored["spec"]["podCIDRs"] == ["10.0.0.0/24"]
    assert judge.update("nodes", stored, {"spec": {"podCIDR": "10.0.1.0/24"}})[1] == [
        'spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid'
    ]


def test_keys_of_a_config_map_are_file_names(judge: Judge) -> None:
    assert judge.create("configmaps", {"data": {"a.txt": ""}})[1] == []
    (wrong,) = judge.create("configmaps", {"data": {"a/b": ""}})[1]
    assert wrong.startswith('data[a/b]: Invalid value: "a/b": a valid config key')
    assert judge.create("configmaps", {"data": {"a": ""}, "binaryData": {"a": "AA=="}})[1] == [
        'data[a]: Invalid value: "a": duplicate of key present in binaryData'
    ]


def test_a_config_map_is_limited_in_size(judge: Judge) -> None:
    assert judge.create("configmaps", {"data": {"a": "x" * (1 << 20)}})[1] == []
    assert judge.create("configmaps", {"data": {"a": "x" * (1 << 20), "b": "y"}})[1] == [
        "[]: Too long: may not be more than 1048576 bytes"
    ]


@pytest.mark.parametrize(("plural", "data"), [("configmaps", {"a": "b"}), ("secrets", {"a": "Yg=="})])
def test_what_is_immutable_stays_so(judge: Judge, plural: str, data: Json) -> None:
    stored, _ = judge.create(plural, {"immutable": True, "data": data})
    assert judge.update(plural, stored, {"immutable": True, "data": data})[1] == []
    assert judge.update(plural, stored, {"data": {}})[1][:2] == [
        "immutable: Forbidden: field is immutable when `immutable` is set",
        "data: Forbidden: field is immutable when `immutable` is set",
    ]


def test_a_secrets_text_becomes_data(judge: Judge) -> None:
    stored = judge.create_valid("secrets", {"stringData": {"a": "b"}, "data": {"a": "AA==", "c": "AA=="}})
    assert stored["data"] == {"a": "Yg==", "c": "AA=="}
    assert stored["type"] == "Opaque"
    assert "stringData" not in stored


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("kubernetes.io/tls", ["data[tls.crt]: Required value", "data[tls.key]: Required value"]),
        ("kubernetes.io/ssh-auth", ["data[ssh-privatekey]: Required value"]),
        ("kubernetes.io/dockerconfigjson", ["data[.dockerconfigjson]: Required value"]),
        ("example.com/own", []),
    ],
)
def test_a_secret_of_a_known_type_holds_what_the_type_needs(judge: Judge, kind: str, wrong: list[str]) -> None:
    assert judge.create("secrets", {"type": kind})[1] == wrong


def test_a_secrets_type_does_not_change(judge: Judge) -> None:
    stored, _ = judge.create("secrets", {})
    assert judge.update("secrets", stored, {"type": "example.com/own"})[1] == [
        'type: Invalid value: "example.com/own": field is immutable'
    ]


def test_a_lease_has_a_positive_duration(judge: Judge) -> None:
    assert judge.create("leases", {"spec": {"leaseDurationSeconds": 1}})[1] == []
    assert judge.create("leases", {"spec": {"leaseDurationSeconds": 0}})[1] == [
        "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"
    ]


def test_a_service_account_keeps_only_names_of_secrets(judge: Judge) -> None:
    stored = judge.create_valid("serviceaccounts", {"secrets": [{"name": "s", "namespace": "x"}]})
    assert stored["secrets"] == [{"name": "s"}]


EVENT: Json = {
    "regarding": {"kind": "Pod", "name": "p", "namespace": "ns"},
    "reason": "Started",
    "note": "hello",
    "type": "Normal",
    "action": "Start",
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "reportingController": "example.com/c",
    "reportingInstance": "c-1",
}


def test_an_event_is_the_same_event_in_both_groups(judge: Judge) -> None:
    stored = judge.create_valid("events.k8s.io/events", EVENT)
    assert (stored["message"], stored["reportingComponent"]) == ("hello", "example.com/c")
    assert stored["involvedObject"]["name"] == "p"
    assert to_hub(from_hub(stored)) == stored


def test_core_events_may_be_of_any_type_and_new_ones_may_not(judge: Judge) -> None:
    core = {"involvedObject": {"namespace": "ns"}, "type": "Strange"}
    assert judge.create("/events", core)[1] == []
    assert judge.create("events.k8s.io/events", {**EVENT, "type": "Strange"})[1] == [
        'type: Invalid value: "": has invalid value: Strange'
    ]


def test_an_event_is_in_the_namespace_of_its_object(judge: Judge) -> None:
    assert judge.create("/events", {"involvedObject": {"namespace": "other"}})[1] == [
        'involvedObject.namespace: Invalid value: "other": does not match event.namespace'
    ]


def test_a_new_event_does_not_change(judge: Judge) -> None:
    stored, _ = judge.create("events.k8s.io/events", EVENT)
    assert judge.update("events.k8s.io/events", stored, EVENT)[1] == []
    assert judge.update("events.k8s.io/events", stored, {**EVENT, "note": "other"})[1] == [
        'message: Invalid value: "other": field is immutable'
    ]


def test_these_kinds_answer_a_deletion_with_the_object_and_all_others_with_a_status() -> None:
    """Source: `ReturnDeletedObject` in the stores of Kubernetes 1.36."""
    core = (
        "namespaces persistentvolumeclaims persistentvolumes podtemplates pods resourcequotas serviceaccounts services"
    )
    devices = "deviceclasses devicetaintrules resourceclaims resourceclaimtemplates resourcepoolstatusrequests"
    storage = "csidrivers csinodes storageclasses volumeattachments volumeattributesclasses"
    expected = {("", name) for name in core.split()}
    expected |= {("resource.k8s.io", name) for name in (*devices.split(), "resourceslices")}
    expected |= {("storage.k8s.io", name) for name in storage.split()}
    expected |= {("apiextensions.k8s.io", "customresourcedefinitions")}
    answering = {(kind.group, kind.plural) for kind in CATALOG if kind.delete_returns_object and "delete" in kind.verbs}
    assert answering == expected
