"""CertificateSigningRequests from their approval to their end, on a running control plane, and what is signed."""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import ssl
import urllib.request
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from apiserver.api.objects import Json
from apiserver.tls.self_signed import load_or_create_authority
from controllers.manager.flags import read
from controllers.options.command_line import FlagError
from controllers.runtime.kinds import POD_CERTIFICATE_REQUESTS, SIGNING_REQUESTS
from controllers.signing.authority import AuthorityError, Pair
from controllers.signing.purposes import SIGNERS
from tests.http.authorities import Authority
from tests.support.objects import make_manifest
from tests.support.patience import wait_until
from tests.support.wire import Child, Wire

pytestmark = pytest.mark.integration

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
BUNDLES = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles"
CLIENT, NODE, SERVING = (
    f"kubernetes.io/{name}" for name in ("kube-apiserver-client", "kube-apiserver-client-kubelet", "kubelet-serving")
)
FOR_CLIENTS, FOR_NODES = ["client auth"], ["digital signature", "client auth"]
KEY = ec.generate_private_key(ec.SECP256R1())
NOW = dt.datetime(2031, 1, 1, tzinfo=dt.UTC)


def subject(name: str, *organizations: str) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def make_csr(
    name: str, *organizations: str, names: tuple[x509.GeneralName, ...] = ()
) -> x509.CertificateSigningRequest:
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject(name, *organizations))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(KEY, hashes.SHA256())


def request(name: str, signer: str, usages: list[str], asks: x509.CertificateSigningRequest, **more: Any) -> Json:
    encoded = b64encode(asks.public_bytes(serialization.Encoding.PEM)).decode()
    return make_manifest(SIGNING_REQUESTS, name, {"request": encoded, "signerName": signer, "usages": usages, **more})


class Plane:
    """A server with https and authorization by roles, and the controllers of requests."""

    def __init__(self, folder: Path, child: Child) -> None:
        self.folder, self.url = folder, child.url
        self.ca = (folder / "data" / "tls.crt").read_text()
        self.admin, self.node = child.wire("secret", self.ca), child.wire("joining", self.ca)

    def decide(self, name: str, kind: str = "Approved") -> None:
        found = self.admin.get(f"{REQUESTS}/{name}").json
        found["status"] = {"conditions": [{"type": kind, "status": "True", "reason": "Test"}]}
        assert self.admin.request("PUT", f"{REQUESTS}/{name}/approval", found).status == 200

    def status(self, name: str, wire: Wire | None = None) -> Json:
        status: Json = (wire or self.admin).get(f"{REQUESTS}/{name}").json.get("status") or {}
        return status

    def signed(self, name: str) -> bytes:
        wait_until(lambda: "certificate" in self.status(name), f"{name} is signed")
        return b64decode(self.status(name)["certificate"])

    def authenticate(self, certificate: bytes) -> Json:
        """Return the user that the server finds in a certificate."""
        shown = self.folder / "shown.pem"
        plain = serialization.NoEncryption()
        key = KEY.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        shown.write_bytes(certificate + key)
        return self.find_user(shown)

    def find_user(self, shown: Path) -> Json:
        """Return the user that the server finds in the certificate of a file."""
        context = ssl.create_default_context(cadata=self.ca)
        context.load_cert_chain(shown)
        headers = {"Content-Type": "application/json"}
        review = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        sent = urllib.request.Request(f"{self.url}{review}", b"{}", headers)
        with urllib.request.urlopen(sent, context=context) as answer:
            user: Json = json.load(answer)["status"]["userInfo"]
            return user


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    folder = tmp_path_factory.mktemp("certificates")
    (folder / "tokens.csv").write_text('secret,root,1,"system:masters"\njoining,joiner,2,system:bootstrappers\n')
    controllers = "csrapproving,csrsigning,csrcleaner,kube-apiserver-serving-clustertrustbundle-publisher-controller"
    flags = (
        "--tls", f"--token-auth-file={folder}/tokens.csv", "--authorization-mode=RBAC", f"--controllers={controllers}",
        "--feature-gates=ClusterTrustBundle=true", "--runtime-config=certificates.k8s.io/v1beta1=true",
    )  # fmt: skip
    with Child(folder / "data", *flags) as child:
        yield Plane(folder, child)


def test_an_approved_certificate_authenticates_its_subject(plane: Plane) -> None:
    body = request("jane", CLIENT, FOR_CLIENTS, make_csr("jane", "devs", "ops"), expirationSeconds=3600)
    assert plane.admin.post(REQUESTS, body).status == 201
    plane.decide("jane")
    certificate = plane.signed("jane")
    user = plane.authenticate(certificate)
    assert (user["username"], sorted(user["groups"])) == ("jane", ["devs", "ops", "system:authenticated"])
    found = x509.load_pem_x509_certificate(certificate)
    life = found.not_valid_after_utc - found.not_valid_before_utc
    assert life == dt.timedelta(hours=1, minutes=5)


