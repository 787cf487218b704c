"""The containers of a node as processes of this machine, if they have a command. The others are emulated."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime import clock
from controllers.kubelet.dra.manager import DraError
from controllers.kubelet.pods.containers import EMULATED, KILLED, ContainerError, ContainerExit, Containers, stop_times
from controllers.kubelet.pods.environment import environment, expand, references
from controllers.kubelet.run.cdi import edits_of
from controllers.kubelet.run.process import Log, Process
from controllers.kubelet.run.volumes import build_directory
from controllers.runtime.client import Client, is_reason
from controllers.runtime.kinds import CONFIG_MAPS, SECRETS

_KINDS = {"configmap": CONFIG_MAPS, "secret": SECRETS}
#: Environment variables inherited from this process.
_INHERITED = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "SYSTEMROOT")


@dataclass(slots=True)
class _Pod:
    """The state of one pod: its ConfigMaps and Secrets, and its processes by container, oldest first."""

    objects: dict[tuple[str, str], Json | None] = field(default_factory=dict)
    runs: dict[str, list[Process]] = field(default_factory=dict)

    def lookup(self, kind: str, name: str) -> Json | None:
        return self.objects.get((kind, name))


class ProcessContainers:
    """The containers of one node.

    `devices` returns the CDI ids of a container. `changed` is called with a pod whose process has ended. `emulated` are
    the containers without a command.
    """

    runs_processes = True

    def __init__(
        self,
        client: Client,
        directory: Path,
        cdi: Sequence[Path],
        devices: Callable[[Json, Json], list[str]],
        changed: Callable[[Json], None],
        emulated: Containers = EMULATED,
    ) -> None:
        self._client, self._directory, self._cdi = client, directory, cdi
        self._devices, self._changed, self._emulated = devices, changed, emulated
        self._pods: dict[str, _Pod] = {}

    async def prepare(self, pod: Json) -> None:
        """Fetch the pod's ConfigMaps and Secrets while a container may have to be started."""
        states = pod.get("status", {}).get("containerStatuses") or ()
        if states and all("running" in status["state"] for status in states):
            return
        known = self._pods.setdefault(pod["metadata"]["uid"], _Pod())
        for kind, name in sorted(references(pod)):
            try:
                known.objects[kind, name] = await self._client.get(_KINDS[kind], name, pod["metadata"]["namespace"])
            except StatusError as error:
                if not is_reason(error, "NotFound", "Forbidden"):
                    raise
                known.objects[kind, name] = None

    def start(self, pod: Json, container: Json, restarts: int) -> None:
        if not container.get("command"):
            return
        meta, name = pod["metadata"], container["name"]
        known = self._pods.setdefault(meta["uid"], _Pod())
        place = self._directory / meta["uid"]
        try:
            edits = edits_of(self._devices(pod, container), self._cdi)
            variables = environment(pod, container, known.lookup) | edits.env
            root = place / "containers" / name
            build_directory(pod, container, root, place / "volumes", known.lookup, edits.links, variables)
        except (OSError, DraError) as error:
            raise ContainerError("CreateContainerError", str(error)) from error
        own = {key: value for key in _INHERITED if (value := os.environ.get(key)) is not None}
        own |= {"HOSTNAME": pod["spec"].get("hostname") or meta["name"], "HOME": str(root), "KUBEDRA_ROOT": str(root)}
        command = [expand(word, variables) for word in (*container["command"], *(container.get("args") or ()))]
        directory = self._working(container, root)
        log = Log(place / "logs" / f"{name}.{restarts}.log")
        process = Process(command, own | variables, directory, log, lambda: self._changed(pod))
        known.runs[name] = [*known.runs.get(name, ())[-1:], process]

    def end(self, pod: Json, container: Json, state: Json) -> ContainerExit | None:
        if not container.get("command"):
            return self._emulated.end(pod, container, state)
        process = self.process(pod, container["name"])
        # An unknown process ended with the kubelet that started it.
        return process.end if process is not None else ContainerExit(clock.now().replace(microsecond=0), KILLED)

    def stop(self, pod: Json, status: Json, requested_at: datetime, deadline: datetime) -> ContainerExit | None:
        process = self.process(pod, status["name"])
        if process is not None:
            stop, now = stop_times(pod, status["name"], requested_at, deadline), clock.now()
            process.terminate((stop.terminate_at - now).total_seconds(), (stop.kill_at - now).total_seconds())
            return process.end
        every = (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"])
        if any(c["name"] == status["name"] and c.get("command") for c in every):
            return ContainerExit(requested_at, KILLED)
        return self._emulated.stop(pod, status, requested_at, deadline)

    def kill(self, pod: Json, names: Sequence[str]) -> None:
        for name in names:
            if (process := self.process(pod, name)) is not None:
                process.kill()

    def remove(self, pod: Json) -> None:
        known = self._pods.pop(pod["metadata"]["uid"], None)
        for runs in (known.runs if known is not None else {}).values():
            for process in runs:
                process.kill()
        place = self._directory / pod["metadata"]["uid"]
        if place.is_dir():
            asyncio.get_running_loop().run_in_executor(None, lambda: shutil.rmtree(place, ignore_errors=True))

    def close(self) -> None:
        """Kill all processes of the node."""
        for known in self._pods.values():
            for runs in known.runs.values():
                for process in runs:
                    process.kill()

    def process(self, pod: Json, name: str, *, previous: bool = False) -> Process | None:
        """Return the last process of a container, or the one before it."""
        known = self._pods.get(pod["metadata"]["uid"])
        runs = known.runs.get(name, []) if known is not None else []
        if previous:
            return runs[-2] if len(runs) > 1 else None
        return runs[-1] if runs else None

    @staticmethod
    def _working(container: Json, root: Path) -> Path:
        """Return the working directory of the process, created if missing."""
        wanted = root / str(container.get("workingDir", "")).lstrip("/")
        if not wanted.exists():
            wanted.mkdir(parents=True, exist_ok=True)
        return wanted
