"""The node authorizer: a node reads its pods' objects, reports their status, and publishes its slices.

A user `system:node:NAME` in group system:nodes is a node. Objects belong to a node along node ← pod ← object and node ←
pod ← volume claim ← volume ← secret. The references of pods and volumes are indexes of their caches. Fixed rules decide
the other requests. A refusal gives a reason and leaves the decision to the next authorizer.

Facts: plugin/pkg/auth/authorizer/node, pkg/auth/nodeidentifier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from apiserver.api.helpers.pod_references import config_map_names, secret_names, volume_claim_names, volume_secrets
from apiserver.api.objects import Json
from apiserver.api.selectors.selectors import SelectorError, parse_fields
from apiserver.authorization.roles import Grant, Rights
from apiserver.registry.definition.authority import Opinion, Question

if TYPE_CHECKING:
    from apiserver.api.features.gates import Features
    from apiserver.registry.store.store import Store
    from apiserver.request.messages import User
    from apiserver.storage.watchcache.cache import Entry

__all__ = ["NODES", "NodeAuthorizer", "node_of"]


NODES: Final = "system:nodes"
_USER: Final = "system:node:"
_MIRROR: Final = "kubernetes.io/config.mirror"
_INDEX: Final = "references"
_LEASES: Final = "kube-node-lease"
_YES: Final[Opinion] = (True, "")
_NO: Final[Opinion] = (None, "")
_SLICE_VERBS: Final = (
    "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete,"
    " deletecollection"
)


def node_of(user: User) -> str | None:
    """Return the name of the user's node, "" for a node without a name, or None for other users."""
    return user.name.removeprefix(_USER) if user.name.startswith(_USER) and NODES in user.groups else None


def _terms(entry: Entry) -> Iterator[str]:
    """Yield `node kind namespace name` of each object that a pod allows its node to read."""
    pod = entry.obj
    spec, metadata = pod["spec"], pod["metadata"]
    node, namespace = spec.get("nodeName"), metadata.get("namespace", "")
    if not node:
        return
    yield f"{node} pods {namespace} {metadata['name']}"
    if _MIRROR in (metadata.get("annotations") or ()):
        return
    if spec.get("serviceAccountName"):
        yield f"{node} serviceaccounts {namespace} {spec['serviceAccountName']}"
    for name in secret_names(spec):
        yield f"{node} secrets {namespace} {name}"
    for name in config_map_names(spec):
        yield f"{node} configmaps {namespace} {name}"
    for name in _claims(pod):
        yield f"{node} resourceclaims {namespace} {name}"
    for name in volume_claim_names(pod):
        yield f"{node} persistentvolumeclaims {namespace} {name}"


def _volume_terms(entry: Entry) -> Iterator[str]:
    """Yield `namespace name` of each secret that a bound volume allows its node to read."""
    spec = entry.obj["spec"]
    if spec.get("claimRef"):
        for namespace, name in volume_secrets(spec):
            yield f"{namespace} {name}"


