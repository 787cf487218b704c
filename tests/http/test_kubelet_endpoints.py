"""Logs and upgrades from kubelets that listen on a network."""

from __future__ import annotations

import hashlib
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest

from apiserver.http.kubelet.sockets import Kubelets
from apiserver.options.flags import SettingsError
from apiserver.options.settings import read
from apiserver.tls.self_signed import load_or_create_certificate
from tests.http.authorities import Authority
from tests.support.server import Running, serve
from tests.support.wire import Answer

pytestmark = pytest.mark.integration

KINDS = "Hostname, InternalDNS, InternalIP, ExternalDNS, ExternalIP"
PODS = "/api/v1/namespaces/default/pods"


class Kubelet:
    """A kubelet over TLS: it sends `answer`, and echoes the bytes of upgraded connections in capitals."""

    def __init__(self, folder: Path) -> None:
        self.certificate, key = load_or_create_certificate(folder, "127.0.0.1")
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(self.certificate, key)
        self.asked: list[str] = []
        self.answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n4\r\ntwo\n\r\n0\r\n\r\n"
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def believe(self, users: Path) -> None:
        """Require client certificates of this authority."""
        self._context.load_verify_locations(users)
        self._context.verify_mode = ssl.CERT_REQUIRED

    def serve(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            with closing(plain):
                try:
                    self._answer(plain)
                except OSError:
                    continue

    def _answer(self, plain: socket.socket) -> None:
        with self._context.wrap_socket(plain, server_side=True) as connection:
            head = b""
            while b"\r\n\r\n" not in head:
                piece = connection.recv(4096)
                if not piece:
                    return
                head += piece
            self.asked.append(head.decode())
            if b"upgrade:" not in head.lower():
                connection.sendall(self.answer)
                return
            connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\nConnection: Upgrade\r\n\r\n")
            connection.sendall(connection.recv(100).upper())

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextmanager
def kubelet(folder: Path) -> Iterator[Kubelet]:
    folder.mkdir(exist_ok=True)
    made = Kubelet(folder)
    thread = threading.Thread(target=made.serve)
    thread.start()
    try:
        yield made
    finally:
        made.close()
        thread.join()


def prepare(running: Running, port: int, kind: str = "InternalIP", certificate: str = "") -> None:
    """Create a node with this kubelet, and a pod on it. `certificate` is the SHA-256 that the node announces."""
    wire = running.wire()
    addresses = [{"type": "ExternalIP", "address": "192.0.2.7"}, {"type": kind, "address": "127.0.0.1"}]
    status = {"addresses": addresses, "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}
    annotations = {"kubelet.kubedra.dev/certificate": certificate} if certificate else {}
    wire.create("/api/v1/nodes", {"metadata": {"name": "far", "annotations": annotations}, "status": status})
    containers = [{"name": "c", "image": "i"}]
    wire.create(PODS, {"metadata": {"name": "p"}, "spec": {"nodeName": "far", "containers": containers}})


def log(running: Running, query: str = "") -> Answer:
    return running.wire().get(f"{PODS}/p/log{query}")


def test_a_log_is_read_from_the_kubelet_of_the_node(tmp_path: Path) -> None:
    with kubelet(tmp_path) as far, serve(f"--kubelet-certificate-authority={far.certificate}") as running:
        prepare(running, far.port)
        answer = log(running, "?timestamps=1&follow=false&previous&tailLines=5&pretty=true")
        assert (answer.status, answer.text) == (200, "one\ntwo\n")
        assert answer.headers["content-type"].startswith("text/plain")
        assert log(running, "?tailLines=--1&limitBytes=%C2%B2").status == 200, "what is no number counts for nothing"
        path = "/containerLogs/default/p/c?previous=true&tailLines=5&timestamps=true"
        assert far.asked[0].splitlines()[0] == f"GET {path} HTTP/1.1"
        for code, said, reason, message in (
            (401, b"no", "Unauthorized", "the server has asked for the client to provide credentials ( pods/log p)"),
            (400, b"no such thing", "BadRequest", "no such thing"),
            (500, b"broken", "InternalError", "Internal error occurred: broken"),
            (404, b"x", "NotFound", "the server could not find the requested resource ( pods/log p)"),
        ):
            far.answer = b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (code, len(said), said)
            refused = log(running)
            assert (refused.status, refused.reason, refused.message) == (code, reason, message)


def test_a_kubelet_needs_a_certificate_signed_by_the_authority(tmp_path: Path) -> None:
    other, _ = load_or_create_certificate(tmp_path / "other", "127.0.0.1")
    with kubelet(tmp_path / "far") as far:
        with serve(f"--kubelet-certificate-authority={other}") as running:
            prepare(running, far.port)
            refused = log(running)
            where = f"https://127.0.0.1:{far.port}/containerLogs/default/p/c"
            why = "tls: failed to verify certificate: x509: certificate signed by unknown authority"
            assert refused.refusal == (500, f'Get "{where}": {why}')
            assert log(running, "?insecureSkipTLSVerifyBackend=true").text == "one\ntwo\n"
        with serve() as running:
            prepare(running, far.port)
            assert log(running).status == 200


def test_a_kubelet_gets_the_current_client_certificate_of_the_files(tmp_path: Path) -> None:
    users, strangers = Authority(tmp_path, "users"), Authority(tmp_path, "strangers")
    shown = tmp_path / "shown.pem"
    shutil.copy(strangers.client("server"), shown)
    flags = (f"--kubelet-client-certificate={shown}", f"--kubelet-client-key={shown}")
    with kubelet(tmp_path / "far") as far, serve(*flags) as running:
        far.believe(users.file)
        prepare(running, far.port)
        assert log(running).status != 200
        shutil.copy(users.client("kube-apiserver"), shown)
        assert log(running).text == "one\ntwo\n"


def spoken_token(far: Kubelet) -> str:
    """Return the bearer token of the last request; "" for none."""
    fields = [line for line in far.asked[-1].splitlines() if line.lower().startswith("authorization: ")]
    return fields[0].split(" ", 2)[2] if fields else ""


def test_a_kubelet_that_announces_its_certificate_gets_a_token_for_it_alone(tmp_path: Path) -> None:
    with kubelet(tmp_path / "far") as far, serve() as running:
        fingerprint = hashlib.sha256(ssl.PEM_cert_to_DER_cert(far.certificate.read_text())).hexdigest()
        prepare(running, far.port, certificate=fingerprint)
        assert log(running).text == "one\ntwo\n"
        token = spoken_token(far)
        for audience, authenticated in ((fingerprint, True), ("0" * 64, False)):
            spec = {"token": token, "audiences": [f"kubedra.dev/kubelet/{audience}"]}
            path = "/apis/authentication.k8s.io/v1/tokenreviews"
            status = running.wire().create(path, {"spec": spec})["status"]
            assert status.get("authenticated", False) is authenticated
        status = running.wire().create(path, {"spec": {"token": token}})["status"]
        assert not status.get("authenticated"), "it is no credential at the server"


def test_a_listener_with_another_certificate_gets_nothing(tmp_path: Path) -> None:
    why = "the certificate is not the one that the node's kubelet announced"
    with kubelet(tmp_path / "far") as far, serve() as running:
        prepare(running, far.port, certificate="0" * 64)
        where = f"https://127.0.0.1:{far.port}/containerLogs/default/p/c"
        assert log(running).refusal == (500, f'Get "{where}": {why}')
        upgrade = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
        answer = httpx.post(f"{running.url}{PODS}/p/exec?command=ls", headers=upgrade, trust_env=False)
        assert why in answer.text
        assert far.asked == []


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("portforward", "/portForward/default/p"),
        ("exec?command=ls", "/exec/default/p/c?command=ls"),
        ("attach", "/attach/default/p/c"),
    ],
)
def test_upgrades_go_to_the_kubelet(tmp_path: Path, path: str, asked: str) -> None:
    with kubelet(tmp_path) as far, serve() as running:
        prepare(running, far.port)
        plain = running.wire().post(f"{PODS}/p/{path}", None)
        assert plain.refusal == (400, "Upgrade request required")
        host, _, port = running.url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port))) as connection:
            head = f"POST {PODS}/p/{path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
            connection.sendall(f"{head}Authorization: Bearer secret\r\nX-Stream-Protocol-Version: v4\r\n\r\n".encode())
            said = b""
            while b"\r\n\r\n" not in said:
                said += connection.recv(4096)
            assert said.startswith(b"HTTP/1.1 101 ")
            connection.sendall(b"ping")
            assert connection.recv(100) == b"PING"
        first, *fields = far.asked[-1].lower().splitlines()
        assert first == f"post {asked.lower()} http/1.1"
        assert "x-stream-protocol-version: v4" in fields
        assert not any(field.startswith("authorization") for field in fields)


