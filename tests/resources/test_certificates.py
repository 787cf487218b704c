"""CertificateSigningRequests and ClusterTrustBundles: valid specs, and valid changes of a decision."""

from __future__ import annotations

import asyncio
import datetime as dt
from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import NameOID

from apiserver.admission.plugins.certificates import (
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
    ClusterTrustBundleAttest,
)
from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.registry.store.admission import Attributes, Handlers, Plugin
from apiserver.registry.verbs.pipeline import validate
from tests.resources.conftest import NOW, Judge

KIND, BUNDLES = "certificatesigningrequests", "clustertrustbundles"
KEY = ec.generate_private_key(ec.SECP256R1())
APPROVED: Json = {"type": "Approved", "status": "True", "reason": "R"}
CONDITIONS = "status.conditions: "


def named(organization: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)])


@cache
def request_of(organization: str = "system:nodes") -> str:
    made = x509.CertificateSigningRequestBuilder().subject_name(named(organization)).sign(KEY, hashes.SHA256())
    return b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


@cache
def authority(name: str = "ca", *, ca: bool = True) -> str:
    builder = x509.CertificateBuilder().subject_name(named(name)).issuer_name(named(name)).public_key(KEY.public_key())
    builder = builder.serial_number(1).not_valid_before(NOW).not_valid_after(NOW + dt.timedelta(days=1))
    builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def der(tag: int, content: bytes) -> bytes:
    size = len(content)
    more = (size.bit_length() + 7) // 8 if size > 127 else 0
    length = bytes([0x80 | more]) + size.to_bytes(more, "big") if more else bytes([size])
    return bytes([tag]) + length + content


def request_with_sha1(wrong: bytes = b"") -> str:
    """Build a request signed with SHA-1, which the library no longer supports."""
    key = rsa.generate_private_key(65537, 1024)
    made = x509.CertificateSigningRequestBuilder().subject_name(named("o")).sign(key, hashes.SHA256())
    signature = key.sign(made.tbs_certrequest_bytes + wrong, padding.PKCS1v15(), hashes.SHA1())
    algorithm = der(0x30, bytes.fromhex("06092a864886f70d0101050500"))
    whole = der(0x30, made.tbs_certrequest_bytes + algorithm + der(0x03, b"\0" + signature))
    return encoded(
        f"-----BEGIN CERTIFICATE REQUEST-----\n{b64encode(whole).decode()}\n-----END CERTIFICATE REQUEST-----\n"
    )


def encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


def request(**spec: Any) -> Json:
    return {"spec": {"request": request_of(), "signerName": "example.com/s", "usages": ["client auth"], **spec}}


def test_a_request_is_signed_by_its_own_key_and_made_by_who_made_it(judge: Judge) -> None:
    stored = judge.create_valid(KIND, request(username="forged", groups=["system:masters"]))
    assert stored["spec"]["username"] == "alice"
    assert "groups" not in stored["spec"]
    broken = bytearray(x509.load_pem_x509_csr(b64decode(request_of())).public_bytes(serialization.Encoding.DER))
    broken[-1] ^= 1
    body = b64encode(bytes(broken)).decode()
    forged = encoded(f"-----BEGIN CERTIFICATE REQUEST-----\n{body}\n-----END CERTIFICATE REQUEST-----\n")
    (error,) = judge.create(KIND, request(request=forged))[1]
    assert error.startswith("spec.request: Invalid value: ")


def test_a_request_may_be_signed_with_sha_1_and_has_to_be_right_all_the_same(judge: Judge) -> None:
    assert judge.create(KIND, request(request=request_with_sha1()))[1] == []
    (error,) = judge.create(KIND, request(request=request_with_sha1(b"x")))[1]
    assert error.endswith("x509: signature of the certificate request is not valid")


