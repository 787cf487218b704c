"""PodCertificateRequests: valid keys, valid answers, and the requests that a node may make."""

from __future__ import annotations

import datetime as dt
from base64 import b64encode
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from apiserver.admission.plugins.pod_certificates import pod_certificate_request
from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.registry.store.admission import Attributes
from tests.resources.conftest import NOW, Judge

KIND = "podcertificaterequests"
KEY, OTHER, SMALL = (ec.generate_private_key(curve) for curve in (ec.SECP256R1(), ec.SECP256R1(), ec.SECP224R1()))
EDWARDS = ed25519.Ed25519PrivateKey.generate()
DER, PEM = serialization.Encoding.DER, serialization.Encoding.PEM
HOUR = dt.timedelta(hours=1)
STUB = "spec.stubPKCS10Request: "
CHAIN = "status.certificateChain: Invalid value: "


@pytest.fixture
def judge(judge_with: Callable[..., Judge]) -> Judge:
    return judge_with(PodCertificateRequest=True)


@cache
def stub(key: Any = KEY) -> str:
    digest = None if key is EDWARDS else hashes.SHA256()
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, digest)
    return b64encode(made.public_bytes(DER)).decode()


def pkix(key: Any) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return b64encode(key.public_key().public_bytes(DER, form)).decode()


def request(**spec: Any) -> Json:
    names = {
        f"{what}{part}": f"{what.lower()}-1" for what in ("pod", "serviceAccount", "node") for part in ("Name", "UID")
    }
    return {"spec": {"signerName": "example.com/s", "stubPKCS10Request": stub(), **names, **spec}}


def proven(key: Any, proof: bytes) -> Json:
    return {"stubPKCS10Request": None, "pkixPublicKey": pkix(key), "proofOfPossession": b64encode(proof).decode()}


def test_a_request_lasts_a_day_and_has_no_status_when_it_is_made(judge: Judge) -> None:
    stored, wrong = judge.create(KIND, {**request(), "status": {"certificateChain": "x"}})
    assert (wrong, stored["spec"]["maxExpirationSeconds"], stored.get("status", {})) == ([], 86400, {})


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"stubPKCS10Request": stub(EDWARDS)}, ""),
        ({"stubPKCS10Request": "AQID"}, STUB + "Invalid value: must be a valid PKCS#10 CSR"),
        (
            {"stubPKCS10Request": stub(SMALL)},
            STUB + 'Invalid value: "curve P-224": elliptic public keys must use curve P256, P384, or P521',
        ),
        ({"stubPKCS10Request": stub(EDWARDS)[:-4] + "AAAA"}, STUB + "Invalid value: invalid signature"),
        ({"stubPKCS10Request": b64encode(b"x" * 10241).decode()}, STUB + "Too long: may not be more than 10240 bytes"),
        (proven(KEY, KEY.sign(b"pod-1", ec.ECDSA(hashes.SHA256()))), ""),
        (proven(EDWARDS, EDWARDS.sign(b"pod-1")), ""),
        (
            proven(EDWARDS, EDWARDS.sign(b"pod-2")),
            "spec.proofOfPossession: Invalid value: could not verify proof-of-possession signature",
        ),
        (
            proven(rsa.generate_private_key(65537, 1024), b"x"),
            'spec.pkixPublicKey: Invalid value: "1024-bit modulus": RSA keys must have modulus size 3072 or 4096',
        ),
        (
            {"pkixPublicKey": "AQID"},
            "spec: Invalid value: exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set",
        ),
        (
            {"signerName": "kubernetes.io/s", "maxExpirationSeconds": 86401},
            "spec.maxExpirationSeconds: Invalid value: 86401: must be in the range [3600, 86400]",
        ),
        ({"maxExpirationSeconds": 7862400}, ""),
        ({"podUID": ""}, 'spec.podUID: Invalid value: "": must not be empty'),
        (
            {"unverifiedUserAnnotations": {"foo": "x"}},
            'spec.unverifiedUserAnnotations: Invalid value: "foo": must be a domain-prefixed key (such as "acme.io/foo")',
        ),
    ],
)
def test_the_key_is_the_nodes_and_of_a_kind_that_counts(judge: Judge, spec: Json, error: str) -> None:
    assert judge.create(KIND, request(**spec))[1] == ([error] if error else [])


def test_what_was_asked_for_stays(judge: Judge) -> None:
    old, _ = judge.create(KIND, request())
    assert judge.update(KIND, old, {**request(), "metadata": {"labels": {"a": "b"}}})[1] == []
    (error,) = judge.update(KIND, old, request(podName="other"))[1]
    assert error.startswith('spec: Invalid value: {"SignerName":"example.com/s"')
    assert error.endswith("field is immutable")


def certificate(key: Any = KEY, begin: dt.datetime = NOW, life: dt.timedelta = 2 * HOUR, name: str = "") -> str:
    builder = x509.CertificateBuilder().subject_name(x509.Name([])).issuer_name(x509.Name([]))
    builder = (
        builder.public_key(key.public_key()).serial_number(1).not_valid_before(begin).not_valid_after(begin + life)
    )
    if name:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(PEM).decode()


