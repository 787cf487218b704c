"""Metrics of issued certificates with the requested duration or another one."""

from __future__ import annotations

import datetime as dt
from base64 import b64encode
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.patience import wait_until
from tests.support.server import serve
from tests.support.wire import Wire

pytestmark = pytest.mark.integration

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ann")])
KEY = ec.generate_private_key(ec.SECP256R1())


def pem(made: Any) -> str:
    return b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


def certificate(lasts: dt.timedelta) -> str:
    first = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder().subject_name(NAME).issuer_name(NAME).public_key(KEY.public_key())
    builder = builder.serial_number(1).not_valid_before(first).not_valid_after(first + lasts)
    return pem(builder.sign(KEY, hashes.SHA256()))


def issue(wire: Wire, name: str, lasts: dt.timedelta, asked: int | None, signer: str, **query: str) -> None:
    """Request, approve and issue a certificate of this duration."""
    spec = {
        "request": pem(x509.CertificateSigningRequestBuilder().subject_name(NAME).sign(KEY, hashes.SHA256())),
        "signerName": signer,
        "usages": ["client auth"],
        **({} if asked is None else {"expirationSeconds": asked}),
    }
    wire.create(REQUESTS, {"metadata": {"name": name}, "spec": spec})
    condition = {"type": "Approved", "status": "True", "reason": "Test", "message": "x"}
    approved = wire.patch(f"{REQUESTS}/{name}/approval", {"status": {"conditions": [condition]}})
    assert approved.status == 200, approved.text
    status = {"status": {"certificate": certificate(lasts)}}
    parameters = "&".join(f"{key}={value}" for key, value in query.items())
    done = wire.patch(f"{REQUESTS}/{name}/status?{parameters}", status)
    assert done.status == 200, done.text


def test_certificates_of_the_requested_duration_are_counted() -> None:
    client, hour = "kubernetes.io/kube-apiserver-client", dt.timedelta(hours=1)
    with serve() as running:
        wire = running.wire()
        issue(wire, "said-nothing", hour, None, client)
        issue(wire, "only-tried", hour, 3600, client, dryRun="All")
        issue(wire, "honored", hour, 3600, client)
        issue(wire, "nearly", hour, 3600 + 470, client)  # five minutes and a twentieth of it make no difference
        issue(wire, "shorter", hour, 7200, client)
        issue(wire, "elsewhere", hour, 3600, "example.com/signer")
        touched = {"metadata": {"labels": {"touched": "yes"}}}
        assert wire.patch(f"{REQUESTS}/honored", touched).status == 200

        def counted() -> list[str]:
            lines = wire.get("/metrics").text.splitlines()
            return sorted(line for line in lines if line.startswith("apiserver_certificates_registry_csr_"))

        wanted = [
            f'apiserver_certificates_registry_csr_honored_duration_total{{signerName="{client}"}} 2',
            'apiserver_certificates_registry_csr_honored_duration_total{signerName="other"} 1',
            f'apiserver_certificates_registry_csr_requested_duration_total{{signerName="{client}"}} 3',
            'apiserver_certificates_registry_csr_requested_duration_total{signerName="other"} 1',
        ]
        wait_until(lambda: counted() == wanted, "all are counted")
