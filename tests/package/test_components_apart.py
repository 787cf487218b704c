"""`kubedra up` runs its components in a process of their own: as a user sees it, and when one of the two goes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from apiserver.runtime.gc_tuning import THRESHOLDS
from kubedra.client.client import Client
from kubedra.runtime import process
from tests.node.driver_process import DriverProcess
from tests.support.objects import pod_manifest
from tests.support.patience import ended, run_command, wait_until

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere they run in the server's process"),
]


class Up:
    """`kubedra up` that is ready."""

    def __init__(self, server: subprocess.Popen[str], log: Path) -> None:
        self.server, self._log = server, log
        assert server.stdout is not None
        self.said = json.loads(server.stdout.readline())
        self.client = Client(self.said["url"])

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def components(self) -> list[int]:
        """The processes that the server has forked."""
        children = Path(f"/proc/{self.server.pid}/task/{self.server.pid}/children").read_text()
        return [int(pid) for pid in children.split()]

    def ask(self, path: str, method: str = "GET") -> Any:
        return self.client._http.request(method, path)


def command(directory: Path, *flags: str) -> list[str]:
    given = [f"--data-dir={directory}", "--port=0", "--announce", "--durability=off", "--nodes=1"]
    return [sys.executable, "-m", "kubedra", "up", *given, *flags]


@contextmanager
def started(command: list[str], directory: Path) -> Iterator[Up]:
    log = directory / "log"
    with log.open("w") as stderr:
        server = subprocess.Popen(
            command, env=process.environment(), stdout=subprocess.PIPE, stderr=stderr, text=True, start_new_session=True
        )
    try:
        found = Up(server, log)
        with found.client:
            yield found
    finally:
        server.terminate()
        server.communicate()


def up(directory: Path, *flags: str) -> AbstractContextManager[Up]:
    return started(command(directory, *flags), directory)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def running_pod(found: Up) -> bool:
    return bool(found.client.get("pods", "p").get("status", {}).get("phase") == "Running")


POD = pod_manifest("p")


def test_all_that_a_user_asks_of_components_works_through_the_pipe(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    plugins = tmp_path_factory.mktemp("n")  # a short path, as sockets need
    with up(tmp_path, f"--plugin-dir={plugins}") as found:
        assert len(found.components) == 1
        found.client.create(POD)
        wait_until(lambda: running_pod(found), "the pod runs")
        assert found.ask("/-/explain/pod/default/p").json()["verdict"] == "scheduled"
        assert found.ask("/-/explain/pod/default/nix").status_code == 404
        rest = found.ask("/-/idle").json()
        assert {"scheduler", "node-agent"} <= set(rest["components"])
        wait_until(lambda: found.ask("/-/idle").json()["resting"], "nothing is left to do")
        with DriverProcess(plugins, plugins / "registry", node="node-1") as driver:
            driver.wait_called("registered")
            methods = [call["method"] for call in found.ask("/-/drivers/calls").json()]
            assert {"GetInfo", "NotifyRegistrationStatus"} <= set(methods)
        metrics = found.ask("/metrics").text
        assert 'scheduler_schedule_attempts_total{result="scheduled",profile="default-scheduler"} 1\n' in metrics
        assert 'scheduler_pending_pods{queue="active"} 0\n' in metrics
        assert found.ask("/-/reset", "POST").status_code == 200
        wait_until(
            lambda: [n["metadata"]["name"] for n in found.client.list("nodes")] == ["node-1"], "the node is back"
        )
        before = len(found.log)
        found.server.terminate()
        assert ended(found.server) == 0
        assert "Traceback" not in found.log[before:]


def test_the_server_ends_with_its_components(tmp_path: Path) -> None:
    with up(tmp_path) as found:
        [components] = found.components
        os.kill(components, signal.SIGKILL)
        assert ended(found.server) == 1
        assert "kubedra up: the process of the components ended: killed by SIGKILL" in found.log
        assert "Traceback" not in found.log


def test_components_end_with_their_server_and_say_nothing(tmp_path: Path) -> None:
    with up(tmp_path) as found:
        [components] = found.components
        found.client.create(POD)
        found.server.kill()
        wait_until(lambda: not alive(components), "the components have ended")
        assert found.log.count("\n") == sum(line.startswith(("storage", "api server", "components", "nodes", "ready", "kubeconfig"))
                                            for line in found.log.splitlines())  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_both_ends_them_as_one_to_the_server_does(tmp_path: Path, number: signal.Signals) -> None:
    with up(tmp_path) as found:
        [components] = found.components
        os.kill(components, number)
        found.client.create(POD)
        wait_until(lambda: running_pod(found), "the components work on")
        os.killpg(found.server.pid, number)
        assert ended(found.server) == 0
        wait_until(lambda: not alive(components), "the components have ended")
        assert "Traceback" not in found.log


@pytest.mark.parametrize("flags", [("--clock=virtual",), ("--seed=1",), ("--components-apart=false",)])
def test_what_needs_one_loop_has_one_process(tmp_path: Path, flags: tuple[str, ...]) -> None:
    with up(tmp_path, *flags) as found:
        assert found.components == []
        assert any(line.startswith("components  ") for line in found.log.splitlines())


def test_a_mistake_that_only_components_notice_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("kind: Nix\n")
    done = run_command(command(tmp_path, f"--config={tmp_path}/bad.yaml"), text=True, env=process.environment())
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"kubedra up: --config: {tmp_path}/bad.yaml: must be a Kube")
    assert "Traceback" not in done.stderr


#: A server with one component, whose `run` is what comes first among the flags.
WITH_A_COMPONENT = """
import asyncio, sys, textwrap
import controllers.nodelifecycle.ttl as module
from apiserver.command.start import main
from controllers.runtime.transport import TransportError

