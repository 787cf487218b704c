"""What becomes of a request for a certificate, one look at a time, and how a server's own is made known."""

from __future__ import annotations

import asyncio
import datetime as dt
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.tls.self_signed import load_or_create_authority
from controllers.certificates.approving import Approver
from controllers.certificates.cleaning import Cleaner, _deletion_times
from controllers.certificates.requests import condition, with_condition
from controllers.certificates.signing import Signer
from controllers.certificates.trustbundle import SIGNER, TrustBundle
from controllers.cluster.root_ca import CONFIG_MAP, RootCertificates
from controllers.options.options import Options
from controllers.runtime.controller import NotYetError
from controllers.runtime.kinds import CONFIG_MAPS, NAMESPACES, SIGNING_REQUESTS, TRUST_BUNDLES
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
    asked,
    request,
)
from tests.controllers.test_signed_certificates import made_with
from tests.support.recording import RecordingClient, make_informers
from tests.support.virtual import run

pytestmark = pytest.mark.integration

HOLDS = {"status": "True", "lastUpdateTime": "2026-01-01T00:00:00Z"}
APPROVED, DENIED, FAILED = ({"type": kind, **HOLDS} for kind in ("Approved", "Denied", "Failed"))


def known(*conditions: Json, asks: Any = None, certificate: str = "", signer: str = CLIENT, **spec: Any) -> Json:
    found = request("r", signer, spec.pop("usages", FOR_CLIENTS), asks or asked("me"), **spec)
    found["metadata"] |= {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    status = {"conditions": list(conditions), **({"certificate": certificate} if certificate else {})}
    return {**found, "status": status}


# --- approving


class Reviews(RecordingClient):
    """Allows what is named, and notes what was asked."""

    def __init__(self, *allowed: str) -> None:
        super().__init__({"SubjectAccessReview": self._review})
        self.allowed, self.asked = allowed, list[Json]()

    def _review(self, review: Json) -> Json:
        self.asked.append(review["spec"])
        return {"status": {"allowed": review["spec"]["resourceAttributes"]["subresource"] in self.allowed}}


def node_request(*conditions: Json, username: str = "joiner", **more: Any) -> Json:
    given = {"asks": asked(*NODES_NAME), "usages": FOR_NODES, "signer": KUBELET_CLIENT, **more}
    return known(*conditions, username=username, uid="7", groups=["g"], extra={"k": ["v"]}, **given)


def approve(found: Json | None, client: RecordingClient) -> None:
    selector = {"field_selector": f"spec.signerName={KUBELET_CLIENT}"}
    informers = make_informers(SIGNING_REQUESTS, *([found] if found else []), **selector)
    asyncio.run(Approver(client, informers).reconcile("r"))  # type: ignore[arg-type]


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
def test_a_request_for_a_node_is_approved_if_who_asks_may(
    username: str, allowed: tuple[str, ...], word: str | None, tried: list[str]
) -> None:
    client = Reviews(*allowed)
    if word is None:
        names = " ".join(tried)
        text = rf"^recognized csr as \[{names}\] but subject access review was not approved$"
        with pytest.raises(NotYetError, match=text):
            approve(node_request(username=username), client)
        assert "update/approval" not in client.verbs
    else:
        approve(node_request(username=username), client)
        [written] = [what for verb, _, what in client.writes if verb == "update/approval"]
        [added] = written["status"]["conditions"]
        assert added == {
            "type": "Approved",
            "status": "True",
            "reason": "AutoApproved",
            "message": f"Auto approving {word}kubelet client certificate after SubjectAccessReview.",
        }
    assert [spec["resourceAttributes"]["subresource"] for spec in client.asked] == tried
    first = client.asked[0]
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
        node_request(asks=asked("somebody")),
    ],
)
def test_what_is_decided_already_or_not_for_a_node_is_left_alone(found: Json | None) -> None:
    client = Reviews("nodeclient")
    approve(found, client)
    assert client.writes == []


def test_a_condition_that_does_not_hold_decides_nothing() -> None:
    for kind in ("Approved", "Denied"):
        client = Reviews("nodeclient")
        approve(node_request({"type": kind, "status": "False"}), client)
        assert "update/approval" in client.verbs


@pytest.mark.parametrize(("reason", "raised"), [("NotFound", False), ("Conflict", True)])
def test_a_request_that_is_gone_needs_no_decision(reason: str, raised: bool) -> None:
    client = Reviews("nodeclient")
    client.refuses["update/approval"] = (404, reason)
    if raised:
        with pytest.raises(StatusError):
            approve(node_request(), client)
    else:
        approve(node_request(), client)


