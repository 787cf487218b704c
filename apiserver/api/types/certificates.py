"""CertificateSigningRequest of certificates.k8s.io/v1, and ClusterTrustBundle of its versions before that."""

from __future__ import annotations

from apiserver.api.limits import FIXED, Limits
from apiserver.api.schema import BYTES, INT32, STRING, TIME, ListOf, MapOf, Struct, field, string
from apiserver.api.types.authentication import ExtraValue
from apiserver.api.types.core.pods import ConditionStatus
from apiserver.api.types.meta import TYPE_META, ObjectMeta, list_of

KeyUsage = string(
    "v1.KeyUsage", "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign",
    "data encipherment", "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system",
    "ipsec tunnel", "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing",
    "s/mime", "server auth", "signing", "timestamping",
)
RequestConditionType = string("v1.RequestConditionType")

CertificateSigningRequestSpec = Struct("io.k8s.api.certificates.v1.CertificateSigningRequestSpec", lambda: (
    field("request", 1, BYTES, omit=False, required=True, doc="The request: PKCS #10 in PEM, encoded in base64."),
    field("signerName", 7, STRING, omit=False, required=True,
        doc="Who is to sign, such as kubernetes.io/kube-apiserver-client or example.com/signer."),
    field("expirationSeconds", 8, INT32, pointer=True,
        doc="Seconds that the certificate should be good for, at least 600; the signer may choose otherwise."),
    field("usages", 5, ListOf(KeyUsage),
        doc="What the key may be used for, such as digital signature and client auth."),
    field("username", 2, STRING, doc="Name of the user who made the request; the server sets it."),
    field("uid", 3, STRING, doc="UID of the user who made the request; the server sets it."),
    field("groups", 4, ListOf(STRING), doc="Groups of the user who made the request; the server sets them."),
    field("extra", 6, MapOf(ExtraValue),
        doc="Further attributes of the user who made the request; the server sets them."),
), doc="CertificateSigningRequestSpec says what certificate is asked for, by whom and of whom.")
CertificateSigningRequestCondition = Struct("io.k8s.api.certificates.v1.CertificateSigningRequestCondition", lambda: (
    field("type", 1, RequestConditionType, omit=False, required=True,
        doc="Approved, Denied, Failed (the signer could not) or another word."),
    field("status", 6, ConditionStatus, omit=False, required=True,
        doc="True, False or Unknown; True for the three types above."),
    field("reason", 2, STRING, doc="Why, as a CamelCase word."),
    field("message", 3, STRING, doc="Why, for people."),
    field("lastUpdateTime", 4, TIME, omit=False, doc="When the condition was written last."),
    field("lastTransitionTime", 5, TIME, omit=False, doc="When status changed last."),
), doc="CertificateSigningRequestCondition says what became of a request.")
CertificateSigningRequestStatus = Struct("io.k8s.api.certificates.v1.CertificateSigningRequestStatus", lambda: (
    field("conditions", 1, ListOf(CertificateSigningRequestCondition, "map", ("type",)),
        doc="Decisions, at most one of each type; Approved and Denied are set through the subresource approval."),
    field("certificate", 2, BYTES, doc="The certificates in PEM, encoded in base64; the signer sets them, once."),
), doc="CertificateSigningRequestStatus holds decisions and the certificate.")
CertificateSigningRequest = Struct("io.k8s.api.certificates.v1.CertificateSigningRequest", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object metadata."),
    field("spec", 2, CertificateSigningRequestSpec, omit=False, required=True, doc="What is asked for."),
    field("status", 3, CertificateSigningRequestStatus, omit=False, doc="What became of it."),
), gvk=("certificates.k8s.io", "v1", "CertificateSigningRequest"),
    doc="CertificateSigningRequest asks a signer for a certificate, once somebody has approved.")

CertificateSigningRequestList = list_of(CertificateSigningRequest)


class BundleTypes:
    """ClusterTrustBundle in one version; all versions have the same fields."""

    def __init__(self, version: str) -> None:
        prefix = f"io.k8s.api.certificates.{version}."
        self.ClusterTrustBundleSpec = Struct(prefix + "ClusterTrustBundleSpec", lambda: (
            field("signerName", 1, STRING, limits=Limits(immutable=FIXED),
                doc="Signer whose anchors these are, such as example.com/signer; nobody's when empty. Fixed."),
            field("trustBundle", 2, STRING, omit=False, required=True,
                doc="Trust anchors: certificates of authorities in PEM, in any order, at most 1 MiB."),
        ), doc="ClusterTrustBundleSpec holds trust anchors.")
        self.ClusterTrustBundle = Struct(prefix + "ClusterTrustBundle", lambda: (
            TYPE_META,
            field("metadata", 1, ObjectMeta, omit=False, doc="Standard object metadata."),
            field("spec", 2, self.ClusterTrustBundleSpec, omit=False, required=True, doc="The anchors."),
        ), gvk=("certificates.k8s.io", version, "ClusterTrustBundle"),
            doc="ClusterTrustBundle holds trust anchors that all of the cluster may read.")
        self.ClusterTrustBundleList = list_of(self.ClusterTrustBundle)


BUNDLES_V1BETA1 = BundleTypes("v1beta1")
BUNDLES_V1ALPHA1 = BundleTypes("v1alpha1")
