"""Containers as real processes: their start, their end and their files."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime import clock
from controllers.kubelet.dra.manager import DraError
from controllers.kubelet.pods.containers import KILLED, ContainerError, ContainerExit
from controllers.kubelet.run.containers import ProcessContainers
from controllers.kubelet.run.process import Process
from tests.support.objects import make_pod
from tests.support.patience import become
from tests.support.recording import RecordingClient

pytestmark = [pytest.mark.integration, pytest.mark.real_time]

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
SLEEP = ("/bin/sleep", "60")


def container(*command: str, name: str = "c", **more: Any) -> Json:
    return {"name": name, **({"command": list(command)} if command else {}), **more}


def pod(*containers: Json, uid: str = "u", **spec: Any) -> Json:
    return {**make_pod("p", uid=uid, containers=list(containers), **spec), "status": {}}


class Node:
    """Containers of a node, a server for their references, and the uids of changed pods."""

    def __init__(self, place: Path) -> None:
        self.place, self.client, self.changed = place / "run", RecordingClient(), list[str]()
        self.devices: list[str] | DraError = []
        self.cdi = place / "cdi"
        self.containers = ProcessContainers(
            self.client,  # type: ignore[arg-type]
            self.place,
            [self.cdi],
            self._devices,
            lambda pod: self.changed.append(pod["metadata"]["uid"]),
        )

    def _devices(self, pod: Json, container: Json) -> list[str]:
        if isinstance(self.devices, DraError):
            raise self.devices
        return self.devices

    async def output_of(self, found: Json, restarts: int = 0) -> list[str]:
        """Start the first container of a pod. Return its output once it has ended."""
        [first, *_] = found["spec"]["containers"]
        self.containers.start(found, first, restarts)
        process = self.containers.process(found, first["name"])
        assert process is not None
        await become(lambda: process.end is not None and process.log.closed, "it has ended")
        return [text for _, text in process.log.lines()[0]]

    async def wait_output(self, process: Process) -> None:
        """Wait until the process has written something."""
        await become(lambda: process.log.lines()[0], "it is up")

    def pid_of(self, found: Json, name: str = "c") -> int:
        """Return the pid of the running process of a container."""
        process = self.containers.process(found, name)
        assert process is not None
        assert process.end is None
        return process.pid

    async def exit_code(self, found: Json, name: str = "c") -> int:
        process = self.containers.process(found, name)
        assert process is not None
        await become(lambda: process.end is not None, "it has ended")
        assert process.end is not None
        return process.end.code


@contextmanager
def make_node(place: Path) -> Iterator[Node]:
    made = Node(place)
    try:
        yield made
    finally:
        made.containers.close()


async def test_a_process_starts_with_its_own_variables_and_a_few_of_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANG", "xx")
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("SECRET_OF_THE_NODE", "1")
    monkeypatch.delenv("LC_ALL", raising=False)
    env = [{"name": "WHO", "value": "me"}, {"name": "TZ", "value": "Mars"}]
    with make_node(tmp_path) as node:
        found = pod(container("/usr/bin/env", env=env))
        root = node.place / "u" / "containers" / "c"
        own = {"WHO=me", "TZ=Mars", "LANG=xx", "HOSTNAME=p", f"HOME={root}", f"KUBEDRA_ROOT={root}"}
        variables = set(await node.output_of(found))
        assert own < variables
        assert {line.partition("=")[0] for line in variables - own} <= {"PATH", "TMPDIR", "SYSTEMROOT"}
        assert "HOSTNAME=host" in await node.output_of(pod(container("/usr/bin/env"), hostname="host"))


async def test_command_and_arguments_are_expanded_and_devices_win_over_variables(tmp_path: Path) -> None:
    with make_node(tmp_path) as node:
        node.cdi.mkdir()
        edits = '{"kind": "v/c", "devices": [{"name": "0", "containerEdits": {"env": ["WHO=device"]}}]}'
        (node.cdi / "x.json").write_text(edits)
        node.devices = ["v/c=0"]
        echo = container("/bin/echo", "$(WHO)", args=["$(NONE)", "$$(WHO)"], env=[{"name": "WHO", "value": "me"}])
        assert await node.output_of(pod(echo)) == ["device $(NONE) $(WHO)"]
        assert await node.output_of(pod(container("/bin/echo", "a", args=None))) == ["a"]


async def test_a_process_starts_in_its_working_directory(tmp_path: Path) -> None:
    with make_node(tmp_path) as node:
        root = node.place.resolve() / "u" / "containers" / "c"
        assert await node.output_of(pod(container("/bin/pwd", "-P"))) == [str(root)]
        assert await node.output_of(pod(container("/bin/pwd", "-P", workingDir="/a/b"))) == [str(root / "a" / "b")]
        mounts = [{"name": "v", "mountPath": "/data"}]
        mounted = pod(container("/bin/pwd", "-P", workingDir="/data", volumeMounts=mounts),
                      volumes=[{"name": "v", "emptyDir": {}}])  # fmt: skip
        assert await node.output_of(mounted) == [str(node.place.resolve() / "u" / "volumes" / "v")]


async def test_the_last_two_runs_of_a_container_are_kept_and_every_log_has_a_file(tmp_path: Path) -> None:
    with make_node(tmp_path) as node:
        found = pod(container("/bin/echo", "x"))
        assert node.containers.process(found, "c") is None
        assert node.containers.process(found, "c", previous=True) is None
        runs = []
        for restarts in range(3):
            await node.output_of(found, restarts)
            runs.append(node.containers.process(found, "c"))
            before = node.containers.process(found, "c", previous=True)
            assert before is (runs[-2] if restarts else None)
        assert len({id(run) for run in runs}) == 3
        assert len(node.containers._pods["u"].runs["c"]) == 2
        logs = node.place / "u" / "logs"
        assert sorted(path.name for path in logs.iterdir()) == ["c.0.log", "c.1.log", "c.2.log"]
        assert node.changed == ["u"] * 3, "each end is a change"
        assert node.containers.process(found, "other") is None


async def test_a_failed_start_of_a_container_is_an_error(tmp_path: Path) -> None:
    with make_node(tmp_path) as node:
        found = pod(container(*SLEEP))
        node.devices = DraError("not prepared")
        with pytest.raises(ContainerError, match="not prepared") as caught:
            node.containers.start(found, found["spec"]["containers"][0], 0)
        assert caught.value.reason == "CreateContainerError"
        node.devices = []
        node.place.parent.mkdir(exist_ok=True)
        node.place.write_text("a file where the directory should be")
        with pytest.raises(ContainerError) as caught:
            node.containers.start(found, found["spec"]["containers"][0], 0)
        assert caught.value.reason == "CreateContainerError"
        assert node.containers.process(found, "c") is None


async def test_a_container_without_a_command_is_emulated(tmp_path: Path) -> None:
    idle = container()
    found = pod(idle, container(*SLEEP, name="runs"))
    state = {"state": {"running": {"startedAt": "2020-01-01T00:00:00Z"}}}
    with make_node(tmp_path) as node:
        node.containers.start(found, idle, 0)
        assert node.containers.process(found, "c") is None
        assert node.containers.end(found, idle, state) is None
        init = pod(container(*SLEEP, name="runs"), initContainers=[idle])
        assert node.containers.end(init, idle, state) == ContainerExit(LONG_AGO, 0)
        asked = LONG_AGO + timedelta(seconds=1)
        assert node.containers.stop(found, {"name": "c"}, asked, asked) == ContainerExit(asked, 0)


async def test_an_unknown_process_ended_with_the_node_that_started_it(tmp_path: Path) -> None:
    first, begins = container(*SLEEP), container(*SLEEP, name="begins")
    found = pod(first, initContainers=[container(name="idle"), begins])
    asked, late = LONG_AGO, LONG_AGO + timedelta(seconds=30)
    with make_node(tmp_path) as node:
        end = node.containers.end(found, first, {})
        assert end is not None
        assert (end.code, end.at.microsecond) == (KILLED, 0)
        assert abs(end.at - clock.now()) < timedelta(seconds=60)
        for name in ("c", "begins"):
            assert node.containers.stop(found, {"name": name}, asked, late) == ContainerExit(asked, KILLED)
        assert node.containers.stop(found, {"name": "idle"}, asked, late) == ContainerExit(asked, 0)
        assert node.containers.stop(pod(first), {"name": "c"}, asked, late) == ContainerExit(asked, KILLED)


async def test_a_stopped_process_is_terminated_and_then_killed(tmp_path: Path) -> None:
    stubborn = "trap '' TERM; echo up; while :; do sleep 0.01; done"
    for script, grace, code in (("echo up; exec sleep 60", 30, 128 + signal.SIGTERM), (stubborn, 0, KILLED)):
        found = pod(container("/bin/sh", "-c", script))
        with make_node(tmp_path) as node:
            node.containers.start(found, found["spec"]["containers"][0], 0)
            process = node.containers.process(found, "c")
            assert process is not None
            await node.wait_output(process)
            asked = clock.now()
            assert node.containers.stop(found, {"name": "c"}, asked, asked + timedelta(seconds=grace)) is None
            assert await node.exit_code(found) == code
            end = node.containers.stop(found, {"name": "c"}, asked, asked)
            assert end is not None
            assert end == node.containers.end(found, found["spec"]["containers"][0], {})
            assert end.code == code


async def test_only_the_named_containers_are_killed(tmp_path: Path) -> None:
    found = pod(container(*SLEEP), container(*SLEEP, name="other"))
    with make_node(tmp_path) as node:
        for each in found["spec"]["containers"]:
            node.containers.start(found, each, 0)
        node.containers.kill(found, ["none", "c"])
        assert await node.exit_code(found) == KILLED
        assert node.pid_of(found, "other")


async def test_nothing_of_a_removed_pod_stays(tmp_path: Path) -> None:
    found, stays = pod(container(*SLEEP)), pod(container(*SLEEP), uid="stays")
    with make_node(tmp_path) as node:
        for each in (found, stays):
            node.containers.start(each, each["spec"]["containers"][0], 0)
        pid = node.pid_of(found)
        node.containers.remove(found)
        assert node.containers.process(found, "c") is None
        await become(lambda: not Path(f"/proc/{pid}").exists(), "its process is gone")
        await become(lambda: not (node.place / "u").exists(), "its files are gone")
        assert (node.place / "stays").is_dir()
        assert node.pid_of(stays)
        # Further removals are no errors.
        node.containers.remove(found)
        node.containers.remove(pod(uid="never"))


async def test_a_stopping_node_kills_its_processes(tmp_path: Path) -> None:
    found = pod(container(*SLEEP))
    node = Node(tmp_path)
    node.containers.start(found, found["spec"]["containers"][0], 0)
    pid = node.pid_of(found)
    node.containers.close()
    assert await node.exit_code(found) == KILLED
    assert not Path(f"/proc/{pid}").exists()


CONFIG = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "a"}}}]


async def test_references_are_read_before_containers_start_and_not_while_all_run(tmp_path: Path) -> None:
    found = pod(container("/bin/sh", "-c", "echo $A", env=CONFIG))
    with make_node(tmp_path) as node:
        await node.containers.prepare(found)
        with pytest.raises(ContainerError, match='configmap "cm" not found'):
            node.containers.start(found, found["spec"]["containers"][0], 0)
        node.client.there["ConfigMap", "cm"] = {"data": {"a": "one"}}
        waiting: Json = {"state": {"waiting": {}}}
        for statuses in ([], [{"state": {"running": {}}}, waiting], [waiting]):
            found["status"] = {"containerStatuses": statuses}
            node.client.there["ConfigMap", "cm"]["data"]["a"] = f"with {len(statuses)}"
            await node.containers.prepare(found)
            assert await node.output_of(found) == [f"with {len(statuses)}"]
        node.client.there["ConfigMap", "cm"] = {"data": {"a": "later"}}
        found["status"] = {"containerStatuses": [{"state": {"running": {}}}] * 2}
        await node.containers.prepare(found)
        assert await node.output_of(found) == ["with 1"]


async def test_a_forbidden_reference_is_missing_and_a_server_error_is_raised(tmp_path: Path) -> None:
    found = pod(container(*SLEEP, env=CONFIG))
    with make_node(tmp_path) as node:
        node.client.there["ConfigMap", "cm"] = {"data": {"a": "one"}}
        node.client.refuses["get"] = (403, "Forbidden")
        await node.containers.prepare(found)
        with pytest.raises(ContainerError, match='configmap "cm" not found'):
            node.containers.start(found, found["spec"]["containers"][0], 0)
        node.client.refuses["get"] = (500, "InternalError")
        with pytest.raises(StatusError):
            await node.containers.prepare(found)
