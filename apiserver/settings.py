"""The server's settings, read from flags. kube-apiserver's flags keep their names and meaning; ours are listed after
them.

Every mistake is a SettingsError in one line. Nothing here opens a file but the token file, or imports anything heavy.
"""

from __future__ import annotations

import argparse
import ipaddress
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from apiserver.admission.plugins import BUILT, conflicting, select
from apiserver.api.durations import parse_duration
from apiserver.api.features import FeatureError, Features, ReleaseError, parse_gates, parse_release
from apiserver.api.times import parse_time
from apiserver.authorization.authorizer import MODES, UNBUILT
from apiserver.http.handlers.authenticator import TokenFileError, read_tokens
from apiserver.logs import FORMATS
from apiserver.messages import User
from apiserver.serving import parse_runtime_config
from apiserver.virtualloop import START
from kubedra import profiles


class SettingsError(ValueError):
    """A flag that cannot be followed, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What one server is told. `warnings` are printed once at start."""

    features: Features
    runtime_config: Mapping[str, str]
    tokens: Mapping[str, User] | None
    authorization_modes: tuple[str, ...]
    enable_plugins: tuple[str, ...]
    disable_plugins: tuple[str, ...]
    port: int
    bind_address: str
    #: Hosts besides this machine's for which requests are taken while access is open.
    accept_hosts: tuple[str, ...]
    data_dir: Path
    storage: str
    durability: str
    kubeconfig: Path
    tls_cert_file: Path | None
    tls_key_file: Path | None
    tls_own: bool
    controllers: tuple[str, ...]
    scheduler_config: Path | None
    nodes: int
    devices: str
    profile: str
    plugin_dir: Path | None
    registry_dir: Path | None
    compaction_interval: float
    announce: bool
    attached: bool
    logging_format: str
    verbosity: int
    #: When virtual time begins; None for real time.
    clock: datetime | None = None
    seed: int | None = None
    warn_dropped_fields: bool = False
    request_log: str = ""
    warnings: tuple[str, ...] = field(default=())

    @property
    def tls(self) -> bool:
        return self.tls_own or self.tls_cert_file is not None

    @property
    def memory(self) -> bool:
        """Whether nothing is kept."""
        return self.storage == "memory"


_EPILOG = """\
`kubedra serve` is the API server alone; `kubedra up` adds --controllers=* --nodes=2 --devices=gpu.example.com,
and flags given after it win. Both take --detach: they go to the background when all is ready, for
`kubedra status`, `kubedra logs` and `kubedra down`.

  kubedra up --detach --port=0 --storage=memory
  kubedra serve --emulated-version=1.34 --feature-gates=DRAPartitionableDevices=true
  kubedra serve --runtime-config=api/all=true --token-auth-file=tokens.csv --authorization-mode=Node,RBAC --tls
"""


