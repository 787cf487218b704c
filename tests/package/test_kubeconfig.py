"""Everything that a kubeconfig says of a server and a user holds for every client, or is refused in one line."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.runtime.client import Client as ComponentClient
from controllers.runtime.http import HttpTransport
from controllers.runtime.transport import TransportError
from kubedra import AsyncClient, Client
from kubedra.command.health import health
from kubedra.kubeconfig.reader import KubeconfigError, default_files, read_kubeconfig, read_users
from tests.http.authorities import Authority
from tests.support.kubeconfigs import write_kubeconfig
from tests.support.wire import Child

pytestmark = pytest.mark.integration

REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class Server:
    """A server with TLS that knows certificates and tokens; its files are in `folder`."""

    def __init__(self, folder: Path, url: str, users: Authority) -> None:
        self.folder, self.url, self.users = folder, url, users
        #: The server's own certificate, relative to `folder`.
        self.authority = {"certificate-authority": "data/tls.crt"}

    def kubeconfig(self, user: Json, **cluster: Any) -> Path:
        named = self.authority | cluster
        return write_kubeconfig(self.folder / "config", server=self.url, cluster=named, user=user)

    def certified(self, name: str) -> Json:
        """Return a user with a certificate in a file beside the kubeconfig."""
        file = self.users.client(name, "system:masters").name
        return {"client-certificate": file, "client-key": file}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    users = Authority(folder, "users")
    (folder / "tokens.csv").write_text('secret,root,1,"system:masters"\nother,plain,2\n')
    flags = f"--token-auth-file={folder}/tokens.csv", "--authorization-mode=RBAC", f"--client-ca-file={users.file}"
    with Child(folder / "data", "--tls", *flags) as child:
        yield Server(folder, child.url, users)


def who(path: Path | None) -> Json:
    """Return the user that the server sees behind a kubeconfig."""
    with Client.from_kubeconfig(path) as client:
        found: Json = client.request("POST", REVIEW, {})["status"]["userInfo"]
        return found


async def who_async(path: Path) -> str:
    async with AsyncClient.from_kubeconfig(path) as client:
        return str((await client.request("POST", REVIEW, {}))["status"]["userInfo"]["username"])


async def who_component(path: Path) -> str:
    client = ComponentClient(HttpTransport(read_kubeconfig(path)))
    try:
        return str((await client.request("POST", REVIEW, body={}))["status"]["userInfo"]["username"])
    finally:
        await client.close()


def test_a_certificate_is_shown_and_files_are_found_beside_the_kubeconfig(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    path = server.kubeconfig(server.certified("jane"))
    assert who(path)["username"] == "jane"
    assert asyncio.run(who_async(path)) == "jane"
    assert asyncio.run(who_component(path)) == "jane"
    assert health(["--kubeconfig", str(path)]) == 0


def test_a_relative_path_of_the_kubeconfig_itself_is_of_the_working_directory(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = server.kubeconfig({"tokenFile": "token"})
    (server.folder / "token").write_text("secret\n")
    monkeypatch.chdir(path.parent.parent)
    assert who(path.relative_to(path.parent.parent))["username"] == "root"


def test_a_token_file_is_read_again_when_it_was_written_again(server: Server) -> None:
    path = server.kubeconfig({"tokenFile": "token"})
    (server.folder / "token").write_text("secret\n")
    with Client.from_kubeconfig(path) as client:
        assert client.request("POST", REVIEW, {})["status"]["userInfo"]["username"] == "root"
        (server.folder / "token").write_text("other\n")
        assert client.request("POST", REVIEW, {})["status"]["userInfo"]["username"] == "plain"


@pytest.mark.real_time
async def test_a_component_shows_a_token_that_was_renewed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubedra.kubeconfig.credentials._CACHE_SECONDS", 0.0)
    path, file = server.kubeconfig({"tokenFile": "token"}), server.folder / "token"
    file.write_text("secret\n")

    client = ComponentClient(HttpTransport(read_kubeconfig(path)))

    async def name() -> str:
        return str((await client.request("POST", REVIEW, body={}))["status"]["userInfo"]["username"])

    file.unlink()
    assert await name() == "root"
    file.write_text("other")
    assert await name() == "plain"
    file.unlink()
    assert await name() == "plain"
    await client.close()


def test_a_user_acts_as_another(server: Server) -> None:
    another = {"as": "jane", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"x/y": ["1", "2"]}}
    path = server.kubeconfig({"token": "secret", **another})
    seen = who(path)
    assert (seen["username"], seen["uid"], seen["extra"]) == ("jane", "7", {"x/y": ["1", "2"]})
    assert seen["groups"][:2] == ["a", "b"]
    assert asyncio.run(who_component(path)) == "jane"


def test_the_servers_certificate_has_to_be_for_the_given_name(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert who(server.kubeconfig({"token": "secret"}, **{"tls-server-name": "localhost"}))["username"] == "root"
    path = server.kubeconfig({"token": "secret"}, **{"tls-server-name": "elsewhere.example"})
    with pytest.raises(ConnectionError, match="Hostname mismatch"):
        who(path)
    with pytest.raises(ConnectionError, match="Hostname mismatch"):
        asyncio.run(who_async(path))
    with pytest.raises(TransportError):
        asyncio.run(who_component(path))
    assert health(["--kubeconfig", str(path)]) == 1
    assert "Hostname mismatch" in capsys.readouterr().out


def test_without_an_authority_the_systems_are_trusted(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    path = server.kubeconfig({"token": "secret"}, **{"certificate-authority": ""})
    monkeypatch.setenv("SSL_CERT_FILE", str(server.folder / "data" / "tls.crt"))
    assert who(path)["username"] == "root"


def test_any_certificate_is_taken_only_where_that_is_said(server: Server) -> None:
    server_only = {"certificate-authority": ""}
    with pytest.raises(ConnectionError, match="certificate verify failed"):
        who(server.kubeconfig({"token": "secret"}, **server_only))
    assert who(server.kubeconfig({"token": "secret"}, **server_only, **{"insecure-skip-tls-verify": True}))


def test_a_password_is_shown_and_a_token_comes_from_its_file_first(tmp_path: Path) -> None:
    basic = read_kubeconfig(write_kubeconfig(tmp_path / "c", user={"username": "u", "password": "p"}))
    assert basic.headers() == (("authorization", "Basic dTpw"),)
    path = write_kubeconfig(tmp_path / "c", user={"token": "text", "tokenFile": "token"})
    assert read_kubeconfig(path).headers() == (("authorization", "Bearer text"),)
    (tmp_path / "token").write_text("file")
    assert read_kubeconfig(path).headers() == (("authorization", "Bearer file"),)


def test_files_are_merged_and_the_first_that_has_an_entry_wins(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("secret")
    first, second = tmp_path / "first", server.folder / "second"
    users = [{"name": "u", "user": {"tokenFile": "token"}}]
    first.write_text(json.dumps({"contexts": [{"name": "c", "context": CONTEXT}], "users": users}))
    write_kubeconfig(second, server=server.url, cluster=server.authority, user={"token": "other"})
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/missing:{first}:{second}")
    assert who(None)["username"] == "root"
    with Client.from_kubeconfig() as client:
        assert client.namespace == "kube-public"
    monkeypatch.setenv("KUBECONFIG", f"{second}:{first}")
    assert who(None)["username"] == "plain"


CONTEXT = {"cluster": "c", "user": "u", "namespace": "kube-public"}


def test_without_a_name_the_kubeconfig_is_that_of_the_environment_or_of_a_server_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    assert default_files() == (Path(".kubedra/kubeconfig"),)
    monkeypatch.setenv("KUBECONFIG", "/gone/a:/gone/b")
    with pytest.raises(KubeconfigError, match=r"^/gone/a: "):
        read_kubeconfig()


BOTH = {"certificate-authority-data": "", "insecure-skip-tls-verify": True}
EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "x", "interactiveMode": "Never"}


@pytest.mark.parametrize(
    ("cluster", "user", "text"),
    [
        ({"certificate-authority-data": "?none?"}, {}, "certificate-authority-data: "),
        ({"certificate-authority": "own"}, {}, "cluster 'c': certificate-authority: not a usable certificate: "),
        ({"proxy-url": "http://proxy"}, {}, "cluster 'c': proxy-url is not supported"),
        ({"server": ""}, {}, "cluster 'c': has no server"),
        ({}, {"tokenFile": "gone"}, "tokenFile: "),
        ({}, {"client-certificate": "gone"}, "client-certificate: "),
        ({}, {"client-certificate": "own"}, "user 'u': client-certificate and client-key need each other"),
        ({}, {"client-key": "own"}, "user 'u': client-certificate and client-key need each other"),
        ({}, {"client-certificate": "own", "client-key": "own"}, "the certificate of user 'u' cannot be used: "),
        ({}, {"username": "u", "token": "t"}, "user 'u': has a token and a username; only one is allowed"),
        ({}, {"as-groups": ["a"]}, "user 'u': as-uid, as-groups and as-user-extra need as"),
        ({}, {"auth-provider": {"name": "gcp"}}, "user 'u': auth-provider is not supported, because Kubernetes removed it"),
        ({"extensions": {"a": 1}}, {"exec": EXEC}, "cluster 'c': extensions is not a list"),
        ({}, {"as": "a", "as-groups": "b"}, "user 'u': as-groups is not a list"),
        ({}, {"as": "a", "as-user-extra": ["b"]}, "user 'u': as-user-extra is not a mapping of lists"),
        ({}, {"as": "a", "as-user-extra": {"b": None}}, "user 'u': as-user-extra is not a mapping of lists"),
        ({}, {"exec": "x"}, "user 'u': exec is not a mapping"),
        ({}, {"exec": EXEC | {"args": "x"}}, "user 'u': exec: args must be a list"),
        ({}, {"exec": EXEC | {"env": {"A": "b"}}}, "user 'u': exec: env must be a list of variables with names"),
        ({}, {"exec": EXEC | {"env": [{"value": "b"}]}}, "user 'u': exec: env must be a list of variables with names"),
        ({}, {"exec": {"apiVersion": "client.authentication.k8s.io/v1alpha1", "command": "x"}},
         'user \'u\': exec: apiVersion "client.authentication.k8s.io/v1alpha1" is not supported'),
        ({}, {"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}, "user 'u': exec: command is required"),
        ({}, {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "x"}},
         "user 'u': exec: interactiveMode must be one of Never, IfAvailable, Always"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_one_line_that_names_it(tmp_path: Path, cluster: Json, user: Json, text: str) -> None:
    (tmp_path / "own").write_text("nonsense")
    file = write_kubeconfig(tmp_path / "kubeconfig", cluster=cluster, user=user)
    with pytest.raises(KubeconfigError) as caught:
        read_kubeconfig(file)
    assert str(caught.value).startswith(f"{file}: {text}")
    assert "\n" not in str(caught.value)


def test_an_authority_and_no_verification_contradict_each_other(server: Server) -> None:
    path = server.kubeconfig({"token": "secret"}, **{"insecure-skip-tls-verify": True})
    with pytest.raises(KubeconfigError, match="has a certificate authority and insecure-skip-tls-verify"):
        read_kubeconfig(path)


def test_the_users_of_a_file_may_use_a_program_too(tmp_path: Path) -> None:
    spec = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "/nowhere"}
    path = write_kubeconfig(tmp_path / "c", user={"exec": spec})
    with pytest.raises(KubeconfigError, match=r"user 'u': exec: /nowhere: No such file or directory$"):
        read_users(path)["u"].headers()
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with pytest.raises(KubeconfigError, match="exec: /nowhere"):
        read_users(path)["u"].show(trust)
