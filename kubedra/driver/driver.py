"""A DRA driver in a few lines: say which devices there are, and what preparing a claim means.

    class Gpus(Driver):
        name = "gpu.example.com"

        def devices(self):
            return [{"name": "gpu-0"}, {"name": "gpu-1"}]

        def prepare(self, claim):
            return {device: [f"vendor.com/gpu={device}"] for device in claim.devices}

        def unprepare(self, claim):
            ...

    Gpus().serve(node="n1", kubeconfig="kubeconfig", plugin_dir="/tmp/n1")

It registers with a kubelet (kubedra's or a real one), answers its calls, publishes the slices of its node and reports
health. Source of facts: Kubernetes 1.36, package dynamic-resource-allocation/kubeletplugin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubedra.driver.claims import Claim
from kubedra.profiles.pools import Pool

if TYPE_CHECKING:
    from kubedra.driver.running import RunningDriver

Json = dict[str, Any]


class Driver:
    """What a driver is; override what you need. Methods may be coroutines. `prepare` and `unprepare` may be called
    again for claims that are done, and must succeed then.
    """

    #: The driver's name, a DNS name.
    name = ""

    def devices(self) -> Iterable[Json]:
        """The node's devices, as in a ResourceSlice."""
        return ()

    def pools(self, node: str) -> Mapping[str, Pool]:
        """What is published: one pool, named after the node, with `devices()`."""
        return {node: Pool.of(self.devices())}

    def prepare(self, claim: Claim) -> Mapping[str, Iterable[str]] | None:
        """CDI ids by device; None: none. What it raises is the claim's error, and is tried again later."""
        return None

    def unprepare(self, claim: Claim) -> None:
        """Takes back what `prepare` did, if it did anything. What it raises is the claim's error."""

    def metadata(self, claim: Claim) -> Mapping[str, Json] | None:
        """What containers may read about the claim's devices, by their names: each with `attributes`, `networkData` or
        nothing. None, as here: no files for containers. Asked after `prepare`.
        """
        return None

    def failed(self, error: Exception) -> None:
        """Something in the background went wrong; it is tried again."""
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
        """The driver on a node, in a thread of its own; use it in a `with`, or call `start` and `stop`.

        Drivers of one node share `plugin_dir` and `registry_dir` (default: `registry` in the former), as the kubelet
        has them. `instance` tells two processes of one driver apart, for rolling updates. In `cdi_dir` (default: `cdi`
        in the plugin directory) are the files by which containers get their devices' `metadata`.
        """
        from kubedra.driver.running import Place, RunningDriver

        plugins = Path(plugin_dir).absolute()
        registry = Path(registry_dir).absolute() if registry_dir else plugins / "registry"
        cdi = Path(cdi_dir).absolute() if cdi_dir else plugins / "cdi"
        return RunningDriver(self, Place(node, plugins, registry, kubeconfig, server, instance, cdi))

    def serve(self, **where: Any) -> None:
        """`run` until SIGINT or SIGTERM: what a driver's `main` does."""
        import signal
        import socket

        # A signal that comes just before this thread waits must end the wait, too: it writes its number where it is
        # waited for. A lock or a queue that a handler releases is waited for in vain then.
        ends, coming = frozenset((signal.SIGINT, signal.SIGTERM)), socket.socketpair()
        coming[1].setblocking(False)
        before = signal.set_wakeup_fd(coming[1].fileno())
        try:
            for number in ends:
                signal.signal(number, lambda *_: None)
            with self.run(**where):
                while ends.isdisjoint(coming[0].recv(64)):
                    pass
        finally:
            signal.set_wakeup_fd(before)
            for end in coming:
                end.close()
