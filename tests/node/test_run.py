"""`--run`: containers as local processes, their logs, and commands in them."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, RejectConnection, Request

from apiserver.api.objects import Json
from apiserver.options.flags import SettingsError
from apiserver.options.settings import read
from controllers.kubelet.__main__ import main
from kubedra import ControlPlane
from kubedra.client.client import ApiError, Client
from kubedra.driver import Driver
from kubedra.plane.node_process import NodeProcess
from tests.support.patience import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(nodes=1, args=("--run",)) as made:
        yield made


@pytest.fixture
def client(plane: ControlPlane) -> Iterator[Client]:
    with plane.client() as made:
        yield made
        for pod in made.list("pods"):
            made.delete(f"pod/{pod['metadata']['name']}", grace_period=0)


def make_pod(name: str, *command: str, **spec: Any) -> Json:
    container = {"name": "c", "image": "i", "command": list(command), **spec.pop("container", {})}
    body = {"restartPolicy": "Never", "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body}


def ended(pod: Json) -> Json:
    state: Json = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    return state


def test_a_container_is_its_command_with_environment_and_mounts(client: Client) -> None:
    client.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": {"who": "world"}})
    env = [
        {"name": "WHO", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "who"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ]
    mounts = [{"name": "conf", "mountPath": "/etc/conf"}, {"name": "data", "mountPath": "/data"}]
    first = {"name": "first", "image": "i", "command": ["sh", "-c", "echo made >data/file"], "volumeMounts": mounts[1:]}
    command = ("sh", "-c", "echo hello $(WHO) on $NODE; cat etc/conf/who data/file; echo '$$(WHO)' >&2; exit 3")
    volumes = [{"name": "conf", "configMap": {"name": "cm"}}, {"name": "data", "emptyDir": {}}]
    client.apply(
        make_pod("p", *command, container={"env": env, "volumeMounts": mounts}, initContainers=[first], volumes=volumes)
    )
    assert ended(client.wait("pod/p", "phase=Failed"))["exitCode"] == 3
    assert client.logs("pod/p", container="c") == "hello world on node-1\nworldmade\n$(WHO)\n"


def test_a_followed_log_ends_with_its_process(plane: ControlPlane, client: Client) -> None:
    client.apply(make_pod("p", "sh", "-c", "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done"))
    client.wait("pod/p", "phase=Running")
    url = f"{plane.url}/api/v1/namespaces/default/pods/p/log"
    with httpx.stream("GET", url, params={"follow": "true"}, timeout=60) as answer:
        lines = answer.iter_lines()
        assert next(lines) == "up"
        client.delete("pod/p")
        assert "bye" in list(lines)
    client.wait("pod/p", "delete")


def test_a_process_is_killed_at_the_end_of_its_grace_period(client: Client) -> None:
    client.apply(make_pod("p", "sh", "-c", "trap '' TERM; echo $$$$; while :; do sleep 0.05; done"))
    client.wait("pod/p", "phase=Running")
    pid = int(wait_until(lambda: client.logs("pod/p"), "it has written its number"))
    client.delete("pod/p", grace_period=1)
    client.wait("pod/p", "delete")
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "it is killed")


def test_a_container_that_cannot_be_started_reports_why(client: Client) -> None:
    client.apply(make_pod("p", "no-such-program"))
    missing = {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "none", "key": "k"}}}]}
    client.apply(make_pod("q", "true", container=missing))

    def waits(reason: str, message: str) -> Any:
        def found(pod: Json) -> bool:
            state = (pod["status"].get("containerStatuses") or [{"state": {}}])[0]["state"]
            return bool(state.get("waiting") == {"reason": reason, "message": message})

        return found

    client.wait("pod/p", waits("RunContainerError", 'exec: "no-such-program": executable file not found in $PATH'))
    client.wait("pod/q", waits("CreateContainerConfigError", 'secret "none" not found'))


class Exec:
    """A command in a container, over kubectl's websocket protocol."""

    def __init__(self, plane: ControlPlane, *command: str, **options: str) -> None:
        parts = urlsplit(plane.url)
        assert parts.hostname is not None
        self._socket = socket.create_connection((parts.hostname, parts.port or 80), timeout=60)
        self._ws = WSConnection(ConnectionType.CLIENT)
        query = urlencode([*(("command", word) for word in command), ("stdout", "true"), *options.items()])
        path = f"/api/v1/namespaces/default/pods/p/exec?{query}"
        self._socket.sendall(self._ws.send(Request(host=parts.netloc, target=path, subprotocols=["v5.channel.k8s.io"])))
        self.output: dict[int, bytes] = {}
        self.accepted = self._read_until(AcceptConnection, RejectConnection)

    def send(self, channel: int, data: bytes) -> None:
        self._socket.sendall(self._ws.send(BytesMessage(bytes((channel,)) + data)))

    def line(self) -> bytes:
        """Return the first line of the output."""
        while b"\n" not in self.output.get(1, b""):
            self._read_until(BytesMessage)
        return self.output[1].partition(b"\n")[0]

    def close(self) -> None:
        self._socket.close()

    def outcome(self) -> Json:
        """Return the Status once the command has ended."""
        self._read_until(CloseConnection)
        self._socket.close()
        status: Json = json.loads(self.output[3])
        return status

    def _read_until(self, *kinds: type) -> bool:
        while True:
            for event in self._ws.events():
                if isinstance(event, BytesMessage):
                    data = bytes(event.data)
                    self.output[data[0]] = self.output.get(data[0], b"") + data[1:]
                if isinstance(event, kinds):
                    return isinstance(event, kinds[0])
            data = self._socket.recv(65536)
            assert data, "the connection ended"
            self._ws.receive_data(data)


