"""The flags of `kubedra controllers`: kube-controller-manager's where it has one. Every mistake is a FlagError in one
line.
"""

from __future__ import annotations

import argparse
import os
import socket
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from controllers.manager.election_flags import add_election, read_election
from controllers.manager.manager import COMPONENTS, UnknownComponentError, choose
from controllers.options.command_line import (
    FlagError,
    Given,
    OneLineParser,
    add_cluster,
    address,
    cluster,
    duration,
    gates,
    release,
)
from controllers.options.names import ALIASES, CONCURRENT
from controllers.options.options import AutoscalerOptions, NodeLifecycleOptions, Options
from controllers.scheduler.config.process import ProcessSettings
from controllers.signing.options import add_flags as add_signing
from controllers.signing.options import read_signing
from kubedra.kubeconfig.reader import KubeconfigError

if TYPE_CHECKING:
    from controllers.scheduler.config.configuration import Configuration

#: kube-scheduler's.
_BURST = 100
_DESCRIPTION = "Controllers and scheduler alone, against any Kubernetes API server."
_EPILOG = f"""\
components: {", ".join(COMPONENTS)}
other names: {", ".join(f"{alias} ({name})" for alias, name in ALIASES.items())}

Several instances may run at once: the one that holds the lease works, the others stand by.

  kubedra controllers --kubeconfig ~/.kube/config --controllers=scheduler,resourceclaim-controller
  kubedra controllers --server http://127.0.0.1:8001 --controllers='*,-node-agent'
"""


