"""A node as a process of its own, with real drivers: `kubedra node run` from Python.

node = NodeProcess("n1", plane.kubeconfig, tmp_path)
node.start()
… start a driver that registers in node.registry_dir …
node.kill(); node.start()
"""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubedra.runtime import process

if TYPE_CHECKING:
    from kubedra.driver import Driver
    from kubedra.driver.running import RunningDriver

#: Seconds that a node has to end.
STOP_TIMEOUT = 10.0


class NodeProcess:
    """The kubelet of one node. It ends with the process that started it.

    Drivers announce themselves in `registry_dir`; the path of a socket has at most 107 bytes, so that `plugin_dir`
    should be short.
    """

    def __init__(
        self,
        name: str,
        kubeconfig: Path,
        plugin_dir: Path | str | None = None,
        registry_dir: Path | str | None = None,
        *,
        args: Sequence[str] = (),
    ) -> None:
        #: A directory of its own where none is given. /tmp, for the paths of sockets are short.
        self._own = tempfile.TemporaryDirectory(prefix="kubedra-") if plugin_dir is None else None
        self.name, self.plugin_dir = name, Path(plugin_dir or self._own.name).absolute()  # type: ignore[union-attr]
        self._kubeconfig = kubeconfig
        self._drivers: list[RunningDriver] = []
        self.registry_dir = Path(registry_dir).absolute() if registry_dir else self.plugin_dir / "registry"
        self._flags = [
            name,
            f"--kubeconfig={kubeconfig}",
            f"--plugin-dir={self.plugin_dir}",
            f"--registry-dir={self.registry_dir}",
            "--sync-frequency=1s",
            "--attached",
            *args,
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._log = tempfile.NamedTemporaryFile(prefix=f"kubedra-{name}-", suffix=".log")  # noqa: SIM115 - as long as this

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The number of its process. RuntimeError where it does not run."""
        if self._process is None:
            raise RuntimeError(f"node {self.name} does not run")
        return self._process.pid

    def start(self) -> None:
        """Start the process. The node is Ready when its Node says so."""
        if self.running:
            raise RuntimeError(f"node {self.name} runs already")
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            process.command("controllers.kubelet", *self._flags),
            env={**process.environment(), "KUBEDRA_PROG": "kubedra node run"},
            stdin=subprocess.PIPE,
            stderr=self._log,
            # Ctrl-C in the terminal is for the program that uses it. The pipe ends it with its owner.
            start_new_session=True,
        )

    def run_driver(self, driver: Driver) -> RunningDriver:
        """Start a driver on the node, in this process; returns when it is registered. `close` ends it."""
        running = driver.run(
            node=self.name, plugin_dir=self.plugin_dir, registry_dir=self.registry_dir, kubeconfig=self._kubeconfig
        )
        self._drivers.append(running.start())
        running.wait_registered()
        return running

    def stop(self) -> None:
        """End it as `kubedra node run` ends on Ctrl-C. Drivers, pods and claims stay as they are."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it without any shutdown, as a crash does."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Kill it and start it again."""
        self.kill()
        self.start()

    def prepared(self) -> dict[str, list[str]]:
        """The claims (namespace/name) that are held on the node, with their pods' uids: its checkpoint."""
        try:
            outer = json.loads((self.plugin_dir / "dra_manager_state").read_bytes())
        except FileNotFoundError:
            return {}
        entries: list[dict[str, Any]] = json.loads(outer["Data"])["ClaimInfoStateList"] or []
        return {f"{entry['Namespace']}/{entry['ClaimName']}": sorted(entry["PodUIDs"]) for entry in entries}

    def log(self) -> str:
        """What it wrote so far."""
        return Path(self._log.name).read_text(errors="replace")

    def close(self) -> None:
        """End it if it runs, with the drivers that were started on it."""
        for driver in self._drivers:
            driver.stop()
        self.kill()
        self._log.close()
        if self._own is not None:
            self._own.cleanup()

    def _end(self, number: int) -> None:
        running, self._process = self._process, None
        if running is None:
            return
        running.send_signal(number)
        try:
            running.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
        if running.stdin is not None:
            running.stdin.close()
