"""Requests for certificates, one pass at a time, and the publication of the server's own certificate."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from apiserver.api.objects import Json
from apiserver.tls.self_signed import load_or_create_authority
from controllers.certificates.approving import build as approver
from controllers.certificates.cleaning import _deletion_times
from controllers.certificates.cleaning import build as cleaner
from controllers.certificates.requests import condition, with_condition
from controllers.certificates.signing import Signer
from controllers.certificates.trustbundle import SIGNER, TrustBundle
from controllers.cluster.root_ca import CONFIG_MAP
from controllers.cluster.root_ca import build as root_certificates
from controllers.runtime.controller import NotYetError
from controllers.signing.authority import Pair
from controllers.signing.options import SigningOptions
from controllers.signing.purposes import KUBELET_CLIENT
from tests.controllers.test_certificate_requests import (
    CLIENT,
    FOR_CLIENTS,
    FOR_NODES,
    KEY,
    NODES_NAME,
    NOW,
    SERVING,
    make_csr,
    request,
)
from tests.controllers.test_signed_certificates import make_authority
from tests.support.objects import make_metadata
from tests.support.recording import RecordingClient, build, reconcile_once

pytestmark = pytest.mark.integration

HOLDS = {"status": "True", "lastUpdateTime": "2026-01-01T00:00:00Z"}
APPROVED, DENIED, FAILED = ({"type": kind, **HOLDS} for kind in ("Approved", "Denied", "Failed"))


def known(*conditions: Json, asks: Any = None, certificate: str = "", signer: str = CLIENT, **spec: Any) -> Json:
    found = request("r", signer, spec.pop("usages", FOR_CLIENTS), asks or make_csr("me"), **spec)
    found["metadata"] |= {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    status = {"conditions": list(conditions), **({"certificate": certificate} if certificate else {})}
    return {**found, "status": status}


# --- approving


class ReviewClient(RecordingClient):
    """Allows the named subresources, and records the reviews."""

    def __init__(self, *allowed: str) -> None:
        super().__init__({"SubjectAccessReview": self._review})
        self.allowed, self.reviews = allowed, list[Json]()
        self.field_selectors["CertificateSigningRequest"] = f"spec.signerName={KUBELET_CLIENT}"

    def _review(self, review: Json) -> Json:
        self.reviews.append(review["spec"])
        return {"status": {"allowed": review["spec"]["resourceAttributes"]["subresource"] in self.allowed}}


def node_request(*conditions: Json, username: str = "joiner", **more: Any) -> Json:
    given = {"asks": make_csr(*NODES_NAME), "usages": FOR_NODES, "signer": KUBELET_CLIENT, **more}
    return known(*conditions, username=username, uid="7", groups=["g"], extra={"k": ["v"]}, **given)


async def approve(found: Json | None, *allowed: str, **refuses: tuple[int, str]) -> ReviewClient:
    """Reconcile a request for a node's certificate once."""
    refused = {f"update/{verb}": refusal for verb, refusal in refuses.items()}
    return await build(approver, ReviewClient(*allowed), found, refuses=refused).reconcile("r")


@pytest.mark.parametrize(
    ("username", "allowed", "word", "tried"),
    [
        ("joiner", ("nodeclient",), "", ["nodeclient"]),
        ("joiner", ("selfnodeclient",), None, ["nodeclient"]),
        ("system:node:n", ("selfnodeclient", "nodeclient"), "self ", ["selfnodeclient"]),
        ("system:node:n", ("nodeclient",), "", ["selfnodeclient", "nodeclient"]),
        ("system:node:n", (), None, ["selfnodeclient", "nodeclient"]),
    ],
)
async def test_a_request_for_a_node_is_approved_if_the_user_may(
    username: str, allowed: tuple[str, ...], word: str | None, tried: list[str]
) -> None:
    client = await approve(node_request(username=username), *allowed)
    if word is None:
        text = f"recognized csr as [{' '.join(tried)}] but subject access review was not approved"
        assert (type(client.error), str(client.error)) == (NotYetError, text)
        assert "update/approval" not in client.verbs
    else:
        [written] = client.bodies("update/approval")
        [added] = written["status"]["conditions"]
        assert added == {
            "type": "Approved", "status": "True", "reason": "AutoApproved",
            "message": f"Auto approving {word}kubelet client certificate after SubjectAccessReview.",
        }  # fmt: skip
    assert [spec["resourceAttributes"]["subresource"] for spec in client.reviews] == tried
    first = client.reviews[0]
    assert (first["user"], first["uid"], first["groups"], first["extra"]) == (username, "7", ["g"], {"k": ["v"]})
    assert first["resourceAttributes"] | {"subresource": ""} == {
        "group": "certificates.k8s.io", "version": "*", "resource": "certificatesigningrequests", "verb": "create",
        "subresource": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    "found",
    [
        None,
        node_request(APPROVED),
        node_request(DENIED),
        node_request(certificate="x"),
        node_request(usages=FOR_CLIENTS),
        node_request(asks=make_csr("another")),
    ],
)
async def test_a_decided_request_or_one_not_for_a_node_is_left_alone(found: Json | None) -> None:
    assert (await approve(found, "nodeclient")).writes == []


