"""The server's settings, read from flags.

kube-apiserver's flags keep their names and meaning; ours are listed after them. Every mistake is a SettingsError in one
line. This module opens only the files that flags name, and imports nothing heavy.
"""

from __future__ import annotations

import argparse
import ipaddress
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from apiserver.admission.plugins.registered import PluginSelection, conflicting, select
from apiserver.api.features.gates import FeatureError, Features, ReleaseError, parse_gates, parse_release
from apiserver.api.values.times import parse_time
from apiserver.authentication.authenticator import TokenFileError, read_tokens
from apiserver.authentication.settings import IdentitySettings
from apiserver.authentication.tokens.service_account_tokens import ISSUER
from apiserver.http.kubelet.settings import KubeletSettings
from apiserver.http.sinks.metric_filters import MetricSettings
from apiserver.options.admission import AdmissionSettings, read_admission
from apiserver.options.authentication import read_identity
from apiserver.options.authorization import AccessSettings, read_access
from apiserver.options.fairness import TrafficSettings, read_traffic
from apiserver.options.flags import SettingsError, parser
from apiserver.options.kubelet import read_kubelets
from apiserver.options.metrics import read_metrics
from apiserver.options.retention import Retention, parse_retention
from apiserver.options.service_network import NetworkSettings, read_network
from apiserver.options.tls import read_tls
from apiserver.options.tokens import TokenSettings, read_token_settings
from apiserver.options.tracing import TracingSettings, read_tracing
from apiserver.options.values import seconds, split_list
from apiserver.registry.catalog.served import parse_runtime_config
from apiserver.request.messages import User
from apiserver.runtime.virtual_loop import START
from apiserver.tls.settings import TlsSettings
from apiserver.webhooks.services import Services, parse_service_addresses
from kubedra import profiles

if TYPE_CHECKING:
    from apiserver.http.audit.policy import Policy

#: The admission plugin that gives pods their tokens. With open access tokens are not used, and pods should not have
#: to wait for accounts.
_NEEDS_TOKENS: Final = "ServiceAccount"
#: The node authorizer allows nodes to write all Nodes, pods and slices. The admission plugin restricts them
#: to their own objects. kubeadm enables it, too.
_NODE_AUTHORIZER: Final = "Node"
_RESTRICTS_NODES: Final = "NodeRestriction"
#: On other systems a forked process may not use all libraries.
_MAY_FORK: Final = sys.platform == "linux"
#: The components of emulated nodes: their kubelets, and the controller that removes the taint of a new node.
_NODE_COMPONENTS: Final = ("node-agent", "node-lifecycle-controller")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one server. `warnings` are printed once at start."""

    features: Features
    runtime_config: Mapping[str, str]
    tokens: Mapping[str, User] | None
    identity: IdentitySettings
    others: TokenSettings
    network: NetworkSettings
    access: AccessSettings
    admission: AdmissionSettings
    metrics: MetricSettings
    traffic: TrafficSettings
    kubelets: KubeletSettings
    #: None disables tracing.
    tracing: TracingSettings | None
    enable_plugins: tuple[str, ...]
    disable_plugins: tuple[str, ...]
    port: int
    bind_address: str
    #: Further hosts accepted in requests while access is open.
    accept_hosts: tuple[str, ...]
    data_dir: Path
    storage: str
    durability: str
    kubeconfig: Path
    tls_cert_file: Path | None
    tls_key_file: Path | None
    tls_own: bool
    tls_options: TlsSettings
    controllers: tuple[str, ...]
    #: Whether the components run in a child process.
    components_apart: bool
    scheduler_config: Path | None
    nodes: int
    devices: str
    profile: str
    storage_class: str
    #: Running time of the emulated containers of Jobs; None for no limit.
    jobs_exit_after: timedelta | None
    run: bool
    #: Whether the data of an earlier start are deleted first.
    fresh: bool
    #: The snapshot with the first objects, a path or a URL; "" for none.
    from_file: str
    #: Whether the server may be forked, which needs asyncio's own event loop.
    forks: bool
    cdi_dirs: tuple[Path, ...]
    plugin_dir: Path | None
    registry_dir: Path | None
    #: The history to keep; None for no compaction.
    retention: Retention | None
    event_ttl: float
    announce: bool
    attached: bool
    logging_format: str
    verbosity: int
    #: Start of virtual time; None for real time.
    clock: datetime | None = None
    #: Addresses of the services of webhooks.
    service_addresses: Services = field(default_factory=dict)
    seed: int | None = None
    warn_dropped_fields: bool = False
    request_log: str = ""
    coverage: bool = False
    #: All flags by name, for /flagz.
    flags: Mapping[str, str] = field(default_factory=dict)
    #: The audit policy; None disables the audit log.
    audit_policy: Policy | None = None
    audit_log: str = ""
    warnings: tuple[str, ...] = field(default=())

    @property
    def tls(self) -> bool:
        return self.tls_own or self.tls_cert_file is not None

    @property
    def memory(self) -> bool:
        """Whether data are only in memory."""
        return self.storage == "memory"


#: User and password of a URL, and a password among its options.
_CREDENTIALS: Final = re.compile(r"(?<=://)[^/?#\s]*@|(?<=[?&])(?:ssl)?password=[^&]*&?")


def _format_flag(value: Any) -> str:
    """Format a flag's value as Go prints it. Credentials are removed, since readers of /flagz may not see them."""
    if isinstance(value, list | tuple):
        return f"[{','.join(map(str, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else _CREDENTIALS.sub("", str(value))


