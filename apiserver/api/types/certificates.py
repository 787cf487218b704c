"""Types of certificates.k8s.io: CertificateSigningRequest (v1), ClusterTrustBundle and PodCertificateRequest."""

from __future__ import annotations

from apiserver.api.schema.language import BYTES, INT32, STRING, TIME, ListOf, MapOf, Struct, field, string
from apiserver.api.schema.limits import FIXED, Limits
from apiserver.api.schema.markers import Invalid, is_unset
from apiserver.api.types.authentication import ExtraValue
from apiserver.api.types.core.pods import ConditionStatus
from apiserver.api.types.meta import TYPE_META, UID, Condition, ObjectMeta, list_of

KeyUsage = string(
    "v1.KeyUsage", "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign",
    "data encipherment", "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system",
    "ipsec tunnel", "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing",
    "s/mime", "server auth", "signing", "timestamping",
)
RequestConditionType = string("v1.RequestConditionType")

CertificateSigningRequestSpec = Struct("io.k8s.api.certificates.v1.CertificateSigningRequestSpec", lambda: (
    field("request", 1, BYTES, omit=False, pointer=True, required=True,
        doc="The request: PKCS #10 in PEM, encoded in base64."),
    field("signerName", 7, STRING, omit=False, required=True,
        doc="Name of the signer, such as kubernetes.io/kube-apiserver-client or example.com/signer."),
    field("expirationSeconds", 8, INT32, pointer=True,
        doc="Requested lifetime of the certificate in seconds, at least 600; the signer may choose another."),
    field("usages", 5, ListOf(KeyUsage),
        doc="Permitted uses of the key, such as digital signature and client auth."),
    field("username", 2, STRING, doc="Name of the requester; set by the server."),
    field("uid", 3, STRING, doc="UID of the requester; set by the server."),
    field("groups", 4, ListOf(STRING), doc="Groups of the requester; set by the server."),
    field("extra", 6, MapOf(ExtraValue),
        doc="Further attributes of the requester; set by the server."),
), doc="CertificateSigningRequestSpec has the requested certificate, its requester and its signer.")
CertificateSigningRequestCondition = Struct("io.k8s.api.certificates.v1.CertificateSigningRequestCondition", lambda: (
    field("type", 1, RequestConditionType, omit=False, required=True,
        doc="Approved, Denied, Failed (the signer could not) or another word."),
    field("status", 6, ConditionStatus, omit=False, required=True,
        doc="True, False or Unknown; True for the three types above."),
    field("reason", 2, STRING, doc="Reason as one CamelCase word, for programs."),
    field("message", 3, STRING, doc="Reason as text, for people."),
    field("lastUpdateTime", 4, TIME, omit=False, doc="Time of the last write of the condition."),
    field("lastTransitionTime", 5, TIME, omit=False, doc="Time of the last change of status."),
), doc="CertificateSigningRequestCondition is a decision about a request.")
CertificateSigningRequestStatus = Struct("io.k8s.api.certificates.v1.CertificateSigningRequestStatus", lambda: (
    field("conditions", 1, ListOf(CertificateSigningRequestCondition, "map", ("type",)),
        doc="Decisions, at most one of each type; Approved and Denied are set through the subresource approval."),
    field("certificate", 2, BYTES, doc="The certificates in PEM, encoded in base64; the signer sets them, once."),
), doc="CertificateSigningRequestStatus has the decisions and the certificate.")
CertificateSigningRequest = Struct("io.k8s.api.certificates.v1.CertificateSigningRequest", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, CertificateSigningRequestSpec, omit=False, required=True, doc="The request."),
    field("status", 3, CertificateSigningRequestStatus, omit=False, doc="The result."),
), gvk=("certificates.k8s.io", "v1", "CertificateSigningRequest"),
    doc="CertificateSigningRequest requests a certificate from a signer; it must be approved first.")

CertificateSigningRequestList = list_of(CertificateSigningRequest)


class BundleTypes:
    """ClusterTrustBundle in one version; all versions have the same fields."""

    def __init__(self, version: str) -> None:
        prefix = f"io.k8s.api.certificates.{version}."
        self.ClusterTrustBundleSpec = Struct(prefix + "ClusterTrustBundleSpec", lambda: (
            field("signerName", 1, STRING, limits=Limits(immutable=FIXED),
                doc="Signer of the anchors, such as example.com/signer; none when empty. Fixed."),
            field("trustBundle", 2, STRING, omit=False, required=True,
                doc="Trust anchors: certificates of authorities in PEM, in any order, at most 1 MiB."),
        ), doc="ClusterTrustBundleSpec has trust anchors.")
        self.ClusterTrustBundle = Struct(prefix + "ClusterTrustBundle", lambda: (
            TYPE_META,
            field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
            field("spec", 2, self.ClusterTrustBundleSpec, omit=False, required=True, doc="The anchors."),
        ), gvk=("certificates.k8s.io", version, "ClusterTrustBundle"),
            doc="ClusterTrustBundle has trust anchors that every client of the cluster may read.")
        self.ClusterTrustBundleList = list_of(self.ClusterTrustBundle)


