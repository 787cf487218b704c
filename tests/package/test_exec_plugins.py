"""A program that a kubeconfig names issues the credentials, when there are none or the last ones have expired."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.runtime.client import Client as ComponentClient
from controllers.runtime.client import StatusError
from controllers.runtime.http import HttpTransport
from controllers.runtime.kinds import NAMESPACES
from kubedra import ApiError, Client
from kubedra.kubeconfig.credentials import CredentialHeaders
from kubedra.kubeconfig.reader import KubeconfigError, read_kubeconfig
from tests.support.kubeconfigs import write_kubeconfig
from tests.support.wire import Child

pytestmark = pytest.mark.integration

V1 = "client.authentication.k8s.io/v1"
REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class Program:
    """A program beside its kubeconfig that prints what it is told and records how it was run."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._printed, self._runs = folder, folder / "printed", folder / "runs"
        script = folder / "bin" / "issue"
        script.parent.mkdir()
        script.write_text(
            '#!/bin/sh\necho "$KUBERNETES_EXEC_INFO" >> "$FOLDER/runs"\necho "$1 $EXTRA" > "$FOLDER/arguments"\n'
            'cat "$FOLDER/printed"\n'
        )
        script.chmod(0o755)
        self.spec: Json = {
            "apiVersion": V1,
            "command": "./bin/issue",
            "args": ["first"],
            "env": [{"name": "FOLDER", "value": str(folder)}, {"name": "EXTRA", "value": "more"}],
            "interactiveMode": "Never",
        }

    def prints(self, lasts: timedelta | None = None, /, **status: Any) -> None:
        if lasts is not None:
            status["expirationTimestamp"] = (datetime.now(UTC) + lasts).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._printed.write_text(json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status}))

    def prints_text(self, text: str) -> None:
        self._printed.write_text(text)

    @property
    def runs(self) -> list[Json]:
        """What it was told at each run."""
        return [json.loads(line) for line in self._runs.read_text().splitlines()] if self._runs.exists() else []

    def kubeconfig(self, server: str = "https://127.0.0.1:1", cluster: Json | None = None, **spec: Any) -> Path:
        user = {"exec": {**self.spec, **spec}}
        return write_kubeconfig(self.folder / "config", server=server, cluster=cluster, user=user)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def test_a_token_is_kept_until_it_expires(program: Program) -> None:
    program.prints(timedelta(hours=1), token="one")
    cluster = read_kubeconfig(program.kubeconfig())
    assert program.runs == []
    assert [cluster.headers() for _ in range(2)] == [(("authorization", "Bearer one"),)] * 2
    assert len(program.runs) == 1
    assert (program.folder / "arguments").read_text() == "first more\n"

    program.prints(timedelta(seconds=-1), token="two")
    cluster = read_kubeconfig(program.kubeconfig())
    for token in ("two", "three", "four"):
        program.prints(timedelta(seconds=-1), token=token)
        assert cluster.headers() == (("authorization", f"Bearer {token}"),)


def test_a_program_learns_of_the_cluster_where_that_is_said(program: Program) -> None:
    program.prints(token="one")
    read_kubeconfig(program.kubeconfig()).headers()
    told = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
    cluster = {"tls-server-name": "name", "insecure-skip-tls-verify": True, "extensions": [told]}
    read_kubeconfig(program.kubeconfig(cluster=cluster, provideClusterInfo=True)).headers()
    alone, informed = program.runs
    assert alone == {"apiVersion": V1, "kind": "ExecCredential", "spec": {"interactive": False}}
    assert informed["spec"]["cluster"] == {
        "server": "https://127.0.0.1:1",
        "tls-server-name": "name",
        "insecure-skip-tls-verify": True,
        "config": {"audience": "a"},
    }


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("no json", "printed no ExecCredential in JSON"),
        ('{"apiVersion": "v1", "kind": "Pod"}', f"printed Pod of v1, not ExecCredential of {V1}"),
        (f'{{"apiVersion": "{V1}", "kind": "ExecCredential"}}', "returned neither a token nor a certificate"),
        (f'{{"apiVersion": "{V1}", "kind": "ExecCredential", "status": {{"clientKeyData": "k"}}}}', "returned neither"),
        (f'{{"apiVersion": "{V1}", "kind": "ExecCredential", "status": {{"token": "t", "expirationTimestamp": "soon"}}}}',
         "returned an invalid expirationTimestamp: soon"),
        (f'{{"apiVersion": "{V1}", "kind": "ExecCredential", "status": {{"token": "t", "expirationTimestamp": "2030-01-01T00:00:00"}}}}',
         "returned an invalid expirationTimestamp: 2030-01-01T00:00:00"),
    ],
)  # fmt: skip
def test_what_a_program_must_not_print_names_the_user_and_the_program(
    program: Program, printed: str, said: str
) -> None:
    program.prints_text(printed)
    path = program.kubeconfig()
    with pytest.raises(KubeconfigError) as caught:
        read_kubeconfig(path).headers()
    assert str(caught.value).startswith(
        f"{path}: user 'u': exec: {program.folder}/./bin/issue {said}".replace("/./", "/")
    )