class _Parser(argparse.ArgumentParser):
    """argparse whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        raise SettingsError(message)


def parser() -> argparse.ArgumentParser:
    """The flags, in two groups: kube-apiserver's and our own."""
    prog = os.environ.get("KUBEDRA_PROG", "python -m apiserver")
    # `kubedra up` gives these flags itself, before the user's.
    controllers, nodes = ("*", "2") if prog == "kubedra up" else ("none", "0")
    flags = _Parser(
        prog=prog,
        description="A Kubernetes API server for Dynamic Resource Allocation.",
        epilog=_EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kube = flags.add_argument_group("as kube-apiserver's")
    kube.add_argument(
        "--emulated-version",
        default="1.36",
        metavar="X.Y",
        help="the release to behave like: 1.33 to 1.36 (default 1.36)",
    )
    kube.add_argument(
        "--feature-gates",
        action="append",
        default=[],
        metavar="NAME=true,…",
        help="gates on top of the release's defaults",
    )
    kube.add_argument(
        "--runtime-config",
        action="append",
        default=[],
        metavar="KEY=true,…",
        help="served versions: api/all, GROUP/VERSION, GROUP/VERSION/RESOURCE",
    )
    kube.add_argument(
        "--token-auth-file",
        type=Path,
        metavar="FILE",
        help='lines of token,user,uid,"groups"; without it access is open, on loopback only',
    )
    kube.add_argument(
        "--authorization-mode", default="", metavar="MODES", help=f"of {', '.join(MODES)} (default AlwaysAllow)"
    )
    kube.add_argument(
        "--enable-admission-plugins", action="append", default=[], metavar="NAMES",
        help=f"plugins besides the default ones; built are {', '.join(sorted(BUILT))}",
    )  # fmt: skip
    kube.add_argument(
        "--disable-admission-plugins", action="append", default=[], metavar="NAMES", help="default plugins to leave out"
    )
    kube.add_argument("--tls-cert-file", type=Path, metavar="FILE", help="serve https with this certificate")
    kube.add_argument("--tls-private-key-file", type=Path, metavar="FILE", help="its key")
    kube.add_argument("--bind-address", default="127.0.0.1", metavar="IP", help="where to listen (default 127.0.0.1)")
    kube.add_argument(
        "--etcd-compaction-interval",
        default="5m",
        metavar="DURATION",
        help="history older than this is dropped, 0 keeps all (default 5m)",
    )
    kube.add_argument(
        "--logging-format", choices=FORMATS, default="text", help="a log record is a line of text (default) or of JSON"
    )
    kube.add_argument("-v", dest="verbosity", action="count", default=0, help="log more; -vv everything")
    own = flags.add_argument_group("kubedra's own")
    own.add_argument(
        "--accept-hosts",
        action="append",
        default=[],
        metavar="NAME,…",
        help="where access is open: further hosts to serve, * for any (default: this machine's names and addresses)",
    )
    own.add_argument("--port", type=int, default=8001, metavar="N", help="0 takes any free port (default 8001)")
    own.add_argument(
        "--tls", action="store_true", help="serve https with a certificate of its own, which the kubeconfig trusts"
    )
    own.add_argument(
        "--data-dir",
        type=Path,
        default=Path(".kubedra"),
        metavar="DIR",
        help="where everything is kept (default .kubedra)",
    )
    own.add_argument(
        "--storage",
        default="sqlite",
        metavar="sqlite|memory|URL",
        help="a file in the data directory, nothing, or postgresql://… (default sqlite)",
    )
    own.add_argument(
        "--durability",
        choices=("full", "normal", "off"),
        default="full",
        help="when a write is answered: after a synced commit (full, the default)",
    )
    own.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="where to write one (default kubeconfig in the data directory)"
    )
    own.add_argument(
        "--controllers",
        default="",
        metavar="NAMES",
        help=f"components to run in this process: *, NAME, -NAME (default {controllers})",
    )
    own.add_argument(
        "--config", type=Path, metavar="FILE", help="the scheduler's, among --controllers: a KubeSchedulerConfiguration"
    )
    own.add_argument(
        "--nodes", type=int, default=0, metavar="N", help=f"emulated nodes to begin with (default {nodes})"
    )
    own.add_argument(
        "--devices",
        default="gpu.example.com",
        metavar="DRIVER|none",
        help="what each of them publishes: 8 GPUs of this driver, or none",
    )
    own.add_argument(
        "--profile", default="", metavar="NAME", help="in place of --devices: hardware that `kubedra profiles` lists"
    )
    own.add_argument(
        "--plugin-dir",
        type=Path,
        metavar="DIR",
        help="the first node has real drivers, and the kubelet's files there",
    )
    own.add_argument(
        "--registry-dir",
        type=Path,
        metavar="DIR",
        help="where drivers announce themselves (default: registry in the plugin directory)",
    )
    own.add_argument(
        "--warn-dropped-fields",
        action="store_true",
        help="tell whoever writes a field that a disabled feature gate drops, in a Warning header",
    )
    own.add_argument(
        "--clock",
        default="real",
        metavar="real|virtual[=TIME]",
        help="virtual: time begins at TIME (default 2026-01-01T00:00:00Z) and stands still until moved",
    )
    own.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="makes uids, generated names and free choices repeatable; with --clock virtual the whole history is",
    )
    own.add_argument(
        "--request-log",
        default="",
        metavar="FILE|-",
        help="append a line of JSON for each request and its answer; - is standard output",
    )
    own.add_argument(
        "--announce",
        action="store_true",
        help="print one line of JSON when ready, and nothing else, on standard output",
    )
    own.add_argument(
        "--attached", action="store_true", help="stop when standard input ends: with the process that started this one"
    )
    return flags


def read(arguments: Sequence[str]) -> Settings:
    """Settings from flags. Raises SettingsError; `--help` exits."""
    given = parser().parse_args(arguments)
    try:
        features = Features(parse_release(given.emulated_version), parse_gates(",".join(given.feature_gates)))
        tokens = read_tokens(given.token_auth_file) if given.token_auth_file else None
    except FeatureError as error:
        flag = "--emulated-version" if isinstance(error, ReleaseError) else "--feature-gates"
        raise SettingsError(f"{flag}: {error}") from error
    except TokenFileError as error:
        raise SettingsError(str(error)) from error
    _check(given, tokens)
    enable, disable = _names(given.enable_admission_plugins), _names(given.disable_admission_plugins)
    modes = _modes(given.authorization_mode)
    data_dir = given.data_dir.absolute()
    plugin_dir = given.plugin_dir.absolute() if given.plugin_dir else None
    return Settings(
        features=features,
        runtime_config=parse_runtime_config(",".join(given.runtime_config)),
        tokens=tokens,
        authorization_modes=modes,
        enable_plugins=enable,
        disable_plugins=disable,
        port=given.port,
        bind_address=given.bind_address,
        accept_hosts=tuple(name.strip() for text in given.accept_hosts for name in text.split(",") if name.strip()),
        data_dir=data_dir,
        storage=given.storage,
        durability=given.durability,
        kubeconfig=given.kubeconfig.absolute() if given.kubeconfig else data_dir / "kubeconfig",
        tls_cert_file=given.tls_cert_file,
        tls_key_file=given.tls_private_key_file,
        tls_own=given.tls,
        controllers=tuple(filter(None, given.controllers.split(","))) if given.controllers != "none" else (),
        scheduler_config=given.config.absolute() if given.config else None,
        nodes=given.nodes,
        devices=given.devices,
        profile=given.profile,
        plugin_dir=plugin_dir,
        registry_dir=(given.registry_dir or plugin_dir / "registry").absolute() if plugin_dir else None,
        compaction_interval=_seconds("--etcd-compaction-interval", given.etcd_compaction_interval),
        announce=given.announce,
        attached=given.attached,
        logging_format=given.logging_format,
        verbosity=given.verbosity,
        clock=_clock(given.clock),
        seed=given.seed,
        warn_dropped_fields=given.warn_dropped_fields,
        request_log=given.request_log,
        warnings=(*_warnings(features, modes, enable, disable), *_idle(given)),
    )