BUNDLES_V1BETA1 = BundleTypes("v1beta1")
BUNDLES_V1ALPHA1 = BundleTypes("v1alpha1")

_V1BETA1 = "io.k8s.api.certificates.v1beta1."
_NAME = Limits(format="subdomain")
_UID = Limits(length=128)
PodCertificateRequestSpec = Struct(_V1BETA1 + "PodCertificateRequestSpec", lambda: (
    field("signerName", 1, STRING, omit=False, required=True,
        doc="Name of the signer, such as example.com/signer. Names below kubernetes.io are reserved for the Kubernetes "
            "project."),
    field("podName", 2, STRING, omit=False, required=True, limits=_NAME, doc="The pod that gets the certificate."),
    field("podUID", 3, UID, omit=False, required=True, limits=_UID, doc="UID of the pod, at most 128 bytes."),
    field("serviceAccountName", 4, STRING, omit=False, required=True, limits=_NAME,
        doc="The service account that the pod runs as."),
    field("serviceAccountUID", 5, UID, omit=False, required=True, limits=_UID,
        doc="UID of the account, at most 128 bytes."),
    field("nodeName", 6, STRING, omit=False, required=True, limits=_NAME, doc="The node that the pod is on."),
    field("nodeUID", 7, UID, omit=False, required=True, limits=_UID, doc="UID of the node, at most 128 bytes."),
    field("maxExpirationSeconds", 8, INT32, pointer=True, default=86400,
        doc="Longest lifetime of the certificate in seconds: 3600 (an hour) to 7862400 (91 days), for signers of "
            "kubernetes.io to 86400; 86400 (a day) when not set."),
    field("pkixPublicKey", 9, BYTES, omit=False, pointer=True,
        doc="The public key in PKIX form, instead of stubPKCS10Request: RSA of 3072 or 4096 bits, ECDSA on P-256, "
            "P-384 or P-521, or Ed25519."),
    field("proofOfPossession", 10, BYTES, omit=False, pointer=True,
        doc="With pkixPublicKey: the UID of the pod, signed with the private key."),
    field("stubPKCS10Request", 12, BYTES, omit=False, pointer=True, required=True,
        doc="A request in PKCS #10, in DER: only its key and signature count. The key is one that pkixPublicKey could "
            "have."),
    field("unverifiedUserAnnotations", 11, MapOf(STRING),
        doc="Unverified facts from the pod for the signer, by keys with a domain."),
), doc="PodCertificateRequestSpec has the pod, the public key and the signer of a certificate. It is fixed.",
    rules=tuple(
        step
        for name in ("pod", "serviceAccount", "node")
        for step in (
            f"{name}Name", Invalid(f"{name}UID", "must not be empty", when=is_unset(f"{name}UID")), f"{name}UID",
        )
    ))
PodCertificateRequestStatus = Struct(_V1BETA1 + "PodCertificateRequestStatus", lambda: (
    field("conditions", 1, ListOf(Condition, "map", ("type",), merge_key="type"),
        doc="Result of the request: at most one of Issued, Denied and Failed, with status True."),
    field("certificateChain", 2, STRING,
        doc="The certificate chain in PEM, the leaf first; the signer sets it, once, at most 100 KiB."),
    field("notBefore", 4, TIME, pointer=True, doc="notBefore of the certificate."),
    field("beginRefreshAt", 5, TIME, pointer=True,
        doc="Time at which the node should request another certificate: at least ten minutes after notBefore and "
            "before notAfter."),
    field("notAfter", 6, TIME, pointer=True, doc="notAfter of the certificate."),
), doc="PodCertificateRequestStatus has the certificate, or the reason that there is none.")
PodCertificateRequest = Struct(_V1BETA1 + "PodCertificateRequest", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, PodCertificateRequestSpec, omit=False, required=True, doc="The request."),
    field("status", 3, PodCertificateRequestStatus, omit=False, doc="The result."),
), gvk=("certificates.k8s.io", "v1beta1", "PodCertificateRequest"),
    doc="PodCertificateRequest requests a certificate for a pod from a signer; the pod's node creates it.")
PodCertificateRequestList = list_of(PodCertificateRequest)