def test_a_command_runs_in_a_container(plane: ControlPlane, client: Client) -> None:
    client.apply(make_pod("p", "sleep", "1000", container={"env": [{"name": "WHO", "value": "me"}]}))
    client.wait("pod/p", "phase=Running")
    command = Exec(plane, "sh", "-c", "echo $WHO; cat; echo problem >&2; exit 5", stdin="true", stderr="true")
    command.send(0, b"typed\n")
    command.send(255, b"\x00")
    status = command.outcome()
    assert (command.output[1], command.output[2]) == (b"me\ntyped\n", b"problem\n")
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "5"}]

    terminal = Exec(plane, "sh", "-c", "read x; stty size; echo got $x", stdin="true", tty="true")
    terminal.send(4, json.dumps({"Width": 99, "Height": 33}).encode())
    terminal.send(0, b"line\r")
    assert terminal.outcome()["status"] == "Success"
    assert terminal.output[1].split(b"\r\n")[1:3] == [b"33 99", b"got line"]

    assert "No such file" in Exec(plane, "no-such-program").outcome()["message"]


def test_a_command_ends_with_its_client(plane: ControlPlane, client: Client) -> None:
    client.apply(make_pod("p", "sleep", "1000"))
    client.wait("pod/p", "phase=Running")
    command = Exec(plane, "sh", "-c", "echo $$; sleep 1000")
    pid = int(command.line())
    command.close()
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "it is killed")


def test_exec_needs_websockets_and_a_container_with_a_command(plane: ControlPlane, client: Client) -> None:
    idle = {"name": "idle", "image": "i"}
    pod = make_pod("p", "sleep", "1000")
    pod["spec"]["containers"].append(idle)
    client.apply(pod)
    client.wait("pod/p", "phase=Running")
    path = "/api/v1/namespaces/default/pods/p/exec"
    with pytest.raises(ApiError, match="exec needs websockets"):
        client.request("POST", path, params={"container": "c", "command": "ls"})
    with pytest.raises(ApiError, match="the containers of pod p do not run"):
        client.request("POST", path, params={"container": "idle", "command": "ls"})
    assert client.logs("pod/p", container="idle").startswith("container idle is emulated")


