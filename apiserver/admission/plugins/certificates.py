"""Permission to approve, sign and attest for a signer, and the limits of the API server's own signer.

Facts: plugin/pkg/admission/certificates (approval, signing, subjectrestriction, ctbattest).
"""

from __future__ import annotations

from typing import Final

from apiserver.api.credentials.certificates import RequestError, organizations, read_request, signer_names
from apiserver.api.objects import Json
from apiserver.registry.definition.resource import Resource
from apiserver.registry.store.admission import Attributes, Plugin, forbidden

__all__ = ["CertificateApproval", "CertificateSigning", "CertificateSubjectRestriction", "ClusterTrustBundleAttest"]


_GROUP: Final = "certificates.k8s.io"
_CLIENT_SIGNER: Final = "kubernetes.io/kube-apiserver-client"
_MASTERS: Final = "system:masters"
#: The fields that the garbage collector changes.
_COLLECTED: Final = ("ownerReferences", "finalizers")
_IGNORED: Final = ("managedFields", "resourceVersion")


async def _check(attributes: Attributes, verb: str, signer: str, refusal: str) -> None:
    """Raise 403 unless the user may do that for a signer, or for all signers of its domain."""
    for name in signer_names(signer):
        if await attributes.ctx.is_allowed(verb, _GROUP, "signers", "", "", name):
            return
    raise forbidden(attributes, f'{refusal} "{signer}"')


class _CertificateRequestPlugin(Plugin):
    def handles(self, resource: Resource) -> bool:
        return (resource.group, resource.plural) == (_GROUP, "certificatesigningrequests")


class CertificateApproval(_CertificateRequestPlugin):
    name = "CertificateApproval"
    operations = frozenset({"UPDATE"})

    async def validate(self, attributes: Attributes) -> None:
        old = attributes.old
        if attributes.subresource != "approval" or old is None:
            return
        signer = old["spec"].get("signerName", "")
        await _check(attributes, "approve", signer, "user not permitted to approve requests with signerName")


class CertificateSigning(_CertificateRequestPlugin):
    name = "CertificateSigning"
    operations = frozenset({"UPDATE"})

    async def validate(self, attributes: Attributes) -> None:
        new, old = attributes.obj, attributes.old
        if attributes.subresource != "status" or new is None or old is None:
            return
        before, after = old.get("status") or {}, new.get("status") or {}
        if all((before.get(name) or None) == (after.get(name) or None) for name in ("certificate", "conditions")):
            return
        signer = old["spec"].get("signerName", "")
        await _check(attributes, "sign", signer, "user not permitted to sign requests with signerName")


class CertificateSubjectRestriction(_CertificateRequestPlugin):
    """Plugin that refuses certificates of system:masters for the API server's client signer."""

    name = "CertificateSubjectRestriction"
    operations = frozenset({"CREATE"})

    def validate(self, attributes: Attributes) -> None:
        obj = attributes.obj
        if attributes.subresource or obj is None or obj["spec"].get("signerName") != _CLIENT_SIGNER:
            return
        try:
            groups = organizations(read_request(obj["spec"].get("request", "")))
        except RequestError as error:
            raise forbidden(attributes, f"failed to parse CSR: {error}") from None
        if _MASTERS in groups:
            text = f"use of {_CLIENT_SIGNER} signer with {_MASTERS} group is not allowed"
            raise forbidden(attributes, text)


class ClusterTrustBundleAttest(Plugin):
    name = "ClusterTrustBundleAttest"
    operations = frozenset({"CREATE", "UPDATE"})

    def handles(self, resource: Resource) -> bool:
        return (resource.group, resource.plural) == (_GROUP, "clustertrustbundles")

    async def validate(self, attributes: Attributes) -> None:
        obj, old = attributes.obj, attributes.old
        signer = "" if obj is None else obj["spec"].get("signerName", "")
        if obj is None or not signer or (old is not None and _only_collected(obj, old)):
            return
        await _check(attributes, "attest", signer, "user not permitted to attest for signerName")


def _only_collected(obj: Json, old: Json) -> bool:
    def rest(of: Json) -> Json:
        metadata = {name: value for name, value in of["metadata"].items() if name not in (*_COLLECTED, *_IGNORED)}
        return {**of, "metadata": metadata}

    return rest(obj) == rest(old)
