"""Pod certificates: the pod waits for them, they are written to files, and renewed in time."""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from cryptography.x509 import load_der_x509_csr

from apiserver.api.objects import Json
from apiserver.resources.certificates.podkeys import check_key
from apiserver.runtime import clock
from controllers.kubelet.pods.certificates import PodCertificates, make_key
from controllers.runtime.times import go_time
from kubedra.runtime import private_files as private
from tests.node.test_kubelet_rounds import NODE, Node, at, pod

pytestmark = pytest.mark.integration

HERE: Json = {**NODE, "metadata": {**NODE["metadata"], "uid": "n-u"}}
#: The text around a certificate is not written to files.
CHAIN = "by {}\n-----BEGIN CERTIFICATE-----\nA: b\n\n{}\n-----END CERTIFICATE-----\nend"
MINUTES = timedelta(minutes=1)


def with_certificate(**more: Any) -> Json:
    wanted = {
        "signerName": "example.com/a", "keyType": "ED25519", "credentialBundlePath": "both.pem", "keyPath": "in/key.pem",
        "certificateChainPath": "chain.pem",
    }  # fmt: skip
    sources = [{"downwardAPI": {"items": []}}, {"podCertificate": wanted}]
    volume = {"name": "v", "projected": {"sources": sources, "defaultMode": 0o440}}
    return {"volumes": [volume], "serviceAccountName": "runner", **more}


class SigningNode(Node):
    """A node whose pod requests a certificate, and the signer."""

    def __init__(self, directory: Path | None = None, jitter: float = 0) -> None:
        self.requests: dict[str, Json] = {}
        super().__init__()
        self.certificates = PodCertificates(
            self.client,  # type: ignore[arg-type]
            self.requests.get, self.recorder, lambda: jitter, directory,  # type: ignore[arg-type]
        )  # fmt: skip
        self.kubelet._certificates = self.certificates
        self.client.there["ServiceAccount", "runner"] = {"metadata": {"uid": "a-u"}}
        self.client._answers["PodCertificateRequest"] = self._create_request

    def _create_request(self, body: Json) -> Json:
        name = f"req-{len(self.requests)}"
        metadata = {**body["metadata"], "name": name, "creationTimestamp": at(0)}
        return self.requests.setdefault(f"ns/{name}", {**body, "metadata": metadata})

    @property
    def newest(self) -> Json:
        return list(self.requests.values())[-1]

    def issue(self, content: bytes, *, refresh: timedelta = 40 * MINUTES, ends: timedelta = 60 * MINUTES) -> None:
        now = clock.now()
        self.kubelet.invalidate(self.pod)
        self.newest["status"] = {
            "conditions": [{"type": "Issued", "status": "True"}], "beginRefreshAt": go_time(now + refresh),
            "notAfter": go_time(now + ends), "certificateChain": CHAIN.format("me", b64encode(content).decode()),
        }  # fmt: skip

    def end(self, kind: str) -> None:
        self.newest["status"] = {"conditions": [{"type": kind, "reason": "No", "message": "not you"}]}

    @property
    def phase(self) -> str:
        return str(self.pod["status"].get("phase"))


async def test_a_pod_starts_with_its_issued_certificate_in_files(tmp_path: Path) -> None:
    node = SigningNode(tmp_path, jitter=0.5)
    again = await node.step(pod(spec=with_certificate()), HERE)
    assert (node.phase, node.recorder.reasons) == ("Pending", ["FailedMount"])
    assert node.recorder.events[0][2] == 'MountVolume.SetUp failed for volume "v" : credential bundle is not issued yet'
    assert again == timedelta(seconds=60)
    [request] = node.requests.values()
    assert request["metadata"]["ownerReferences"] == [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]
    spec = dict(request["spec"])
    stub = load_der_x509_csr(b64decode(spec.pop("stubPKCS10Request")))
    assert spec == {
        "signerName": "example.com/a", "podName": "p", "podUID": "u", "serviceAccountName": "runner",
        "serviceAccountUID": "a-u", "nodeName": "n", "nodeUID": "n-u",
    }  # fmt: skip
    await node.step(node=HERE)
    assert (node.phase, len(node.requests)) == ("Pending", 1), "it is asked for once"
    node.issue(b"first")
    renewal = await node.step(node=HERE)
    assert node.phase == "Running"
    assert renewal == 42.5 * MINUTES, "half of the five minutes over which renewals are spread"
    place = tmp_path / "u/volumes/v"
    key, chain = ((place / name).read_bytes() for name in ("in/key.pem", "chain.pem"))
    assert chain == b"-----BEGIN CERTIFICATE-----\nZmlyc3Q=\n-----END CERTIFICATE-----\n"
    assert ((place / "both.pem").read_bytes(), (place / "both.pem").stat().st_mode & 0o777) == (key + chain, 0o440)
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert load_pem_private_key(key, None).public_key().public_bytes(*form) == stub.public_key().public_bytes(*form)
    await asyncio.sleep(renewal.total_seconds())
    await node.step(node=HERE)
    assert (len(node.requests), (place / "in/key.pem").read_bytes()) == (2, key), "what is held stays until then"
    node.issue(b"second")
    await node.step(node=HERE)
    assert (place / "in/key.pem").read_bytes() != key
    assert b64encode(b"second") in (place / "chain.pem").read_bytes()
    (held,) = [path for path in place.glob("..*") if not path.is_symlink()]
    links = [place / name for name in ("in/key.pem", "chain.pem", "both.pem")]
    assert all(path.resolve().is_relative_to(held) for path in links), "one change of a link replaces them all"


