"""Containers as processes of this machine, on real ones: what they start with, how they end, what is kept of them."""

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
from tests.support.patience import become
from tests.support.recording import RecordingClient

pytestmark = pytest.mark.integration

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
SLEEP = ("/bin/sleep", "60")


def container(*command: str, name: str = "c", **more: Any) -> Json:
    return {"name": name, **({"command": list(command)} if command else {}), **more}


def pod(*containers: Json, uid: str = "u", **spec: Any) -> Json:
    metadata = {"name": "p", "namespace": "ns", "uid": uid}
    return {"metadata": metadata, "spec": {"containers": list(containers), **spec}, "status": {}}


class Node:
    """Its containers, what they read of the server, and the pods that it was told of."""

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

    async def ran(self, found: Json, restarts: int = 0) -> list[str]:
        """Starts the first container of a pod; what it wrote until its end."""
        [first, *_] = found["spec"]["containers"]
        self.containers.start(found, first, restarts)
        process = self.containers.process(found, first["name"])
        assert process is not None
        await become(lambda: process.end is not None and process.log.closed, "it has ended")
        return [text for _, text in process.log.lines()[0]]

    async def up(self, process: Process) -> None:
        """Returns once it has written something."""
        await become(lambda: process.log.lines()[0], "it is up")

    def alive(self, found: Json, name: str = "c") -> int:
        """The number of a container's process, which runs."""
        process = self.containers.process(found, name)
        assert process is not None
        assert process.end is None
        return process.pid

    async def over(self, found: Json, name: str = "c") -> int:
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