def _audit_policy(file: Path | None) -> Policy | None:
    """Read the audit policy. Raise SettingsError."""
    if file is None:
        return None
    from apiserver.http.audit.policy import PolicyError, read_policy

    try:
        return read_policy(file)
    except PolicyError as error:
        raise SettingsError(f"--audit-policy-file {error}") from error


def read(arguments: Sequence[str]) -> Settings:
    """Parse the flags into settings. Raise SettingsError; `--help` exits."""
    args = parser().parse_args(arguments)
    try:
        features = Features(parse_release(args.emulated_version), parse_gates(",".join(args.feature_gates)))
        tokens = read_tokens(args.token_auth_file) if args.token_auth_file else None
    except FeatureError as error:
        flag = "--emulated-version" if isinstance(error, ReleaseError) else "--feature-gates"
        raise SettingsError(f"{flag}: {error}") from error
    except TokenFileError as error:
        raise SettingsError(str(error)) from error
    try:
        https = args.tls or args.tls_cert_file is not None
        identity, tls_options = read_identity(args, features, tls=https), read_tls(args, tls=https)
        network = read_network(args)
        access = read_access(args, features)
        admission = read_admission(args.admission_control_config_file, features)
        metrics, traffic, kubelets = read_metrics(args), read_traffic(args), read_kubelets(args)
        tracing = read_tracing(args)
        others = read_token_settings(args, features, identity.accounts.issuers or (ISSUER,))
        service_addresses = parse_service_addresses(args.service_address)
        interval = seconds("etcd-compaction-interval", args.etcd_compaction_interval)
        retention = parse_retention(args.history, interval)
        event_ttl = seconds("event-ttl", args.event_ttl)
        jobs = timedelta(seconds=seconds("jobs-exit-after", args.jobs_exit_after)) if args.jobs_exit_after else None
    except ValueError as error:
        raise SettingsError(str(error)) from error
    if tokens is None and (identity.certificates or others.any):
        tokens = {}  # requests without valid credentials are anonymous
    begun = _snapshot_header(args)
    _check(args, tokens)
    args.nodes = args.nodes or 0
    args.devices = "gpu.example.com" if args.devices is None else args.devices
    enable, disable = split_list(args.enable_admission_plugins), split_list(args.disable_admission_plugins)
    if tokens is None and _NEEDS_TOKENS not in enable + disable:
        disable += (_NEEDS_TOKENS,)
    if _NODE_AUTHORIZER in access.modes and _RESTRICTS_NODES not in enable + disable:
        enable += (_RESTRICTS_NODES,)
    selected = select(enable, disable)
    _check_plugins(selected, conflicting(enable, disable), admission)
    data_dir = args.data_dir.absolute()
    plugin_dir = args.plugin_dir.absolute() if args.plugin_dir else None
    return Settings(
        features=features,
        runtime_config=parse_runtime_config(",".join(args.runtime_config)),
        tokens=tokens,
        identity=identity,
        others=others,
        network=network,
        access=access,
        admission=admission,
        metrics=metrics,
        traffic=traffic,
        kubelets=kubelets,
        tracing=tracing,
        enable_plugins=enable,
        disable_plugins=disable,
        port=args.port,
        bind_address=args.bind_address,
        accept_hosts=split_list(args.accept_hosts),
        data_dir=data_dir,
        storage=args.storage,
        durability=args.durability,
        kubeconfig=args.kubeconfig.absolute() if args.kubeconfig else data_dir / "kubeconfig",
        tls_cert_file=args.tls_cert_file,
        tls_key_file=args.tls_private_key_file,
        tls_own=args.tls,
        tls_options=tls_options,
        controllers=_controllers(args),
        components_apart=_runs_child_process(args),
        scheduler_config=args.config.absolute() if args.config else None,
        nodes=args.nodes,
        devices=args.devices,
        profile=_profile(args.profile),
        storage_class="" if args.storage_class in (None, "none") else args.storage_class,
        jobs_exit_after=jobs,
        run=args.run,
        fresh=args.fresh,
        from_file=args.from_file,
        forks=args.forks,
        cdi_dirs=tuple(path.absolute() for path in args.cdi_dir),
        plugin_dir=plugin_dir,
        registry_dir=(args.registry_dir or plugin_dir / "registry").absolute() if plugin_dir else None,
        retention=retention,
        event_ttl=event_ttl,
        announce=args.announce,
        attached=args.attached,
        logging_format=args.logging_format,
        verbosity=args.v,
        clock=_clock(args.clock, begun),
        service_addresses=service_addresses,
        seed=args.seed,
        warn_dropped_fields=args.warn_dropped_fields,
        request_log=args.request_log,
        coverage=args.coverage,
        flags={name.replace("_", "-"): _format_flag(value) for name, value in vars(args).items()},
        audit_policy=_audit_policy(args.audit_policy_file),
        audit_log=args.audit_log_path,
        warnings=tuple(_warnings(args, features, selected.missing, admission.ignored_configurations)),
    )


