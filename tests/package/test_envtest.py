"""The steps of controller-runtime's envtest with the binaries that it is given.

These are the flags of its source, its health checks, a certificate per user, and its way to stop.
"""

from __future__ import annotations

import datetime as dt
import importlib.util
import ipaddress
import os
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from apiserver.api.objects import Json
from kubedra.command.envtest_files import write_assets
from tests.conformance.webhook import Webhook
from tests.support.patience import run_command, wait_until

pytestmark = pytest.mark.integration

WEBHOOKS = Path(__file__).parents[2] / "examples" / "envtest-project" / "manifests" / "webhooks.yaml"


class Authority:
    """Makes certificates, as envtest's TinyCA."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = _name("envtest-environment")
        self.certificate = self._sign(self.name, self.key, ca=True)

    def _sign(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, ca: bool = False) -> x509.Certificate:
        now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self.name).public_key(key.public_key())
        builder = (
            builder.serial_number(x509.random_serial_number()).not_valid_before(now - day).not_valid_after(now + day)
        )
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        return builder.sign(self.key, hashes.SHA256())

    def pair(self, user: str, *groups: str) -> tuple[bytes, bytes]:
        """Issue a certificate and its key, in PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        return self._sign(_name(user, *groups), key).public_bytes(serialization.Encoding.PEM), _pem(key)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)


def _name(user: str, *groups: str) -> x509.Name:
    organizations = [x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(x509.NameOID.COMMON_NAME, user)])


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


class Environment:
    """A running pair of processes."""

    def __init__(self, directory: Path, release: str = "") -> None:
        self.assets, self.certificates = write_assets(directory / "assets", release=release), directory / "apiserver"
        self.certificates.mkdir()
        self.serving, self.clients = Authority(), Authority()
        self.errors = directory / "stderr"
        etcd, port = _free_port(), _free_port()
        self.etcd = self._start(
            "etcd", f"--listen-peer-urls=http://127.0.0.1:{_free_port()}", f"--data-dir={directory}/etcd",
            f"--advertise-client-urls=http://127.0.0.1:{etcd}", f"--listen-client-urls=http://127.0.0.1:{etcd}",
        )  # fmt: skip
        _until_well(f"http://127.0.0.1:{etcd}/health")
        self._write()
        self.url = f"https://127.0.0.1:{port}"
        self.server = self._start(
            "kube-apiserver", "--allow-privileged=true", "--authorization-mode=RBAC", "--bind-address=127.0.0.1",
            f"--cert-dir={self.certificates}", f"--client-ca-file={self.certificates}/client-cert-auth-ca.crt",
            "--disable-admission-plugins=ServiceAccount", f"--etcd-servers=http://127.0.0.1:{etcd}",
            f"--secure-port={port}", f"--service-account-issuer={self.url}/",
            f"--service-account-key-file={self.certificates}/sa-signer.crt",
            f"--service-account-signing-key-file={self.certificates}/sa-signer.key",
            "--service-cluster-ip-range=10.0.0.0/24",
        )  # fmt: skip
        _until_well(f"{self.url}/healthz")

    def _write(self) -> None:
        certificate, key = self.serving.pair("localhost")
        accounts = Authority()
        for name, text in (
            ("apiserver.crt", certificate), ("apiserver.key", key), ("sa-signer.crt", accounts.pem),
            ("sa-signer.key", _pem(accounts.key)), ("client-cert-auth-ca.crt", self.clients.pem),
        ):  # fmt: skip
            (self.certificates / name).write_bytes(text)

    def _start(self, name: str, *flags: str) -> subprocess.Popen[bytes]:
        with self.errors.open("ab") as errors:
            return subprocess.Popen([self.assets / name, *flags], stdout=subprocess.DEVNULL, stderr=errors)

    def user(self, name: str, *groups: str) -> httpx.Client:
        certificate, key = self.clients.pair(name, *groups)
        file = self.certificates / f"{name}.pem"
        file.write_bytes(certificate + key)
        trust = ssl.create_default_context(cadata=self.serving.pem.decode())
        trust.load_cert_chain(file)
        return httpx.Client(base_url=self.url, verify=trust, timeout=30)

    def stop(self) -> list[int]:
        """As envtest does, by SIGTERM: the exit codes of server and etcd."""
        codes = []
        for process in (self.server, self.etcd):
            process.send_signal(signal.SIGTERM)
            codes.append(process.wait(timeout=20))
        return codes