def test_what_cannot_be_read_is_tried_again() -> None:
    found = node_request()
    found["spec"]["request"] = "bm8="
    with pytest.raises(NotYetError, match=r"^unable to parse csr: "):
        approve(found, Reviews())


# --- signing


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return Pair(*load_or_create_authority(tmp_path_factory.mktemp("authority")))


def sign(found: Json, signing: SigningOptions, client: RecordingClient | None = None) -> Json | None:
    """The status that is written; None for none."""
    client = client or RecordingClient()

    async def scenario() -> None:
        component = Signer(client, make_informers(SIGNING_REQUESTS, found), Options(signing=signing))  # type: ignore[arg-type]
        await component.reconcile("r")
        await component.reconcile("another")

    run(scenario)
    written = [what["status"] for verb, _, what in client.writes if verb == "update/status"]
    return written[0] if written else None


def test_an_approved_request_is_signed_once(pair: Pair) -> None:
    signing = SigningOptions({CLIENT: pair})
    status = sign(known(APPROVED), signing)
    assert status is not None
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
        assert sign(found, signing) is None
    assert sign(known(APPROVED), SigningOptions(own=lambda: (pair.certificate, pair.key))) is not None


def test_a_request_that_its_signer_refuses_fails(pair: Pair) -> None:
    status = sign(known(APPROVED, usages=["digital signature"]), SigningOptions({CLIENT: pair}))
    assert status is not None
    assert "certificate" not in status
    assert status["conditions"] == [
        APPROVED,
        {
            "type": "Failed",
            "status": "True",
            "reason": "SignerValidationFailure",
            "message": "missing required usage for client certificate: client auth",
        },
    ]


def test_files_that_cannot_be_read_are_tried_again_and_a_request_that_is_gone_is_not(
    pair: Pair, tmp_path: Path
) -> None:
    missing = SigningOptions({CLIENT: Pair(tmp_path / "none", pair.key)})
    with pytest.raises(NotYetError, match=r"^error auto signing csr: .*not a certificate in PEM"):
        sign(known(APPROVED), missing)
    client = RecordingClient()
    client.refuses["update/status"] = (404, "NotFound")
    sign(known(APPROVED), SigningOptions({CLIENT: pair}), client)
    client.refuses["update/status"] = (409, "Conflict")
    with pytest.raises(StatusError):
        sign(known(APPROVED), SigningOptions({CLIENT: pair}), client)


@pytest.mark.parametrize(
    ("seconds", "minutes"), [(None, 120), (60, 10), (600, 10), (3600, 60), (7200, 120), (9000, 120)]
)
def test_a_certificate_is_valid_for_as_long_as_asked_between_ten_minutes_and_the_longest(
    seconds: int | None, minutes: int, pair: Pair
) -> None:
    signing = Signer(
        RecordingClient(),
        make_informers(SIGNING_REQUESTS),
        Options(signing=SigningOptions({}, None, dt.timedelta(hours=2))),
    )  # type: ignore[arg-type]
    assert signing._lifetime({} if seconds is None else {"expirationSeconds": seconds}) == dt.timedelta(minutes=minutes)


# --- cleaning


def valid_until(end: dt.datetime) -> str:
    pem = made_with(KEY).sign(asked("a"), [], dt.timedelta(hours=1), NOW)
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
def test_a_request_may_go_when_a_reason_says_so(found: Json, hours: list[int]) -> None:
    assert list(_deletion_times(found)) == [START + dt.timedelta(hours=each) for each in hours]


async def test_a_request_goes_when_its_time_has_come() -> None:
    client = RecordingClient()
    cleaning = Cleaner(client, make_informers(SIGNING_REQUESTS, known(DENIED)))  # type: ignore[arg-type]
    assert await cleaning.reconcile("r") == dt.timedelta(hours=1)
    assert client.writes == []
    await asyncio.sleep(3600)
    assert await cleaning.reconcile("r") is None
    assert client.writes == [("delete", "CertificateSigningRequest", ("r", {"uid": "u"}))]
    for reason in ("NotFound", "Conflict"):
        client.refuses["delete"] = (404, reason)
        await cleaning.reconcile("r")
    client.refuses["delete"] = (500, "InternalError")
    with pytest.raises(StatusError):
        await cleaning.reconcile("r")
    going, endless = known(DENIED), known({"type": "Strange", **HOLDS})
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    for found in (going, endless):
        quiet = RecordingClient()
        assert await Cleaner(quiet, make_informers(SIGNING_REQUESTS, found)).reconcile("r") is None  # type: ignore[arg-type]
        assert quiet.writes == []
    assert await cleaning.reconcile("another") is None