def _claims(pod: Json) -> Iterator[str]:
    """Yield the names of the claims that a pod names or that were created for it."""
    status = pod.get("status") or {}
    made = {item.get("name"): item.get("resourceClaimName") for item in status.get("resourceClaimStatuses") or ()}
    for claim in pod["spec"].get("resourceClaims") or ():
        name = claim.get("resourceClaimName") or (
            made.get(claim.get("name")) if claim.get("resourceClaimTemplateName") else None
        )
        if name:
            yield name
    extended = (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
    if extended:
        yield extended


_NAMING: Final = frozenset(
    {
        ("storage.k8s.io", "volumeattachments"),
        ("resource.k8s.io", "resourceslices"),
        ("certificates.k8s.io", "podcertificaterequests"),
    }
)


class NodeAuthorizer:
    """The node authorizer. `stores` are the registry's; `rules` are those of the role system:node."""

    def __init__(self, stores: Mapping[tuple[str, str], Store], features: Features, rules: list[Json]) -> None:
        self._pods = stores["", "pods"].cache
        self._pods.add_index(_INDEX, _terms)
        self._volumes = stores["", "persistentvolumes"]
        self._volumes.cache.add_index(_INDEX, _volume_terms)
        #: Objects that belong to a node because they name it.
        self._named = {plural: store for (group, plural), store in stores.items() if (group, plural) in _NAMING}
        fixed = Grant("", "", "", "", "", ())
        self._fixed = Rights([(rule, fixed) for rule in rules], [])
        self._selectors = features.enabled("AuthorizeNodeWithSelectors")
        self._accounts = features.enabled("KubeletServiceAccountTokenForCredentialProviders") or features.enabled(
            "PodCertificateRequest"
        )
        ways: dict[tuple[str, str], Callable[[str, Question], Opinion]] = {
            ("", "secrets"): self._read,
            ("", "configmaps"): self._read,
            ("", "serviceaccounts"): self._account,
            ("resource.k8s.io", "resourceclaims"): self._get,
            ("resource.k8s.io", "resourceslices"): self._slice,
            ("", "persistentvolumeclaims"): self._volume_claim,
            ("", "persistentvolumes"): self._get,
            ("storage.k8s.io", "volumeattachments"): self._get,
            ("coordination.k8s.io", "leases"): self._lease,
            ("storage.k8s.io", "csinodes"): self._csi_node,
        }
        if features.enabled("PodCertificateRequest"):
            ways["certificates.k8s.io", "podcertificaterequests"] = self._pod_certificate
        if self._selectors:
            ways.update({("", "nodes"): self._node, ("", "pods"): self._pod})
        self._ways = ways

    def opinion(self, user: User, question: Question) -> Opinion:
        node = node_of(user)
        if not node:
            return _NO if node is None else (None, f'unknown node for user "{user.name}"')
        way = self._ways.get((question.group, question.resource))
        if way is not None:
            return way(node, question)
        return _YES if self._fixed.find(question) is not None else _NO

    def path_opinion(self, user: User, verb: str, path: str) -> Opinion:
        return (None, f'unknown node for user "{user.name}"') if node_of(user) == "" else _NO

    # One method per resource.

    def _check_relation(self, node: str, question: Question) -> Opinion:
        if not question.name:
            return None, "No Object name found"
        related = self._relation(node, question.resource, question.namespace, question.name)
        return _YES if related else (None, f"no relationship found between node '{node}' and this object")

    def _relation(self, node: str, resource: str, namespace: str, name: str) -> bool:
        """Return whether one of the node's pods refers to an object."""
        if resource in self._named:
            store = self._named[resource]
            entry = store.cache.get(store.key(namespace, name))
            return entry is not None and entry.obj["spec"].get("nodeName") == node
        if resource == "persistentvolumes":
            entry = self._volumes.cache.get(self._volumes.key("", name))
            return entry is not None and self._has_volume(node, entry)
        if self._pods.find(_INDEX, f"{node} {resource} {namespace} {name}").entries:
            return True
        if resource != "secrets":
            return False
        return any(
            self._has_volume(node, entry) for entry in self._volumes.cache.find(_INDEX, f"{namespace} {name}").entries
        )

    def _has_volume(self, node: str, volume: Entry) -> bool:
        """Return whether a pod of the node uses the claim to which a volume is bound."""
        claim = volume.obj["spec"].get("claimRef")
        return bool(claim) and self._relation(
            node, "persistentvolumeclaims", claim.get("namespace", ""), claim.get("name", "")
        )

    def _read(self, node: str, question: Question) -> Opinion:
        if question.verb not in ("get", "list", "watch"):
            return None, "can only read resources of this type"
        if question.subresource:
            return None, "cannot read subresource"
        if not question.namespace:
            return None, "can only read namespaced object of this type"
        return self._check_relation(node, question)

    def _get(self, node: str, question: Question) -> Opinion:
        if question.verb != "get":
            return None, "can only get individual resources of this type"
        if question.subresource:
            return None, "cannot get subresource"
        return self._check_relation(node, question)

    def _volume_claim(self, node: str, question: Question) -> Opinion:
        if not question.subresource and question.verb == "get":
            return self._check_relation(node, question)
        if question.subresource != "status":
            return self._get(node, question)
        if question.verb not in ("update", "patch"):
            return None, "can only get/update/patch this type"
        return self._check_relation(node, question)

    def _csi_node(self, node: str, question: Question) -> Opinion:
        if question.verb not in ("get", "create", "update", "patch", "delete"):
            return None, "can only get, create, update, patch, or delete a CSINode"
        if question.subresource:
            return None, "cannot authorize CSINode subresources"
        if question.verb != "create" and question.name != node:
            return None, "can only access CSINode with the same name as the requesting node"
        return _YES

    def _account(self, node: str, question: Question) -> Opinion:
        if question.verb == "get" and not question.subresource:
            return self._read(node, question) if self._accounts else (None, "not allowed to get service accounts")
        if question.verb != "create" or not question.name:
            return None, "can only create tokens for individual service accounts"
        if question.subresource != "token":
            return None, "can only create token subresource of serviceaccount"
        return self._check_relation(node, question)

    def _lease(self, node: str, question: Question) -> Opinion:
        if question.verb not in ("get", "create", "update", "patch", "delete"):
            return None, "can only get, create, update, patch, or delete a node lease"
        if question.namespace != _LEASES:
            return None, f'can only access leases in the "{_LEASES}" system namespace'
        if question.verb != "create" and question.name != node:
            return None, "can only access node lease with the same name as the requesting node"
        return _YES

    def _slice(self, node: str, question: Question) -> Opinion:
        if question.subresource:
            return None, "cannot authorize ResourceSlice subresources"
        verb = question.verb
        if verb == "create":
            return _YES
        if verb in ("get", "update", "patch", "delete"):
            return self._check_relation(node, question)
        if verb in ("watch", "list", "deletecollection"):
            if not self._selectors or _selects(question.selector, node):
                return _YES
            return None, "can only list/watch/deletecollection resourceslices with nodeName field selector"
        return None, _SLICE_VERBS

    def _pod_certificate(self, node: str, question: Question) -> Opinion:
        verb = question.verb
        if question.subresource:
            return None, "nodes may not access the status subresource of PodCertificateRequests"
        if verb == "create":
            return _YES
        if verb == "get":
            return self._check_relation(node, question)
        if verb not in ("list", "watch"):
            return None, f"nodes may not {verb} podcertificaterequests"
        if _selects(question.selector, node):
            return _YES
        return None, "can only list/watch podcertificaterequests with nodeName field selector"

    def _node(self, node: str, question: Question) -> Opinion:
        verb = question.verb
        if question.subresource:
            return _YES if question.subresource == "status" and verb in ("update", "patch") else _NO
        if verb in ("create", "update", "patch"):
            return _YES
        if verb not in ("get", "list", "watch"):
            return _NO
        if not question.name:
            return None, f"node '{node}' cannot read all nodes, only its own Node object"
        return (
            _YES
            if question.name == node
            else (None, f"node '{node}' cannot read '{question.name}', only its own Node object")
        )

    def _pod(self, node: str, question: Question) -> Opinion:
        verb, subresource = question.verb, question.subresource
        if subresource:
            return (
                _YES
                if (subresource == "status" and verb in ("update", "patch"))
                or (subresource == "eviction" and verb == "create")
                else _NO
            )
        if verb == "get":
            return self._get(node, question)
        if verb in ("list", "watch"):
            if _selects(question.selector, node):
                return _YES
            return (
                self._check_relation(node, question)
                if question.name
                else (None, "can only list/watch pods with spec.nodeName field selector")
            )
        return _YES if verb in ("create", "delete") else _NO


def _selects(selector: str, node: str) -> bool:
    """Return whether a field selector requires spec.nodeName to equal the node."""
    if not selector:
        return False
    try:
        return parse_fields(selector).exact("spec.nodeName") == node
    except SelectorError:
        return False
