"""The pod certificates of a node: the `podCertificate` sources of projected volumes.

For each source the node creates a key and a PodCertificateRequest, then waits for the signer. The pod starts when all
its certificates are issued. They are renewed with a new key at `beginRefreshAt` plus a random delay of up to five
minutes. State is held in memory only: a restarted kubelet requests new certificates. With `--run` the credentials are
written to files.

Facts: pkg/kubelet/podcertificate; pkg/volume/projected.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import shutil
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Final, NamedTuple

from apiserver.api.credentials.pem import blocks
from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime import clock
from controllers.runtime.client import Client
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.kinds import POD_CERTIFICATE_REQUESTS, SERVICE_ACCOUNTS
from controllers.runtime.times import parse_time
from controllers.runtime.workqueue import Resync
from kubedra.runtime import private_files as private

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes

__all__ = ["GATE", "PodCertificates"]

log = logging.getLogger(__name__)
GATE: Final = "PodCertificateRequest"
#: A request missing in the informer after this time has been deleted.
_LOST: Final = timedelta(minutes=10)
#: A refresh is overdue this long after it was due.
_OVERDUE: Final = timedelta(minutes=10)
_SPREAD: Final = timedelta(minutes=5)
_AGAIN: Final = Resync(seconds=1)


class Source(NamedTuple):
    """A `podCertificate` source of a pod: its volume, its index among the volume's sources, its spec."""

    volume: Json

    position: int
    spec: Json


@dataclass(slots=True)
class _Credentials:
    """The issued credentials of a source (`key`, `chain`), and the pending request (`pending`) if any."""

    key: bytes = b""
    chain: bytes = b""
    refresh: datetime = datetime.max
    ends: datetime = datetime.max
    pending: str = ""
    pending_key: bytes = b""
    #: Time at which a request that is missing in the informer counts as deleted.
    lost: datetime = datetime.max
    seen: bool = False
    #: The permanent error after which no certificate is requested.
    over: str = ""
    emitted: set[str] = field(default_factory=set)

    @property
    def missing(self) -> str:
        """The reason why the pod cannot use the certificate; "" if it can."""
        return self.over or ("" if self.chain else "credential bundle is not issued yet")


class PodCertificates:
    """The certificates of one node's pods.

    `requests` returns a request from the informer by key. Volumes are written to UID/volumes/NAME below `directory`, if
    set.
    """

    def __init__(
        self,
        client: Client,
        requests: Callable[[str], Json | None],
        recorder: CoreEventRecorder,
        jitter: Callable[[], float],
        directory: Path | None = None,
    ) -> None:
        self._client, self._requests, self._recorder = client, requests, recorder
        self._jitter, self._directory = jitter, directory
        self._held: dict[str, dict[tuple[str, int], _Credentials]] = {}

    def remove(self, pod: Json) -> None:
        """Drop the state of a deleted pod."""
        self._held.pop(pod["metadata"]["uid"], None)

    def missing(self, pod: Json) -> Mapping[str, str]:
        """Return the volumes that cannot be set up, with the reason."""
        held = self._held.get(pod["metadata"]["uid"], {})
        found: dict[str, str] = {}
        for source in sources(pod):
            known = held.get((source.volume["name"], source.position), _Credentials())
            if known.missing:
                found.setdefault(source.volume["name"], known.missing)
        return found

    async def step(self, pod: Json, node: Json) -> timedelta | None:
        """Advance the certificates of a pod.

        Return the delay until the next step if no request changes first.
        """
        waits = []
        for source in sources(pod):
            held = self._held.setdefault(pod["metadata"]["uid"], {})
            known = held.setdefault((source.volume["name"], source.position), _Credentials())
            try:
                wait = await self._advance(pod, node, source, known)
            except (StatusError, OSError) as error:
                where = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
                log.warning("cannot request or write a certificate for pod %s: %s", where, error)
                wait = _AGAIN
            if wait is not None:
                waits.append(wait)
        return min(waits, default=None)

    async def _advance(self, pod: Json, node: Json, source: Source, known: _Credentials) -> timedelta | None:
        if known.over:
            return None
        if known.pending:
            self._process_outcome(pod, source, known)
        if known.over:
            return None
        now = clock.now()
        if not known.pending and (not known.chain or now >= known.refresh):
            await self._request(pod, node, source, known)
            now = clock.now()
        late = tuple(self._emit_overdue(pod, known, now))
        if not known.pending:
            late = (*late, known.refresh)
        elif not known.seen:
            late = (*late, known.lost)
        due = min(late, default=datetime.max)
        return None if due == datetime.max else Resync(seconds=max((due - now).total_seconds(), 0.001))

    def _process_outcome(self, pod: Json, source: Source, known: _Credentials) -> None:
        """Process the outcome of the pending request. Raise OSError."""
        key = f"{pod['metadata']['namespace']}/{known.pending}"
        request = self._requests(key)
        known.seen = request is not None
        if request is None:
            if clock.now() >= known.lost:
                known.pending = ""
            return
        status = request.get("status") or {}
        for condition in status.get("conditions") or ():
            reason, message = condition.get("reason", ""), condition.get("message", "")
            what = {"Denied": "was denied", "Failed": "failed"}.get(condition["type"])
            if what is not None:
                said = f'reason="{reason}", message="{message}"'
                self._recorder.record(pod, "Warning", condition["type"], f"PodCertificateRequest {key} {what}, {said}")
                ended = f"was permanently {condition['type'].lower()}"
                known.over = f"PodCertificateRequest {ended}: {said.replace(',', '')}"
                return
            if condition["type"] == "Issued":
                chain = _certificates(status["certificateChain"])
                self._write(pod, source, known.pending_key, chain)
                known.key, known.chain = known.pending_key, chain
                known.refresh = parse_time(status["beginRefreshAt"]) + _SPREAD * self._jitter()
                known.ends, known.pending, known.emitted = parse_time(status["notAfter"]), "", set()
                return

    def _emit_overdue(self, pod: Json, known: _Credentials, now: datetime) -> Iterator[datetime]:
        """Emit overdue events of a certificate, each once. Yield the times of future ones."""
        if not known.chain:
            return
        for reason, message, at in (
            ("CertificateOverdueForRefresh", "PodCertificate refresh overdue", known.refresh + _OVERDUE),
            ("CertificateExpired", "PodCertificate expired", known.ends),
        ):
            if reason in known.emitted:
                continue
            if now < at:
                yield at
            else:
                known.emitted.add(reason)
                self._recorder.record(pod, "Warning", reason, message)

    async def _request(self, pod: Json, node: Json, source: Source, known: _Credentials) -> None:
        """Create a key and request a certificate. Raise StatusError."""
        meta, wanted = pod["metadata"], source.spec
        account = pod["spec"].get("serviceAccountName") or "default"
        found = await self._client.get(SERVICE_ACCOUNTS, account, meta["namespace"])
        key, proof = await asyncio.to_thread(make_key, wanted["keyType"])
        owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
        spec = {
            "signerName": wanted["signerName"], "podName": meta["name"], "podUID": meta["uid"],
            "serviceAccountName": account, "serviceAccountUID": found["metadata"]["uid"],
            "nodeName": node["metadata"]["name"], "nodeUID": node["metadata"]["uid"],
            "stubPKCS10Request": b64encode(proof).decode(),
        }  # fmt: skip
        if (seconds := wanted.get("maxExpirationSeconds")) is not None:
            spec["maxExpirationSeconds"] = seconds
        if annotations := wanted.get("userAnnotations"):
            spec["unverifiedUserAnnotations"] = annotations
        metadata = {"namespace": meta["namespace"], "generateName": "req-", "ownerReferences": [owner]}
        made = await self._client.create(POD_CERTIFICATE_REQUESTS, {"metadata": metadata, "spec": spec})
        known.pending, known.pending_key, known.seen = made["metadata"]["name"], key, False
        known.lost = parse_time(made["metadata"]["creationTimestamp"]) + _LOST + _SPREAD * self._jitter()

    def _write(self, pod: Json, source: Source, key: bytes, chain: bytes) -> None:
        if self._directory is None:
            return
        place = self._directory / pod["metadata"]["uid"] / "volumes" / source.volume["name"]
        mode = source.volume["projected"].get("defaultMode", 0o644)
        security = pod["spec"].get("securityContext") or {}
        if {"runAsUser", "fsGroup"} & security.keys():
            mode = private.FILE_MODE
        parts = (("credentialBundlePath", key + chain), ("keyPath", key), ("certificateChainPath", chain))
        files = {source.spec[name]: content for name, content in parts if source.spec.get(name)}
        _replace_files(place, f"..certificate-{source.position}", files, mode)