def test_the_authorities_of_a_file_are_accepted_besides_the_signer(tmp_path: Path) -> None:
    users = Authority(tmp_path, "users")
    (tmp_path / "tokens.csv").write_text('secret,root,1,"system:masters"\n')
    flags = (
        "--tls",
        f"--token-auth-file={tmp_path}/tokens.csv",
        "--authorization-mode=RBAC",
        "--controllers=csrsigning",
    )
    with Child(tmp_path / "data", *flags, f"--client-ca-file={users.file}") as child:
        plane = Plane(tmp_path, child)
        assert plane.admin.post(REQUESTS, request("jane", CLIENT, FOR_CLIENTS, make_csr("jane"))).status == 201
        plane.decide("jane")
        assert plane.authenticate(plane.signed("jane"))["username"] == "jane"
        assert plane.find_user(users.client("alice"))["username"] == "alice"


def test_a_request_that_its_signer_does_not_sign_fails_and_a_denied_one_is_left_alone(plane: Plane) -> None:
    for name, usages in (("odd", ["server auth"]), ("denied", FOR_CLIENTS), ("after", FOR_CLIENTS)):
        assert plane.admin.post(REQUESTS, request(name, CLIENT, usages, make_csr(name))).status == 201
    plane.decide("denied", "Denied")
    plane.decide("odd")
    plane.decide("after")
    plane.signed("after")
    wait_until(lambda: len(plane.status("odd").get("conditions", ())) == 2, "it has failed")
    failed = plane.status("odd")["conditions"][1]
    assert (failed["type"], failed["reason"]) == ("Failed", "SignerValidationFailure")
    assert failed["message"] == "invalid usage for client certificate: server auth"
    assert "certificate" not in plane.status("denied")


def test_a_node_is_approved_where_a_role_lets_it_ask(plane: Plane) -> None:
    body = request("node-7", NODE, FOR_NODES, make_csr("system:node:node-7", "system:nodes"))
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    role = "system:certificates.k8s.io:certificatesigningrequests:nodeclient"
    for name, bound in (("ask", "system:node-bootstrapper"), ("approve", role)):
        if name == "approve":
            # Before it may: nothing is decided.
            assert plane.node.post(REQUESTS, body).status == 201
            assert "conditions" not in plane.status("node-7")
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": bound}
        subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:bootstrappers"}]
        binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects}
        assert plane.admin.post(roles, binding).status == 201
    assert plane.authenticate(plane.signed("node-7"))["username"] == "system:node:node-7"
    (approved,) = plane.status("node-7")["conditions"]
    assert approved["reason"] == "AutoApproved"
    assert approved["message"] == "Auto approving kubelet client certificate after SubjectAccessReview."


def test_one_bundle_holds_the_servers_certificate_and_others_of_its_signer_go(plane: Plane) -> None:
    def bundles() -> dict[str, str]:
        items = plane.admin.get(BUNDLES).json["items"]
        return {item["metadata"]["name"]: item["spec"]["trustBundle"] for item in items}

    wait_until(lambda: list(bundles().values()) == [plane.ca], "it is there")
    (name,) = bundles()
    signer = "kubernetes.io/kube-apiserver-serving"
    old = {"metadata": {"name": signer.replace("/", ":") + ":old"}, "spec": {"signerName": signer}}
    old["spec"]["trustBundle"] = plane.ca
    assert plane.admin.post(BUNDLES, old).status == 201
    assert plane.admin.request("DELETE", f"{BUNDLES}/{name}").status == 200
    wait_until(lambda: bundles() == {name: plane.ca}, "there is the one again")


CLEANERS = [
    "--controllers=csrsigning,csrcleaner,podcertificaterequest-cleaner-controller",
    "--feature-gates=PodCertificateRequest=true",
    "--runtime-config=certificates.k8s.io/v1beta1=true",
]


@pytest.mark.kube(own=True, clock="virtual", controllers=False, args=CLEANERS)
def test_requests_of_pods_go_a_quarter_of_an_hour_after_they_were_made(kube: Any) -> None:
    stub = b64encode(make_csr("pod").public_bytes(serialization.Encoding.DER)).decode()
    named = {f"{what}{part}": "x" for what in ("pod", "serviceAccount", "node") for part in ("Name", "UID")}
    body = make_manifest(
        POD_CERTIFICATE_REQUESTS, "a", {"signerName": "example.com/signer", "stubPKCS10Request": stub, **named}
    )
    kube.apply([body])
    client = kube.client()
    kube.advance(minutes=14)
    assert len(client.list("podcertificaterequests")) == 1
    kube.advance(minutes=2)
    assert client.list("podcertificaterequests") == []


NAMES = (x509.DNSName("a.example"), x509.IPAddress(ipaddress.ip_address("10.0.0.1")))
NODES_NAME = ("system:node:n", "system:nodes")
SERVES = ["digital signature", "server auth"]


