"""Flags of `kubedra controllers`, named like kube-controller-manager's. Errors are one-line FlagErrors."""

from __future__ import annotations

import argparse
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
    Flags,
    OneLineParser,
    add_cluster,
    add_emulation,
    add_jobs_exit_after,
    read_address,
    read_cluster,
    read_duration,
    read_gates,
    read_jobs_exit_after,
    read_release,
)
from controllers.options.names import ALIASES, CONCURRENT
from controllers.options.options import AutoscalerOptions, NodeLifecycleOptions, Options
from controllers.scheduler.config.process import ProcessSettings
from controllers.signing.options import add_flags as add_signing
from controllers.signing.options import read_signing
from kubedra.command.arguments import program
from kubedra.kubeconfig.reader import KubeconfigError
from kubedra.runtime.failures import describe_failure
from kubedra.runtime.user_settings import source_of

if TYPE_CHECKING:
    from controllers.scheduler.config.configuration import Configuration

#: Default of kube-scheduler.
_BURST = 100
#: The flags of `--help`.
_COMMON = (
    "--server", "--kubeconfig", "--token", "--controllers", "--nodes", "--devices", "--config", "--feature-gates",
    "--emulated-version", "--leader-elect", "--healthz-bind-address", "-v",
)  # fmt: skip
_DESCRIPTION = "Run controllers and scheduler against any Kubernetes API server."
_EPILOG = f"""\
components: {", ".join(COMPONENTS)}
aliases: {", ".join(f"{alias} ({name})" for alias, name in ALIASES.items())}

Several instances may run at the same time. The holder of the lease works, the others stand by.

  kubedra controllers --kubeconfig ~/.kube/config --controllers=scheduler,resourceclaim-controller
  kubedra controllers --server http://127.0.0.1:8001 --controllers='*,-node-agent'
"""


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog=program("python -m controllers"),
        common=_COMMON,
        all_settings=True,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_cluster(parser, required=False)
    _add_rate_limit(parser.add_argument_group("client rate limit"))
    _add_components(parser.add_argument_group("components"))
    _add_node_lifecycle(parser.add_argument_group("node lifecycle"))
    _add_autoscaler(parser.add_argument_group("autoscaling"))
    add_signing(parser.add_argument_group("certificate signing"))
    concurrent = parser.add_argument_group("concurrent reconciles per controller")
    for flag, default in CONCURRENT.values():
        concurrent.add_argument(f"--{flag}", type=int, default=default, metavar="N", help=f"default {default}")
    add_election(parser.add_argument_group("leader election"))
    return parser


