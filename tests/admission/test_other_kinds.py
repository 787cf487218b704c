"""Plugins for pod groups, jobs, volumes, certificates, namespaces, nodes and events."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apiserver.admission.plugins.certificates import CertificateApproval, CertificateSigning, ClusterTrustBundleAttest
from apiserver.admission.plugins.event_rate_limit import EventRateLimit, read_event_limits
from apiserver.admission.plugins.job_validation import JobValidation
from apiserver.admission.plugins.namespace_lifecycle import NamespaceLifecycle
from apiserver.admission.plugins.pod_groups import PodGroupProtection, PodGroupWorkloadExists
from apiserver.admission.plugins.storage_classes import DefaultStorageClass, PersistentVolumeClaimResize
from apiserver.admission.plugins.storage_objects import StorageObjectInUseProtection
from apiserver.admission.plugins.taint_nodes_by_condition import TaintNodesByCondition
from apiserver.api.objects import Json
from apiserver.registry.store.admission import Plugin
from apiserver.request.messages import User
from tests.admission.asking import Situation, refusal

WORKLOADS = {"GenericWorkload": True}
SCHEDULING, CERTIFICATES = "scheduling.k8s.io", "certificates.k8s.io"


def admit(plugin: Plugin, situation: Situation, plural: str, new: Json, **more: Any) -> Json:
    """Admit a new object without a refusal; return it."""
    request = situation.request("CREATE", plural, new, **more)
    assert refusal(plugin, request) == ""
    assert request.obj is not None
    return request.obj


# Groups of pods and jobs


def test_a_group_of_pods_is_held_until_no_pod_needs_it() -> None:
    held, plugin = "scheduling.k8s.io/podgroup-protection", PodGroupProtection()
    for finalizers, kept in ((None, [held]), (["a"], ["a", held]), ([held], [held])):
        new = {"metadata": {"name": "g", **({"finalizers": finalizers} if finalizers else {})}}
        assert (
            admit(plugin, Situation(gates=WORKLOADS), "podgroups", new, group=SCHEDULING)["metadata"]["finalizers"]
            == kept
        )
        assert admit(plugin, Situation(), "podgroups", new, group=SCHEDULING) == new
        assert (
            admit(plugin, Situation(gates=WORKLOADS), "podgroups", new, group=SCHEDULING, subresource="status") == new
        )


def test_the_workload_of_a_group_is_there_and_has_its_template() -> None:
    def workload(**metadata: Any) -> Situation:
        found = {
            "metadata": {"name": "w", "namespace": "n", **metadata},
            "spec": {"podGroupTemplates": [{"name": "t"}]},
        }
        return Situation({"workloads": [found]}, gates=WORKLOADS)

    def review(situation: Situation, name: str, template: str) -> str:
        reference = {"workloadName": name, "podGroupTemplateName": template}
        new = {"metadata": {"name": "g"}, "spec": {"podGroupTemplateRef": {"workload": reference}}}
        return refusal(PodGroupWorkloadExists(), situation.request("CREATE", "podgroups", new, group=SCHEDULING))

    assert review(workload(), "w", "t") == ""
    assert review(workload(), "v", "t") == 'PodGroup rejected: Workload "v" not found'
    assert review(workload(), "w", "s") == 'PodGroup rejected: PodGroupTemplate "s" not found in Workload "w"'
    assert review(workload(deletionTimestamp="t"), "w", "t") == 'PodGroup rejected: Workload "w" is being deleted'
    assert review(Situation(), "v", "t") == "", "without the gate there is no check"
    alone = workload().request("CREATE", "podgroups", {"metadata": {}, "spec": {}}, group=SCHEDULING)
    assert refusal(PodGroupWorkloadExists(), alone) == ""


def job(parallelism: int, group: str | None = None) -> Json:
    spec: Json = {} if group is None else {"schedulingGroup": {"podGroupName": group}}
    return {"metadata": {"name": "j", "uid": "u"}, "spec": {"parallelism": parallelism, "template": {"spec": spec}}}


def pod_group(name: str, policy: str, namespace: str = "n", **owner: Any) -> Json:
    owners = [{"uid": "u", "controller": True, **owner}] if owner.get("uid") != "" else []
    metadata = {"name": name, "namespace": namespace, "ownerReferences": owners}
    return {"metadata": metadata, "spec": {"schedulingPolicy": {policy: {}}}}


def test_a_job_keeps_its_parallelism_while_its_pods_are_scheduled_as_a_gang() -> None:
    def review(old: Json, new: Json, *groups: Json, gates: Any = WORKLOADS) -> str:
        request = Situation({"podgroups": list(groups)}, gates=gates).request("UPDATE", "jobs", new, old, group="batch")
        return refusal(JobValidation(), request)

    words = 'cannot change parallelism for a Job referencing gang-scheduled PodGroup "g"'
    gang, basic = pod_group("g", "gang"), pod_group("g", "basic")
    assert review(job(1), job(2), gang) == words
    assert review(job(1), job(1), gang) == review(job(1), job(2), basic) == review(job(1), job(2), gang, gates={}) == ""
    for other in ({"uid": "v"}, {"controller": False}, {"uid": ""}, {"namespace": "m"}):
        assert review(job(1), job(2), pod_group("g", "gang", **other)) == ""
    assert review(job(1, "g"), job(2, "g"), pod_group("g", "gang", uid="")) == words
    assert review(job(1, "h"), job(2, "h"), gang) == ""


# Volumes


def test_volumes_are_held_while_they_are_used() -> None:
    for group, plural, finalizer in (
        ("", "persistentvolumes", "kubernetes.io/pv-protection"),
        ("", "persistentvolumeclaims", "kubernetes.io/pvc-protection"),
        ("storage.k8s.io", "volumeattributesclasses", "kubernetes.io/vac-protection"),
    ):
        plugin = StorageObjectInUseProtection()
        for finalizers, kept in (([], [finalizer]), (["a"], ["a", finalizer]), ([finalizer], [finalizer])):
            new = {"metadata": {"name": "v", "finalizers": finalizers}}
            assert admit(plugin, Situation(), plural, new, group=group)["metadata"]["finalizers"] == kept
        bare: Json = {"metadata": {"name": "v"}}
        assert admit(plugin, Situation(), plural, bare, group=group, subresource="status") == bare
    off = Situation(release=(1, 33))
    assert admit(StorageObjectInUseProtection(), off, "volumeattributesclasses", bare, group="storage.k8s.io") == bare


def storage_class(name: str, time: str = "2025-01-02T03:04:05Z", *, default: bool = True, **more: Any) -> Json:
    annotations = {"storageclass.kubernetes.io/is-default-class": str(default).lower()}
    return {"metadata": {"name": name, "creationTimestamp": time, "annotations": annotations}, **more}


@pytest.mark.parametrize(
    ("classes", "chosen"),
    [
        ([], None),
        ([storage_class("a", default=False)], None),
        ([storage_class("b"), storage_class("a")], "a"),
        ([storage_class("a"), storage_class("b", "2025-01-02T03:04:06Z"), storage_class("c", default=False)], "b"),
    ],
)
def test_a_claim_without_a_class_gets_the_newest_default_one(classes: list[Json], chosen: str | None) -> None:
    situation, plugin = Situation({"storageclasses": classes}), DefaultStorageClass()
    claim: Json = {"metadata": {"name": "c"}, "spec": {}}
    assert admit(plugin, situation, "persistentvolumeclaims", claim)["spec"].get("storageClassName") == chosen
    for own in ("", "own"):
        named = {**claim, "spec": {"storageClassName": own}}
        assert admit(plugin, situation, "persistentvolumeclaims", named) == named
    assert admit(plugin, situation, "persistentvolumeclaims", claim, subresource="status") == claim


def claim(size: str, *, of: str | None = "grows", phase: str = "Bound") -> Json:
    spec = {"resources": {"requests": {"storage": size}}, **({} if of is None else {"storageClassName": of})}
    return {"metadata": {"name": "c"}, "spec": spec, "status": {"phase": phase}}


def test_a_claim_grows_where_it_is_bound_and_its_class_lets_it() -> None:
    there = {"storageclasses": [storage_class("grows", allowVolumeExpansion=True), storage_class("stays")]}

    def review(old: Json, new: Json, **more: Any) -> str:
        request = Situation(there).request("UPDATE", "persistentvolumeclaims", new, old, **more)
        return refusal(PersistentVolumeClaimResize(), request)

    unsupported = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
    assert review(claim("1Gi"), claim("2Gi")) == ""
    assert review(claim("1Gi", phase="Pending"), claim("2Gi")) == "Only bound persistent volume claims can be expanded"
    for name in ("stays", "gone", "", None):
        assert review(claim("1Gi", of=name), claim("2Gi", of=name)) == unsupported
        assert review(claim("1Gi", of=name), claim("1Gi", of=name)) == ""
        assert review(claim("2Gi", of=name), claim("1Gi", of=name)) == ""
    assert review(claim("1Gi", of="stays"), claim("2Gi")) == unsupported
    assert review(claim("1Gi", of="stays"), claim("2Gi", of="stays"), subresource="status") == ""


# Certificates


def test_approving_and_signing_need_the_right_for_the_signer_or_its_domain() -> None:
    old: Json = {"metadata": {"name": "r"}, "spec": {"signerName": "example.com/s"}, "status": {}}
    new: Json = {**old, "status": {"certificate": "x"}}
    asked: list[tuple[Any, ...]] = []

    def may(*request: Any) -> bool:
        asked.append(request)
        return bool(request[-1] == allowed)

    for plugin, subresource, verb in (
        (CertificateApproval(), "approval", "approve"),
        (CertificateSigning(), "status", "sign"),
    ):
        for allowed in ("example.com/s", "example.com/*", "other"):
            asked.clear()
            of: Json = {"group": CERTIFICATES, "subresource": subresource, "namespace": ""}
            request = Situation(may=may).request("UPDATE", "certificatesigningrequests", new, old, **of)
            words = f'user not permitted to {verb} requests with signerName "example.com/s"'
            assert refusal(plugin, request) == ("" if allowed.startswith("example.com/") else words)
            assert {each[:5] for each in asked} == {(verb, CERTIFICATES, "signers", "", "")}
        forbidden = Situation(may=lambda *_: False)
        elsewhere = forbidden.request(
            "UPDATE", "certificatesigningrequests", new, old, group=CERTIFICATES, namespace=""
        )
        assert refusal(plugin, elsewhere) == ""
    for same in ({"certificate": "x"}, {"certificate": "x", "conditions": []}):
        request = forbidden.request(
            "UPDATE", "certificatesigningrequests", new, {**old, "status": same}, group=CERTIFICATES, subresource="status"
        )  # fmt: skip
        assert refusal(CertificateSigning(), request) == ""


def test_attesting_a_bundle_needs_the_right_unless_only_metadata_changes() -> None:
    bundle: Json = {"metadata": {"name": "b"}, "spec": {"signerName": "s.io/s"}}
    forbidden, plugin = Situation(may=lambda *_: False), ClusterTrustBundleAttest()

    def review(new: Json, old: Json | None = None, *, by: Situation = forbidden) -> str:
        operation: Any = "CREATE" if old is None else "UPDATE"
        request = by.request(operation, "clustertrustbundles", new, old, group=CERTIFICATES, namespace="")
        return refusal(plugin, request)

    words = 'user not permitted to attest for signerName "s.io/s"'
    assert review(bundle) == words
    assert review(bundle, by=Situation()) == ""
    assert review({"metadata": {"name": "b"}, "spec": {}}) == ""
    for metadata, refused in (
        ({"finalizers": ["a"]}, False),
        ({"ownerReferences": [{}]}, False),
        ({"managedFields": [{}], "resourceVersion": "2"}, False),
        ({"labels": {"a": "b"}}, True),
    ):
        changed = {**bundle, "metadata": {"name": "b", **metadata}}
        assert review(changed, bundle) == (words if refused else "")
    assert review({**bundle, "spec": {"signerName": "s.io/s", "x": 1}}, bundle) == words


# Namespaces, nodes


def namespace(phase: str = "Active") -> Situation:
    return Situation({"namespaces": [{"metadata": {"name": "n"}, "status": {"phase": phase}}]})


def test_nothing_is_made_in_a_namespace_that_is_not_there_or_ends() -> None:
    plugin, going = NamespaceLifecycle(), namespace("Terminating")

    def review(situation: Situation, operation: Any, plural: str = "configmaps", **more: Any) -> str:
        new = None if operation == "DELETE" else {"metadata": {"name": "x"}}
        return refusal(plugin, situation.request(operation, plural, new, **more))

    ends = "unable to create new content in namespace n because it is being terminated"
    assert review(namespace(), "CREATE") == ""
    assert review(going, "CREATE") == ends
    assert review(going, "UPDATE") == ""
    assert review(Situation(), "CREATE") == review(Situation(), "UPDATE") == '404 namespaces "n" not found'
    assert review(Situation(), "DELETE") == review(Situation(), "CREATE", namespace="") == ""
    local_review = {"plural": "localsubjectaccessreviews", "group": "authorization.k8s.io"}
    assert review(Situation(), "CREATE", **local_review) == ""
    for name, kept in (("default", True), ("kube-system", True), ("kube-public", True), ("kube-node-lease", False)):
        deleted = review(Situation(), "DELETE", "namespaces", name=name, namespace="")
        assert deleted == ("this namespace may not be deleted" if kept else "")
    assert review(Situation(), "DELETE", "namespaces", group="other", name="default", namespace="") == ""
    assert review(Situation(), "CREATE", "namespaces", name="default") == ""


def test_only_deletions_of_namespaces_are_checked() -> None:
    plugin = NamespaceLifecycle()
    wanted = [
        (operation, plural)
        for operation in ("CREATE", "UPDATE", "DELETE", "CONNECT")
        for plural in ("pods", "namespaces")
        if plugin.handles_operation(Situation().request(operation, plural, {}).resource, operation)
    ]
    assert wanted == [
        ("CREATE", "pods"), ("CREATE", "namespaces"), ("UPDATE", "pods"), ("UPDATE", "namespaces"), ("DELETE", "namespaces"),
    ]  # fmt: skip


def test_a_new_node_is_not_ready() -> None:
    taint, plugin = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}, TaintNodesByCondition()
    for taints, kept in (
        ([], [taint]),
        ([taint], [taint]),
        ([{"key": "a"}], [{"key": "a"}, taint]),
        ([taint | {"effect": "NoExecute"}], [taint | {"effect": "NoExecute"}, taint]),
        ([taint | {"key": "a"}], [taint | {"key": "a"}, taint]),
    ):
        new = {"metadata": {"name": "x"}, "spec": {"taints": taints}}
        assert admit(plugin, Situation(), "nodes", new, namespace="")["spec"]["taints"] == kept
        assert admit(plugin, Situation(), "nodes", new, namespace="", subresource="status") == new


# Events


def limits(*said: Json) -> EventRateLimit:
    return EventRateLimit([{"qps": 1, "burst": 2, **each} for each in said])


def event_refusal(plugin: EventRateLimit, *, after: float = 0, user: str = "u", name: str = "a", **more: Any) -> str:
    situation = Situation(user=User(user), dry_run=more.pop("dry_run", False))
    situation.now += timedelta(seconds=after)
    event = {"source": {"component": "c"}, "involvedObject": {"name": name}}
    return refusal(plugin, situation.request("CREATE", "events", event, **more))


def test_events_are_limited_to_a_burst_that_fills_again() -> None:
    plugin, words = limits({"type": "Server"}), "429 Too many requests: limit reached on type Server for key "
    assert [event_refusal(plugin), event_refusal(plugin, name="b"), event_refusal(plugin)] == ["", "", words]
    assert [event_refusal(plugin, after=0.9), event_refusal(plugin, after=1), event_refusal(plugin, after=1.5)] == [
        words,
        "",
        words,
    ]
    assert [event_refusal(plugin, after=99) for _ in range(3)] == ["", "", words], "no more than a burst is kept"
    assert event_refusal(plugin, after=98) == words, "a clock that goes back fills nothing"
    assert event_refusal(plugin, after=99, dry_run=True) == ""
    fast = limits({"type": "Server", "qps": 2, "burst": 1})
    assert [event_refusal(fast, after=after) for after in (0, 0.49, 0.5, 0.5)] == ["", words, "", words]


@pytest.mark.parametrize(
    ("kind", "others", "same", "key"),
    [
        ("Namespace", {"namespace": "m"}, {"user": "v"}, "n"),
        ("User", {"user": "v"}, {"namespace": "m"}, "u"),
        ("SourceAndObject", {"name": "b"}, {"user": "v"}, "ca"),
        ("Server", None, {"namespace": "m", "user": "v", "name": "b"}, ""),
    ],
)
def test_a_limit_counts_for_each_of_its_kind(kind: str, others: Json | None, same: Json, key: str) -> None:
    plugin = limits({"type": kind})
    assert [event_refusal(plugin), event_refusal(plugin)] == ["", ""]
    assert event_refusal(plugin, **same).startswith(f"429 Too many requests: limit reached on type {kind} for key ")
    assert event_refusal(plugin) == f"429 Too many requests: limit reached on type {kind} for key {key}"
    assert others is None or event_refusal(plugin, **others) == ""


def test_all_limits_are_checked_and_the_least_recently_used_keys_are_dropped() -> None:
    plugin = limits({"type": "User"}, {"type": "Server", "burst": 1})
    assert [event_refusal(plugin), event_refusal(plugin), event_refusal(plugin)] == [
        "",
        "429 Too many requests: limit reached on type Server for key ",
        "429 Too many requests: [limit reached on type User for key u, limit reached on type Server for key ]",
    ]
    few = limits({"type": "User", "burst": 1, "cacheSize": 2})
    assert [event_refusal(few, user=user) for user in "aba"][:2] == ["", ""]
    assert event_refusal(few, user="c") == "", "there is room for two keys: b is dropped"
    assert event_refusal(few, user="a") != ""
    assert event_refusal(few, user="b") == ""


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[{type: Server, qps: 1, burst: 1}]", ""),
        ("[{type: User, qps: 1, burst: 1, cacheSize: 0}]", ""),
        ("[]", "limits: Invalid value: []: must not be empty"),
        ("[{type: X, qps: 1, burst: 1}]", 'limits[0].type: Unsupported value: "X": supported values: '),
        ("[{type: Server, qps: 0, burst: 1}]", "limits[0].qps: Invalid value: 0: must be positive"),
        ("[{type: Server, qps: 1}]", "limits[0].burst: Invalid value: 0: must be positive"),
        ("[{type: User, qps: 1, burst: 1, cacheSize: -1}]", "limits[0].cacheSize: Invalid value: -1: must not be negative"),
        ("[{type: Server, qps: 1, burst: 1, cacheSize: -1}]", ""),
    ],
)  # fmt: skip
def test_limits_of_events_are_read_and_checked(text: str, wrong: str) -> None:
    configuration = f"apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\nlimits: {text}\n"
    if not wrong:
        assert len(read_event_limits(configuration.encode())) == 1
        return
    with pytest.raises(ValueError) as refused:
        read_event_limits(configuration.encode())
    assert wrong in str(refused.value)
