"""What one run of a scenario has: a client, nodes with real drivers, processes and faults."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from kubedra.client.client import ApiError, Client
from kubedra.client.clock import Clock
from kubedra.client.faults import Fault
from kubedra.client.snapshots import Snapshot
from kubedra.plane.node_process import NodeProcess
from kubedra.runtime.objects import Json
from kubedra.scenario.processes import Command, Process, StepError
from kubedra.scenario.values import parse_seconds, to_texts

__all__ = ["World"]


class World:
    """The parts of one run; `close` ends its faults, processes and nodes.

    `kubeconfig` is that of the control plane, None if only its address is known. `virtual` is whether its time is.
    """

    def __init__(self, client: Client, kubeconfig: Path | None, directory: Path, *, virtual: bool) -> None:
        self.client, self.kubeconfig, self.directory, self.virtual = client, kubeconfig, directory, virtual
        self.clock = Clock(lambda: client)
        self.nodes: dict[str, NodeProcess] = {}
        self.processes: dict[str, Process] = {}
        #: Nodes with an armed crash point.
        self.armed: set[str] = set()
        self.faults: dict[str, Fault] = {}
        self.snapshots: dict[str, Snapshot] = {}
        #: The faults that `close` removes, by name.
        self._active: dict[str, Fault] = {}
        self._cleanup = ExitStack()
        self._scratch: Path | None = None

    @property
    def scratch(self) -> Path:
        """A directory for the files of this run."""
        if self._scratch is None:
            self._scratch = Path(self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="kubedra-")))
        return self._scratch

    def create_namespace(self, name: str) -> None:
        """Create the scenario's namespace unless it exists."""
        try:
            self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise

    def inject(self, name: str, **options: Any) -> None:
        """Inject a fault under a name. Raise StepError if it is in use."""
        if name in self._active:
            raise StepError(f"fault {name} is already injected; `clear` it first, or use another name")
        fault = self.client.fault(**options)
        self.faults[name] = self._active[name] = fault.__enter__()

    def clear(self, name: str) -> None:
        """End a fault."""
        if name not in self._active:
            known = ", ".join(self._active) or "none"
            raise StepError(f"no fault {name} is injected; injected: {known}")
        self._active.pop(name).__exit__(None, None, None)

    def add_node(self, name: str, fields: Json) -> None:
        """Add a node and wait until it is Ready."""
        if fields.get("drivers") or fields.get("run"):
            self._start_node(name, fields)
            return
        options: Json = {key: fields[key] for key in ("devices", "profile", "taints") if key in fields}
        if "slicesOf" in fields:
            options["slices_of"] = fields["slicesOf"]
        if "slices" in fields:
            options["slices"] = [self.directory / file for file in fields["slices"]]
        if (self.directory / str(fields.get("profile"))).is_file():
            options["profile"] = str(self.directory / fields["profile"])
        for key in ("labels", "capacity"):
            if key in fields:
                options[key] = to_texts(fields[key])
        if "jobsExitAfter" in fields:
            options["jobs_exit_after"] = f"{parse_seconds(fields['jobsExitAfter']):g}s"
        self.client.add_node(name, **options)

    def _start_node(self, name: str, fields: Json) -> None:
        emulated = [key for key in ("devices", "profile", "slices", "slicesOf", "capacity", "taints") if key in fields]
        if emulated:
            raise StepError(f"node {name}: {', '.join(emulated)} cannot be combined with drivers or run")
        if self.kubeconfig is None:
            raise StepError(f"node {name}: a node with drivers needs --kubeconfig instead of --server")
        flags = ["--run"] if fields.get("run") else []
        if "jobsExitAfter" in fields:
            flags.append(f"--jobs-exit-after={parse_seconds(fields['jobsExitAfter']):g}s")
        node = self.nodes[name] = NodeProcess(name, self.kubeconfig, args=flags)
        self._cleanup.callback(node.close)
        node.start()
        self.wait(f"node/{name}", "condition=Ready", fail_fast=False)
        if "labels" in fields:
            self.client.patch(f"node/{name}", {"metadata": {"labels": to_texts(fields["labels"])}})

    def wait(self, target: str, until: Any, **options: Any) -> Json:
        return self.client.wait(target, until, virtual=self.virtual, **options)

    def command(self, words: str | Sequence[str | float], fields: Json) -> Command:
        """Return a command with the environment of the control plane and of a node."""
        environment = {"KUBEDRA_URL": self.client.url}
        if self.kubeconfig is not None:
            environment["KUBECONFIG"] = str(self.kubeconfig)
        if "node" in fields:
            environment |= self._node_environment(fields["node"])
        environment |= {key: text or "" for key, text in to_texts(fields.get("env", {})).items()}
        return Command(words, self.directory / fields.get("directory", "."), environment)

    def _node_environment(self, name: str) -> Mapping[str, str]:
        node = self.node_with_drivers(name)
        return {
            "NODE_NAME": name,
            "KUBELET_PLUGINS_DIRECTORY_PATH": str(node.plugin_dir),
            "KUBELET_REGISTRAR_DIRECTORY_PATH": str(node.registry_dir),
            "CDI_ROOT": str(node.plugin_dir / "cdi"),
        }

    def node_with_drivers(self, name: str) -> NodeProcess:
        """Return the kubelet of a node with real drivers. Raise StepError."""
        if name not in self.nodes:
            raise StepError(f"node {name} has no kubelet process; add it with `drivers: true`")
        return self.nodes[name]

    def start_process(self, name: str, fields: Json, timeout: float) -> None:
        """Start a process by its command, or again by its name."""
        if "command" in fields:
            if name in self.processes and self.processes[name].is_running:
                raise StepError(f"process/{name} is already running")
            command, output = self.command(fields["command"], fields), self.scratch / f"{name}.log"
            self.processes[name] = Process(name, command, output, fields.get("ready", ""), timeout)
            self._cleanup.callback(self.processes[name].close)
        self.process(name).start()

    def process(self, name: str) -> Process:
        """Return a process that was started. Raise StepError."""
        if name not in self.processes:
            known = ", ".join(self.processes) or "none"
            raise StepError(f"no process {name} was started; started: {known}; `start` one with `command`")
        return self.processes[name]

    @property
    def has_processes(self) -> bool:
        """Whether processes of this run need real time to react."""
        return bool(self.nodes or self.processes)

    def outputs(self) -> dict[str, str]:
        """Return the outputs of processes and nodes, by name."""
        found = {f"process/{name}": process.read_output() for name, process in self.processes.items()}
        return {**found, **{f"node/{name}": node.log() for name, node in self.nodes.items()}}

    def close(self) -> None:
        """End the faults, processes and nodes; also after the server has failed."""
        for name in [*self._active]:
            try:
                self.clear(name)
            except (ApiError, OSError):
                self._active.pop(name, None)
        self._cleanup.close()
