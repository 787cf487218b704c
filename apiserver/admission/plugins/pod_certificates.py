"""NodeRestriction for PodCertificateRequests.

A node requests certificates for pods that run on it, with the pods' service accounts.

A mismatch that a stale cache can explain (an old UID, a missing object) is a 500 instead of a 403, like upstream's.
"""

from __future__ import annotations

from apiserver.api.errors.field_errors import go_quote
from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.registry.store.admission import Attributes, forbidden

__all__ = ["pod_certificate_request"]

_MIRROR = "kubernetes.io/config.mirror"


def pod_certificate_request(node: str, attributes: Attributes) -> None:
    """Check a node's PodCertificateRequest. Raise StatusError."""
    if attributes.operation != "CREATE":
        raise forbidden(attributes, f"unexpected operation {attributes.operation}")
    if attributes.subresource:
        raise forbidden(attributes, f"unexpected subresource {attributes.subresource}")
    spec: Json = (attributes.obj or {}).get("spec") or {}
    name = spec.get("nodeName", "")
    if name != node:
        quoted = f"{go_quote(name)}, which is not the requesting node {go_quote(node)}"
        raise forbidden(attributes, f"PodCertificateRequest.Spec.NodeName={quoted}")
    found = _lookup(attributes, "node", "nodes", "", name)
    pod_name = go_quote(f"{attributes.namespace}/{spec.get('podName', '')}")
    if found["metadata"]["uid"] != spec.get("nodeUID", ""):
        uid, is_uid = go_quote(spec.get("nodeUID", "")), go_quote(found["metadata"]["uid"])
        raise _build_error(
            f"PodCertificateRequest for pod {pod_name} names node UID {uid}, inconsistent with the running node"
            f" ({is_uid})"
        )
    _check_pod(attributes, spec, pod_name)


def _check_pod(attributes: Attributes, spec: Json, name: str) -> None:
    pod = _lookup(attributes, "pod", "pods", attributes.namespace, spec.get("podName", ""))
    uid = spec.get("podUID", "")
    if uid != pod["metadata"]["uid"]:
        is_uid = go_quote(pod["metadata"]["uid"])
        raise _build_error(
            f"PodCertificateRequest for pod {name} contains pod UID ({go_quote(uid)}) which differs from running pod"
            f" {is_uid}"
        )
    if pod["spec"].get("nodeName", "") != spec["nodeName"]:
        node = go_quote(spec["nodeName"])
        raise forbidden(attributes, f"pod {name} is not running on node {node} named in the PodCertificateRequest")
    if _MIRROR in (pod["metadata"].get("annotations") or {}):
        raise forbidden(attributes, f"pod {name} is a mirror pod")
    account, runs_as = spec.get("serviceAccountName", ""), pod["spec"].get("serviceAccountName", "")
    if account != runs_as:
        raise forbidden(
            attributes,
            f"PodCertificateRequest for pod {name} contains serviceAccountName ({go_quote(account)}) that differs from"
            f" running pod ({go_quote(runs_as)})",
        )
    found = _lookup(attributes, "service account", "serviceaccounts", attributes.namespace, account)
    if spec.get("serviceAccountUID", "") != found["metadata"]["uid"]:
        raise _build_error(
            f"PodCertificateRequest for pod {name} names service account UID"
            f" {go_quote(spec.get('serviceAccountUID', ''))}, which differs from the running service account"
            f" ({go_quote(found['metadata']['uid'])})"
        )


def _lookup(attributes: Attributes, what: str, plural: str, namespace: str, name: str) -> Json:
    found = attributes.ctx.lookup("", plural, namespace, name)
    if found is None:
        shown = go_quote(f"{namespace}/{name}" if namespace else name)
        kind = what.replace(" ", "")
        raise _build_error(
            f'while retrieving {what} {shown} named in the PodCertificateRequest: {kind} "{name}" not found'
        )
    return found


def _build_error(text: str) -> StatusError:
    return StatusError(500, "", text)