def decide(
    judge: Judge, old: Json, subresource: str, *conditions: Json, certificate: str = ""
) -> tuple[Json, list[str]]:
    """Write to a subresource of a request; return the result and the errors."""
    resource = judge.find(KIND)
    ctx = judge.context(resource, subresource=subresource, verb="update")
    status = {"conditions": list(conditions)} | ({"certificate": certificate} if certificate else {})
    new = judge.decoded(resource, {**request(), "status": status})
    if subresource == "status":
        resource.strategy.prepare_for_status_update(ctx, new, old)
        return new, [error.text for error in resource.strategy.validate_status_update(ctx, new, old)]
    resource.strategy.prepare_for_subresource(ctx, subresource, new, old)
    return new, [error.text for error in resource.strategy.validate_subresource(ctx, subresource, new, old)]


def test_decisions_come_through_approval_and_stay(judge: Judge) -> None:
    pending, _ = judge.create(KIND, request())
    assert decide(judge, pending, "status", APPROVED)[1] == [
        CONDITIONS + 'Forbidden: updates may not add a condition of type "Approved"'
    ]
    approved, wrong = decide(judge, pending, "approval", APPROVED)
    assert wrong == []
    assert approved["status"]["conditions"][0]["lastUpdateTime"] == "2026-01-02T03:04:05Z"
    assert decide(judge, approved, "approval")[1] == [
        CONDITIONS + 'Forbidden: updates may not remove a condition of type "Approved"'
    ]
    both = decide(judge, approved, "approval", APPROVED, {"type": "Denied", "status": "True"})[1]
    assert both == [CONDITIONS + 'Invalid value: "Denied": Approved and Denied conditions are mutually exclusive']
    assert decide(judge, pending, "approval", {**APPROVED, "status": "False"})[1] == [
        'status.conditions[0].status: Unsupported value: "False": supported values: "True"'
    ]


def test_the_signer_repeats_no_decision_and_sets_the_certificate_once(judge: Judge) -> None:
    pending, _ = judge.create(KIND, request())
    approved, _ = decide(judge, pending, "approval", APPROVED)
    issued, wrong = decide(judge, approved, "status", {"type": "Approved"}, certificate=encoded(authority()))
    assert wrong == []
    assert issued["status"]["conditions"] == approved["status"]["conditions"]
    assert decide(judge, issued, "status", APPROVED, certificate=encoded(authority("b")))[1] == [
        "status.certificate: Forbidden: updates may not modify existing certificate content"
    ]
    problem = 'status.certificate: Invalid value: "<certificate data>": '
    for text, told in (
        ("junk", "must contain at least one CERTIFICATE PEM block"),
        (authority().replace("CERTIFICATE", "KEY"), 'only CERTIFICATE PEM blocks are allowed, found "KEY"'),
        (authority().replace("-----\n", "-----\na: b\n\n", 1), "no PEM block headers are permitted"),
    ):
        assert decide(judge, approved, "status", APPROVED, certificate=encoded(text))[1] == [problem + told]


def test_the_table_shows_how_far_a_request_is(judge: Judge) -> None:
    cell = {column.name: column.cell for column in judge.find(KIND).columns}["Condition"]
    assert cell({"status": {"conditions": [APPROVED, {"type": "Failed"}], "certificate": "eA=="}}) == (
        "Approved,Failed,Issued"
    )


def attributes(judge: Judge, kind: str, new: Json | None, old: Json | None, subresource: str = "") -> Attributes:
    resource = judge.find(kind)
    ctx = judge.context(resource, subresource=subresource)
    return Attributes("UPDATE" if old else "CREATE", ctx, "a", new, old)


def refusal(plugin: Plugin, asked: Attributes) -> str:
    try:
        asyncio.run(validate(Handlers((), (plugin,)), asked))
    except StatusError as error:
        return error.message.partition(" is forbidden: ")[2]
    return ""


