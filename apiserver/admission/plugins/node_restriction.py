"""NodeRestriction: a node changes only its own objects.

They are its Node and Lease, the status of its pods, its slices, and tokens of its pods' accounts.

Facts: plugin/pkg/admission/noderestriction.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from apiserver.admission.plugins.pod_certificates import pod_certificate_request
from apiserver.admission.plugins.token_audiences import check_audiences
from apiserver.api.errors import status
from apiserver.api.errors.field_errors import go_quote
from apiserver.api.helpers.pod_references import config_map_names, secret_names
from apiserver.api.objects import Json
from apiserver.authorization.nodes import node_of
from apiserver.registry.definition.resource import Resource
from apiserver.registry.store.admission import Attributes, Plugin, forbidden

__all__ = ["NodeRestriction"]


_MIRROR: Final = "kubernetes.io/config.mirror"
_LEASES: Final = "kube-node-lease"
#: Labels of kubernetes.io and k8s.io that a node may set on itself: these, and all of these namespaces.
_OWN_LABELS: Final = frozenset(
    {
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
    }
)
_OWN_NAMESPACES: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_RESTRICTED: Final = "node-restriction.kubernetes.io"
#: Volumes of a mirror pod that name no object, and the refusal's names for the objects of other volumes.
_PLAIN_VOLUMES: Final = frozenset(
    {
        "awsElasticBlockStore",
        "azureDisk",
        "cephfs",
        "cinder",
        "downwardAPI",
        "emptyDir",
        "fc",
        "flexVolume",
        "flocker",
        "gcePersistentDisk",
        "gitRepo",
        "hostPath",
        "image",
        "iscsi",
        "nfs",
        "photonPersistentDisk",
        "portworxVolume",
        "quobyte",
        "rbd",
        "scaleIO",
        "storageos",
        "vsphereVolume",
    }
)
_NAMING_VOLUMES: Final = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_NAMING_SOURCES: Final = {
    "secret": "secrets (via projected volumes)", "configMap": "configmaps (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)", "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}  # fmt: skip


class NodeRestriction(Plugin):
    name = "NodeRestriction"
    operations = frozenset({"CREATE", "UPDATE", "DELETE"})

    def handles(self, resource: Resource) -> bool:
        return (resource.group, resource.plural) in _WAYS

    def admit(self, attributes: Attributes) -> Awaitable[None] | None:
        user = attributes.ctx.user
        node = node_of(user)
        if node is None:
            return None
        if not node:
            raise forbidden(attributes, f"could not determine node from user {go_quote(user.name)}")
        return _WAYS[attributes.resource.group, attributes.resource.plural](node, attributes)


def _unexpected(attributes: Attributes) -> status.StatusError:
    return forbidden(attributes, f"unexpected operation {go_quote(attributes.operation)}")


# Pods


def _pod(node: str, attributes: Attributes) -> None:
    subresource = attributes.subresource
    if subresource == "status":
        _pod_status(node, attributes)
    elif subresource == "eviction":
        _eviction(node, attributes)
    elif subresource:
        raise forbidden(
            attributes, f"unexpected pod subresource {go_quote(subresource)}, only 'status' and 'eviction' are allowed"
        )
    elif attributes.operation == "CREATE":
        _mirror_pod(node, attributes)
    elif attributes.operation == "DELETE":
        found = attributes.old or attributes.ctx.lookup("", "pods", attributes.namespace, attributes.name)
        if found is None:
            raise status.not_found("pods", "", attributes.name)
        if found["spec"].get("nodeName") != node:
            raise forbidden(attributes, f'node "{node}" can only delete pods with spec.nodeName set to itself')
    else:
        text = (
            f'unexpected operation {go_quote(attributes.operation)}, node "{node}" can only create and delete mirror'
            " pods"
        )
        raise forbidden(attributes, text)


def _mirror_pod(node: str, attributes: Attributes) -> None:
    pod = attributes.obj or {}
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}

    def refuse(text: str) -> status.StatusError:
        return forbidden(attributes, text)

    if _MIRROR not in (metadata.get("annotations") or ()):
        raise refuse(f'pod does not have "{_MIRROR}" annotation, node "{node}" can only create mirror pods')
    if spec.get("nodeName") != node:
        raise refuse(f'node "{node}" can only create pods with spec.nodeName set to itself')
    owners = metadata.get("ownerReferences") or []
    if len(owners) > 1:
        raise refuse(f'node "{node}" can only create pods with a single owner reference set to itself')
    owner = owners[0] if owners else {}
    if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != ("v1", "Node", node):
        raise refuse(f'node "{node}" can only create pods with an owner reference set to itself')
    if not owner.get("controller"):
        raise refuse(f'node "{node}" can only create pods with a controller owner reference set to itself')
    if owner.get("blockOwnerDeletion"):
        raise refuse(f'node "{node}" must not set blockOwnerDeletion on an owner reference')
    found = attributes.ctx.lookup("", "nodes", "", node)
    if found is None:
        raise status.not_found("node", "", node)
    uid = found["metadata"]["uid"]
    if owner.get("uid") != uid:
        raise refuse(f"node {node} UID mismatch: expected {owner.get('uid', '')} got {uid}")
    named = next(_named_objects(spec), None)
    if named is not None:
        raise refuse(f'node "{node}" can not create pods that reference {named}')


def _named_objects(spec: Json) -> Iterator[str]:
    """Yield the kinds of API objects that a pod names."""
    if spec.get("serviceAccountName"):
        yield "serviceaccounts"
    if any(True for _ in secret_names(spec)):
        yield "secrets"
    if any(True for _ in config_map_names(spec)):
        yield "configmaps"
    if spec.get("resourceClaims"):
        yield "resourceclaims"
    for volume in spec.get("volumes") or ():
        if not _PLAIN_VOLUMES.isdisjoint(volume):
            continue
        for source in (volume.get("projected") or {}).get("sources") or ():
            yield from (text for name, text in _NAMING_SOURCES.items() if name in source)
        yield from (text for name, text in _NAMING_VOLUMES.items() if name in volume)


def _pod_status(node: str, attributes: Attributes) -> None:
    if attributes.operation != "UPDATE":
        raise _unexpected(attributes)
    old, new = attributes.old or {}, attributes.obj or {}
    if (old.get("spec") or {}).get("nodeName") != node:
        raise forbidden(
            attributes,
            f'node "{node}" can only update pod status for pods with spec.nodeName set to itself',  # noqa: S608 - prose
        )
    if (old["metadata"].get("labels") or {}) != (new["metadata"].get("labels") or {}):
        raise forbidden(attributes, f'node "{node}" cannot update labels through pod status')
    before, after = old.get("status") or {}, new.get("status") or {}
    if (before.get("resourceClaimStatuses") or []) != (after.get("resourceClaimStatuses") or []):
        raise forbidden(attributes, f'node "{node}" cannot update resource claim statues')
    if _get_extended_claim(before) != _get_extended_claim(after):
        raise forbidden(attributes, f'node "{node}" cannot update extended resource claim status')


def _get_extended_claim(pod_status: Json) -> Json | None:
    claim = pod_status.get("extendedResourceClaimStatus")
    return (
        None
        if claim is None
        else {"name": claim.get("resourceClaimName", ""), "requests": claim.get("requestMappings") or []}
    )


def _eviction(node: str, attributes: Attributes) -> None:
    name = attributes.name or ((attributes.obj or {}).get("metadata") or {}).get("name", "")
    if not name:
        raise forbidden(attributes, "could not determine pod from request data")
    found = attributes.ctx.lookup("", "pods", attributes.namespace, name)
    if found is None:
        raise status.not_found("pods", "", name)
    if found["spec"].get("nodeName") != node:
        raise forbidden(attributes, f"node {node} can only evict pods with spec.nodeName set to itself")


# Nodes


def _node(node: str, attributes: Attributes) -> None:
    name = attributes.name
    if name != node:
        raise forbidden(attributes, f'node "{node}" is not allowed to modify node {go_quote(name)}')
    new, old = attributes.obj or {}, attributes.old or {}
    labels = (new.get("metadata") or {}).get("labels") or {}
    if attributes.operation == "CREATE":
        if (new.get("spec") or {}).get("configSource"):
            raise forbidden(attributes, f'node "{node}" is not allowed to create pods with a non-nil configSource')
        wrong = _forbidden_labels(labels, {})
        if wrong:
            raise forbidden(attributes, f'node "{node}" is not allowed to set the following labels: {", ".join(wrong)}')
    elif attributes.operation == "UPDATE":
        _node_update(node, attributes, new, old, labels)


def _node_update(node: str, attributes: Attributes, new: Json, old: Json, labels: Json) -> None:
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if spec.get("configSource") and spec["configSource"] != before.get("configSource"):
        raise forbidden(
            attributes, f'node "{node}" is not allowed to update configSource to a new non-nil configSource'
        )
    if (spec.get("taints") or []) != (before.get("taints") or []):
        raise forbidden(attributes, f'node "{node}" is not allowed to modify taints')
    if (new["metadata"].get("ownerReferences") or []) != (old["metadata"].get("ownerReferences") or []):
        raise forbidden(attributes, f'node "{node}" is not allowed to modify ownerReferences')
    wrong = _forbidden_labels(labels, old["metadata"].get("labels") or {})
    if wrong:
        raise forbidden(attributes, f"is not allowed to modify labels: {', '.join(wrong)}")


def _forbidden_labels(new: Json, old: Json) -> list[str]:
    changed = {key for key in new.keys() | old.keys() if new.get(key) != old.get(key)}
    return sorted(key for key in changed if not _may_set(key))


def _is_in_domain(namespace: str, *roots: str) -> bool:
    return any(namespace == root or namespace.endswith("." + root) for root in roots)


def _may_set(key: str) -> bool:
    namespace, slash, _ = key.partition("/")
    if not slash:
        return True
    if _is_in_domain(namespace, _RESTRICTED):
        return False
    return (
        not _is_in_domain(namespace, "kubernetes.io", "k8s.io")
        or key in _OWN_LABELS
        or _is_in_domain(namespace, *_OWN_NAMESPACES)
    )


# Others


def _lease(node: str, attributes: Attributes) -> None:
    if attributes.namespace != _LEASES:
        raise forbidden(attributes, f'can only access leases in the "{_LEASES}" system namespace')
    if _get_name(attributes) != node:
        raise forbidden(attributes, "can only access node lease with the same name as the requesting node")


def _csi_node(node: str, attributes: Attributes) -> None:
    if _get_name(attributes) != node:
        raise forbidden(attributes, "can only access CSINode with the same name as the requesting node")


def _get_name(attributes: Attributes) -> str:
    """Return the object's name. The name of a new object is only in the object."""
    if attributes.operation == "CREATE" and attributes.obj:
        return str(attributes.obj["metadata"].get("name", ""))
    return attributes.name