@pytest.mark.parametrize("kind", ["Approved", "Denied"])
async def test_a_condition_that_does_not_hold_decides_nothing(kind: str) -> None:
    client = await approve(node_request({"type": kind, "status": "False"}), "nodeclient")
    assert "update/approval" in client.verbs


@pytest.mark.parametrize(("reason", "fails"), [("NotFound", False), ("Conflict", True)])
async def test_a_request_that_is_gone_needs_no_decision(reason: str, fails: bool) -> None:
    client = await approve(node_request(), "nodeclient", approval=(404, reason))
    assert (client.error is not None) is fails


async def test_a_request_that_cannot_be_parsed_is_tried_again() -> None:
    found = node_request()
    found["spec"]["request"] = "bm8="
    client = await approve(found)
    assert isinstance(client.error, NotYetError)
    assert str(client.error).startswith("unable to parse csr: ")


# --- signing


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return Pair(*load_or_create_authority(tmp_path_factory.mktemp("authority")))


async def sign(found: Json, signing: SigningOptions, **more: Any) -> RecordingClient:
    """Reconcile a request once, and a missing one."""
    client = build(Signer, RecordingClient(), found, signing=signing, **more)
    assert (await client.reconcile("another")).error is None
    return await client.reconcile("r")


async def test_an_approved_request_is_signed_once(pair: Pair) -> None:
    signing = SigningOptions({CLIENT: pair})
    [status] = (await sign(known(APPROVED), signing)).statuses
    assert status["conditions"] == [APPROVED]
    assert status["certificate"]
    for found in (
        known(),
        known(DENIED),
        known(APPROVED, DENIED),
        known(APPROVED, FAILED),
        known(APPROVED, certificate="x"),
        known(APPROVED, signer="example.com/mine"),
        known(APPROVED, signer=SERVING),
        known({"type": "Approved", "status": "False"}),
    ):
        assert (await sign(found, signing)).statuses == []
    own = SigningOptions(own=lambda: (pair.certificate, pair.key))
    assert len((await sign(known(APPROVED), own)).statuses) == 1


async def test_a_request_that_its_signer_refuses_fails(pair: Pair) -> None:
    [status] = (await sign(known(APPROVED, usages=["digital signature"]), SigningOptions({CLIENT: pair}))).statuses
    assert "certificate" not in status
    message = "missing required usage for client certificate: client auth"
    failed = {"type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": message}
    assert status["conditions"] == [APPROVED, failed]


async def test_unreadable_files_are_tried_again_and_a_request_that_is_gone_is_not(pair: Pair, tmp_path: Path) -> None:
    client = await sign(known(APPROVED), SigningOptions({CLIENT: Pair(tmp_path / "none", pair.key)}))
    assert isinstance(client.error, NotYetError)
    assert re.match("error auto signing csr: .*not a certificate in PEM", str(client.error))
    for refusal, fails in (((404, "NotFound"), False), ((409, "Conflict"), True)):
        signing = SigningOptions({CLIENT: pair})
        client = await sign(known(APPROVED), signing, refuses={"update/status": refusal})
        assert (client.error is not None) is fails


@pytest.mark.parametrize(
    ("seconds", "minutes"), [(None, 120), (60, 10), (600, 10), (3600, 60), (7200, 120), (9000, 120)]
)
def test_a_certificate_is_valid_for_as_long_as_requested_between_ten_minutes_and_the_longest(
    seconds: int | None, minutes: int, pair: Pair
) -> None:
    signing = build(Signer, RecordingClient(), signing=SigningOptions({}, None, dt.timedelta(hours=2))).component
    assert signing._lifetime({} if seconds is None else {"expirationSeconds": seconds}) == dt.timedelta(minutes=minutes)


# --- cleaning


def valid_until(end: dt.datetime) -> str:
    pem = make_authority(KEY).sign(make_csr("a"), [], dt.timedelta(hours=1), NOW)
    builder = x509.load_pem_x509_certificate(pem)
    name = builder.subject
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(KEY.public_key())
    made = made.serial_number(1).not_valid_before(end - dt.timedelta(days=1)).not_valid_after(end)
    return b64encode(made.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)).decode()


START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("found", "hours"),
    [
        (known(), [24]),
        (known(APPROVED), [24]),
        (known(DENIED), [1]),
        (known(FAILED), [1]),
        (known(APPROVED, FAILED), [24, 1]),
        (known(APPROVED, certificate=valid_until(START + dt.timedelta(hours=5))), [5, 1]),
        (known(APPROVED, certificate="bm8="), [1]),
        (known({"type": "Approved", "status": "True"}), []),
        (known({"type": "Strange", **HOLDS}), []),
        (known({"type": "Strange", **HOLDS}, certificate=valid_until(START)), []),
    ],
)
def test_a_request_is_deleted_after_the_time_of_its_state(found: Json, hours: list[int]) -> None:
    assert list(_deletion_times(found)) == [START + dt.timedelta(hours=each) for each in hours]