@pytest.mark.parametrize("allowed", ["example.com/s", "example.com/*"])
def test_who_approves_and_signs_may_do_so_for_the_signer_or_its_domain(judge: Judge, allowed: str) -> None:
    old, _ = judge.create(KIND, request())
    new, _ = decide(judge, old, "approval", APPROVED)
    asked: list[tuple[Any, ...]] = []

    def grant(*question: Any) -> bool:
        asked.append(question)
        return bool(question[-1] == allowed)

    judge.allowed = lambda *_: False
    approval, signing = CertificateApproval(), CertificateSigning()
    assert refusal(approval, attributes(judge, KIND, new, old, "approval")) == (
        'user not permitted to approve requests with signerName "example.com/s"'
    )
    assert refusal(signing, attributes(judge, KIND, new, old, "status")) == (
        'user not permitted to sign requests with signerName "example.com/s"'
    )
    assert refusal(signing, attributes(judge, KIND, old, old, "status")) == ""
    judge.allowed = grant
    assert refusal(approval, attributes(judge, KIND, new, old, "approval")) == ""
    assert refusal(signing, attributes(judge, KIND, new, old, "status")) == ""
    assert asked[-1][:3] == ("sign", "certificates.k8s.io", "signers")


def test_nobody_becomes_an_administrator_by_a_certificate(judge: Judge) -> None:
    plugin, signer = CertificateSubjectRestriction(), "kubernetes.io/kube-apiserver-client"
    masters = request(request=request_of("system:masters"), signerName=signer)
    assert refusal(plugin, attributes(judge, KIND, masters, None)) == (
        f"use of {signer} signer with system:masters group is not allowed"
    )
    assert refusal(plugin, attributes(judge, KIND, request(signerName=signer), None)) == ""
    assert refusal(plugin, attributes(judge, KIND, request(request=request_of("system:masters")), None)) == ""


def bundle(text: str, signer: str = "", name: str = "a") -> Json:
    return {"metadata": {"name": name}, "spec": {"trustBundle": text, **({"signerName": signer} if signer else {})}}


def test_a_bundle_holds_authorities_each_once(judge_with: Callable[..., Judge]) -> None:
    judge = judge_with(ClusterTrustBundle=True)
    omitted = 'spec.trustBundle: Invalid value: "<value omitted>": '
    for text, told in (
        (authority(), []),
        ("", ["at least one trust anchor must be provided"]),
        (authority() * 2, ["duplicate trust anchor (indices [0 1])"]),
        (authority() + authority(ca=False), ["entry 1 does not have the CA bit set"]),
        (authority().replace("CERTIFICATE", "X"), ["entry 0 has bad block type: X"]),
    ):
        assert judge.create(BUNDLES, bundle(text))[1] == [omitted + problem for problem in told]


def test_a_signers_bundles_are_named_after_it_and_stay_its_own(judge_with: Callable[..., Judge]) -> None:
    judge = judge_with(ClusterTrustBundle=True)
    (error,) = judge.create(BUNDLES, bundle(authority(), "example.com/s"))[1]
    assert error.startswith('metadata.name: Invalid value: "a": ')
    assert error.endswith("ClusterTrustBundle for signerName example.com/s must be named with prefix example.com:s:")
    stored = judge.create_valid(BUNDLES, bundle(authority(), "example.com/s", "example.com:s:a"))
    moved = bundle(authority(), "example.com/t", "example.com:t:a")
    assert judge.update(BUNDLES, stored, moved)[1] == [
        'spec.signerName: Invalid value: "example.com/t": field is immutable'
    ]
    odd = judge.decoded(judge.find(BUNDLES), bundle("junk"))
    assert judge.update(BUNDLES, odd, bundle("junk"))[1] == []
    judge.allowed = lambda *_: False
    plugin = ClusterTrustBundleAttest()
    assert refusal(plugin, attributes(judge, BUNDLES, stored, None)) == (
        'user not permitted to attest for signerName "example.com/s"'
    )
    collected = {**stored, "metadata": {**stored["metadata"], "finalizers": ["a/b"]}}
    assert refusal(plugin, attributes(judge, BUNDLES, collected, stored)) == ""
