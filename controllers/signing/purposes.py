"""What a request has to be like for each of the signers of kube-controller-manager. Texts are upstream's
(pkg/apis/certificates/helpers.go, pkg/controller/certificates/signer).
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

#: What keeps a signer from signing; "" where nothing does.
Problem = Callable[["x509.CertificateSigningRequest", Collection[str]], str]


def common_name(request: x509.CertificateSigningRequest) -> str:
    """The last one of the subject."""
    from cryptography.x509.oid import NameOID

    found = request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[-1].value) if found else ""


def kubelet_client_problem(request: x509.CertificateSigningRequest, usages: Collection[str]) -> str:
    """What keeps a request from being one for a node as a client."""
    names = AlternativeNames.of(request)
    found = (("DNS", names.dns), ("Email", names.emails), ("IP", names.addresses), ("URI", names.uris))
    unwanted = (f"{kind} subjectAltNames are not allowed" for kind, values in found if values)
    return _no_node(request) or next(unwanted, "") or _no_node_name(request) or _not_for(_CLIENT_AUTH, usages)


def _kubelet_serving_problem(request: x509.CertificateSigningRequest, usages: Collection[str]) -> str:
    names = AlternativeNames.of(request)
    if problem := _no_node(request):
        return problem
    if not names.dns and not names.addresses:
        return "DNS or IP subjectAltName is required"
    for kind, values in (("Email", names.emails), ("URI", names.uris)):
        if values:
            return f"{kind} subjectAltNames are not allowed"
    return _not_for(_SERVER_AUTH, usages) or _no_node_name(request)


def _no_node(request: x509.CertificateSigningRequest) -> str:
    return "" if organizations(request) == _NODES else "subject organization is not system:nodes"


def _no_node_name(request: x509.CertificateSigningRequest) -> str:
    return "" if common_name(request).startswith(_NODE) else "subject common name does not begin with system:node:"


def _not_for(purpose: str, usages: Collection[str]) -> str:
    """Nodes ask for exactly this purpose; those with other keys than RSA's encipher none."""
    if {*usages, _ENCIPHERMENT} == {_SIGNATURE, _ENCIPHERMENT, purpose} and {_SIGNATURE, purpose} <= set(usages):
        return ""
    return f"usages did not match [{' '.join(sorted((_SIGNATURE, _ENCIPHERMENT, purpose)))}]"


def _client_problem(request: x509.CertificateSigningRequest, usages: Collection[str]) -> str:
    unwanted = (usage for usage in usages if usage not in (_SIGNATURE, _ENCIPHERMENT, _CLIENT_AUTH))
    for usage in unwanted:
        return f"invalid usage for client certificate: {usage}"
    return "" if _CLIENT_AUTH in usages else f"missing required usage for client certificate: {_CLIENT_AUTH}"


def _no_problem(request: x509.CertificateSigningRequest, usages: Collection[str]) -> str:
    return ""


SIGNERS: Final[Mapping[str, Problem]] = {
    KUBELET_SERVING: _kubelet_serving_problem,
    KUBELET_CLIENT: kubelet_client_problem,
    CLIENT: _client_problem,
    LEGACY: _no_problem,
}
