"""Options of all components, in one frozen record for every way of starting them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from apiserver.api.features.gates import Features
from controllers.options.crash_points import CrashPoints
from controllers.options.names import CONCURRENT
from controllers.signing.options import SigningOptions

if TYPE_CHECKING:
    from controllers.scheduler.config.configuration import Configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginDirs:
    """Directories of a node with real drivers: `plugins` for the kubelet's files, `registry` for driver sockets."""

    plugins: Path
    registry: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLifecycleOptions:
    """Grace periods before a node is Unknown, and rate limits for tainting nodes so that their pods are evicted.

    Rates are in nodes per second. The secondary rate applies to zones of more than `large_cluster_size_threshold`
    nodes if at least the share `unhealthy_zone_threshold` of them is not ready.
    """

    monitor_grace: timedelta = timedelta(seconds=50)
    startup_grace: timedelta = timedelta(seconds=60)
    eviction_rate: float = 0.1
    secondary_eviction_rate: float = 0.01
    unhealthy_zone_threshold: float = 0.55
    large_cluster_size_threshold: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerOptions:
    """Sync period of the HorizontalPodAutoscaler controller, and defaults for fields that an autoscaler leaves empty.

    `tolerance` is a share of the target. During `cpu_initialization` and `initial_readiness` an unready pod counts as
    starting.
    """

    sync_period: timedelta = timedelta(seconds=15)
    downscale_stabilization: timedelta = timedelta(minutes=5)
    tolerance: float = 0.1
    cpu_initialization: timedelta = timedelta(minutes=5)
    initial_readiness: timedelta = timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """Settings for containers that run as local processes.

    `directory` holds their files. `announcements` tells an API server of this process how to reach them; None for a
    kubelet in a process of its own, whose Node does. `cdi` lists directories of CDI files, in increasing priority.
    """

    directory: Path
    announcements: Path | None = None
    cdi: tuple[Path, ...] = ()

    @staticmethod
    def cdi_of(plugins: Path | None, more: Iterable[Path]) -> tuple[Path, ...]:
        """Return the default CDI directories, the one of a node's drivers, and further ones."""
        return (Path("/etc/cdi"), Path("/var/run/cdi"), *((plugins / "cdi",) if plugins else ()), *more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of all components.

    Attributes:
        host: Hostname in events and leases.
        seed: Makes random choices (equal nodes, generated suffixes) repeatable.
        gates: Explicitly set feature gates, on top of those of the emulated release.
        nodes: Number of emulated nodes created at start.
        devices: Driver of the example GPUs on each node; "none" for no devices and no class.
        devices_per_node: Number of these GPUs per node.
        profile: Hardware profile of the nodes, instead of the example GPUs.
        plugin_dirs: Directories for real drivers, on `node` or the first emulated node.
        node: If set, the node agent is the kubelet of this one node only.
        storage_class: Default StorageClass of the emulated provisioner, created at start; "" for none.
        run: If set, containers with a command run as processes.
        jobs_exit_after: Running time of emulated containers of Jobs; None for no limit.
        sync_frequency: How often a kubelet retries blocked pods.
        crash_points: Kills the kubelet of `node` at a point of claim handling.
    """

    nodes: int = 0
    devices: str = "none"
    devices_per_node: int = 8
    profile: str = ""
    node: str = ""
    plugin_dirs: PluginDirs | None = None
    storage_class: str = ""
    run: Processes | None = None
    jobs_exit_after: timedelta | None = None
    sync_frequency: timedelta = timedelta(seconds=60)
    crash_points: CrashPoints | None = None
    root_ca: str = ""
    """CA certificates of the API server in PEM; "" without TLS."""

    signing: SigningOptions = field(default_factory=SigningOptions)
    host: str = "kubedra"
    seed: int | None = None
    emulated_version: tuple[int, int] = (1, 36)
    gates: Mapping[str, bool] = field(default_factory=dict)
    scheduler: Configuration | None = None
    """None for upstream's defaults."""
    concurrency: Mapping[str, int] = field(default_factory=dict)
    """Concurrent reconciles per component, where they differ from the default."""

    terminated_pod_gc_threshold: int = 12500
    """Terminated pods kept before the pod garbage collector deletes the oldest; 0 for no limit."""

    legacy_token_clean_up: timedelta = timedelta(days=365)
    """How long a generated Secret with a service account token may be unused."""

    max_endpoints_per_slice: int = 100
    node_lifecycle: NodeLifecycleOptions = NodeLifecycleOptions()
    autoscaler: AutoscalerOptions = AutoscalerOptions()

    @property
    def features(self) -> Features:
        """The enabled feature gates."""
        return Features(self.emulated_version, self.gates)

    def workers(self, component: str) -> int:
        """Return the number of concurrent reconciles of a component in `CONCURRENT`."""
        return self.concurrency.get(component, CONCURRENT[component][1])

    @property
    def plugin_node(self) -> str:
        """The node with real drivers; "" for none."""
        return (self.node or "node-1") if self.plugin_dirs is not None else ""