async def test_a_process_starts_with_its_own_variables_and_a_few_of_the_nodes(
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
        said = set(await node.ran(found))
        assert own < said
        assert {line.partition("=")[0] for line in said - own} <= {"PATH", "TMPDIR", "SYSTEMROOT"}
        assert "HOSTNAME=host" in await node.ran(pod(container("/usr/bin/env"), hostname="host"))


async def test_its_command_and_arguments_are_expanded_and_devices_win_over_variables(tmp_path: Path) -> None:
    with make_node(tmp_path) as node:
        node.cdi.mkdir()
        (node.cdi / "x.json").write_text(
            '{"kind": "v/c", "devices": [{"name": "0", "containerEdits": {"env": ["WHO=device"]}}]}'
        )
        node.devices = ["v/c=0"]
        env = [{"name": "WHO", "value": "me"}]
        assert await node.ran(pod(container("/bin/echo", "$(WHO)", args=["$(NONE)", "$$(WHO)"], env=env))) == [
            "device $(NONE) $(WHO)"
        ]
        assert await node.ran(pod(container("/bin/echo", "a", args=None))) == ["a"]


async def test_it_starts_in_its_working_directory_which_is_made_where_it_is_not_there(tmp_path: Path) -> None:
    with make_node(tmp_path) as node:
        root = node.place.resolve() / "u" / "containers" / "c"
        assert await node.ran(pod(container("/bin/pwd", "-P"))) == [str(root)]
        assert await node.ran(pod(container("/bin/pwd", "-P", workingDir="/a/b"))) == [str(root / "a" / "b")]
        mounts = [{"name": "v", "mountPath": "/data"}]
        mounted = pod(container("/bin/pwd", "-P", workingDir="/data", volumeMounts=mounts),
                      volumes=[{"name": "v", "emptyDir": {}}])  # fmt: skip
        assert await node.ran(mounted) == [str(node.place.resolve() / "u" / "volumes" / "v")]


async def test_the_last_two_runs_of_a_container_are_known_and_every_log_has_a_file(tmp_path: Path) -> None:
    with make_node(tmp_path) as node:
        found = pod(container("/bin/echo", "x"))
        assert node.containers.process(found, "c") is None
        assert node.containers.process(found, "c", previous=True) is None
        runs = []
        for restarts in range(3):
            await node.ran(found, restarts)
            runs.append(node.containers.process(found, "c"))
            before = node.containers.process(found, "c", previous=True)
            assert before is (runs[-2] if restarts else None)
        assert len({id(run) for run in runs}) == 3
        assert len(node.containers._pods["u"].runs["c"]) == 2
        logs = node.place / "u" / "logs"
        assert sorted(path.name for path in logs.iterdir()) == ["c.0.log", "c.1.log", "c.2.log"]
        assert node.changed == ["u"] * 3, "each end is told"
        assert node.containers.process(found, "other") is None


async def test_what_keeps_a_container_from_its_start_is_said(tmp_path: Path) -> None:
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


async def test_a_process_that_nobody_knows_ended_with_the_node_that_started_it(tmp_path: Path) -> None:
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


async def test_a_process_that_is_stopped_is_told_and_then_killed(tmp_path: Path) -> None:
    stubborn = "trap '' TERM; echo up; while :; do sleep 0.01; done"
    for script, grace, code in (("echo up; exec sleep 60", 30, 128 + signal.SIGTERM), (stubborn, 0, KILLED)):
        found = pod(container("/bin/sh", "-c", script))
        with make_node(tmp_path) as node:
            node.containers.start(found, found["spec"]["containers"][0], 0)
            process = node.containers.process(found, "c")
            assert process is not None
            await node.up(process)
            asked = clock.now()
            assert node.containers.stop(found, {"name": "c"}, asked, asked + timedelta(seconds=grace)) is None
            assert await node.over(found) == code
            end = node.containers.stop(found, {"name": "c"}, asked, asked)
            assert end is not None
            assert end == node.containers.end(found, found["spec"]["containers"][0], {})
            assert end.code == code


async def test_those_that_are_named_are_killed(tmp_path: Path) -> None:
    found = pod(container(*SLEEP), container(*SLEEP, name="other"))
    with make_node(tmp_path) as node:
        for each in found["spec"]["containers"]:
            node.containers.start(found, each, 0)
        node.containers.kill(found, ["none", "c"])
        assert await node.over(found) == KILLED
        assert node.alive(found, "other")


async def test_of_a_pod_that_is_gone_nothing_stays(tmp_path: Path) -> None:
    found, stays = pod(container(*SLEEP)), pod(container(*SLEEP), uid="stays")
    with make_node(tmp_path) as node:
        for each in (found, stays):
            node.containers.start(each, each["spec"]["containers"][0], 0)
        pid = node.alive(found)
        node.containers.remove(found)
        assert node.containers.process(found, "c") is None
        await become(lambda: not Path(f"/proc/{pid}").exists(), "its process is gone")
        await become(lambda: not (node.place / "u").exists(), "its files are gone")
        assert (node.place / "stays").is_dir()
        assert node.alive(stays)
        node.containers.remove(found)  # nothing is known of it any more
        node.containers.remove(pod(uid="never"))


async def test_a_node_that_stops_ends_its_processes(tmp_path: Path) -> None:
    found = pod(container(*SLEEP))
    node = Node(tmp_path)
    node.containers.start(found, found["spec"]["containers"][0], 0)
    pid = node.alive(found)
    node.containers.close()
    assert await node.over(found) == KILLED
    assert not Path(f"/proc/{pid}").exists()


CONFIG = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "a"}}}]


async def test_what_containers_read_is_fetched_before_they_start_and_not_while_all_run(tmp_path: Path) -> None:
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
            assert await node.ran(found) == [f"with {len(statuses)}"]
        node.client.there["ConfigMap", "cm"] = {"data": {"a": "later"}}
        found["status"] = {"containerStatuses": [{"state": {"running": {}}}] * 2}
        await node.containers.prepare(found)
        assert await node.ran(found) == ["with 1"]


async def test_what_may_not_be_read_is_missing_and_a_server_that_fails_is_asked_again(tmp_path: Path) -> None:
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