class Gpus(Driver):
    """A driver that writes a CDI file."""

    name = "gpu.example.com"

    def __init__(self, root: Path) -> None:
        self._cdi = root / "cdi"

    def devices(self) -> list[Json]:
        return [{"name": "gpu-0"}]

    def prepare(self, claim: Any) -> dict[str, list[str]]:
        self._cdi.mkdir(exist_ok=True)
        files = self._cdi.parent / "dev"
        files.mkdir(exist_ok=True)
        (files / "gpu0").touch()
        mount = {"hostPath": str(files), "containerPath": "/dev/gpu"}
        device = {"name": "gpu-0", "containerEdits": {"env": ["GPU=0"], "mounts": [mount]}}
        spec = {"cdiVersion": "0.6.0", "kind": "example.com/gpu", "devices": [device]}
        (self._cdi / "gpus.json").write_text(json.dumps({**spec, "containerEdits": {"env": ["ALL=yes"]}}))
        return {name: [f"example.com/gpu={name}"] for name in claim.devices}

    def metadata(self, claim: Any) -> dict[str, Json]:
        return {name: {"attributes": {"model": {"string": "A1"}}} for name in claim.devices}


#: The path of the device metadata in the container.
METADATA = "var/run/kubernetes.io/dra-device-attributes/resourceclaims/c/r/gpu.example.com-metadata.json"


def test_a_process_gets_the_edits_of_a_real_driver_and_ends_with_its_node(
    plane: ControlPlane, client: Client, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("n")
    node = NodeProcess("n1", plane.kubeconfig, root, args=("--run",))
    node.start()
    try:
        client.wait("node/n1", "condition=Ready")
        node.run_driver(Gpus(root))
        selector = [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]
        kind = {"apiVersion": "resource.k8s.io/v1"}
        device_class = {"kind": "DeviceClass", "metadata": {"name": "real"}, "spec": {"selectors": selector}}
        devices = {"requests": [{"name": "r", "exactly": {"deviceClassName": "real"}}]}
        claim = {"kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": {"devices": devices}}
        client.apply([{**kind, **device_class}, {**kind, **claim}])
        command = ("sh", "-c", "echo $ALL $GPU $$$$; ls dev/gpu; exec sleep 1000")
        resources = {"resources": {"claims": [{"name": "gpu"}]}}
        entries = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]}
        on_node = {"nodeSelector": {"kubernetes.io/hostname": "n1"}}
        client.apply(make_pod("p", *command, container=resources, **entries, **on_node))
        uid = client.wait("pod/p", "phase=Running")["metadata"]["uid"]
        claim_uid = client.get("resourceclaim/c")["metadata"]["uid"]
        log = wait_until(lambda: client.logs("pod/p").count("\n") == 2 and client.logs("pod/p"), "it wrote")
        variables, file = log.splitlines()
        assert (variables.split()[:2], file) == (["yes", "0"], "gpu0")
        described = json.loads((root / "run" / "n1" / uid / "containers" / "c" / METADATA).read_text())
        assert described["metadata"] == {"name": "c", "namespace": "default", "uid": claim_uid, "generation": 1}
        device: Json = {"driver": "gpu.example.com", "pool": "n1", "name": "gpu-0"}
        device["attributes"] = {"model": {"string": "A1"}}
        assert described["requests"] == [{"name": "r", "devices": [device]}]
        node.restart()
        assert ended(client.wait("pod/p", "phase=Failed"))["exitCode"] == 137
        wait_until(lambda: not Path(f"/proc/{variables.split()[2]}").exists(), "its process is gone")
        wait_until(lambda: not list((root / "cdi").glob("*metadata*.json")), "the device metadata is removed")
    finally:
        node.close()


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--bind-address=0.0.0.0", "--token-auth-file=TOKENS", "--run"), "use a loopback address"),
        (("--clock=virtual", "--run"), "--run with --clock virtual"),
    ],
)
def test_processes_need_a_loopback_address_and_real_time(flags: tuple[str, ...], text: str, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text('token,user,1,"system:masters"\n')
    with pytest.raises(SettingsError, match=text):
        read([flag.replace("TOKENS", str(tmp_path / "tokens")) for flag in flags])


def test_a_node_runs_no_processes_for_a_remote_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["n1", "--run", "--plugin-dir=/tmp/x", "--server=http://192.0.2.1:80"]) == 2
    assert "--run with the server http://192.0.2.1:80" in capsys.readouterr().err
