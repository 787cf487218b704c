"""The rules of kube-controller-manager's signers for requests.

Texts are upstream's (pkg/apis/certificates/helpers.go, pkg/controller/certificates/signer).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final

from apiserver.api.credentials.certificates import organizations
from controllers.signing.authority import AlternativeNames

if TYPE_CHECKING:
    from cryptography import x509

__all__ = ["KUBELET_CLIENT", "SIGNERS", "common_name", "kubelet_client_problem"]

CLIENT: Final = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT: Final = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING: Final = "kubernetes.io/kubelet-serving"
LEGACY: Final = "kubernetes.io/legacy-unknown"
_NODES: Final = ["system:nodes"]
_NODE: Final = "system:node:"
_SIGNATURE: Final = "digital signature"
_ENCIPHERMENT: Final = "key encipherment"
_CLIENT_AUTH: Final = "client auth"
_SERVER_AUTH: Final = "server auth"

#: Returns the reason to reject a request; "" if it is valid.
Problem = Callable[["x509.CertificateSigningRequest", Collection[str]], str]


def common_name(request: x509.CertificateSigningRequest) -> str:
    """Return the last common name of the subject."""
    from cryptography.x509.oid import NameOID

    found = request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[-1].value) if found else ""


def kubelet_client_problem(request: x509.CertificateSigningRequest, usages: Collection[str]) -> str:
    """Return the reason why a request is not for a node's client certificate, or ""."""
    names = AlternativeNames.of(request)
    found = (("DNS", names.dns), ("Email", names.emails), ("IP", names.addresses), ("URI", names.uris))
    unwanted = (f"{kind} subjectAltNames are not allowed" for kind, values in found if values)
    return (
        _check_organization(request)
        or next(unwanted, "")
        or _check_common_name(request)
        or _check_usages(_CLIENT_AUTH, usages)
    )


def _kubelet_serving_problem(request: x509.CertificateSigningRequest, usages: Collection[str]) -> str:
    names = AlternativeNames.of(request)
    if problem := _check_organization(request):
        return problem
    if not names.dns and not names.addresses:
        return "DNS or IP subjectAltName is required"
    for kind, values in (("Email", names.emails), ("URI", names.uris)):
        if values:
            return f"{kind} subjectAltNames are not allowed"
    return _check_usages(_SERVER_AUTH, usages) or _check_common_name(request)


def _check_organization(request: x509.CertificateSigningRequest) -> str:
    return "" if organizations(request) == _NODES else "subject organization is not system:nodes"


def _check_common_name(request: x509.CertificateSigningRequest) -> str:
    return "" if common_name(request).startswith(_NODE) else "subject common name does not begin with system:node:"


def _check_usages(purpose: str, usages: Collection[str]) -> str:
    """Check the usages of a node's certificate: exactly this purpose, key encipherment only with RSA keys."""
    if {*usages, _ENCIPHERMENT} == {_SIGNATURE, _ENCIPHERMENT, purpose} and {_SIGNATURE, purpose} <= set(usages):
        return ""
    return f"usages did not match [{' '.join(sorted((_SIGNATURE, _ENCIPHERMENT, purpose)))}]"


def _client_problem(request: x509.CertificateSigningRequest, usages: Collection[str]) -> str:
    unwanted = (usage for usage in usages if usage not in (_SIGNATURE, _ENCIPHERMENT, _CLIENT_AUTH))
    for usage in unwanted:
        return f"invalid usage for client certificate: {usage}"
    return "" if _CLIENT_AUTH in usages else f"missing required usage for client certificate: {_CLIENT_AUTH}"


def _accept(request: x509.CertificateSigningRequest, usages: Collection[str]) -> str:
    return ""


SIGNERS: Final[Mapping[str, Problem]] = {
    KUBELET_SERVING: _kubelet_serving_problem,
    KUBELET_CLIENT: kubelet_client_problem,
    CLIENT: _client_problem,
    LEGACY: _accept,
}