def _idle(given: argparse.Namespace) -> list[str]:
    """Flags that do nothing without others."""
    return (
        [f"--nodes {given.nodes} does nothing without --controllers, which run the nodes"]
        if given.nodes and given.controllers in ("", "none")
        else []
    )


def _seconds(flag: str, text: str) -> float:
    try:
        return parse_duration(text).total_seconds()
    except ValueError as error:
        raise SettingsError(f"{flag} {text}: {error}") from error


def _clock(text: str) -> datetime | None:
    """When virtual time begins; None for real time. Raises SettingsError."""
    kind, _, start = text.partition("=")
    if kind == "real" and text == kind:
        return None
    if kind != "virtual":
        raise SettingsError(f"--clock {text}: use real, virtual or virtual=TIME")
    try:
        return parse_time(start) if "=" in text else START
    except ValueError:
        raise SettingsError(f"--clock {text}: {start!r} is not a time; write it like 2026-01-01T00:00:00Z") from None


def _names(values: list[str]) -> tuple[str, ...]:
    return tuple(name.strip() for value in values for name in value.split(",") if name.strip())


def _modes(text: str) -> tuple[str, ...]:
    modes = tuple(mode.strip() for mode in text.split(",") if mode.strip()) or ("AlwaysAllow",)
    for mode in modes:
        if mode not in MODES:
            raise SettingsError(f"--authorization-mode: {mode!r} is not a valid mode; there are {', '.join(MODES)}")
    return modes


def _check(given: Any, tokens: Mapping[str, User] | None) -> None:
    """What cannot stand together. Raises SettingsError."""
    if not 0 <= given.port <= 65535:
        raise SettingsError(f"--port {given.port}: a port is between 0 and 65535")
    if given.profile and given.profile not in profiles.names():
        raise SettingsError(f"--profile {given.profile}: there are {', '.join(profiles.names())}")
    if given.registry_dir is not None and given.plugin_dir is None:
        raise SettingsError("--registry-dir goes with --plugin-dir")
    if given.plugin_dir is not None and not given.nodes:
        raise SettingsError("--plugin-dir is the first node's: give --nodes, or use kubedra up")
    if given.nodes < 0:
        raise SettingsError(f"--nodes {given.nodes}: cannot be negative")
    if (given.tls_cert_file is None) != (given.tls_private_key_file is None):
        raise SettingsError("--tls-cert-file and --tls-private-key-file go together")
    for flag, file in (
        ("--tls-cert-file", given.tls_cert_file),
        ("--tls-private-key-file", given.tls_private_key_file),
    ):
        if file is not None and not file.is_file():
            raise SettingsError(f"{flag} {file}: no such file")
    if given.storage not in ("sqlite", "memory") and not given.storage.startswith(("postgresql://", "postgres://")):
        raise SettingsError(f"--storage {given.storage}: use sqlite, memory or a postgresql:// URL")
    try:
        loopback = ipaddress.ip_address(given.bind_address).is_loopback
    except ValueError:
        raise SettingsError(f"--bind-address {given.bind_address}: not an IP address") from None
    if not loopback and tokens is None:
        raise SettingsError(
            f"--bind-address {given.bind_address}: access is open without --token-auth-file, so only loopback addresses"
            " may be served"
        )


def _warnings(
    features: Features, modes: Sequence[str], enable: Sequence[str], disable: Sequence[str]
) -> tuple[str, ...]:
    """What is asked for and not built, in one line each. Raises SettingsError for names that do not exist."""
    selected = select(enable, disable)
    if selected.unknown:
        raise SettingsError(
            f"unknown admission plugin {', '.join(map(repr, selected.unknown))} in --enable-admission-plugins or"
            " --disable-admission-plugins"
        )
    both = conflicting(enable, disable)
    if both:
        raise SettingsError(f"{', '.join(both)} in both --enable-admission-plugins and --disable-admission-plugins")
    warnings = [f"--feature-gates: {name} is unknown here and changes nothing" for name in features.unknown]
    unbuilt = [mode for mode in modes if mode in UNBUILT]
    if unbuilt:
        warnings.append(
            f"--authorization-mode: {', '.join(unbuilt)} is not built yet and allows nothing (docs/fidelity.md)"
        )
    if selected.missing:
        warnings.append(
            f"--enable-admission-plugins: {', '.join(selected.missing)} is not built yet and does nothing"
            " (docs/fidelity.md)"
        )
    return tuple(warnings)