def _add_rate_limit(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--kube-api-qps", type=float, default=None, metavar="N", help="requests per second (default: unlimited)")
    add("--kube-api-burst", type=int, default=None, metavar="N", help=f"burst above the rate (default {_BURST})")


def _add_components(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--controllers",
        default="*",
        metavar="LIST",
        help="comma-separated: '*' for all (default), NAME to enable, -NAME to disable",
    )
    add_emulation(group)
    add(
        "--nodes",
        type=int,
        metavar="N",
        help="emulated nodes to create at start (default 0; needs node-agent)",
    )
    add(
        "--devices",
        metavar="DRIVER|none",
        help="driver of the 8 GPUs on each emulated node (default gpu.example.com)",
    )
    add(
        "--storage-class",
        default="",
        metavar="NAME",
        help="create this default StorageClass; its volumes are emulated (default none)",
    )
    add_jobs_exit_after(group)
    add("--seed", type=int, default=None, metavar="N", help="seed for random choices")
    add("--config", type=Path, metavar="FILE", help="KubeSchedulerConfiguration of the scheduler")
    add(
        "--healthz-bind-address",
        default="",
        metavar="IP:PORT",
        help="serve /healthz, /livez, /readyz and /metrics on this address (default: none)",
    )
    add("-v", "--verbose", action="count", default=0, help="log at info level; -vv for debug")
    add(
        "--terminated-pod-gc-threshold",
        type=int,
        default=12500,
        metavar="N",
        help="terminated pods to keep; the oldest are deleted first; 0 for no limit (default 12500)",
    )
    add(
        "--legacy-service-account-token-clean-up-period",
        default="8760h",
        metavar="DURATION",
        help="time until an unused generated Secret with a service account token is invalid (default 8760h)",
    )
    add(
        "--max-endpoints-per-slice",
        type=int,
        default=100,
        metavar="N",
        help="maximum endpoints per slice (default 100)",
    )


def _add_node_lifecycle(group: argparse._ArgumentGroup) -> None:
    for flag, default, text in (
        ("monitor-grace-period", "50s", "time without heartbeat until a node is Unknown"),
        ("startup-grace-period", "60s", "the same for a node without any heartbeat yet"),
    ):
        group.add_argument(f"--node-{flag}", default=default, metavar="DURATION", help=f"{text} (default {default})")
    limits = NodeLifecycleOptions()
    for flag, rate, text in (
        ("node-eviction-rate", limits.eviction_rate, "nodes tainted with NoExecute per second"),
        ("secondary-node-eviction-rate", limits.secondary_eviction_rate, "the same in large, unhealthy zones"),
        ("unhealthy-zone-threshold", limits.unhealthy_zone_threshold, "share of unready nodes in an unhealthy zone"),
    ):
        group.add_argument(f"--{flag}", type=float, default=rate, metavar="N", help=f"{text} (default {rate})")
    size = limits.large_cluster_size_threshold
    group.add_argument(
        "--large-cluster-size-threshold",
        type=int,
        default=size,
        metavar="N",
        help=f"zones of at most N nodes are small: no NoExecute taints while unhealthy (default {size})",
    )


_AUTOSCALER = (
    ("sync-period", "15s", "time between two syncs of an autoscaler"),
    ("downscale-stabilization", "5m", "scale down to the highest recommendation of this window"),
    ("cpu-initialization-period", "5m", "after a pod's start: ignore its cpu usage while it is unready"),
    ("initial-readiness-delay", "30s", "after a pod's start: the same if it was never ready"),
)


def _add_autoscaler(group: argparse._ArgumentGroup) -> None:
    for flag, default, text in _AUTOSCALER:
        name = f"--horizontal-pod-autoscaler-{flag}"
        group.add_argument(name, default=default, metavar="DURATION", help=f"{text} (default {default})")
    group.add_argument(
        "--horizontal-pod-autoscaler-tolerance",
        type=float,
        default=0.1,
        metavar="SHARE",
        help="deviation from the target without scaling, as a share (default 0.1)",
    )


def _autoscaler(args: argparse.Namespace) -> AutoscalerOptions:
    """Parse the autoscaler flags. Raise FlagError."""
    prefix = "horizontal-pod-autoscaler-"
    sync, stabilization, cpu, readiness = (
        read_duration(f"--{prefix}{flag}", getattr(args, f"{prefix}{flag}".replace("-", "_")))
        for flag, *_ in _AUTOSCALER
    )
    if sync <= timedelta():
        raise FlagError(f"--{prefix}sync-period: must be greater than 0")
    return AutoscalerOptions(
        sync_period=sync,
        downscale_stabilization=stabilization,
        tolerance=args.horizontal_pod_autoscaler_tolerance,
        cpu_initialization=cpu,
        initial_readiness=readiness,
    )


def _node_lifecycle(args: argparse.Namespace) -> NodeLifecycleOptions:
    """Parse the node lifecycle flags. Raise FlagError."""
    return NodeLifecycleOptions(
        monitor_grace=read_duration("--node-monitor-grace-period", args.node_monitor_grace_period),
        startup_grace=read_duration("--node-startup-grace-period", args.node_startup_grace_period),
        eviction_rate=args.node_eviction_rate,
        secondary_eviction_rate=args.secondary_node_eviction_rate,
        unhealthy_zone_threshold=args.unhealthy_zone_threshold,
        large_cluster_size_threshold=args.large_cluster_size_threshold,
    )


def read(arguments: Sequence[str] | None) -> Flags:
    """Parse the command line. Raise FlagError; `--help` exits."""
    args = _parser().parse_args(arguments)
    host = socket.gethostname()
    try:
        names = tuple(choose([name.strip() for name in args.controllers.split(",") if name.strip()]))
        if not names:
            raise FlagError(f'--controllers: "{args.controllers}" selects no controllers')
        _check_nodes(args, names)
        options = Options(
            host=host,
            seed=args.seed,
            gates=read_gates(args.feature_gates),
            emulated_version=read_release(args.emulated_version),
            nodes=args.nodes or 0,
            devices="gpu.example.com" if args.devices is None else args.devices,
            node_lifecycle=_node_lifecycle(args),
            autoscaler=_autoscaler(args),
            max_endpoints_per_slice=args.max_endpoints_per_slice,
            terminated_pod_gc_threshold=args.terminated_pod_gc_threshold,
            legacy_token_clean_up=_legacy_token_clean_up(args),
            concurrency=_concurrency(args),
            storage_class=args.storage_class,
            jobs_exit_after=read_jobs_exit_after(args),
            signing=read_signing(args),
        )
        # Validate the gates before anything runs.
        _ = options.features
        if args.config is not None:
            options = replace(options, scheduler=_scheduler(args.config, names, options))
        process = (options.scheduler.process if options.scheduler else None) or ProcessSettings()
        if not args.server and not args.kubeconfig:
            if not process.kubeconfig:
                raise FlagError("one of the arguments --server --kubeconfig is required")
            args.kubeconfig = Path(process.kubeconfig)
        target = read_cluster(args)
        return Flags(
            cluster=target,
            options=replace(options, root_ca=target.authority.decode()),
            names=names,
            rate_limit=_rate_limit(args, process),
            election=read_election(args, names, host, process.election),
            health=read_address(args.healthz_bind_address),
            verbosity=args.verbose,
            is_release_set=bool(args.emulated_version),
            scheduler_config=args.config,
        )
    except (UnknownComponentError, KubeconfigError, ValueError, OSError) as error:
        raise FlagError(source_of(" ".join(str(error).split()))) from error


def _check_nodes(args: argparse.Namespace, names: Sequence[str]) -> None:
    """Raise FlagError for invalid --nodes and --devices."""
    if args.nodes is None:
        if args.devices not in (None, "", "none"):
            raise FlagError(f"--devices {args.devices}: needs --nodes")
    elif args.nodes < 0:
        raise FlagError(f"--nodes {args.nodes}: cannot be negative")
    elif args.nodes and "node-agent" not in names:
        raise FlagError(f"--nodes {args.nodes}: needs node-agent, add it to --controllers")


def _legacy_token_clean_up(args: argparse.Namespace) -> timedelta:
    """Return the time after which unused Secrets with tokens are invalidated. Raise FlagError."""
    flag = "--legacy-service-account-token-clean-up-period"
    period = read_duration(flag, args.legacy_service_account_token_clean_up_period)
    if period <= timedelta():
        raise FlagError(f"{flag}: must be greater than 0")
    return period


def _concurrency(args: argparse.Namespace) -> dict[str, int]:
    """Return the concurrent reconciles per component. Raise FlagError."""
    found = {}
    for component, (flag, _) in CONCURRENT.items():
        found[component] = getattr(args, flag.replace("-", "_"))
        if found[component] < 1:
            raise FlagError(f"--{flag} {found[component]}: must be greater than 0")
    return found


def _rate_limit(args: argparse.Namespace, process: ProcessSettings) -> tuple[float, int] | None:
    """Return the requests per second and the burst; None for no limit. Raise FlagError."""
    if args.kube_api_burst is not None and args.kube_api_burst < 0:
        raise FlagError(f"--kube-api-burst {args.kube_api_burst}: cannot be negative")
    qps = process.qps if args.kube_api_qps is None else args.kube_api_qps
    burst = process.burst if args.kube_api_burst is None else args.kube_api_burst
    return (qps, burst or _BURST) if qps > 0 else None


def _scheduler(path: Path, names: Sequence[str], options: Options) -> Configuration:
    """Load the scheduler's configuration. Raise FlagError."""
    from controllers.scheduler.cycle.profiles import load

    if "scheduler" not in names:
        raise FlagError("--config: needs the scheduler, add it to --controllers")
    try:
        return load(path, options.features.enabled)
    except (ValueError, OSError) as error:
        text = f"{path}: {describe_failure(error)}" if isinstance(error, OSError) else str(error)
        raise FlagError(f"--config: {text}") from error
