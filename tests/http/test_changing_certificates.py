"""Certificates and authorities whose files change while a server runs."""

from __future__ import annotations

import http.client
import json
import shutil
import ssl
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509

from apiserver.api.objects import Json
from apiserver.authentication.x509.client_certificates import ClientCertificates
from apiserver.options.flags import SettingsError
from apiserver.options.settings import read
from apiserver.runtime.reloading import ReloadedFiles
from apiserver.tls.listener import Https, HttpsError
from apiserver.tls.self_signed import load_or_create_certificate
from tests.http.authorities import Authority
from tests.support.patience import wait_until
from tests.support.server import serve
from tests.support.tokens import token_flag
from tests.support.wire import Child

pytestmark = pytest.mark.integration

INFO = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


def put(source: Path, target: Path) -> None:
    """Overwrite a file with another's contents."""
    target.write_bytes(source.read_bytes())


class Place:
    """A server in its own process, and the files that it follows."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.open = folder, ExitStack()
        self.users, self.proxies = Authority(folder, "users"), Authority(folder, "proxies")
        self.certificate, self.key = (
            shutil.copy(file, folder) for file in load_or_create_certificate(folder / "first", "one")
        )
        tokens = token_flag(folder, 'secret,root,1,"system:masters"\n')
        self.child = Child(
            folder / "data", f"--tls-cert-file={self.certificate}", f"--tls-private-key-file={self.key}",
            f"--client-ca-file={self.users.file}", f"--requestheader-client-ca-file={self.proxies.file}",
            "--requestheader-username-headers=X-Remote-User", tokens,
            "--authorization-mode=RBAC",
        )  # fmt: skip

    def connection(self, shown: Path | None = None) -> http.client.HTTPSConnection:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if shown is not None:
            context.load_cert_chain(shown)
        host, _, port = self.child.url.removeprefix("https://").partition(":")
        made = http.client.HTTPSConnection(host, int(port), context=context)
        self.open.callback(made.close)
        return made

    def served(self) -> str:
        host, _, port = self.child.url.removeprefix("https://").partition(":")
        return ssl.get_server_certificate((host, int(port)))


def ask(connection: http.client.HTTPSConnection, path: str = "/api/v1/namespaces", **headers: str) -> tuple[int, Json]:
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def test_new_connections_follow_the_files_and_broken_ones_change_nothing(tmp_path: Path) -> None:
    place, later = Place(tmp_path), tmp_path / "later"
    later.mkdir()
    users, proxies = Authority(later, "users"), Authority(later, "proxies")
    admin, proxy = users.client("admin", "system:masters"), proxies.client("front")
    with place.child, place.open:
        plain, known = place.connection(), place.connection(place.users.client("admin", "system:masters"))
        root = {"Authorization": "Bearer secret"}
        assert (ask(plain, **root)[0], ask(known)[0]) == (200, 200)

        def count_authorities() -> list[int]:
            data = ask(plain, INFO, **root)[1]["data"]
            return [data[f"{start}client-ca-file"].count("BEGIN") for start in ("", "requestheader-")]

        stranger = place.users.client("late")
        for source, target in (
            (users.file, place.users.file), (proxies.file, place.proxies.file),
            *zip(load_or_create_certificate(later / "second", "two"), (Path(place.certificate), Path(place.key)), strict=True),
        ):  # fmt: skip
            put(source, target)
        shown = (later / "second" / "tls.crt").read_text()
        wait_until(lambda: place.served() == shown, "the new certificate is shown")
        wait_until(lambda: count_authorities() == [2, 2], "others are told of the authorities before and now")
        assert ask(place.connection(admin))[0] == 200
        asked_for = {"X-Remote-User": "carol", "X-Remote-Group": "system:masters"}
        assert ask(place.connection(proxy), **asked_for)[1]["message"].startswith(
            'namespaces is forbidden: User "carol"'
        )
        assert ask(place.connection(stranger))[0] == 401
        assert ask(known)[0] == 401, "its authority counts no more"
        assert ask(plain, **root)[0] == 200
        Path(place.key).write_text("nothing")
        wait_until(lambda: "is not taken over" in place.child.log(), "the server complains")
        assert place.served() == shown
        assert f"serving certificate {place.certificate}, {place.key} is not taken over: " in place.child.log()


def handshake(server: ssl.SSLContext, name: str | None) -> bytes:
    """Return the certificate for a server name."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(back, there, server_hostname=name)
    ends: list[Callable[[], None]] = [here.do_handshake, server.wrap_bio(there, back, server_side=True).do_handshake]
    for _ in range(3):
        for end in ends:
            try:
                end()
            except ssl.SSLWantReadError:
                continue
    found = here.getpeercert(True)
    assert found is not None
    return found


def der(folder: Path) -> bytes:
    return ssl.PEM_cert_to_DER_cert((folder / "tls.crt").read_text())


def test_no_suite_goes_without_encryption_or_a_certificate(tmp_path: Path) -> None:
    https = Https(load_or_create_certificate(tmp_path), read(["--tls"]).tls_options)
    current = https.context.current
    assert isinstance(current, ssl.SSLContext)
    suites = current.get_ciphers()
    assert {suite["name"] for suite in suites if suite["protocol"] != "TLSv1.3"}
    assert not [suite["name"] for suite in suites if suite["strength_bits"] < 128 or "PSK" in suite["name"]]
    assert not [suite["name"] for suite in suites if "Au=None" in suite["description"]]