class Own:
    name, idle, due, metrics = "ttl-controller", True, None, ()

    def __init__(self, client):
        self.client = client

exec("async def run(self):" + textwrap.indent(sys.argv[1], "    "))
Own.run = run
module.build = lambda client, *_: Own(client)
sys.exit(main(sys.argv[2:]))
"""
FAILS = """
raise RuntimeError("a bug")
"""
TIDIES = """
try:
    await asyncio.Event().wait()
finally:
    try:
        done = (await self.client.request("GET", "/version"))["major"]
    except TransportError as error:
        done = error
    print("tidied", done, file=sys.stderr, flush=True)
"""
COLLECTS = """
import gc
try:
    await asyncio.Event().wait()
finally:
    print("rounds", gc.isenabled(), gc.get_threshold()[0], file=sys.stderr, flush=True)
"""
STAYS = """
while True:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        pass
"""


def with_component(directory: Path, run: str) -> list[str]:
    flags = ["--controllers=ttl-controller", "--components-apart", "--storage=memory", "--port=0", "--announce"]
    return [sys.executable, "-c", WITH_A_COMPONENT, run, f"--data-dir={directory}", *flags]


def test_a_component_that_fails_says_why_and_ends_all(tmp_path: Path) -> None:
    done = run_command(with_component(tmp_path, FAILS), text=True, env=process.environment(), cwd=tmp_path)
    assert done.returncode == 1
    assert "RuntimeError: a bug" in done.stderr
    assert done.stderr.splitlines()[-1].endswith("the process of the components ended: exit code 1")


@pytest.mark.parametrize(
    ("number", "said"), [(signal.SIGTERM, "tidied 1\n"), (signal.SIGKILL, "tidied the server is gone\n")]
)
def test_components_tidy_up_while_the_server_still_answers_unless_it_is_gone(
    tmp_path: Path, number: signal.Signals, said: str
) -> None:
    with started(with_component(tmp_path, TIDIES), tmp_path) as found:
        components = found.components
        found.server.send_signal(number)
        ended(found.server)
        wait_until(lambda: said in found.log, "the component has tidied up")
        wait_until(lambda: not any(map(alive, components)), "its process has ended")


def test_python_collects_garbage_in_small_rounds_there_too(tmp_path: Path) -> None:
    with started(with_component(tmp_path, COLLECTS), tmp_path) as found:
        found.server.terminate()
        ended(found.server)
        assert f"rounds True {THRESHOLDS[0]}\n" in found.log


def test_a_component_that_does_not_end_is_not_waited_for_and_leaves_the_port_free(tmp_path: Path) -> None:
    with started(with_component(tmp_path, STAYS), tmp_path) as found:
        [components] = found.components
        found.server.kill()
        ended(found.server)
        with socket.create_server(("127.0.0.1", int(found.said["url"].rpartition(":")[2]))):
            assert alive(components)
        wait_until(lambda: not alive(components), "its process has ended")
