"""What the components can be told. One frozen record for all, so that every way of starting them says the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from apiserver.api.features.gates import Features
from controllers.options.names import CONCURRENT
from controllers.signing.options import SigningOptions

if TYPE_CHECKING:
    from controllers.scheduler.config.configuration import Configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginDirs:
    """Where a node meets its drivers: `plugins` holds the kubelet's own files, drivers announce themselves in
    `registry`.
    """

    plugins: Path
    registry: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLifecycleOptions:
    """When nodes count as gone, and how many of them per second are tainted so that their pods go: of a zone where all
    is well, and of a large one where the share `unhealthy_zone_threshold` of the nodes is not ready.
    """

    monitor_grace: timedelta = timedelta(seconds=50)
    startup_grace: timedelta = timedelta(seconds=60)
    eviction_rate: float = 0.1
    secondary_eviction_rate: float = 0.01
    unhealthy_zone_threshold: float = 0.55
    large_cluster_size_threshold: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerOptions:
    """How often HorizontalPodAutoscalers are looked at, and what holds where they do not say it themselves: how long
    higher wishes are remembered, how far a metric may be off (as a share of its target), and for how long a pod that is
    not ready counts as starting.
    """

    sync_period: timedelta = timedelta(seconds=15)
    downscale_stabilization: timedelta = timedelta(minutes=5)
    tolerance: float = 0.1
    cpu_initialization: timedelta = timedelta(minutes=5)
    initial_readiness: timedelta = timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """Containers as processes: `directory` has their files, `announcements` is where the API server learns how to reach
    them, `cdi` are the directories of CDI files, of which the last counts most.
    """

    directory: Path
    announcements: Path
    cdi: tuple[Path, ...] = ()

    @staticmethod
    def cdi_of(plugins: Path | None, more: Iterable[Path]) -> tuple[Path, ...]:
        """The directories that runtimes read, that of a node's drivers, and further ones."""
        return (Path("/etc/cdi"), Path("/var/run/cdi"), *((plugins / "cdi",) if plugins else ()), *more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`host` names the place in events and leases; `seed` makes free choices (equal nodes, generated suffixes)
    repeatable; `gates` are the feature gates that were given explicitly (name to on or off), on top of the emulated
    release's.

    `nodes` emulated nodes are created at start, each with `devices_per_node` example GPUs of the driver that `devices`
    names ("none": no devices, no class), or with the hardware of a `profile`; the first of them has real drivers where
    `plugin_dirs` is given. `node` instead: the node agent is the kubelet of this one node, whoever else is there.
    `storage_class` names the default class of the emulated provisioner, which is made at start; "" makes none.
    With `run` containers that have a command are processes. `sync_frequency` is how often a kubelet looks again at what
    cannot go on.
    """

    nodes: int = 0
    devices: str = "none"
    devices_per_node: int = 8
    profile: str = ""
    node: str = ""
    plugin_dirs: PluginDirs | None = None
    storage_class: str = ""
    run: Processes | None = None
    sync_frequency: timedelta = timedelta(seconds=60)
    root_ca: str = ""
    """The authority of the API server's certificate, in PEM; "" where it has none."""

    signing: SigningOptions = field(default_factory=SigningOptions)
    host: str = "kubedra"
    seed: int | None = None
    emulated_version: tuple[int, int] = (1, 36)
    gates: Mapping[str, bool] = field(default_factory=dict)
    scheduler: Configuration | None = None
    """None: a scheduler with upstream's defaults."""
    concurrency: Mapping[str, int] = field(default_factory=dict)
    """How many objects components work on at the same time, where it was said."""

    terminated_pod_gc_threshold: int = 12500
    """How many pods that ended may stay before the pod garbage collector deletes the oldest; 0: any number."""

    max_endpoints_per_slice: int = 100
    node_lifecycle: NodeLifecycleOptions = NodeLifecycleOptions()
    autoscaler: AutoscalerOptions = AutoscalerOptions()

    @property
    def features(self) -> Features:
        """The gates that are on."""
        return Features(self.emulated_version, self.gates)

    def workers(self, component: str) -> int:
        """How many objects a component of `CONCURRENT` works on at the same time."""
        return self.concurrency.get(component, CONCURRENT[component][1])

    @property
    def plugin_node(self) -> str:
        """The node that has real drivers; "" where none has."""
        return (self.node or "node-1") if self.plugin_dirs is not None else ""