def _until_well(url: str) -> None:
    def well() -> bool:
        try:
            return httpx.get(url, verify=False, timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    wait_until(well, f"{url} answers 200")


@pytest.fixture
def environment(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Environment]:
    made = Environment(tmp_path, release=getattr(request, "param", ""))
    try:
        yield made
    finally:
        for process in (made.server, made.etcd):
            if process.poll() is None:
                process.kill()
                process.wait()


def test_envtest_finds_what_it_starts_and_its_users_are_who_their_certificates_say(environment: Environment) -> None:
    for name, flag in (("kube-apiserver", "insecure-port"), ("etcd", "unsafe-no-fsync")):
        shown = run_command([str(environment.assets / name), "--help"], text=True)
        assert shown.returncode == 0
        assert not any(line.strip().startswith(f"--{flag}") for line in shown.stdout.splitlines())
    with environment.user("admin", "system:masters") as admin, environment.user("somebody", "people") as other:
        namespace: Json = {"metadata": {"generateName": "test-"}}
        assert admin.post("/api/v1/namespaces", json=namespace).status_code == 201
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        told = other.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json=review).json()["status"]["userInfo"]
        assert (told["username"], "people" in told["groups"]) == ("somebody", True)
        assert other.get("/api/v1/namespaces").status_code == 403
        account = admin.post("/api/v1/namespaces/default/serviceaccounts", json={"metadata": {"name": "a"}})
        assert account.status_code == 201
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        assert admin.post("/api/v1/namespaces/default/pods", json=pod).status_code == 201
    assert environment.stop() == [0, 0]
    said = environment.errors.read_text()
    assert "kube-apiserver: without effect in kubedra: --allow-privileged, --etcd-servers" in said
    assert "Traceback" not in said


def test_a_webhook_is_called_at_the_path_of_its_manifest_though_envtest_puts_two_slashes_before_it(
    environment: Environment,
) -> None:
    """Envtest replaces the service of a manifest by https://ADDRESS/ and the path, which begins with a slash."""
    webhook = Webhook()
    try:
        label = [{"op": "add", "path": "/metadata/labels", "value": {"team": "unknown"}}]
        denial = {"allowed": False, "status": {"code": 403, "message": "needs an image with a version"}}
        webhook.script({"/mutate-pods": [{"allowed": True, "patch": label}], "/validate-pods": [denial]})
        with environment.user("admin", "system:masters") as admin:
            for manifest in yaml.safe_load_all(WEBHOOKS.read_text()):
                for each in manifest["webhooks"]:
                    path = each["clientConfig"].pop("service")["path"]
                    each["clientConfig"] = {"url": f"https://{webhook.address}/{path}", "caBundle": webhook.authority}
                plural = f"{manifest['kind'].lower()}s"
                posted = admin.post(f"/apis/admissionregistration.k8s.io/v1/{plural}", json=manifest)
                assert posted.status_code == 201
            pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
            answer = admin.post("/api/v1/namespaces/default/pods", json=pod)
        assert answer.status_code == 403
        assert answer.json()["message"].endswith("denied the request: needs an image with a version")
        mutated, validated = webhook.calls()
        assert [call["path"].partition("?")[0] for call in (mutated, validated)] == ["/mutate-pods", "/validate-pods"]
        assert validated["body"]["request"]["object"]["metadata"]["labels"] == {"team": "unknown"}
    finally:
        webhook.close()


@pytest.mark.parametrize("environment", ["1.34"], indirect=True)
def test_the_assets_of_a_release_emulate_it(environment: Environment) -> None:
    with environment.user("admin", "system:masters") as admin:
        assert admin.get("/version").json()["minor"] == "34"


def test_the_assets_may_be_put_where_setup_envtest_looks_for_installed_ones(tmp_path: Path) -> None:
    directory = tmp_path / "k8s" / "1.36.2-linux-amd64"
    assert write_assets(directory) == directory
    assert sorted(item.name for item in directory.iterdir()) == ["etcd", "kube-apiserver", "kubectl", "setup-envtest"]
    assert all(os.access(item, os.X_OK) for item in directory.iterdir())
    assert run_command([str(directory / "kube-apiserver"), "--version"], text=True).stdout == "Kubernetes v1.36.2\n"


def test_the_server_is_compiled_with_the_assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or each start of it in an environment that forbids files of bytecode would do it again."""
    module = tmp_path / "installed" / "apiserver" / "command" / "fake_apiserver.py"
    module.parent.mkdir(parents=True)
    module.write_text("")
    monkeypatch.setattr("kubedra.runtime.process.server_root", lambda: tmp_path / "installed")
    write_assets(tmp_path / "assets")
    assert Path(importlib.util.cache_from_source(str(module))).is_file()
