"""A DRA driver in a few lines: list its devices, and prepare claims.

    class Gpus(Driver):
        name = "gpu.example.com"

        def devices(self):
            return [{"name": "gpu-0"}, {"name": "gpu-1"}]

        def prepare(self, claim):
            return {device: [f"vendor.com/gpu={device}"] for device in claim.devices}

        def unprepare(self, claim):
            ...

    Gpus().serve(node="n1", kubeconfig="kubeconfig", plugin_dir="/tmp/n1")

The driver registers with a kubelet (kubedra's or a real one), serves its calls, publishes the slices of its node and
reports health. Source of facts: Kubernetes 1.36, package dynamic-resource-allocation/kubeletplugin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Required, TypedDict, Unpack

from kubedra.driver.claims import Claim
from kubedra.profiles.pools import Pool
from kubedra.runtime.extras import name_missing_extra

if TYPE_CHECKING:
    from kubedra.driver.running import RunningDriver
    from kubedra.runtime.objects import Json


__all__ = ["Driver", "RunOptions"]


class RunOptions(TypedDict, total=False):
    """The options of `Driver.run`."""

    node: Required[str]
    plugin_dir: Required[Path | str]
    registry_dir: Path | str | None
    kubeconfig: Path | str | None
    server: str
    instance: str
    cdi_dir: Path | str | None


class Driver:
    """Base class of drivers; override the methods that you need.

    Methods may be coroutines. `prepare` and `unprepare` can be called again for claims that are done, and must succeed
    then.
    """

    #: The driver's name, a DNS name.
    name = ""

    def devices(self) -> Iterable[Json]:
        """Return the devices of the node, as in a ResourceSlice."""
        return ()

    def pools(self, node: str) -> Mapping[str, Pool]:
        """Return the pools to publish. The default is one pool with `devices()`, named after the node."""
        return {node: Pool.of(self.devices())}

    def prepare(self, claim: Claim) -> Mapping[str, Iterable[str]] | None:
        """Prepare a claim. Return CDI IDs by device, or None.

        An exception is reported as the claim's error, and the kubelet retries.
        """
        return None

    def unprepare(self, claim: Claim) -> None:
        """Undo `prepare`, if it did anything. An exception is reported as the claim's error."""

    def metadata(self, claim: Claim) -> Mapping[str, Json] | None:
        """Return metadata of the claim's devices for containers, by device name.

        A device's metadata has `attributes`, `networkData` or nothing. The default None writes no files. Called after
        `prepare`.
        """
        return None

    def failed(self, error: Exception) -> None:
        """Handle a background error. The failed operation is retried."""
        import logging

        logging.getLogger("kubedra.driver").warning("%s: %s", self.name, error)

    def run(
        self,
        *,
        node: str,
        plugin_dir: Path | str,
        registry_dir: Path | str | None = None,
        kubeconfig: Path | str | None = None,
        server: str = "",
        instance: str = "",
        cdi_dir: Path | str | None = None,
    ) -> RunningDriver:
        """Return the driver on a node, to run in its own thread. Use it in a `with`, or call `start` and `stop`.

        The drivers of a node share `plugin_dir` and `registry_dir` (default: `registry` in the plugin directory), the
        directories of the kubelet. `instance` distinguishes two processes of one driver during a rolling update.
        `cdi_dir` (default: `cdi` in the plugin directory) gets the CDI files that mount `metadata` into containers.
        """
        with name_missing_extra():
            from kubedra.driver.running import NodeSettings, RunningDriver

        plugins = Path(plugin_dir).absolute()
        registry = Path(registry_dir).absolute() if registry_dir else plugins / "registry"
        cdi = Path(cdi_dir).absolute() if cdi_dir else plugins / "cdi"
        return RunningDriver(self, NodeSettings(node, plugins, registry, kubeconfig, server, instance, cdi))

    def serve(self, **where: Unpack[RunOptions]) -> None:
        """Run the driver until SIGINT or SIGTERM, as the `main` of a driver. The options are those of `run`."""
        import signal
        import socket

        # A signal just before this thread waits must end the wait as well, so its number is written to the socket
        # that is read below. A lock or queue that a handler releases could not do this.
        signals, sockets = frozenset((signal.SIGINT, signal.SIGTERM)), socket.socketpair()
        sockets[1].setblocking(False)
        previous = signal.set_wakeup_fd(sockets[1].fileno())
        try:
            for number in signals:
                signal.signal(number, lambda *_: None)
            with self.run(**where):
                while signals.isdisjoint(sockets[0].recv(64)):
                    pass
        finally:
            signal.set_wakeup_fd(previous)
            for end in sockets:
                end.close()