def _controllers(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the names of --controllers; without the flag those that --nodes need."""
    if args.controllers is None:
        return _NODE_COMPONENTS if args.nodes else ()
    return split_list([args.controllers]) if args.controllers != "none" else ()


def _runs_child_process(args: argparse.Namespace) -> bool:
    """Return whether components get a child process: not with virtual time, a seed or forks, which need one loop."""
    one_loop = args.clock != "real" or args.seed is not None or args.forks
    return args.components_apart == "true" and _MAY_FORK and not one_loop


def _snapshot_header(args: argparse.Namespace) -> Mapping[str, Any]:
    """Return the header of the snapshot of --from, {} without one; its seed is the default. Raise SettingsError."""
    if not args.from_file:
        return {}
    from kubedra.archive.archive import ArchiveError, read_archive

    try:
        with read_archive(args.from_file, "snapshot") as archive:
            header: Mapping[str, Any] = archive.header
    except ArchiveError as error:
        raise SettingsError(f"--from: {error}") from error
    if args.seed is None:
        args.seed = header.get("seed")
    return header


def _clock(text: str, begun: Mapping[str, Any] = MappingProxyType({})) -> datetime | None:
    """Parse the start of virtual time, by default that of a snapshot; None for real time. Raise SettingsError."""
    kind, _, start = text.partition("=")
    if kind == "real" and text == kind:
        return None
    if kind != "virtual":
        raise SettingsError(f"--clock {text}: use real, virtual or virtual=TIME")
    try:
        return parse_time(start) if "=" in text else parse_time(begun["created"]) if begun else START
    except ValueError:
        raise SettingsError(f"--clock {text}: {start!r} is not a time; write it like 2026-01-01T00:00:00Z") from None


def _profile(profile: str) -> str:
    """Return the hardware profile of nodes. Raise SettingsError."""
    if not profile:
        return ""
    try:
        return profiles.annotation_value(profile)
    except OSError as error:
        raise SettingsError(f"--profile {profile}: {error.strerror}") from error
    except ValueError as error:
        text = str(error).removeprefix(f"no profile {profile!r}; ").removeprefix(f"{profile}: ")
        raise SettingsError(f"--profile {profile}: {text}") from error


def _check(args: Any, tokens: Mapping[str, User] | None) -> None:
    """Raise SettingsError for flags that contradict each other."""
    if not 0 <= args.port <= 65535:
        raise SettingsError(f"--port {args.port}: a port is between 0 and 65535")
    if args.registry_dir is not None and args.plugin_dir is None:
        raise SettingsError("--registry-dir: needs --plugin-dir")
    if args.plugin_dir is not None and not args.nodes:
        raise SettingsError("--plugin-dir: needs --nodes, or use kubedra up")
    if args.nodes is not None and args.nodes < 0:
        raise SettingsError(f"--nodes {args.nodes}: cannot be negative")
    for flag, hardware in (("--devices", args.devices), ("--profile", args.profile)):
        if args.nodes is None and hardware not in (None, "", "none"):
            raise SettingsError(f"{flag} {hardware} needs --nodes, or use kubedra up")
    if (args.tls_cert_file is None) != (args.tls_private_key_file is None):
        raise SettingsError("--tls-cert-file and --tls-private-key-file must be set together")
    for flag, file in (
        ("--tls-cert-file", args.tls_cert_file),
        ("--tls-private-key-file", args.tls_private_key_file),
    ):
        if file is not None and not file.is_file():
            raise SettingsError(f"{flag} {file}: no such file")
    if args.storage not in ("sqlite", "memory") and not args.storage.startswith(("postgresql://", "postgres://")):
        raise SettingsError(f"--storage {args.storage}: use sqlite, memory or a postgresql:// URL")
    if args.forks and (args.storage != "memory" or args.tls or args.tls_cert_file is not None or not _MAY_FORK):
        raise SettingsError("--forks: only with --storage memory, without https, and on Linux")
    if args.fresh and args.storage.startswith("postgres"):
        raise SettingsError("--fresh: only with --storage sqlite; create a new database instead")
    try:
        loopback = ipaddress.ip_address(args.bind_address).is_loopback
    except ValueError:
        raise SettingsError(f"--bind-address {args.bind_address}: not an IP address") from None
    if args.run and not loopback:
        raise SettingsError(
            f"--run with --bind-address {args.bind_address}: use a loopback address: pods run commands here"
        )
    if args.run and _clock(args.clock) is not None:
        raise SettingsError("--run with --clock virtual: processes follow the system's clock")
    if not loopback and tokens is None:
        raise SettingsError(
            f"--bind-address {args.bind_address}: access is open without --token-auth-file, so only loopback addresses"
            " may be served"
        )


def _check_plugins(selected: PluginSelection, both: Sequence[str], admission: AdmissionSettings) -> None:
    """Raise SettingsError for admission plugins that do not exist, are in both flags, or lack their configuration."""
    if selected.unknown:
        raise SettingsError(
            f"unknown admission plugin {', '.join(map(repr, selected.unknown))} in --enable-admission-plugins or"
            " --disable-admission-plugins"
        )
    if both:
        raise SettingsError(f"{', '.join(both)} in both --enable-admission-plugins and --disable-admission-plugins")
    if "EventRateLimit" in selected.on and not admission.event_limits:
        raise SettingsError(
            'couldn\'t init admission plugin "EventRateLimit": limits: Invalid value: null: must not be empty'
            " (set them with --admission-control-config-file)"
        )


def _warnings(
    args: argparse.Namespace, features: Features, missing: Sequence[str], ignored_configurations: Sequence[str]
) -> list[str]:
    """Return a warning for each flag without effect.

    `missing` are admission plugins that are not built, `ignored_configurations` those whose configuration is ignored.
    """
    found = [f"--feature-gates: {name} changes nothing in kubedra" for name in features.ignored]
    if missing:
        found.append(
            f"--enable-admission-plugins: {', '.join(missing)} is not built yet and does nothing (docs/fidelity.md)"
        )
    if ignored_configurations:
        found.append(
            f"--admission-control-config-file: {', '.join(ignored_configurations)} cannot be configured"
            " (docs/fidelity.md)"
        )
    if bool(args.audit_log_path) is not bool(args.audit_policy_file):
        found.append("the audit log needs both --audit-policy-file and --audit-log-path: nothing is written")
    return found