#: Fields of a volume claim's status that a node may write; the second tuple needs a gate.
_VOLUME_STATUS: Final = ("capacity", "conditions")
_EXPANSION_STATUS: Final = ("allocatedResources", "allocatedResourceStatuses")


def _volume_claim(node: str, attributes: Attributes) -> None:
    """Allow a node only to report the expanded file system of a volume."""
    if attributes.subresource != "status":
        raise forbidden(attributes, "may only update PVC status")
    if attributes.operation != "UPDATE":
        raise _unexpected(attributes)
    free: tuple[str, ...] = _VOLUME_STATUS
    if attributes.ctx.features.enabled("RecoverVolumeExpansionFailure"):
        free += _EXPANSION_STATUS
    old, new = _fixed_part(attributes.old or {}, free), _fixed_part(attributes.obj or {}, free)
    if old != new:
        changed = sorted(
            f"{section}.{name}"
            for section in old.keys() | new.keys()
            for name in old.get(section, {}).keys() | new.get(section, {}).keys()
            if old.get(section, {}).get(name) != new.get(section, {}).get(name)
        )
        text = f'node "{node}" is not allowed to update fields other than status.quantity and status.conditions: '
        raise forbidden(attributes, text + ", ".join(changed))


def _fixed_part(claim: Json, free: tuple[str, ...]) -> dict[str, Json]:
    """Return a claim's sections without the fields that a node may change and without derived metadata."""
    parts = {section: dict(claim.get(section) or {}) for section in ("metadata", "spec", "status")}
    for name in free:
        parts["status"].pop(name, None)
    for name in ("managedFields", "resourceVersion"):
        parts["metadata"].pop(name, None)
    return parts