def test_conditions_are_added_behind_those_that_there_are() -> None:
    found = with_condition({"metadata": {}}, "Failed", "R", "M")
    assert condition(found, "Failed") == {"type": "Failed", "status": "True", "reason": "R", "message": "M"}
    assert condition(found, "Approved") is None
    again = with_condition({**found, "status": {**found["status"], "certificate": "x"}}, "Denied", "S", "N")
    assert [each["type"] for each in again["status"]["conditions"]] == ["Failed", "Denied"]
    assert again["status"]["certificate"] == "x"


# --- what clients trust


def bundle(name: str, text: str) -> Json:
    return {"metadata": {"name": name}, "spec": {"signerName": SIGNER, "trustBundle": text}}


def test_there_is_one_bundle_with_the_servers_certificate() -> None:
    options = Options(root_ca="PEM", gates={"ClusterTrustBundle": True})
    selector = {"field_selector": f"spec.signerName={SIGNER}"}

    def look(client: RecordingClient, *known: Json) -> list[tuple[str, str]]:
        informers = make_informers(TRUST_BUNDLES, *known, **selector)

        async def scenario() -> None:
            await TrustBundle(client, informers, options).reconcile("bundle")  # type: ignore[arg-type]

        run(scenario)
        return [(verb, what[0] if verb == "delete" else what["spec"]["trustBundle"]) for verb, _, what in client.writes]

    first = RecordingClient()
    assert look(first) == [("create", "PEM")]
    made = first.writes[0][2]
    assert made["metadata"]["name"].startswith("kubernetes.io:kube-apiserver-serving:")
    assert look(RecordingClient(), made) == []
    assert look(RecordingClient(), {**made, "spec": {**made["spec"], "trustBundle": "old"}}, bundle("old", "x")) == [
        ("update", "PEM"), ("delete", "old"),
    ]  # fmt: skip
    there = RecordingClient()
    there.refuses = {"create": (409, "AlreadyExists"), "delete": (404, "NotFound")}
    assert look(there, bundle("old", "x")) == [("create", "PEM"), ("delete", "old")]
    for verb in ("create", "delete"):
        broken = RecordingClient()
        broken.refuses = {verb: (500, "InternalError")}
        with pytest.raises(StatusError):
            look(broken, bundle("old", "x"))


def test_each_namespace_has_the_servers_certificate() -> None:
    def look(client: RecordingClient, namespace: Json | None, config: Json | None) -> Any:
        informers = make_informers(NAMESPACES, *([namespace] if namespace else []))
        selector = {"field_selector": f"metadata.name={CONFIG_MAP}"}
        make_informers(CONFIG_MAPS, *([config] if config else []), informers=informers, **selector)

        async def scenario() -> None:
            await RootCertificates(client, informers, "PEM").reconcile("ns")  # type: ignore[arg-type]

        run(scenario)
        return client.writes

    namespace = {"metadata": {"name": "ns"}}
    [(verb, _, made)] = look(RecordingClient(), namespace, None)
    assert (verb, made["data"], made["metadata"]["namespace"]) == ("create", {"ca.crt": "PEM"}, "ns")
    assert look(RecordingClient(), namespace, made) == []
    [(verb, _, again)] = look(RecordingClient(), namespace, {**made, "data": {"ca.crt": "old"}})
    assert (verb, again["data"]) == ("update", {"ca.crt": "PEM"})
    bare = {**made, "metadata": {"name": CONFIG_MAP, "namespace": "ns", "annotations": {"mine": "x"}}}
    [(verb, _, again)] = look(RecordingClient(), namespace, bare)
    assert again["metadata"]["annotations"] == {"mine": "x", **made["metadata"]["annotations"]}
    assert look(RecordingClient(), {"metadata": {"name": "ns", "deletionTimestamp": "x"}}, None) == []
    assert look(RecordingClient(), None, None) == []
    for reason, raised in (("AlreadyExists", False), ("NotFound", False), ("Forbidden", False), ("Invalid", True)):
        client = RecordingClient()
        client.refuses["create"] = (400, reason)
        if raised:
            with pytest.raises(StatusError):
                look(client, namespace, None)
        else:
            look(client, namespace, None)