def _parser() -> argparse.ArgumentParser:
    prog = os.environ.get("KUBEDRA_PROG", "python -m controllers")
    parser = OneLineParser(
        prog=prog,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_cluster(parser, required=False)
    _add_pace(parser.add_argument_group("requests, as kube-controller-manager's"))
    _add_what(parser.add_argument_group("what"))
    _add_node_lifecycle(parser.add_argument_group("node lifecycle, as kube-controller-manager's"))
    _add_autoscaler(parser.add_argument_group("autoscaling, as kube-controller-manager's"))
    add_signing(parser.add_argument_group("certificates, as kube-controller-manager's"))
    concurrent = parser.add_argument_group("how many objects a controller works on at the same time")
    for flag, default in CONCURRENT.values():
        concurrent.add_argument(f"--{flag}", type=int, default=default, metavar="N", help=f"default {default}")
    add_election(parser.add_argument_group("leader election, as kube-controller-manager's"))
    return parser


def _add_pace(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--kube-api-qps", type=float, default=None, metavar="N", help="at most so many a second (default: any number)")
    add("--kube-api-burst", type=int, default=None, metavar="N", help=f"of them at once (default {_BURST})")


def _add_what(group: argparse._ArgumentGroup) -> None:
    """Which components run, and what they are told."""
    add = group.add_argument
    add(
        "--controllers",
        default="*",
        metavar="LIST",
        help="comma-separated: '*' for all (the default), NAME to add, -NAME to leave out",
    )
    add("--feature-gates", default="", metavar="NAME=true,…", help="as kube-scheduler's")
    add("--emulated-version", default="1.36", metavar="X.Y", help="the release to behave like (default 1.36)")
    add(
        "--nodes",
        type=int,
        metavar="N",
        help="emulated nodes to begin with, with the node-agent (default none)",
    )
    add(
        "--devices",
        metavar="DRIVER|none",
        help="what each of them publishes: 8 GPUs of this driver, or none (default gpu.example.com)",
    )
    add(
        "--storage-class",
        default="",
        metavar="NAME",
        help="a default StorageClass whose volumes the volume-provisioner emulates (default none)",
    )
    add("--seed", type=int, default=None, metavar="N", help="makes free choices repeatable")
    add(
        "--config", type=Path, metavar="FILE", help="the scheduler's: a KubeSchedulerConfiguration, as kube-scheduler's"
    )
    add(
        "--healthz-bind-address",
        default="",
        metavar="IP:PORT",
        help="answer /healthz, /livez and /readyz there (default: nowhere)",
    )
    add("-v", "--verbose", action="count", default=0, help="say more; twice: everything")
    add(
        "--terminated-pod-gc-threshold",
        type=int,
        default=12500,
        metavar="N",
        help="pods that ended and may stay before the oldest are deleted; 0: any number (default 12500)",
    )
    add("--max-endpoints-per-slice", type=int, default=100, metavar="N", help="of an EndpointSlice (default 100)")


def _add_node_lifecycle(group: argparse._ArgumentGroup) -> None:
    for flag, default, what in (
        ("monitor-grace-period", "50s", "after which a node that is not heard of is Unknown"),
        ("startup-grace-period", "60s", "the same for a node that never reported"),
    ):
        group.add_argument(f"--node-{flag}", default=default, metavar="DURATION", help=f"{what} (default {default})")
    limits = NodeLifecycleOptions()
    for flag, rate, what in (
        ("node-eviction-rate", limits.eviction_rate, "nodes per second that get NoExecute taints"),
        ("secondary-node-eviction-rate", limits.secondary_eviction_rate, "the same in an unhealthy, large zone"),
        ("unhealthy-zone-threshold", limits.unhealthy_zone_threshold, "share of unready nodes that makes a zone so"),
    ):
        group.add_argument(f"--{flag}", type=float, default=rate, metavar="N", help=f"{what} (default {rate})")
    size = limits.large_cluster_size_threshold
    group.add_argument(
        "--large-cluster-size-threshold",
        type=int,
        default=size,
        metavar="N",
        help=f"nodes up to which a zone is small: unhealthy ones get no NoExecute taints (default {size})",
    )


_AUTOSCALER = (
    ("sync-period", "15s", "how often autoscalers are looked at"),
    ("downscale-stabilization", "5m", "how long higher wishes are remembered before one scales down"),
    ("cpu-initialization-period", "5m", "after a pod's start: while it is not ready, its use of cpu does not count"),
    ("initial-readiness-delay", "30s", "after a pod's start: the same where it was never ready"),
)


def _add_autoscaler(group: argparse._ArgumentGroup) -> None:
    for flag, default, what in _AUTOSCALER:
        name = f"--horizontal-pod-autoscaler-{flag}"
        group.add_argument(name, default=default, metavar="DURATION", help=f"{what} (default {default})")
    group.add_argument(
        "--horizontal-pod-autoscaler-tolerance",
        type=float,
        default=0.1,
        metavar="SHARE",
        help="how far a metric may be off before one scales (default 0.1)",
    )


def _autoscaler(given: argparse.Namespace) -> AutoscalerOptions:
    """Raises FlagError."""
    prefix = "horizontal-pod-autoscaler-"
    sync, stabilization, cpu, readiness = (
        duration(f"--{prefix}{flag}", getattr(given, f"{prefix}{flag}".replace("-", "_"))) for flag, *_ in _AUTOSCALER
    )
    if sync <= timedelta():
        raise FlagError(f"--{prefix}sync-period: must be more than 0")
    return AutoscalerOptions(
        sync_period=sync,
        downscale_stabilization=stabilization,
        tolerance=given.horizontal_pod_autoscaler_tolerance,
        cpu_initialization=cpu,
        initial_readiness=readiness,
    )


def _node_lifecycle(given: argparse.Namespace) -> NodeLifecycleOptions:
    """Raises FlagError."""
    return NodeLifecycleOptions(
        monitor_grace=duration("--node-monitor-grace-period", given.node_monitor_grace_period),
        startup_grace=duration("--node-startup-grace-period", given.node_startup_grace_period),
        eviction_rate=given.node_eviction_rate,
        secondary_eviction_rate=given.secondary_node_eviction_rate,
        unhealthy_zone_threshold=given.unhealthy_zone_threshold,
        large_cluster_size_threshold=given.large_cluster_size_threshold,
    )


def read(arguments: Sequence[str] | None) -> Given:
    """What the flags say. Raises FlagError; `--help` exits."""
    given = _parser().parse_args(arguments)
    host = socket.gethostname()
    try:
        names = tuple(choose([name.strip() for name in given.controllers.split(",") if name.strip()]))
        if not names:
            raise FlagError(f'--controllers: "{given.controllers}" leaves none to run')
        _check_nodes(given, names)
        options = Options(
            host=host,
            seed=given.seed,
            gates=gates(given.feature_gates),
            emulated_version=release(given.emulated_version),
            nodes=given.nodes or 0,
            devices="gpu.example.com" if given.devices is None else given.devices,
            node_lifecycle=_node_lifecycle(given),
            autoscaler=_autoscaler(given),
            max_endpoints_per_slice=given.max_endpoints_per_slice,
            terminated_pod_gc_threshold=given.terminated_pod_gc_threshold,
            concurrency=_concurrency(given),
            storage_class=given.storage_class,
            signing=read_signing(given),
        )
        # A gate that cannot be so is named before anything runs.
        _ = options.features
        if given.config is not None:
            options = replace(options, scheduler=_scheduler(given.config, names, options))
        process = (options.scheduler.process if options.scheduler else None) or ProcessSettings()
        if not given.server and not given.kubeconfig:
            if not process.kubeconfig:
                raise FlagError("one of the arguments --server --kubeconfig is required")
            given.kubeconfig = Path(process.kubeconfig)
        reached = cluster(given)
        return Given(
            cluster=reached,
            options=replace(options, root_ca=reached.authority.decode()),
            names=names,
            pace=_pace(given, process),
            election=read_election(given, names, host, process.election),
            health=address(given.healthz_bind_address),
            verbosity=given.verbose,
        )
    except (UnknownComponentError, KubeconfigError, ValueError, OSError) as error:
        raise FlagError(" ".join(str(error).split())) from error


def _check_nodes(given: argparse.Namespace, names: Sequence[str]) -> None:
    """Raises FlagError."""
    if given.nodes is None:
        if given.devices not in (None, "", "none"):
            raise FlagError(f"--devices {given.devices} is what each of --nodes publishes: give --nodes")
    elif given.nodes < 0:
        raise FlagError(f"--nodes {given.nodes}: cannot be negative")
    elif given.nodes and "node-agent" not in names:
        raise FlagError(f"--nodes {given.nodes}: choose node-agent with --controllers, which runs them")


def _concurrency(given: argparse.Namespace) -> dict[str, int]:
    """How many objects each component works on. Raises FlagError."""
    found = {}
    for component, (flag, _) in CONCURRENT.items():
        found[component] = getattr(given, flag.replace("-", "_"))
        if found[component] < 1:
            raise FlagError(f"--{flag} {found[component]}: must be greater than 0")
    return found


def _pace(given: argparse.Namespace, process: ProcessSettings) -> tuple[float, int] | None:
    """Requests per second and how many of them at once; None: as many as there are. Raises FlagError."""
    if given.kube_api_burst is not None and given.kube_api_burst < 0:
        raise FlagError(f"--kube-api-burst {given.kube_api_burst}: cannot be negative")
    qps = process.qps if given.kube_api_qps is None else given.kube_api_qps
    burst = process.burst if given.kube_api_burst is None else given.kube_api_burst
    return (qps, burst or _BURST) if qps > 0 else None


def _scheduler(path: Path, names: Sequence[str], options: Options) -> Configuration:
    """The scheduler's configuration. Raises FlagError."""
    from controllers.scheduler.cycle.profiles import load

    if "scheduler" not in names:
        raise FlagError("--config is the scheduler's: choose it with --controllers")
    try:
        return load(path, options.features.enabled)
    except (ValueError, OSError) as error:
        raise FlagError(f"--config: {error}") from error
