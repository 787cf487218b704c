"""Tokens and certificates that a node requests for its pods."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.admission.plugins.node_restriction import NodeRestriction
from apiserver.api.objects import Json
from apiserver.request.messages import User
from tests.admission.asking import Situation, refusal

NODE = User("system:node:me", groups=("system:nodes",))
TOKEN: Json = {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}}


def make_object(name: str, uid: str = "u", *, namespace: str | None = "n", **more: Any) -> Json:
    metadata = {"name": name, "uid": uid, **({"namespace": namespace} if namespace else {}), **more.pop("metadata", {})}
    return {"metadata": metadata, **more}


def pod(*volumes: Json, node: str = "me", **more: Any) -> Json:
    return make_object("p", spec={"nodeName": node, "volumes": list(volumes), "serviceAccountName": "a"}, **more)


def token(audiences: list[str], *volumes: Json, may: Any = lambda *_: False, **there: Any) -> str:
    situation = Situation({"pods": [pod(*volumes)], **there}, NODE, may=may)
    body = {"spec": {**TOKEN, "audiences": audiences}}
    request = situation.request("CREATE", "serviceaccounts", body, subresource="token", name="a")
    return refusal(NodeRestriction(), request)


def projected(*audiences: str) -> Json:
    sources: list[Json] = [{"configMap": {}}, *({"serviceAccountToken": {"audience": each}} for each in audiences)]
    return {"name": "v", "projected": {"sources": sources}}


def audience_refusal(audience: str) -> str:
    return (
        f'audience "{audience}" not found in pod spec volume, system:node:me is not authorized to request tokens for'
        " this audience"
    )


def test_a_token_is_for_one_audience_that_a_volume_of_the_pod_names() -> None:
    assert token(["x"], projected("w", "x")) == ""
    assert token(["x"], {"name": "e", "emptyDir": {}}, projected("x")) == ""
    assert token(["x"], projected("y")) == audience_refusal("x")
    assert token(["x"]) == audience_refusal("x")
    assert token([], projected("")) == ""
    assert token([], {"name": "v", "projected": {"sources": [{"serviceAccountToken": {}}]}}) == ""
    assert token([], projected("x")) == audience_refusal("")
    assert token(["x", "y"], projected("x", "y")) == "node may only request 0 or 1 audiences"


def test_a_right_to_an_audience_holds_for_any_pod() -> None:
    asked: list[tuple[Any, ...]] = []

    def may(*request: Any) -> bool:
        asked.append(request)
        return True

    assert token(["x"], may=may) == ""
    assert asked == [("request-serviceaccounts-token-audience", "", "x", "", "n", "a")]


DRIVERS: Json = {
    "csidrivers": [
        make_object("d.io", namespace=None, spec={"tokenRequests": [{"audience": "w"}, {"audience": "x"}]}),
        make_object("none.io", namespace=None, spec={}),
        make_object("disk.csi.azure.com", namespace=None, spec={"tokenRequests": [{}]}),
    ]
}


@pytest.mark.parametrize(
    ("volume", "audience", "words"),
    [
        ({"csi": {"driver": "d.io"}}, "x", ""),
        ({"csi": {"driver": "d.io"}}, "y", audience_refusal("y")),
        ({"csi": {"driver": "none.io"}}, "x", audience_refusal("x")),
        ({"csi": {}}, "x", audience_refusal("x")),
        ({"azureDisk": {"diskName": "a"}}, "", ""),
        ({"csi": {"driver": "gone.io"}}, "x", 'error validating audience "x": csidriver.storage.k8s.io "gone.io" not found'),
        ({"persistentVolumeClaim": {"claimName": "c"}}, "x", ""),
        ({"persistentVolumeClaim": {"claimName": "unbound"}}, "x", 'error validating audience "x": persistentvolume "" not found'),
        ({"persistentVolumeClaim": {"claimName": "gone"}}, "x", 'error validating audience "x": persistentvolumeclaim "gone" not found'),
        ({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}, "x", ""),
        ({"ephemeral": {}}, "x", audience_refusal("x")),
    ],
)  # fmt: skip
def test_the_driver_of_a_volume_names_audiences_too(volume: Json, audience: str, words: str) -> None:
    there = {
        **DRIVERS,
        "persistentvolumeclaims": [
            make_object("c", spec={"volumeName": "pv"}), make_object("unbound", spec={}), make_object("p-v", spec={"volumeName": "pv"}),
        ],
        "persistentvolumes": [make_object("pv", namespace=None, spec={"csi": {"driver": "d.io"}})],
    }  # fmt: skip
    assert token([audience] if audience else [], {"name": "v", **volume}, **there) == words


def test_each_missing_driver_is_named_once_unless_another_volume_has_the_audience() -> None:
    gone, other = ({"name": "v", "csi": {"driver": driver}} for driver in ("gone.io", "other.io"))
    assert token(["x"], gone, projected("x"), **DRIVERS) == ""
    assert token(["x"], gone, other, gone, **DRIVERS) == (
        'error validating audience "x": [csidriver.storage.k8s.io "gone.io" not found, csidriver.storage.k8s.io'
        ' "other.io" not found]'
    )


def test_without_the_gate_a_node_gets_tokens_for_any_audience() -> None:
    situation = Situation(
        {"pods": [pod()]}, NODE, {"ServiceAccountNodeAudienceRestriction": False}, lambda *_: False, release=(1, 33)
    )
    request = situation.request(
        "CREATE", "serviceaccounts", {"spec": {**TOKEN, "audiences": ["x"]}}, subresource="token", name="a"
    )
    assert refusal(NodeRestriction(), request) == ""


ASKED: Json = {
    "nodeName": "me", "nodeUID": "m", "podName": "p", "podUID": "u", "serviceAccountName": "a", "serviceAccountUID": "s",
}  # fmt: skip
THERE: Json = {
    "nodes": [make_object("me", "m", namespace=None), make_object("you", "y", namespace=None)],
    "pods": [
        pod(),
        {**pod(node="you"), "metadata": {"name": "q", "namespace": "n", "uid": "u"}},
        {**pod(), "metadata": {"name": "m", "namespace": "n", "uid": "u", "annotations": {"kubernetes.io/config.mirror": ""}}},
        {"metadata": {"name": "b", "namespace": "n", "uid": "u"}, "spec": {"nodeName": "me", "serviceAccountName": "gone"}},
    ],
    "serviceaccounts": [make_object("a", "s")],
}  # fmt: skip


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, ""),
        ({"nodeName": "you"}, 'PodCertificateRequest.Spec.NodeName="you", which is not the requesting node "me"'),
        ({"nodeUID": "z"}, '500 PodCertificateRequest for pod "n/p" names node UID "z", inconsistent with the running node ("m")'),
        ({"podName": "z"}, '500 while retrieving pod "n/z" named in the PodCertificateRequest: pod "z" not found'),
        ({"podUID": "z"}, '500 PodCertificateRequest for pod "n/p" contains pod UID ("z") which differs from running pod "u"'),
        ({"podName": "q"}, 'pod "n/q" is not running on node "me" named in the PodCertificateRequest'),
        ({"podName": "m"}, 'pod "n/m" is a mirror pod'),
        ({"serviceAccountName": "z"}, 'PodCertificateRequest for pod "n/p" contains serviceAccountName ("z") that differs from running pod ("a")'),
        ({"podName": "b", "serviceAccountName": "gone"}, '500 while retrieving service account "n/gone" named in the PodCertificateRequest: serviceaccount "gone" not found'),
        ({"serviceAccountUID": "z"}, '500 PodCertificateRequest for pod "n/p" names service account UID "z", which differs from the running service account ("s")'),
    ],
)  # fmt: skip
def test_a_node_asks_for_certificates_of_its_pods_as_they_are(more: Json, words: str) -> None:
    situation, plural = Situation(THERE, NODE), "podcertificaterequests"
    body = {"metadata": {"name": "x"}, "spec": ASKED | more}
    request = situation.request("CREATE", plural, body, group="certificates.k8s.io")
    assert refusal(NodeRestriction(), request) == words


def test_a_node_only_makes_requests_of_certificates() -> None:
    plural, body = "podcertificaterequests", {"metadata": {"name": "x"}, "spec": ASKED}
    of: Json = {"group": "certificates.k8s.io"}
    situation = Situation(THERE, NODE)
    assert refusal(NodeRestriction(), situation.request("UPDATE", plural, body, body, **of)) == (
        "unexpected operation UPDATE"
    )
    assert refusal(NodeRestriction(), situation.request("CREATE", plural, body, subresource="status", **of)) == (
        "unexpected subresource status"
    )
    gone = Situation({**THERE, "nodes": []}, NODE)
    assert refusal(NodeRestriction(), gone.request("CREATE", plural, body, **of)) == (
        '500 while retrieving node "me" named in the PodCertificateRequest: node "me" not found'
    )