async def test_a_request_goes_when_its_time_has_come() -> None:
    client = build(cleaner, RecordingClient(), known(DENIED))
    assert (await client.reconcile("r")).requeue_after == dt.timedelta(hours=1)
    assert client.writes == []
    await asyncio.sleep(3600)
    assert (await client.reconcile("r")).requeue_after is None
    assert client.writes == [("delete", "CertificateSigningRequest", ("r", {"uid": "u"}))]
    for code, reason, fails in ((404, "NotFound", False), (404, "Conflict", False), (500, "InternalError", True)):
        client.refuses["delete"] = (code, reason)
        assert ((await client.reconcile("r")).error is not None) is fails
    deleted, endless = known(DENIED), known({"type": "Strange", **HOLDS})
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    for found in (deleted, endless, None):
        client = await reconcile_once(cleaner, "r", found)
        assert (client.requeue_after, client.error, client.writes) == (None, None, [])


def test_conditions_are_added_behind_those_that_there_are() -> None:
    found = with_condition({"metadata": {}}, "Failed", "R", "M")
    assert condition(found, "Failed") == {"type": "Failed", "status": "True", "reason": "R", "message": "M"}
    assert condition(found, "Approved") is None
    again = with_condition({**found, "status": {**found["status"], "certificate": "x"}}, "Denied", "S", "N")
    assert [each["type"] for each in again["status"]["conditions"]] == ["Failed", "Denied"]
    assert again["status"]["certificate"] == "x"


# --- trust bundles


def bundle(name: str, text: str) -> Json:
    return {
        "kind": "ClusterTrustBundle",
        "metadata": {"name": name},
        "spec": {"signerName": SIGNER, "trustBundle": text},
    }


async def test_there_is_one_bundle_with_the_certificate_of_the_server() -> None:
    async def publish(*bundles: Json, **refuses: tuple[int, str]) -> RecordingClient:
        client = RecordingClient()
        client.field_selectors["ClusterTrustBundle"] = f"spec.signerName={SIGNER}"
        gates = {"ClusterTrustBundle": True}
        return await build(TrustBundle, client, *bundles, refuses=refuses, root_ca="PEM", gates=gates).reconcile(
            "bundle"
        )

    [made] = (await publish()).bodies("create")
    assert made["spec"]["trustBundle"] == "PEM"
    assert made["metadata"]["name"].startswith("kubernetes.io:kube-apiserver-serving:")
    assert (await publish(made)).writes == []
    client = await publish({**made, "spec": {**made["spec"], "trustBundle": "old"}}, bundle("old", "x"))
    assert client.verbs == ["update", "delete"]
    assert client.bodies("update")[0]["spec"]["trustBundle"] == "PEM"
    assert client.bodies("delete")[0][0] == "old"
    client = await publish(bundle("old", "x"), create=(409, "AlreadyExists"), delete=(404, "NotFound"))
    assert (client.verbs, client.error) == (["create", "delete"], None)
    for verb in ("create", "delete"):
        assert (await publish(bundle("old", "x"), **{verb: (500, "InternalError")})).error is not None


async def test_each_namespace_has_the_certificate_of_the_server() -> None:
    async def publish(*objects: Json | None, **refuses: tuple[int, str]) -> RecordingClient:
        client = RecordingClient()
        client.field_selectors["ConfigMap"] = f"metadata.name={CONFIG_MAP}"
        return await build(root_certificates, client, *objects, refuses=refuses, root_ca="PEM").reconcile("ns")

    namespace = {"kind": "Namespace", "metadata": make_metadata("ns")}
    deleted = {"kind": "Namespace", "metadata": make_metadata("ns", deletionTimestamp="x")}
    [(verb, _, made)] = (await publish(namespace)).writes
    assert (verb, made["data"], made["metadata"]["namespace"]) == ("create", {"ca.crt": "PEM"}, "ns")
    assert (await publish(namespace, made)).writes == []
    [(verb, _, again)] = (await publish(namespace, {**made, "data": {"ca.crt": "old"}})).writes
    assert (verb, again["data"]) == ("update", {"ca.crt": "PEM"})
    bare = {**made, "metadata": {"name": CONFIG_MAP, "namespace": "ns", "annotations": {"mine": "x"}}}
    [(verb, _, again)] = (await publish(namespace, bare)).writes
    assert again["metadata"]["annotations"] == {"mine": "x", **made["metadata"]["annotations"]}
    for missing in (deleted, None):
        assert (await publish(missing)).writes == []
    for reason, fails in (("AlreadyExists", False), ("NotFound", False), ("Forbidden", False), ("Invalid", True)):
        assert ((await publish(namespace, create=(400, reason))).error is not None) is fails
