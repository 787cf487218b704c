"""`node run --run` in any directory: the server finds the kubelet through its Node, and no other user may call it."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from apiserver.api.objects import Json
from apiserver.authentication.tokens.kubelet_tokens import AUDIENCE, KUBELET_CLIENT, KubeletTokens
from kubedra import ControlPlane
from kubedra.client.client import Client
from kubedra.plane.node_process import NodeProcess
from tests.node.test_run import Exec, make_pod
from tests.support.patience import wait_until

pytestmark = pytest.mark.integration

TOKENS = 'admin,admin,1,"system:masters"\nnode,system:node:n1,2,"system:nodes"\nother,other,3,\n'
ANYONE = ssl._create_unverified_context()


def kubeconfig(url: str, token: str, file: Path) -> Path:
    """Write a kubeconfig outside of the server's data directory."""
    file.parent.mkdir(parents=True, exist_ok=True)
    cluster = {"clusters": [{"name": "k", "cluster": {"server": url}}], "current-context": "k"}
    users = {"users": [{"name": "k", "user": {"token": token} if token else {}}]}
    contexts = {"contexts": [{"name": "k", "context": {"cluster": "k", "user": "k"}}]}
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **cluster, **users, **contexts}))
    return file


@contextmanager
def running(plane: ControlPlane, client: Client, root: Path, token: str) -> Iterator[NodeProcess]:
    """Run a node that runs processes, with its own kubeconfig."""
    node = NodeProcess("n1", kubeconfig(plane.url, token, root / "elsewhere" / "kubeconfig"), root, args=("--run",))
    node.start()
    try:
        client.wait("node/n1", lambda node: endpoint(node) > 0)
        client.wait("node/n1", "condition=Ready")
        yield node
    finally:
        node.close()


def endpoint(node: Json) -> int:
    """Return the port of a node's kubelet; 0 for none."""
    return int((node["status"].get("daemonEndpoints") or {}).get("kubeletEndpoint", {}).get("Port", 0))


def start_pod(client: Client) -> None:
    idle = {"name": "idle", "image": "i"}
    pod = make_pod("p", "sh", "-c", "echo hello; exec sleep 1000")
    pod["spec"]["containers"].append(idle)
    client.apply(pod)
    client.wait("pod/p", "phase=Running")


def test_logs_and_exec_reach_a_node_with_a_kubeconfig_elsewhere(tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("n")
    with ControlPlane() as plane, plane.client() as client, running(plane, client, root, "") as node:
        start_pod(client)
        wait_until(lambda: client.logs("pod/p", container="c") == "hello\n", "the log has the line")
        command = Exec(plane, "sh", "-c", "echo to $KUBEDRA_ROOT; exit 3", container="c")
        assert command.outcome()["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
        assert command.output[1].startswith(f"to {root}/run/n1/".encode())
        assert client.logs("pod/p", container="idle").startswith("container idle is emulated")
        upgrade = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
        exec_path = f"{plane.url}/api/v1/namespaces/default/pods/p/exec"
        answers = [
            httpx.post(exec_path, params={"container": name, "command": "ls"}, headers=upgrade, trust_env=False)
            for name in ("idle", "c")
        ]
        assert (answers[0].status_code, answers[1].status_code) == (501, 400)
        assert "the containers of pod p do not run" in answers[0].json()["message"]
        assert "exec needs websockets" in answers[1].text
        first = endpoint(client.get("node/n1"))
        node.restart()
        client.wait("node/n1", lambda node: endpoint(node) not in (0, first))


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ControlPlane, Client]]:
    """Run a closed server, with a node that has no more than a node's own token."""
    root = tmp_path_factory.mktemp("n")
    tokens = root / "tokens.csv"
    tokens.write_text(TOKENS)
    with (
        ControlPlane(args=(f"--token-auth-file={tokens}", "--authorization-mode=Node,RBAC")) as plane,
        Client(plane.url, token="admin") as client,
        running(plane, client, root, "node"),
    ):
        start_pod(client)
        yield plane, client


def call(port: int, path: str, **headers: str) -> httpx.Response:
    return httpx.get(f"https://127.0.0.1:{port}{path}", verify=ANYONE, trust_env=False, headers=headers)


LOG = "/containerLogs/default/p/c"


def test_a_closed_server_reads_logs_with_a_nodes_own_token(closed: tuple[ControlPlane, Client]) -> None:
    _, client = closed
    wait_until(lambda: client.logs("pod/p", container="c") == "hello\n", "the log has the line")


@pytest.mark.parametrize("path", [LOG, "/exec/default/p/c?command=id", "/", "/runningpods/"])
@pytest.mark.parametrize("token", ["", "admin", "node", "kubelet.9999999999.00"])
def test_other_callers_are_refused_whatever_they_know(
    closed: tuple[ControlPlane, Client], path: str, token: str
) -> None:
    port = endpoint(closed[1].get("node/n1"))
    answer = call(port, path, **({"Authorization": f"Bearer {token}"} if token else {}))
    assert (answer.status_code, answer.text) == (401, "Unauthorized")


def test_a_token_is_for_one_certificate_and_a_short_time(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens, mine, others = KubeletTokens(), f"{AUDIENCE}aa", f"{AUDIENCE}bb"
    token = tokens.issue("aa")
    found = tokens.identify(token, ("api", mine))
    assert found is not None
    assert (found.user and found.user.name, found.audiences) == (KUBELET_CLIENT, (mine,))
    assert found.user is not None
    assert found.user.groups == ()
    for audiences in ((), ("aa",), (others,), ("https://kubernetes.default.svc",)):
        assert tokens.identify(token, audiences) is None
    assert KubeletTokens().identify(token, (mine,)) is None, "another server did not make it"
    odd = (f"kubelet.{'9' * 5000}.0", "kubelet.٣.0")
    for changed in (token + "0", token.replace("kubelet.", "kubelet.1"), "kubelet", "kubelet..", "x" + token, *odd):
        assert tokens.identify(changed, (mine,)) is None
    monkeypatch.setattr("apiserver.authentication.tokens.kubelet_tokens.time.time", lambda: 9e9)
    assert tokens.identify(token, (mine,)) is None


def test_a_token_of_a_kubelet_is_no_credential_at_the_server(closed: tuple[ControlPlane, Client]) -> None:
    plane, _ = closed
    answer = httpx.get(f"{plane.url}/api/v1/nodes", headers={"Authorization": f"Bearer {KubeletTokens().issue('aa')}"})
    assert answer.status_code == 401