@pytest.mark.parametrize(("kind", "verb"), [("Denied", "was denied"), ("Failed", "failed")])
async def test_a_pod_with_a_denied_or_failed_certificate_never_starts(kind: str, verb: str) -> None:
    node = SigningNode()
    await node.step(pod(spec=with_certificate()), HERE)
    node.end(kind)
    await node.step(node=HERE)
    reason = 'reason="No", message="not you"'
    lasting = f"PodCertificateRequest was permanently {kind.lower()}: {reason.replace(',', '')}"
    assert node.recorder.events[1:] == [
        ("Warning", kind, f"PodCertificateRequest ns/req-0 {verb}, {reason}"),
        ("Warning", "FailedMount", f'MountVolume.SetUp failed for volume "v" : {lasting}'),
    ]
    await asyncio.sleep(3600)
    await node.step(node=HERE)
    assert (node.phase, len(node.requests)) == ("Pending", 1)


async def test_a_deleted_request_is_recreated() -> None:
    node = SigningNode()
    await node.step(pod(spec=with_certificate()), HERE)
    node.requests["ns/gone"] = node.requests.pop("ns/req-0")
    await asyncio.sleep(599)
    await node.step(node=HERE)
    assert len(node.requests) == 1, "it may not have been seen yet"
    await asyncio.sleep(1)
    await node.step(node=HERE)
    assert len(node.requests) == 2
    node.kubelet.remove(node.pod)
    assert node.certificates.missing(node.pod) == {"v": "credential bundle is not issued yet"}


async def test_a_certificate_that_is_not_renewed_emits_one_event_each() -> None:
    node = SigningNode()
    await node.step(pod(spec=with_certificate()), HERE)
    node.issue(b"a", refresh=40 * MINUTES, ends=60 * MINUTES)
    assert await node.step(node=HERE) == 40 * MINUTES
    await asyncio.sleep(40 * 60)
    await node.step(node=HERE)
    due = []
    for seconds in (0, 599, 1, 600, 3600):
        await asyncio.sleep(seconds)
        due.append(await node.step(node=HERE))
    assert due == [10 * MINUTES, timedelta(seconds=1), 10 * MINUTES, None, None], "a request that is seen is not lost"
    assert [event for event in node.recorder.events if event[0] == "Warning"][1:] == [
        ("Warning", "CertificateOverdueForRefresh", "PodCertificate refresh overdue"),
        ("Warning", "CertificateExpired", "PodCertificate expired"),
    ]
    assert len(node.requests) == 2
    assert node.phase == "Running"


async def test_a_failed_request_is_retried_after_a_second() -> None:
    node = SigningNode()
    node.client.refuses["get"] = (500, "InternalError")
    assert await node.step(pod(spec=with_certificate()), HERE) == timedelta(seconds=1)
    node.client.refuses.clear()
    await node.step(node=HERE)
    assert len(node.requests) == 1


@pytest.mark.parametrize("kind", ["ED25519", "ECDSAP256", "ECDSAP384", "ECDSAP521", "RSA3072"])
def test_keys_have_the_requested_type_and_the_server_accepts_them(kind: str) -> None:
    key, stub = make_key(kind)
    assert check_key({"stubPKCS10Request": b64encode(stub).decode()}) == []
    loaded = load_pem_private_key(key, None)
    assert kind == "ED25519" or loaded.key_size == int(kind.lstrip("ECDSAPR"))  # type: ignore[union-attr]


async def test_a_failed_write_of_files_is_retried_and_the_pod_waits(tmp_path: Path) -> None:
    node = SigningNode(tmp_path)
    await node.step(pod(spec=with_certificate()), HERE)
    node.issue(b"a")
    (tmp_path / "u").write_text("in the way")
    assert await node.step(node=HERE) == timedelta(seconds=1)
    assert node.phase == "Pending"
    (tmp_path / "u").unlink()
    await node.step(node=HERE)
    assert (node.phase, (tmp_path / "u/volumes/v/chain.pem").exists(), len(node.requests)) == ("Running", True, 1)


async def test_keys_of_a_killed_process_are_removed_with_the_next_certificate(tmp_path: Path) -> None:
    """The process may end between the write of the files and the change of the link, or directly after it."""
    place = tmp_path / "u/volumes/v"
    for name in ("..certificate-1.abcd0123", "..certificate-1.abcd4567/in", "..certificate-10.abcd0123"):
        (place / name).mkdir(parents=True)
        (place / name / "key.pem").write_text("a key")
    node = SigningNode(tmp_path)
    await node.step(pod(spec=with_certificate()), HERE)
    node.issue(b"a")
    await node.step(node=HERE)
    assert node.phase == "Running"
    held = (place / "..certificate-1").resolve().name
    found = {path.name for path in place.glob("..*") if not path.is_symlink()}
    assert found == {held, "..certificate-10.abcd0123"}


def test_a_read_only_file_is_replaced_atomically(tmp_path: Path) -> None:
    for content in (b"a", b"b"):
        private.write(tmp_path / "key", content, 0o400)
    assert ((tmp_path / "key").read_bytes(), (tmp_path / "key").stat().st_mode & 0o777) == (b"b", 0o400)
    assert [path.name for path in tmp_path.iterdir()] == ["key"]