def test_clients_get_the_certificate_for_the_name_that_they_ask_for(tmp_path: Path) -> None:
    default, one, two, three = (tmp_path / name for name in ("default", "one", "two", "three"))
    files = {
        folder: load_or_create_certificate(folder, f"{folder.name}.example") for folder in (default, one, two, three)
    }
    flags = [
        f"--tls-sni-cert-key={one}/tls.crt,{one}/tls.key",
        f"--tls-sni-cert-key={two}/tls.crt, {two}/tls.key : two, *.wild.example, three.example",
        f"--tls-sni-cert-key={three}/tls.crt,{three}/tls.key",
    ]
    https = Https(files[default], read(["--tls", *flags]).tls_options)
    for name, folder in {
        "one.example": one, "kubedra": one, "Two": two, "a.wild.example": two, "three.example": two,
        "two.example": default, "wild.example": default, "a.b.wild.example": default, None: default,
    }.items():  # fmt: skip
        assert handshake(https.context, name) == der(folder), name
    other = load_or_create_certificate(tmp_path / "other", "other.example")
    for source, target in zip(other, files[two], strict=True):
        put(source, target)
    https.files[2].reload()
    assert handshake(https.context, "two") == der(tmp_path / "other")
    assert handshake(https.context, "one.example") == der(one)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("FILE", "expected comma separated certificate and key file paths"),
        ("FILE,FILE:", "empty names list is not allowed"),
        ("FILE,FILE:a,10.0.0.1", "only host names, no IP addresses: clients send no address in SNI"),
        ("FILE,/nowhere", "/nowhere: no such file"),
    ],
)
def test_the_error_names_an_unusable_certificate_for_names(tmp_path: Path, given: str, said: str) -> None:
    file = tmp_path / "file"
    file.write_text("")
    flag = f"--tls-sni-cert-key={given.replace('FILE', str(file))}"
    with pytest.raises(SettingsError, match=said):
        read(["--tls", flag])
    with pytest.raises(SettingsError, match="--tls-sni-cert-key needs --tls"):
        read([flag])
    own, options = (
        load_or_create_certificate(tmp_path / "own"),
        read(["--tls", f"--tls-sni-cert-key={file},{file}"]).tls_options,
    )
    with pytest.raises(HttpsError, match=f"--tls-sni-cert-key {file},{file}: not a certificate"):
        Https(own, options)


def test_a_pair_that_fits_no_more_holds_as_it_was_when_authorities_change(tmp_path: Path) -> None:
    users, files = Authority(tmp_path, "users"), load_or_create_certificate(tmp_path / "own")
    settings = read(["--tls", f"--client-ca-file={users.file}"])
    certificates = ClientCertificates(settings.identity, with_uid=False)
    https = Https(files, settings.tls_options, certificates)
    before = der(tmp_path / "own")
    files[0].write_text("nothing")
    https.files[0].reload()
    (tmp_path / "later").mkdir()
    put(Authority(tmp_path / "later", "users").file, users.file)
    certificates.files[0].reload()
    assert handshake(https.context, None) == before
    users.file.write_text("")
    certificates.files[0].reload()
    assert len(certificates.clients) == 1, "an empty file leaves the authorities as they were"


def test_authorities_are_published_until_they_end(tmp_path: Path) -> None:
    users, proxies = Authority(tmp_path, "users"), Authority(tmp_path, "proxies")
    (tmp_path / "before").mkdir()
    before = Authority(tmp_path / "before", "proxies")
    ended = Authority(tmp_path / "before", "ended", ends=timedelta(minutes=-6))
    tokens = token_flag(tmp_path, 'secret,root,1,"system:masters"\n')
    with serve(
        "--tls", f"--client-ca-file={users.file}", f"--requestheader-client-ca-file={proxies.file}",
        "--requestheader-allowed-names=b,c", "--requestheader-username-headers=X-Remote-User",
        tokens,
    ) as running:  # fmt: skip
        wire, info = running.wire("secret"), running.server.built_in.authentication
        first = wire.get(INFO).json["data"]
        assert "requestheader-uid-headers" not in first, "none are named"
        other = before.file.read_text() + ended.file.read_text()
        data = {"requestheader-allowed-names": '["a","b"]', "requestheader-client-ca-file": other, "other": "x"}
        assert wire.put(INFO, {**wire.get(INFO).json, "data": data}).status == 200
        running.call(info.ensure)
        told = wire.get(INFO).json["data"]
        assert told == {
            **first,
            "requestheader-allowed-names": '["a","b","c"]',
            "requestheader-client-ca-file": before.file.read_text() + proxies.file.read_text(),
        }
        version = wire.get(INFO).json["metadata"]["resourceVersion"]
        running.call(info.ensure)
        assert wire.get(INFO).json["metadata"]["resourceVersion"] == version
        assert wire.delete(INFO).status == 200
        running.call(info.ensure)
        assert wire.get(INFO).json["data"] == first
        assert len(x509.load_pem_x509_certificates(first["client-ca-file"].encode())) == 1


def test_an_unexpected_error_of_a_change_is_logged_and_the_next_change_is_taken_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    taken: list[int] = []
    file = tmp_path / "numbers"
    file.write_bytes(b"{}")
    followed = ReloadedFiles("numbers", (file,), lambda text: taken.append(json.loads(text)["n"]))
    file.write_bytes(b'{"m": 1}')
    followed.reload()
    assert f"numbers {file} is not taken over: 'n'" in caplog.text
    assert "KeyError" in caplog.text
    file.write_bytes(b'{"n": 2}')
    followed.reload()
    assert taken == [2]
