"""Roles and bindings of a server hold immediately, and rights cannot be escalated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.server import Running
from tests.support.wire import Wire

RBAC = "/apis/rbac.authorization.k8s.io/v1"
READ_CLAIMS = {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get", "list"]}
MANAGE = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"]}


def claims(namespace: str) -> str:
    return f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"


def binding(name: str, user: str, cluster_role: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "subjects": [{"kind": "User", "name": user}],
        "roleRef": ref(cluster_role, "ClusterRole"),
    }


def ref(name: str, kind: str = "Role") -> dict[str, str]:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}


@pytest.mark.parametrize(
    "subject",
    [
        {"kind": "User", "name": "alice"},
        {"kind": "Group", "name": "devs"},
        {"kind": "Group", "name": "system:authenticated"},
    ],
)
def test_a_binding_holds_for_the_user_or_his_group_until_it_is_gone(
    alice: Wire, root: Wire, namespace: str, grant: Callable[..., None], subject: dict[str, str]
) -> None:
    assert alice.get(claims(namespace)).status == 403
    grant(READ_CLAIMS, subject=subject)
    assert alice.get(claims(namespace)).status == 200
    assert alice.get(claims("default")).status == 403
    assert root.delete(f"{RBAC}/namespaces/{namespace}/rolebindings/r").status == 200
    assert alice.get(claims(namespace)).status == 403


def test_a_changed_role_holds_immediately(alice: Wire, root: Wire, namespace: str, grant: Callable[..., None]) -> None:
    grant(READ_CLAIMS)
    changed = root.patch(f"{RBAC}/namespaces/{namespace}/roles/r", {"rules": [{**READ_CLAIMS, "verbs": ["create"]}]})
    assert changed.status == 200
    assert alice.get(claims(namespace)).status == 403


def test_a_service_account_without_a_namespace_is_one_of_the_bindings(
    root: Wire, namespace: str, grant: Callable[..., None]
) -> None:
    grant(READ_CLAIMS, subject={"kind": "ServiceAccount", "name": "s"})
    mine, other = ({"Impersonate-User": f"system:serviceaccount:{each}:s"} for each in (namespace, "default"))
    assert root.request("GET", claims(namespace), headers=mine).status == 200
    assert root.request("GET", claims(namespace), headers=other).status == 403


def test_a_bound_role_that_is_missing_is_the_reason_of_a_refusal(alice: Wire, root: Wire, namespace: str) -> None:
    for name in ("a", "b"):
        body = {"metadata": {"name": name}, "subjects": [{"kind": "User", "name": "alice"}], "roleRef": ref("gone")}
        root.create(f"{RBAC}/namespaces/{namespace}/rolebindings", body)
    message = alice.get(claims(namespace)).message
    assert message.endswith(f'in the namespace "{namespace}": RBAC: role.rbac.authorization.k8s.io "gone" not found')


def test_cluster_wide_rights_need_a_cluster_wide_binding(bob: Wire, root: Wire) -> None:
    slices = "/apis/resource.k8s.io/v1/resourceslices"
    rule = {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": ["list"]}
    root.create(f"{RBAC}/clusterroles", {"metadata": {"name": "slices"}, "rules": [rule]})
    root.create(f"{RBAC}/namespaces/default/rolebindings", binding("s", "bob", "slices"))
    assert bob.get(slices).status == 403
    root.create(f"{RBAC}/clusterrolebindings", binding("s", "bob", "slices"))
    assert bob.get(slices).status == 200


def test_a_role_may_not_hold_more_than_its_writer(alice: Wire, namespace: str, grant: Callable[..., None]) -> None:
    grant({**MANAGE, "verbs": ["create", "patch"]}, READ_CLAIMS)
    roles = f"{RBAC}/namespaces/{namespace}/roles"
    alice.create(roles, {"metadata": {"name": "same"}, "rules": [READ_CLAIMS]})
    refused = alice.post(roles, {"metadata": {"name": "more"}, "rules": [{**READ_CLAIMS, "verbs": ["get", "delete"]}]})
    assert refused.status == 403
    assert (
        refused.message
        == 'roles.rbac.authorization.k8s.io "more" is forbidden: user "alice" (groups=["devs" "system:authenticated"])'
        ' is attempting to grant RBAC permissions not currently held:\n{APIGroups:["resource.k8s.io"],'
        ' Resources:["resourceclaims"], Verbs:["delete"]}'
    )
    changed = alice.patch(f"{roles}/same", {"rules": [{**READ_CLAIMS, "verbs": ["*"]}]})
    assert changed.status == 403
    assert alice.patch(f"{roles}/same", {"metadata": {"labels": {"a": "b"}}}).status == 200


def test_escalate_and_bind_allow_granting_more_rights(
    alice: Wire, root: Wire, namespace: str, grant: Callable[..., None]
) -> None:
    grant({**MANAGE, "verbs": ["create", "escalate"]})
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    alice.create(f"{RBAC}/namespaces/{namespace}/roles", {"metadata": {"name": "all"}, "rules": [everything]})
    body = binding("x", "bob", "cluster-admin")
    bindings = f"{RBAC}/namespaces/{namespace}/rolebindings"
    assert alice.post(bindings, body).status == 403, "bind is asked of the cluster role"
    rule = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["bind"]}
    grant({**rule, "resourceNames": ["cluster-admin"]}, name="bind")
    alice.create(bindings, body)


def test_others_than_administrators_cannot_bind_a_role_that_is_missing(
    alice: Wire, root: Wire, namespace: str, grant: Callable[..., None]
) -> None:
    grant({**MANAGE, "verbs": ["create"]})
    body = {"metadata": {"name": "x"}, "subjects": [], "roleRef": ref("nothing")}
    refused = alice.post(f"{RBAC}/namespaces/{namespace}/rolebindings", body)
    assert refused.refusal == (404, 'rolebindings.rbac.authorization.k8s.io "nothing" not found')
    root.create(f"{RBAC}/namespaces/{namespace}/rolebindings", body)


def test_only_cluster_admins_may_aggregate(alice: Wire, root: Wire) -> None:
    rule = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["create"]}
    root.create(f"{RBAC}/clusterroles", {"metadata": {"name": "make-roles"}, "rules": [rule]})
    root.create(f"{RBAC}/clusterrolebindings", binding("m", "alice", "make-roles"))
    refused = alice.post(
        f"{RBAC}/clusterroles", {"metadata": {"name": "agg"}, "aggregationRule": {"clusterRoleSelectors": [{}]}}
    )
    assert refused.status == 403
    assert refused.message.partition(": ")[2] == "must have cluster-admin privileges to use the aggregationRule"


def test_the_first_policy_is_there_after_a_reset_and_what_was_taken_from_it_comes_back(
    root: Wire, running: Running
) -> None:
    scheduler = f"{RBAC}/clusterroles/system:kube-scheduler"
    assert not root.patch(scheduler, {"rules": []}).json["rules"]
    assert root.delete(f"{RBAC}/clusterrolebindings/system:discovery").status == 200
    running.call(running.server.built_in.ensure)
    assert {
        "verbs": ["patch", "update"],
        "apiGroups": ["resource.k8s.io"],
        "resources": ["resourceclaims/binding"],
    } in root.get(scheduler).json["rules"]
    assert root.get(f"{RBAC}/clusterrolebindings/system:discovery").status == 200
    before = root.get(scheduler).json["metadata"]["resourceVersion"]
    running.call(running.server.built_in.ensure)
    assert root.get(scheduler).json["metadata"]["resourceVersion"] == before


def test_a_first_role_that_is_no_longer_to_be_updated_stays_as_it_is(root: Wire, running: Running) -> None:
    role = f"{RBAC}/clusterroles/system:kube-dns"
    changed = {"rules": [], "metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}}
    assert root.patch(role, changed).status == 200
    running.call(running.server.built_in.ensure)
    assert not root.get(role).json["rules"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"subjects": [{"kind": "Robot", "name": "r"}]},
            'subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"',
        ),
        ({"subjects": [{"kind": "ServiceAccount", "name": "s"}]}, "subjects[0].namespace: Required value"),
        ({"subjects": [{"kind": "User"}]}, "subjects[0].name: Required value"),
        ({"roleRef": ref("r")}, 'roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"'),
        (
            {"roleRef": {"apiGroup": "x", "kind": "ClusterRole", "name": "r"}},
            'roleRef.apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io"',
        ),
        ({"roleRef": ref("a/b", "ClusterRole")}, "roleRef.name: Invalid value: \"a/b\": may not contain '/'"),
    ],
)
def test_a_cluster_wide_binding_is_for_known_subjects_and_one_cluster_role(
    root: Wire, body: dict[str, Any], message: str
) -> None:
    answer = root.post(
        f"{RBAC}/clusterrolebindings", {"metadata": {"name": "b"}, "roleRef": ref("r", "ClusterRole"), **body}
    )
    assert answer.refusal == (422, f'ClusterRoleBinding.rbac.authorization.k8s.io "b" is invalid: {message}')
