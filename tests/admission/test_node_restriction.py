"""NodeRestriction: the writes of a node, and the words of its refusals."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.admission.plugins.node_restriction import NodeRestriction
from apiserver.api.objects import Json
from apiserver.request.messages import User
from tests.admission.asking import Situation, refusal

NODE = User("system:node:me", groups=("system:nodes",))
PLUGIN = NodeRestriction()


def review(operation: Any, plural: str, new: Json | None, old: Json | None = None, **more: Any) -> str:
    """Return the refusal of a request of the node `me`."""
    situation = Situation(more.pop("there", {}), NODE, more.pop("gates", {}), more.pop("may", lambda *_: True))
    return refusal(PLUGIN, situation.request(operation, plural, new, old, **more))


def test_only_nodes_are_restricted_and_need_a_name() -> None:
    pod: Json = {"metadata": {}, "spec": {}}
    for user, words in (
        (User("someone"), ""),
        (User("system:node:me"), ""),
        (User("system:node:", groups=("system:nodes",)), 'could not determine node from user "system:node:"'),
        (User("x", groups=("system:nodes",)), ""),
    ):
        assert refusal(PLUGIN, Situation(user=user).request("CREATE", "pods", pod)) == words


OWNER: Json = {"apiVersion": "v1", "kind": "Node", "name": "me", "uid": "u", "controller": True}
ANNOTATED: Json = {"kubernetes.io/config.mirror": "x"}
THERE = {"nodes": [{"metadata": {"name": "me", "uid": "u"}}]}


def mirror(*owners: Json, **spec: Any) -> Json:
    return {
        "metadata": {"annotations": ANNOTATED, "ownerReferences": list(owners or (OWNER,))},
        "spec": {"nodeName": "me", **spec},
    }


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        (mirror(), ""),
        ({"metadata": {}, "spec": {"nodeName": "me"}}, 'pod does not have "kubernetes.io/config.mirror" annotation, node "me" can only create mirror pods'),
        (mirror(nodeName="you"), 'node "me" can only create pods with spec.nodeName set to itself'),
        (mirror(OWNER, OWNER), 'node "me" can only create pods with a single owner reference set to itself'),
        ({**mirror(), "metadata": {"annotations": ANNOTATED}}, 'node "me" can only create pods with an owner reference set to itself'),
        (mirror(OWNER | {"name": "you"}), 'node "me" can only create pods with an owner reference set to itself'),
        (mirror(OWNER | {"controller": False}), 'node "me" can only create pods with a controller owner reference set to itself'),
        (mirror(OWNER | {"blockOwnerDeletion": True}), 'node "me" must not set blockOwnerDeletion on an owner reference'),
        (mirror(OWNER | {"blockOwnerDeletion": False}), ""),
        (mirror(OWNER | {"uid": "v"}), "node me UID mismatch: expected v got u"),
        (mirror(serviceAccountName="a"), 'node "me" can not create pods that reference serviceaccounts'),
        (mirror(imagePullSecrets=[{"name": "a"}]), 'node "me" can not create pods that reference secrets'),
        (mirror(containers=[{"envFrom": [{"configMapRef": {"name": "a"}}]}]), 'node "me" can not create pods that reference configmaps'),
        (mirror(resourceClaims=[{"name": "a"}]), 'node "me" can not create pods that reference resourceclaims'),
        (mirror(volumes=[{"name": "v", "emptyDir": {}}, {"name": "w", "hostPath": {}}]), ""),
        (mirror(volumes=[{"name": "v", "csi": {}}]), 'node "me" can not create pods that reference csidrivers (via CSI volumes)'),
        (mirror(volumes=[{"name": "v", "ephemeral": {}}]), 'node "me" can not create pods that reference persistentvolumeclaims (via ephemeral volumes)'),
        (mirror(volumes=[{"name": "v", "emptyDir": {}}, {"name": "w", "persistentVolumeClaim": {}}]), 'node "me" can not create pods that reference persistentvolumeclaims'),
        (mirror(volumes=[{"name": "v", "projected": {"sources": [{"downwardAPI": {}}]}}]), ""),
        (mirror(volumes=[{"name": "v", "projected": {"sources": [{"downwardAPI": {}}, {"serviceAccountToken": {}}]}}]), 'node "me" can not create pods that reference serviceaccounts (via projected volumes)'),
    ],
)  # fmt: skip
def test_a_node_makes_mirror_pods_of_its_own_that_name_no_other_object(pod: Json, words: str) -> None:
    assert review("CREATE", "pods", pod, there=THERE) == words


def test_a_node_that_is_not_there_makes_no_pods() -> None:
    assert review("CREATE", "pods", mirror()) == '404 node "me" not found'


def test_a_node_deletes_its_own_pods_and_changes_none() -> None:
    mine: Json = {"metadata": {"name": "x", "namespace": "n"}, "spec": {"nodeName": "me"}}
    other: Json = {"metadata": {"name": "x", "namespace": "n"}, "spec": {"nodeName": "you"}}
    not_mine = 'node "me" can only delete pods with spec.nodeName set to itself'
    assert review("DELETE", "pods", None, mine) == ""
    assert review("DELETE", "pods", None, other) == not_mine
    assert review("DELETE", "pods", None, there={"pods": [mine]}) == ""
    assert review("DELETE", "pods", None, there={"pods": [other]}) == not_mine
    assert review("DELETE", "pods", None) == '404 pods "x" not found'
    assert review("UPDATE", "pods", mine, mine) == (
        'unexpected operation "UPDATE", node "me" can only create and delete mirror pods'
    )
    assert review("CREATE", "pods", mine, subresource="binding") == (
        "unexpected pod subresource \"binding\", only 'status' and 'eviction' are allowed"
    )


def on(node: str, status: Json | None = None, **metadata: Any) -> Json:
    return {"metadata": {"name": "x", "namespace": "n", **metadata}, "spec": {"nodeName": node}, "status": status or {}}


_CLAIMED: Json = {"extendedResourceClaimStatus": {"resourceClaimName": "c"}}


@pytest.mark.parametrize(
    ("new", "old", "words"),
    [
        (on("me", {"phase": "Running"}), on("me"), ""),
        (on("me"), on("you"), 'node "me" can only update pod status for pods with spec.nodeName set to itself'),
        (on("me", labels={}), on("me"), ""),
        (on("me", labels={"a": "b"}), on("me"), 'node "me" cannot update labels through pod status'),
        (on("me"), on("me", labels={"a": "b"}), 'node "me" cannot update labels through pod status'),
        (on("me", {"resourceClaimStatuses": []}), on("me"), ""),
        (on("me", {"resourceClaimStatuses": [{"name": "c"}]}), on("me"), 'node "me" cannot update resource claim statues'),
        (on("me"), on("me", {"resourceClaimStatuses": [{"name": "c"}]}), 'node "me" cannot update resource claim statues'),
        (on("me", _CLAIMED), on("me", {"extendedResourceClaimStatus": {"resourceClaimName": "c", "requestMappings": []}}), ""),
        (on("me", _CLAIMED), on("me"), 'node "me" cannot update extended resource claim status'),
        (on("me"), on("me", _CLAIMED), 'node "me" cannot update extended resource claim status'),
    ],
)  # fmt: skip
def test_a_node_writes_the_status_of_its_pods_but_not_fields_of_other_writers(new: Json, old: Json, words: str) -> None:
    assert review("UPDATE", "pods", new, old, subresource="status") == words
    assert review("CREATE", "pods", new, subresource="status") == 'unexpected operation "CREATE"'


def test_a_node_evicts_its_own_pods() -> None:
    there = {"pods": [on("me"), on("you") | {"metadata": {"name": "y", "namespace": "n"}}]}
    for name, obj, words in (
        ("x", {}, ""),
        ("", {"metadata": {"name": "x"}}, ""),
        ("y", {}, "node me can only evict pods with spec.nodeName set to itself"),
        ("z", {}, '404 pods "z" not found'),
        ("", {}, "could not determine pod from request data"),
    ):
        assert review("CREATE", "pods", obj, subresource="eviction", name=name, there=there) == words


@pytest.mark.parametrize(
    ("labels", "wrong"),
    [
        ({"a": "b", "example.com/a": "b", "kubernetes.io/os": "linux", "kubelet.kubernetes.io/a": "b"}, ""),
        ({"x.node.kubernetes.io/a": "b", "topology.kubernetes.io/zone": "z", "notkubernetes.io/a": "b"}, ""),
        ({"kubernetes.io/a": "b"}, "kubernetes.io/a"),
        ({"x.k8s.io/a": "b", "x.kubernetes.io/a": "b"}, "x.k8s.io/a, x.kubernetes.io/a"),
        ({"node-restriction.kubernetes.io/a": "b"}, "node-restriction.kubernetes.io/a"),
        ({"x.node-restriction.kubernetes.io/a": "b"}, "x.node-restriction.kubernetes.io/a"),
    ],
)
def test_a_node_sets_only_its_own_labels(labels: Json, wrong: str) -> None:
    new: Json = {"metadata": {"name": "me", "labels": labels}, "spec": {}}
    bare: Json = {"metadata": {"name": "me"}, "spec": {}}
    created, changed = (
        f'node "me" is not allowed to set the following labels: {wrong}' if wrong else "",
        f"is not allowed to modify labels: {wrong}" if wrong else "",
    )
    assert review("CREATE", "nodes", new, name="me", namespace="") == created
    assert review("UPDATE", "nodes", new, bare, name="me", namespace="") == changed
    assert review("UPDATE", "nodes", bare, new, name="me", namespace="") == changed
    assert review("UPDATE", "nodes", new, new, name="me", namespace="") == ""


@pytest.mark.parametrize(
    ("new", "old", "words"),
    [
        ({"spec": {}}, {"spec": {}}, ""),
        ({"spec": {"configSource": {"a": 1}}}, {"spec": {}}, "to update configSource to a new non-nil configSource"),
        ({"spec": {"configSource": {"a": 1}}}, {"spec": {"configSource": {"a": 1}}}, ""),
        ({"spec": {}}, {"spec": {"configSource": {"a": 1}}}, ""),
        ({"spec": {"taints": [{"key": "a"}]}}, {"spec": {}}, "to modify taints"),
        ({"spec": {}}, {"spec": {"taints": [{"key": "a"}]}}, "to modify taints"),
        ({"spec": {"taints": []}}, {"spec": {}}, ""),
        ({"metadata": {"ownerReferences": [{"name": "a"}]}}, {"spec": {}}, "to modify ownerReferences"),
        ({"metadata": {"ownerReferences": []}}, {"spec": {}}, ""),
    ],
)
def test_a_node_does_not_change_the_fields_of_other_writers(new: Json, old: Json, words: str) -> None:
    new, old = ({"metadata": {}, **obj} for obj in (new, old))
    said_of_it = review("UPDATE", "nodes", new, old, name="me", namespace="")
    assert said_of_it == (f'node "me" is not allowed {words}' if words else "")


def test_a_node_creates_and_deletes_only_itself() -> None:
    bare: Json = {"metadata": {}, "spec": {}}
    for operation in ("CREATE", "UPDATE", "DELETE"):
        assert review(operation, "nodes", bare, bare, name="me", namespace="") == ""
        other = review(operation, "nodes", bare, bare, name="you", namespace="")
        assert other == 'node "me" is not allowed to modify node "you"'
    configured: Json = {"metadata": {}, "spec": {"configSource": {"a": 1}}}
    assert review("CREATE", "nodes", configured, name="me", namespace="") == (
        'node "me" is not allowed to create pods with a non-nil configSource'
    )


def test_leases_and_csi_nodes_bear_the_name_of_the_node() -> None:
    group, name = "coordination.k8s.io", {"metadata": {"name": "me"}}
    lease: Json = {"group": group, "namespace": "kube-node-lease"}
    same = "can only access node lease with the same name as the requesting node"
    assert review("CREATE", "leases", name, name="", **lease) == ""
    assert review("CREATE", "leases", {"metadata": {"name": "you"}}, name="", **lease) == same
    assert review("UPDATE", "leases", name, name, name="me", **lease) == ""
    assert review("UPDATE", "leases", name, name, name="you", **lease) == same
    assert review("DELETE", "leases", None, name, name="me", **lease) == ""
    assert review("CREATE", "leases", name, group=group, namespace="n") == (
        'can only access leases in the "kube-node-lease" system namespace'
    )
    csi: Json = {"group": "storage.k8s.io", "namespace": ""}
    assert review("CREATE", "csinodes", name, name="", **csi) == ""
    assert review("UPDATE", "csinodes", name, name, name="you", **csi) == (
        "can only access CSINode with the same name as the requesting node"
    )


def test_slices_are_of_the_node_that_makes_and_deletes_them() -> None:
    mine, other, none = ({"spec": {"nodeName": node} if node else {}} for node in ("me", "you", ""))
    of: Json = {"group": "resource.k8s.io", "namespace": ""}
    words = "can only {} ResourceSlice with the same NodeName as the requesting node"
    assert review("CREATE", "resourceslices", mine, **of) == review("DELETE", "resourceslices", None, mine, **of) == ""
    for foreign in (other, none):
        assert review("CREATE", "resourceslices", foreign, **of) == words.format("create")
        assert review("DELETE", "resourceslices", None, foreign, **of) == words.format("delete")
    assert review("UPDATE", "resourceslices", mine, other, **of) == "", "which node a slice is of does not change"


def claim(status: Json, **metadata: Any) -> Json:
    return {"metadata": {"name": "c", **metadata}, "spec": {"a": 1}, "status": status}


def test_a_node_writes_the_capacity_of_a_volume_and_with_the_gate_its_resize_status() -> None:
    refused = 'node "me" is not allowed to update fields other than status.quantity and status.conditions: '
    plain = claim({"phase": "Bound"})
    for new, words in (
        (claim({"phase": "Bound", "capacity": {"storage": "1"}, "conditions": [{}]}, resourceVersion="2"), ""),
        (claim({"phase": "Bound"}, managedFields=[{}]), ""),
        (claim({"phase": "Lost"}), refused + "status.phase"),
        (claim({"phase": "Bound"}, labels={"a": "b"}) | {"spec": {"a": 2}}, refused + "metadata.labels, spec.a"),
    ):
        assert review("UPDATE", "persistentvolumeclaims", new, plain, subresource="status") == words
    growing = claim({"phase": "Bound", "allocatedResources": {}, "allocatedResourceStatuses": {"storage": "x"}})
    gate = "RecoverVolumeExpansionFailure"
    assert review("UPDATE", "persistentvolumeclaims", growing, plain, subresource="status", gates={gate: True}) == ""
    assert review("UPDATE", "persistentvolumeclaims", plain, plain) == "may only update PVC status"
    assert review("CREATE", "persistentvolumeclaims", plain, subresource="status") == 'unexpected operation "CREATE"'


def bound_token(**ref: Any) -> Json:
    return {"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", **ref}}}


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (bound_token(), ""),
        (bound_token(apiVersion="v2"), "node requested token not bound to a pod"),
        (bound_token(kind="Secret"), "node requested token not bound to a pod"),
        (bound_token(name=""), "node requested token not bound to a pod"),
        ({"spec": {}}, "node requested token not bound to a pod"),
        (bound_token(uid=""), "node requested token with a pod binding without a uid"),
        (bound_token(name="q"), '404 pod "q" not found'),
        (bound_token(name="other", uid="o"), "node requested token bound to a pod scheduled on a different node"),
        (bound_token(uid="v"), "the UID in the bound object reference (v) does not match the UID in record. The object might have been deleted and then recreated"),
    ],
)  # fmt: skip
def test_a_node_gets_tokens_for_its_own_pods(request_: Json, words: str) -> None:
    pods = [
        {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {"nodeName": "me"}},
        {"metadata": {"name": "other", "namespace": "n", "uid": "o"}, "spec": {"nodeName": "you"}},
    ]
    of: Json = {"there": {"pods": pods}, "subresource": "token"}
    assert review("CREATE", "serviceaccounts", request_, **of) == words
    assert review("CREATE", "serviceaccounts", {"spec": {}}) == review("UPDATE", "serviceaccounts", {}, {}) == ""


def test_the_plugin_handles_only_restricted_resources() -> None:
    handled = [
        plural
        for group, plural in (("", "pods"), ("", "nodes"), ("apps", "pods"), ("", "configmaps"), ("storage.k8s.io", "csinodes"))
        if PLUGIN.handles(Situation().request("CREATE", plural, {}, group=group).resource)
    ]  # fmt: skip
    assert handled == ["pods", "nodes", "csinodes"]