def test_a_program_that_fails_or_is_missing_says_how_to_get_it(program: Program) -> None:
    with pytest.raises(KubeconfigError, match=r"issue failed with exit code 1$"):
        read_kubeconfig(program.kubeconfig()).headers()
    path = program.kubeconfig(command="no-such-program", installHint="apt install\nit")
    with pytest.raises(KubeconfigError, match=r"exec: no-such-program: No such file or directory; apt install it$"):
        read_kubeconfig(path).headers()
    with pytest.raises(KubeconfigError, match="interactiveMode is Always, but standard input is not a terminal"):
        read_kubeconfig(program.kubeconfig(interactiveMode="Always")).headers()


def test_a_variable_without_a_value_is_empty(program: Program) -> None:
    program.prints(token="one")
    folder, _ = program.spec["env"]
    read_kubeconfig(program.kubeconfig(env=[folder, {"name": "EXTRA"}])).headers()
    assert (program.folder / "arguments").read_text() == "first \n"


@pytest.mark.real_time
async def test_an_event_loop_gets_the_error_of_a_program_not_an_expired_token(program: Program) -> None:
    program.prints(timedelta(seconds=-1), token="one")
    credentials = read_kubeconfig(program.kubeconfig()).credentials

    source = CredentialHeaders()
    assert await source.headers(credentials) == (("authorization", "Bearer one"),)
    program.prints_text("trouble")
    with pytest.raises(KubeconfigError, match="printed no ExecCredential"):
        await source.headers(credentials)


def test_a_token_that_is_rejected_for_a_watch_is_renewed(program: Program, tmp_path: Path) -> None:
    (tmp_path / "tokens.csv").write_text('secret,root,1,"system:masters"\n')
    with Child(tmp_path / "data", f"--token-auth-file={tmp_path}/tokens.csv") as child:
        program.prints(token="refused")
        with Client.from_kubeconfig(program.kubeconfig(child.url)) as client:
            with pytest.raises(ApiError, match="Unauthorized"):
                next(client.watch(NAMESPACES.collection, timeout=5))
            program.prints(token="secret")
            assert next(client.watch(NAMESPACES.collection, timeout=5))["type"] == "ADDED"
        program.prints(token="refused")

        async def scenario() -> None:
            client = ComponentClient(HttpTransport(read_kubeconfig(program.kubeconfig(child.url))))
            program.prints(token="secret")
            with pytest.raises(StatusError, match="Unauthorized"):
                await anext(client.watch(NAMESPACES))
            async with aclosing(client.watch(NAMESPACES)) as batches:
                assert (await anext(batches))[0].type == "ADDED"
            await client.close()

        asyncio.run(scenario())


def test_a_static_token_needs_no_program(program: Program) -> None:
    path = write_kubeconfig(program.folder / "config", user={"token": "static", "exec": program.spec})
    assert read_kubeconfig(path).headers() == (("authorization", "Bearer static"),)
    assert program.runs == []


def test_certificates_and_tokens_of_a_program_are_shown_and_renewed(program: Program, tmp_path: Path) -> None:
    from tests.http.authorities import Authority

    users = Authority(tmp_path, "users")

    def certified(name: str) -> Json:
        pem = users.client(name, "system:masters").read_text()
        cut = pem.index("-----BEGIN PRIVATE KEY")
        return {"clientCertificateData": pem[:cut], "clientKeyData": pem[cut:]}

    (tmp_path / "tokens.csv").write_text('secret,root,1,"system:masters"\n')
    flags = f"--token-auth-file={tmp_path}/tokens.csv", "--authorization-mode=RBAC", f"--client-ca-file={users.file}"
    with Child(tmp_path / "data", "--tls", *flags) as child:
        program.prints(timedelta(seconds=-1), **certified("jane"))
        path = program.kubeconfig(child.url, {"certificate-authority": "data/tls.crt"})
        with Client.from_kubeconfig(path) as client:
            assert client.request("POST", REVIEW, {})["status"]["userInfo"]["username"] == "jane"

        program.prints(token="refused")
        with Client.from_kubeconfig(path) as client:
            with pytest.raises(ApiError, match="Unauthorized"):
                client.get("namespace/default")
            program.prints(token="secret")
            assert client.request("POST", REVIEW, {})["status"]["userInfo"]["username"] == "root"


def test_a_context_shows_the_certificate_that_was_issued_last(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[bytes] = []
    monkeypatch.setattr(
        "kubedra.kubeconfig.exec_plugin.load_chain", lambda _, certificate, key: loaded.append(certificate)
    )
    program.prints(timedelta(seconds=-1), token="t", clientCertificateData="one", clientKeyData="k")
    cluster = read_kubeconfig(program.kubeconfig())
    context = cluster.tls_context()
    program.prints(timedelta(hours=1), token="t", clientCertificateData="two", clientKeyData="k")
    cluster.headers()
    assert loaded == [b"one", b"two"]
    assert context is not None