def test_a_node_without_an_address_has_no_kubelet(tmp_path: Path) -> None:
    with kubelet(tmp_path) as far, serve("--kubelet-preferred-address-types=Hostname") as running:
        prepare(running, far.port)
        assert log(running).status == 501
        assert far.asked == []


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--kubelet-certificate-authority=/nowhere"], "--kubelet-certificate-authority /nowhere: no such file"),
        (["--kubelet-client-certificate=/dev/null"], "--kubelet-client-certificate /dev/null: no such file"),
        (
            ["--kubelet-preferred-address-types=Planet"],
            f"--kubelet-preferred-address-types Planet: allowed are {KINDS}",
        ),
    ],
)
def test_errors_name_unusable_flags(flags: list[str], problem: str) -> None:
    with pytest.raises(SettingsError) as found:
        read(flags)
    assert str(found.value) == problem


@pytest.mark.parametrize("node", ["../secret", "/dev/null", "..", ".", "", "a/b", "a\0b", "a" * 300])
def test_a_binding_to_what_no_node_is_called_reads_no_file(tmp_path: Path, node: str) -> None:
    directory = tmp_path / "kubelets"
    directory.mkdir()
    for file in (tmp_path / "secret", directory / "node-1.example", directory / "b"):
        file.write_text("/nowhere")
    (directory / "a").mkdir()
    (directory / "a" / "b").write_text("/nowhere")
    kubelets = Kubelets(directory)
    assert kubelets.serves("node-1.example")
    assert not kubelets.serves(node)
    assert not kubelets.serves(str(tmp_path / "secret"))