def _replace_files(place: Path, name: str, files: Mapping[str, bytes], mode: int) -> None:
    """Replace files atomically, so that a key never appears with another key's chain.

    As with a kubelet, the files are links through one link (`name`) to the directory of the current version.
    Directories of older versions are deleted, also those of a killed process.
    """
    fresh, link = place / f"{name}.{secrets.token_hex(4)}", place / name
    for path, content in files.items():
        file = fresh / path
        file.parent.mkdir(parents=True, exist_ok=True)
        private.write(file, content, mode)
    _link(link, fresh.name)
    for path in files:
        file = place / path
        file.parent.mkdir(parents=True, exist_ok=True)
        _link(file, os.path.relpath(link / path, file.parent))
    for before in place.glob(f"{name}.*"):
        if before != fresh:
            shutil.rmtree(before, ignore_errors=True)


def _link(path: Path, target: str) -> None:
    """Create or redirect a link."""
    if path.is_symlink() and str(path.readlink()) == target:
        return
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    draft.symlink_to(target)
    draft.replace(path)


def sources(pod: Json) -> Iterator[Source]:
    """Yield the `podCertificate` sources of a pod."""
    for volume in pod["spec"].get("volumes") or ():
        for index, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if wanted := source.get("podCertificate"):
                yield Source(volume, index, wanted)


def make_key(kind: str) -> tuple[bytes, bytes]:
    """Create a private key of a type in PEM (PKCS #8), and a request in DER signed with it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    curves = {"ECDSAP256": ec.SECP256R1(), "ECDSAP384": ec.SECP384R1(), "ECDSAP521": ec.SECP521R1()}
    key: CertificateIssuerPrivateKeyTypes
    digest: hashes.SHA256 | None = hashes.SHA256()
    if kind == "ED25519":
        key, digest = ed25519.Ed25519PrivateKey.generate(), None
    elif kind in curves:
        key = ec.generate_private_key(curves[kind])
    else:
        key = rsa.generate_private_key(65537, int(kind.removeprefix("RSA")))
    request = x509.CertificateSigningRequestBuilder(x509.Name([])).sign(key, digest)
    encoding = serialization.Encoding
    form, secret = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(encoding.PEM, form, secret), request.public_bytes(encoding.DER)


def _certificates(chain: str) -> bytes:
    """Return the certificates of a PEM chain without headers and text between them."""
    found = []
    for block in blocks(chain.encode()):
        lines = wrap(b64encode(block.data).decode(), 64)
        found += ["-----BEGIN CERTIFICATE-----", *lines, "-----END CERTIFICATE-----", ""]
    return "\n".join(found).encode()