def said(moment: dt.datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def ended(kind: str, **status: Any) -> Json:
    condition = {"type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": said(NOW)}
    return {"conditions": [condition], **status}


def issued(chain: str, *, begin: dt.datetime = NOW, life: dt.timedelta = 2 * HOUR, refresh: int = 60) -> Json:
    times = {"notBefore": begin, "notAfter": begin + life, "beginRefreshAt": begin + dt.timedelta(minutes=refresh)}
    return ended("Issued", certificateChain=chain, **{name: said(at) for name, at in times.items()})


def answer(judge: Judge, status: Json, old: Json | None = None) -> tuple[Json, list[str]]:
    old = old or judge.create(KIND, request())[0]
    return judge.update_status(KIND, old, status)


EARLY = NOW - dt.timedelta(minutes=5)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (issued(certificate() + certificate(OTHER)), ""),
        (ended("Denied"), ""),
        (
            ended("Failed", certificateChain="x"),
            "status: Invalid value: non-condition status fields must be empty when",
        ),
        ({"certificateChain": "x"}, "status: Invalid value: status is immutable unless transitioning to"),
        (
            ended("Approved"),
            'status.conditions.[0].type: Unsupported value: "Approved": supported values: "Issued", "Den',
        ),
        (issued(certificate(OTHER)), CHAIN),
        (issued("x"), CHAIN + '"x": issued certificate chain must contain at least one certificate'),
        (issued(certificate(name="a..b")), CHAIN + "\"a..b\": leaf certificate's DNSName should not contain '..'"),
        (issued(certificate(), begin=NOW + dt.timedelta(seconds=1)), "status.notBefore: Invalid value: "),
        (
            issued(certificate(begin=EARLY), begin=EARLY),
            'status.notBefore: Invalid value: "2026-01-02T02:59:05Z": must be set to within 5 minutes',
        ),
        (
            issued(certificate(life=HOUR / 2), life=HOUR / 2),
            CHAIN + "1800000000000: leaf certificate lifetime must be >=",
        ),
        (
            issued(certificate(life=25 * HOUR), life=25 * HOUR),
            CHAIN + "90000000000000: leaf certificate lifetime must be",
        ),
        (issued(certificate(), refresh=9), "status.beginRefreshAt: Invalid value: "),
        (issued(certificate(), refresh=111), "status.beginRefreshAt: Invalid value: "),
        (issued(certificate() + "-----BEGIN X-----\nAQID\n-----END X-----\n"), CHAIN),
    ],
)
def test_the_signer_gives_a_certificate_for_the_key_or_says_why_not(judge: Judge, status: Json, error: str) -> None:
    errors = answer(judge, status)[1]
    assert [text[: len(error)] for text in errors] == ([error] if error else [])


def test_an_answer_is_the_last_and_comes_from_who_may_sign(judge: Judge) -> None:
    denied, _ = answer(judge, ended("Denied"))
    assert answer(judge, {}, denied)[1] == [
        "status: Invalid value: immutable after PodCertificateRequest is issued, denied, or failed"
    ]
    asked: list[tuple[Any, ...]] = []

    def deny(*question: Any) -> bool:
        asked.append(question)
        return False

    judge.allowed = deny
    assert answer(judge, denied["status"], denied)[1] == [], "nothing changes"
    assert asked == []
    assert answer(judge, ended("Denied"))[1] == [
        'spec.signerName: Forbidden: User "alice" is not permitted to "sign" for signer "example.com/s"'
    ]
    assert [(verb, name) for verb, *_, name in asked] == [("sign", "example.com/s"), ("sign", "example.com/*")]


def objects() -> dict[tuple[str, str, str, str], Json]:
    pod = {"metadata": {"uid": "pod-1"}, "spec": {"nodeName": "node-1", "serviceAccountName": "serviceaccount-1"}}
    return {
        ("", "nodes", "", "node-1"): {"metadata": {"uid": "node-1"}},
        ("", "pods", "ns", "pod-1"): pod,
        ("", "pods", "ns", "elsewhere"): {**pod, "spec": {**pod["spec"], "nodeName": "node-2"}},
        ("", "serviceaccounts", "ns", "serviceaccount-1"): {"metadata": {"uid": "serviceaccount-1"}},
    }


@pytest.mark.parametrize(
    ("spec", "code", "error"),
    [
        ({}, 0, ""),
        ({"nodeName": "node-2"}, 403, 'NodeName="node-2", which is not the requesting node "node-1"'),
        ({"nodeUID": "x"}, 500, 'names node UID "x", inconsistent with the running node ("node-1")'),
        (
            {"podName": "gone"},
            500,
            'while retrieving pod "ns/gone" named in the PodCertificateRequest: pod "gone" not found',
        ),
        ({"podUID": "x"}, 500, 'contains pod UID ("x") which differs from running pod "pod-1"'),
        ({"podName": "elsewhere"}, 403, 'pod "ns/elsewhere" is not running on node "node-1" named in the'),
        ({"serviceAccountName": "x"}, 403, 'contains serviceAccountName ("x") that differs from running pod'),
        ({"serviceAccountUID": "x"}, 500, 'names service account UID "x", which differs from the running service'),
    ],
)
def test_a_node_asks_for_its_own_pods_as_they_are(judge: Judge, spec: Json, code: int, error: str) -> None:
    judge.objects = objects()
    resource = judge.find(KIND)
    attributes = Attributes("CREATE", judge.context(resource), "a", judge.decoded(resource, request(**spec)))
    if not error:
        pod_certificate_request("node-1", attributes)
        return
    with pytest.raises(StatusError) as refused:
        pod_certificate_request("node-1", attributes)
    assert (refused.value.code, error in refused.value.message) == (code, True)