@pytest.mark.parametrize(
    ("signer", "asks", "usages", "problem"),
    [
        (CLIENT, make_csr("a"), ["client auth", "key encipherment"], ""),
        (CLIENT, make_csr("a"), ["digital signature"], "missing required usage for client certificate: client auth"),
        (NODE, make_csr(*NODES_NAME), ["key encipherment", *FOR_NODES], ""),
        (NODE, make_csr("system:node:n", "devs"), FOR_NODES, "subject organization is not system:nodes"),
        (NODE, make_csr("n", "system:nodes"), FOR_NODES, "subject common name does not begin with system:node:"),
        (NODE, make_csr(*NODES_NAME, names=NAMES), FOR_NODES, "DNS subjectAltNames are not allowed"),
        (NODE, make_csr(*NODES_NAME), FOR_CLIENTS,
         "usages did not match [client auth digital signature key encipherment]"),
        (SERVING, make_csr(*NODES_NAME, names=NAMES), SERVES, ""),
        (SERVING, make_csr(*NODES_NAME), SERVES, "DNS or IP subjectAltName is required"),
        (SERVING, make_csr(*NODES_NAME, names=NAMES[1:]), FOR_NODES,
         "usages did not match [digital signature key encipherment server auth]"),
        (SERVING, make_csr(*NODES_NAME, names=(*NAMES, x509.RFC822Name("a@b"))), SERVES,
         "Email subjectAltNames are not allowed"),
        ("kubernetes.io/legacy-unknown", make_csr("another"), ["any"], ""),
    ],
)  # fmt: skip
def test_each_signer_has_its_rules(
    signer: str, asks: x509.CertificateSigningRequest, usages: list[str], problem: str
) -> None:
    assert SIGNERS[signer](asks, usages) == problem


def test_a_certificate_has_the_names_and_usages_that_were_asked_for_and_no_other_extensions(tmp_path: Path) -> None:
    authority = Pair(*load_or_create_authority(tmp_path)).read()
    unknown = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00")
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject("a", "b"))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(unknown, critical=False)
    asks = builder.add_extension(x509.SubjectAlternativeName(NAMES), critical=False).sign(KEY, hashes.SHA256())
    pem = authority.sign(asks, ["signing", "s/mime", "server auth", "cert sign"], dt.timedelta(days=30), NOW)
    found = x509.load_pem_x509_certificate(pem)
    found.verify_directly_issued_by(authority.certificate)
    assert (found.not_valid_before_utc, found.not_valid_after_utc) == (
        NOW - dt.timedelta(minutes=5), NOW + dt.timedelta(days=30, minutes=-5),
    )  # fmt: skip
    kinds = {type(extension.value): extension.value for extension in found.extensions}
    assert set(kinds) == {
        x509.KeyUsage, x509.ExtendedKeyUsage, x509.BasicConstraints, x509.AuthorityKeyIdentifier,
        x509.SubjectAlternativeName,
    }  # fmt: skip
    assert kinds[x509.BasicConstraints].ca is False
    assert list(kinds[x509.SubjectAlternativeName]) == list(NAMES)
    usage = kinds[x509.KeyUsage]
    assert (usage.digital_signature, usage.key_cert_sign, usage.key_encipherment) == (True, True, False)
    assert [each.dotted_string for each in kinds[x509.ExtendedKeyUsage]] == ["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.4"]


def test_an_authority_signs_nothing_that_outlives_it(tmp_path: Path) -> None:
    authority = Pair(*load_or_create_authority(tmp_path)).read()
    last = authority.certificate.not_valid_after_utc
    pem = authority.sign(make_csr("a"), FOR_CLIENTS, dt.timedelta(days=30), last - dt.timedelta(days=1))
    assert x509.load_pem_x509_certificate(pem).not_valid_after_utc == last
    with pytest.raises(AuthorityError, match="the signer has expired"):
        authority.sign(make_csr("a"), FOR_CLIENTS, dt.timedelta(days=30), last)


def test_unusable_files_are_reported_with_their_flag(tmp_path: Path) -> None:
    certificate, key = map(str, load_or_create_authority(tmp_path / "one"))
    other = str(load_or_create_authority(tmp_path / "two")[1])
    flag = "--cluster-signing"
    for given, text in (
        (
            [f"{flag}-cert-file={certificate}"],
            "--cluster-signing-cert-file and --cluster-signing-key-file must be set together",
        ),
        ([f"{flag}-cert-file={certificate}", f"{flag}-key-file={other}"], f"{other}: not the key of {certificate}"),
        ([f"{flag}-cert-file={key}", f"{flag}-key-file={key}"], f"{key}: not a certificate in PEM"),
        ([f"{flag}-duration=long"], '--cluster-signing-duration: "long" is not a duration such as 8760h'),
    ):
        with pytest.raises(FlagError) as refused:
            read(["--server=http://127.0.0.1:1", *given])
        assert text in str(refused.value)
    alone = [f"{flag}-kubelet-serving-cert-file={certificate}", f"{flag}-kubelet-serving-key-file={key}"]
    signing = read(["--server=http://127.0.0.1:1", *alone]).options.signing
    assert (signing.can_sign(SERVING), signing.can_sign(CLIENT)) == (True, False)
