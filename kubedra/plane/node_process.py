"""A node with real drivers in a child process: `kubedra node run` from Python.

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
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubedra.client.waiting import default_timeout
from kubedra.runtime import process
from kubedra.runtime.crash_points import POINTS, CrashPoint

if TYPE_CHECKING:
    from kubedra.driver import Driver
    from kubedra.driver.running import RunningDriver

#: Seconds until a stopping node is killed.
STOP_TIMEOUT = 10.0
#: Default seconds of `wait_killed`.
KILL_TIMEOUT = 30.0
#: Seconds between two looks at a process.
_POLL = 0.01


class NodeProcess:
    """The kubelet of one node. It ends with its parent process.

    Drivers put their registration sockets into `registry_dir`. The path of a socket has at most 107 bytes, so
    `plugin_dir` should be short.
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
        #: The default plugin directory, in /tmp because socket paths must be short.
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
        """The process id. Raises RuntimeError if the node is not running."""
        if self._process is None:
            raise RuntimeError(f"node {self.name} is not running")
        return self._process.pid

    def start(self) -> None:
        """Start the process. The node is ready when its Node has the condition Ready."""
        if self.running:
            raise RuntimeError(f"node {self.name} is already running")
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            process.command("controllers.kubelet", *self._flags),
            env={**process.environment(), "KUBEDRA_PROG": "kubedra node run"},
            stdin=subprocess.PIPE,
            stderr=self._log,
            # Ctrl-C in the terminal must reach only the parent process. Closing the pipe ends the child.
            start_new_session=True,
        )

    def run_driver(self, driver: Driver) -> RunningDriver:
        """Start a driver on the node, in this process. Return when it is registered; `close` stops it."""
        running = driver.run(
            node=self.name, plugin_dir=self.plugin_dir, registry_dir=self.registry_dir, kubeconfig=self._kubeconfig
        )
        self._drivers.append(running.start())
        running.wait_registered()
        return running

    def stop(self) -> None:
        """Stop the kubelet as Ctrl-C stops `kubedra node run`. Drivers, pods and claims stay as they are."""
        self._end(signal.SIGTERM)

    def kill(self, *, at: CrashPoint | None = None) -> None:
        """Kill the kubelet without a shutdown, as a crash would.

        With `at` it continues until it reaches that point of claim handling: `before-prepare` (the pod is in the
        checkpoint), `prepared` (the driver has answered), `before-checkpoint`, `checkpointed` (the devices are in the
        checkpoint), `before-unprepare`, `unprepared`, `released` (the claim has left the checkpoint). `wait_killed`
        returns then.
        """
        if at is None:
            self._end(signal.SIGKILL)
            return
        if at not in POINTS:
            raise ValueError(f"node {self.name}: unknown point {at}; use one of: {', '.join(POINTS)}")
        if self._process is None or self._process.stdin is None or not self.running:
            raise RuntimeError(f"node {self.name} is not running")
        confirmations = self.log().count(f"killed at {at}\n")
        self._process.stdin.write(f"{at}\n".encode())
        self._process.stdin.flush()
        self._poll(lambda: self.log().count(f"killed at {at}\n") > confirmations, "does not accept a crash point")

    def wait_killed(self, timeout: float = KILL_TIMEOUT) -> None:
        """Wait until the kubelet has reached the point of `kill(at=…)`. Raise TimeoutError after `timeout` seconds."""
        self._poll(lambda: not self.running, "did not reach the point of kill(at=…)", timeout)
        self._end(signal.SIGKILL)

    def _poll(self, is_done: Callable[[], bool], problem: str, timeout: float = STOP_TIMEOUT) -> None:
        deadline = time.monotonic() + default_timeout(timeout)
        while not is_done():
            if time.monotonic() > deadline:
                raise TimeoutError(f"node {self.name} {problem} within {timeout:g} s")
            time.sleep(_POLL)

    def restart(self) -> None:
        """Kill the kubelet and start it again."""
        self.kill()
        self.start()

    def prepared(self) -> dict[str, list[str]]:
        """Return the prepared claims (namespace/name) in the kubelet's checkpoint, with the UIDs of their pods."""
        try:
            outer = json.loads((self.plugin_dir / "dra_manager_state").read_bytes())
        except FileNotFoundError:
            return {}
        entries: list[dict[str, Any]] = json.loads(outer["Data"])["ClaimInfoStateList"] or []
        return {f"{entry['Namespace']}/{entry['ClaimName']}": sorted(entry["PodUIDs"]) for entry in entries}

    def log(self) -> str:
        """Return the kubelet's output so far."""
        return Path(self._log.name).read_text(errors="replace")

    def close(self) -> None:
        """Stop the drivers that were started on the node, then kill the kubelet."""
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
