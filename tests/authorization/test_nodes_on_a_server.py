"""Rights of nodes: the objects of their pods, and themselves."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from tests.support.server import Running
from tests.support.tokens import token_flag
from tests.support.wire import Wire

pytestmark = pytest.mark.integration

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLAIM = {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}}


def pod(name: str, node: str = "w1", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}], **spec}}


def reason(wire: Wire, path: str) -> str:
    answer = wire.get(path)
    assert answer.status == 403, answer.text
    return str(answer.message).rpartition(": ")[2]


@pytest.mark.parametrize(
    ("plural", "spec"),
    [
        ("secrets", {"volumes": [{"name": "v", "secret": {"secretName": "x"}}]}),
        ("secrets", {"imagePullSecrets": [{"name": "x"}]}),
        ("configmaps", {"containers": [{"name": "c", "image": "i", "envFrom": [{"configMapRef": {"name": "x"}}]}]}),
        ("configmaps", {"volumes": [{"name": "v", "projected": {"sources": [{"configMap": {"name": "x"}}]}}]}),
        ("serviceaccounts", {"serviceAccountName": "x"}),
    ],
)
def test_a_node_reads_what_its_pods_name(
    node: Wire, running: Running, root: Wire, namespace: str, plural: str, spec: dict[str, Any]
) -> None:
    base = f"/api/v1/namespaces/{namespace}"
    root.create(f"{base}/{plural}", {"metadata": {"name": "x"}})
    assert reason(node, f"{base}/{plural}/x") == "no relationship found between node 'w1' and this object"
    root.create(f"{base}/pods", pod("p", **spec))
    assert node.get(f"{base}/{plural}/x").status == 200
    assert running.wire("w2").get(f"{base}/{plural}/x").status == 403
    assert node.get(f"{base}/{plural}").status == 403


def test_a_node_reads_the_volumes_of_its_pods_and_their_secrets(node: Wire, root: Wire, namespace: str) -> None:
    base = f"/api/v1/namespaces/{namespace}"
    volume = f"pv-{namespace}"
    source = {
        "driver": "d.example.com",
        "volumeHandle": "h",
        "nodeStageSecretRef": {"name": "stage", "namespace": namespace},
    }
    source["controllerPublishSecretRef"] = {"name": "controller", "namespace": namespace}
    for name in ("stage", "controller"):
        root.create(f"{base}/secrets", {"metadata": {"name": name}})
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    root.create(f"{base}/persistentvolumeclaims", {"metadata": {"name": "data"}, "spec": spec})
    bound = {"claimRef": {"namespace": namespace, "name": "data"}, "capacity": {"storage": "1Gi"}, "csi": source}
    root.create(
        "/api/v1/persistentvolumes", {"metadata": {"name": volume}, "spec": {"accessModes": ["ReadWriteOnce"], **bound}}
    )
    attachment = {"attacher": "d.example.com", "nodeName": "w1", "source": {"persistentVolumeName": volume}}
    root.create(
        "/apis/storage.k8s.io/v1/volumeattachments", {"metadata": {"name": f"a-{namespace}"}, "spec": attachment}
    )

    def answers(wire: Wire) -> list[int]:
        paths = (f"{base}/persistentvolumeclaims/data", f"/api/v1/persistentvolumes/{volume}", f"{base}/secrets/stage")
        return [wire.get(path).status for path in paths]

    assert answers(node) == [403, 403, 403]
    root.create(f"{base}/pods", pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]))
    assert answers(node) == [200, 200, 200]
    assert node.get(f"{base}/secrets/controller").status == 403
    assert node.get(f"/apis/storage.k8s.io/v1/volumeattachments/a-{namespace}").status == 200


def test_a_node_reads_the_claim_of_a_pods_ephemeral_volume(node: Wire, root: Wire, namespace: str) -> None:
    base = f"/api/v1/namespaces/{namespace}"
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    root.create(f"{base}/persistentvolumeclaims", {"metadata": {"name": "p-scratch"}, "spec": spec})
    root.create(
        f"{base}/pods", pod("p", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}])
    )
    assert node.get(f"{base}/persistentvolumeclaims/p-scratch").status == 200


def test_a_node_reads_the_claims_of_its_pods_named_made_and_extended(node: Wire, root: Wire, namespace: str) -> None:
    claims, pods = (
        f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims",
        f"/api/v1/namespaces/{namespace}/pods",
    )
    for name in ("a", "b", "c"):
        root.create(claims, {"metadata": {"name": name}, **CLAIM})
    root.create(
        pods,
        pod(
            "p",
            resourceClaims=[{"name": "x", "resourceClaimName": "a"}, {"name": "y", "resourceClaimTemplateName": "t"}],
        ),
    )
    assert [node.get(f"{claims}/{name}").status for name in "abc"] == [200, 403, 403]
    status = {"resourceClaimStatuses": [{"name": "y", "resourceClaimName": "b"}]}
    assert root.patch(f"{pods}/p/status", {"status": status}).status == 200
    assert [node.get(f"{claims}/{name}").status for name in "abc"] == [200, 200, 403]
    assert reason(node, claims) == "can only get individual resources of this type"
    assert root.delete(f"{pods}/p?gracePeriodSeconds=0").status == 200
    assert node.get(f"{claims}/a").status == 403


def test_a_mirror_pod_opens_nothing(node: Wire, root: Wire, namespace: str) -> None:
    base = f"/api/v1/namespaces/{namespace}"
    root.create(f"{base}/secrets", {"metadata": {"name": "x"}})
    mirror = pod("m", volumes=[{"name": "v", "secret": {"secretName": "x"}}])
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "h"}
    root.create(f"{base}/pods", mirror)
    assert node.get(f"{base}/secrets/x").status == 403
    assert node.get(f"{base}/pods/m").status == 200


def slice_of(node: str, name: str) -> dict[str, Any]:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return {"metadata": {"name": name}, "spec": {"driver": "d.example.com", "nodeName": node, "pool": pool}}


def test_a_node_has_slices_of_its_own_and_no_others(node: Wire, root: Wire) -> None:
    node.create(SLICES, slice_of("w1", "own"))
    refused = node.post(SLICES, slice_of("w2", "foreign"))
    assert refused.message.endswith(
        '"foreign" is forbidden: can only create ResourceSlice with the same NodeName as the requesting node'
    )
    root.create(SLICES, slice_of("w2", "foreign"))
    assert [node.get(f"{SLICES}/{name}").status for name in ("own", "foreign")] == [200, 403]
    assert node.get(f"{SLICES}?fieldSelector=spec.nodeName%3Dw1").status == 200
    for selector in (
        "",
        "?fieldSelector=spec.nodeName%3Dw2",
        "?fieldSelector=spec.nodeName!%3Dw1",
        "?fieldSelector=%3D%3D%3D",
    ):
        assert (
            reason(node, SLICES + selector)
            == "can only list/watch/deletecollection resourceslices with nodeName field selector"
        )
    assert node.delete(f"{SLICES}?fieldSelector=spec.nodeName%3Dw1").status == 200
    assert node.get(f"{SLICES}/foreign").status == 403


def test_before_selectors_a_node_lists_all_slices_and_admission_guards_the_others(tmp_path: Any) -> None:
    from tests.support.server import serve

    tokens = token_flag(tmp_path, 'root,root,1,"system:masters"\nw1,system:node:w1,2,"system:nodes"\n')
    slices = "/apis/resource.k8s.io/v1beta1/resourceslices"
    flags = (
        "--emulated-version=1.33",
        "--feature-gates=DynamicResourceAllocation=true,AuthorizeNodeWithSelectors=false",
    )
    more = (
        "--runtime-config=resource.k8s.io/v1beta1=true",
        "--enable-admission-plugins=NodeRestriction",
        "--authorization-mode=Node,RBAC",
    )
    with serve(*flags, *more, tokens) as server:
        server.wire("root").create(slices, slice_of("w2", "foreign"))
        node = server.wire("w1")
        assert len(node.get(slices).json["items"]) == 1
        refused = node.delete(slices)
        assert refused.message.endswith(
            '"Unknown" is forbidden: can only delete ResourceSlice with the same NodeName as the requesting node'
        )


def test_a_node_sees_and_changes_only_itself(node: Wire, root: Wire) -> None:
    root.create("/api/v1/nodes", {"metadata": {"name": "other"}})
    node.create("/api/v1/nodes", {"metadata": {"name": "w1"}})
    assert reason(node, "/api/v1/nodes") == "node 'w1' cannot read all nodes, only its own Node object"
    assert reason(node, "/api/v1/nodes/other") == "node 'w1' cannot read 'other', only its own Node object"
    assert node.get("/api/v1/nodes?fieldSelector=metadata.name%3Dw1").status == 200

    def change(**metadata: Any) -> tuple[int, str]:
        answer = node.patch("/api/v1/nodes/w1", {"metadata": metadata})
        return answer.status, str(answer.json.get("message", "")).rpartition(": ")[2]

    assert change(labels={"kubernetes.io/hostname": "h", "mine": "1", "a.node.kubernetes.io/x": "1"})[0] == 200
    assert change(labels={"node-restriction.kubernetes.io/a": "1"}) == (403, "node-restriction.kubernetes.io/a")
    assert change(labels={"k8s.io/b": "1", "x.kubernetes.io/a": "1"}) == (403, "k8s.io/b, x.kubernetes.io/a")
    answer = node.patch("/api/v1/nodes/w1", {"spec": {"taints": []}})
    assert answer.message == 'nodes "w1" is forbidden: node "w1" is not allowed to modify taints'
    assert node.patch("/api/v1/nodes/other/status", {"status": {}}).status == 403


def test_a_node_leases_only_itself(node: Wire) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
    body = {"spec": {"holderIdentity": "w1"}}
    node.create(leases.format("kube-node-lease"), {"metadata": {"name": "w1"}, **body})
    refused = node.post(leases.format("kube-node-lease"), {"metadata": {"name": "w2"}, **body})
    assert refused.message.endswith("can only access node lease with the same name as the requesting node")
    assert node.post(leases.format("default"), {"metadata": {"name": "w1"}, **body}).message.endswith(
        'in the "kube-node-lease" system namespace'
    )


def test_a_node_writes_only_its_own_csi_node(node: Wire, root: Wire) -> None:
    csi_nodes = "/apis/storage.k8s.io/v1/csinodes"

    def body(name: str, driver: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"drivers": [{"name": driver, "nodeID": name}]}}

    refusal = "can only access CSINode with the same name as the requesting node"
    node.create(csi_nodes, body("w1", "a.example.com"))
    assert node.post(csi_nodes, body("w2", "a.example.com")).message.endswith(refusal)
    root.create(csi_nodes, body("w2", "a.example.com"))
    patch = {"metadata": {"labels": {"mine": "now"}}}
    assert node.patch(f"{csi_nodes}/w2", patch).message.endswith(refusal)
    assert node.patch(f"{csi_nodes}/w1", patch).status == 200
    assert node.delete(f"{csi_nodes}/w2").message.endswith(refusal)
    assert node.delete(f"{csi_nodes}/w1").status == 200


def test_a_node_writes_no_more_of_a_volume_claim_than_its_expansion(node: Wire, root: Wire, namespace: str) -> None:
    claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    root.create(claims, {"metadata": {"name": "data"}, "spec": spec})
    root.create(
        f"/api/v1/namespaces/{namespace}/pods",
        pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]),
    )

    def patch(body: dict[str, Any]) -> Any:
        return node.patch(f"{claims}/data/status", body)

    assert patch({"status": {"capacity": {"storage": "2Gi"}, "allocatedResources": {"storage": "2Gi"}}}).status == 200
    refused = patch({"status": {"phase": "Bound", "capacity": {"storage": "3Gi"}}})
    assert refused.status == 403
    assert refused.message.endswith(
        "is not allowed to update fields other than status.quantity and status.conditions: status.phase"
    )
    assert patch({"metadata": {"labels": {"mine": "now"}}}).status == 403
    assert root.get(f"{claims}/data").json["status"]["capacity"] == {"storage": "2Gi"}
    assert node.patch(f"{claims}/data", {"metadata": {"labels": {"a": "b"}}}).status == 403


def test_a_node_evicts_and_deletes_only_its_pods(node: Wire, root: Wire, namespace: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    for name, where in (("mine", "w1"), ("foreign", "w2")):
        root.create(pods, pod(name, where))
    foreign = node.post(f"{pods}/foreign/eviction", {"metadata": {"name": "foreign"}})
    assert (
        foreign.message == 'pods "foreign" is forbidden: node w1 can only evict pods with spec.nodeName set to itself'
    )
    node.create(f"{pods}/mine/eviction", {"metadata": {"name": "mine"}})
    refused = node.delete(f"{pods}/foreign")
    assert (
        refused.message
        == 'pods "foreign" is forbidden: node "w1" can only delete pods with spec.nodeName set to itself'
    )


def test_a_node_user_without_a_name_has_no_rights(running: Running) -> None:
    assert reason(running.wire("nameless"), "/api/v1/nodes") == 'unknown node for user "system:node:"'


def test_a_node_gets_tokens_of_its_pods_accounts_only(node: Wire, root: Wire, namespace: str) -> None:
    base = f"/api/v1/namespaces/{namespace}"
    root.create(f"{base}/serviceaccounts", {"metadata": {"name": "s"}})
    token = f"{base}/serviceaccounts/s/token"
    assert node.post(token, {"spec": {}}).message.endswith("no relationship found between node 'w1' and this object")
    mounted = {"projected": {"sources": [{"serviceAccountToken": {"audience": "driver", "path": "t"}}]}}
    made = root.create(f"{base}/pods", pod("p", serviceAccountName="s", volumes=[{"name": "v", **mounted}]))
    assert node.post(token, {"spec": {}}).message.endswith("node requested token not bound to a pod")
    ref = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": made["metadata"]["uid"]}
    node.create(token, {"spec": {"boundObjectRef": ref, "audiences": ["driver"]}})
    refused = node.post(token, {"spec": {"boundObjectRef": ref, "audiences": ["other"]}})
    assert 'audience "other" not found in pod spec volume, system:node:w1 is not authorized' in refused.message


def test_a_node_gets_tokens_for_the_drivers_of_its_pods_volumes(root: Wire, node: Wire, namespace: str) -> None:
    base, driver = f"/api/v1/namespaces/{namespace}", f"{namespace}.example.com"
    root.create(f"{base}/serviceaccounts", {"metadata": {"name": "s"}})
    requests = {"attachRequired": False, "tokenRequests": [{"audience": "vault"}]}
    root.create("/apis/storage.k8s.io/v1/csidrivers", {"metadata": {"name": driver}, "spec": requests})
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    bound = {**claim, "storageClassName": "", "volumeName": f"v-{namespace}"}
    root.create(f"{base}/persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": bound})
    volume = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    csi = {**volume, "csi": {"driver": driver, "volumeHandle": "h"}}

    def request_token(name: str, source: dict[str, Any], audience: str) -> Any:
        made = root.create(f"{base}/pods", pod(name, serviceAccountName="s", volumes=[{"name": "v", **source}]))
        ref = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": made["metadata"]["uid"]}
        return node.post(f"{base}/serviceaccounts/s/token", {"spec": {"boundObjectRef": ref, "audiences": [audience]}})

    claimed = {"persistentVolumeClaim": {"claimName": "c"}}
    refused = request_token("early", claimed, "vault").message
    assert refused.endswith(f'error validating audience "vault": persistentvolume "v-{namespace}" not found')
    root.create("/api/v1/persistentvolumes", {"metadata": {"name": f"v-{namespace}"}, "spec": csi})
    assert request_token("claimed", claimed, "vault").status == 201
    assert request_token("inline", {"csi": {"driver": driver}}, "vault").status == 201
    assert 'audience "other" not found in pod spec volume' in request_token("other", claimed, "other").message
    template = {"volumeClaimTemplate": {"spec": claim}}
    named = {"metadata": {"name": "made-v"}, "spec": bound}
    root.create(f"{base}/persistentvolumeclaims", named)
    assert request_token("made", {"ephemeral": template}, "vault").status == 201


KEY = ed25519.Ed25519PrivateKey.from_private_bytes(b"k" * 32)


def test_a_node_asks_for_certificates_of_its_pods_and_sees_those_that_name_it(
    node: Wire, running: Running, root: Wire, namespace: str
) -> None:
    base = f"/api/v1/namespaces/{namespace}"
    certificates = f"/apis/certificates.k8s.io/v1beta1/namespaces/{namespace}/podcertificaterequests"
    root.create(f"{base}/serviceaccounts", {"metadata": {"name": "x"}})
    root.create(f"{base}/pods", pod("p", serviceAccountName="x"))
    if root.get("/api/v1/nodes/w1").status == 404:
        root.create("/api/v1/nodes", {"metadata": {"name": "w1"}})
    named: dict[str, Any] = {"signerName": "example.com/s"}
    for what, name, path in (("pod", "p", base + "/pods/p"), ("serviceAccount", "x", base + "/serviceaccounts/x"),
                             ("node", "w1", "/api/v1/nodes/w1")):  # fmt: skip
        named |= {f"{what}Name": name, f"{what}UID": root.get(path).json["metadata"]["uid"]}
    stub = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(KEY, None)
    named["stubPKCS10Request"] = b64encode(stub.public_bytes(serialization.Encoding.DER)).decode()
    assert running.wire("w2").post(certificates, {"metadata": {"name": "a"}, "spec": named}).status == 403
    node.create(certificates, {"metadata": {"name": "a"}, "spec": named})
    assert node.get(f"{certificates}/a").status == 200
    assert reason(running.wire("w2"), f"{certificates}/a").startswith("no relationship found")
    assert node.get(f"{certificates}?fieldSelector=spec.nodeName%3Dw1").json["items"][0]["metadata"]["name"] == "a"
    assert reason(node, certificates) == "can only list/watch podcertificaterequests with nodeName field selector"
    refused = node.delete(f"{certificates}/a")
    assert refused.status == 403
    assert refused.message.endswith("nodes may not delete podcertificaterequests")