def _slice(node: str, attributes: Attributes) -> None:
    what = {"CREATE": "create", "DELETE": "delete"}.get(attributes.operation)
    obj = attributes.obj if what == "create" else attributes.old
    if what is not None and ((obj or {}).get("spec") or {}).get("nodeName") != node:
        raise forbidden(attributes, f"can only {what} ResourceSlice with the same NodeName as the requesting node")


async def _account(node: str, attributes: Attributes) -> None:
    """Refuse tokens except for a node's own pods and the audiences that they mount."""
    if attributes.operation != "CREATE" or attributes.subresource != "token":
        return
    ctx, spec = attributes.ctx, (attributes.obj or {}).get("spec") or {}
    ref = spec.get("boundObjectRef") or {}
    if ref.get("apiVersion") != "v1" or ref.get("kind") != "Pod" or not ref.get("name"):
        raise forbidden(attributes, "node requested token not bound to a pod")
    if not ref.get("uid"):
        raise forbidden(attributes, "node requested token with a pod binding without a uid")
    pod = ctx.lookup("", "pods", attributes.namespace, ref["name"])
    if pod is None:
        raise status.not_found("pod", "", ref["name"])
    if ref["uid"] != pod["metadata"]["uid"]:
        text = (
            f"the UID in the bound object reference ({ref['uid']}) does not match the UID in record. The object might"
            " have been deleted and then recreated"
        )
        raise forbidden(attributes, text)
    if pod["spec"].get("nodeName") != node:
        raise forbidden(attributes, "node requested token bound to a pod scheduled on a different node")
    if ctx.features.enabled("ServiceAccountNodeAudienceRestriction"):
        await check_audiences(attributes, spec.get("audiences") or [], pod)


_WAYS: Final[dict[tuple[str, str], Callable[[str, Attributes], Awaitable[None] | None]]] = {
    ("", "pods"): _pod,
    ("", "nodes"): _node,
    ("", "serviceaccounts"): _account,
    ("", "persistentvolumeclaims"): _volume_claim,
    ("coordination.k8s.io", "leases"): _lease,
    ("storage.k8s.io", "csinodes"): _csi_node,
    ("resource.k8s.io", "resourceslices"): _slice,
    ("certificates.k8s.io", "podcertificaterequests"): pod_certificate_request,
}
