"""The server's flags. kube-apiserver's keep their names and meaning; kubedra's own are listed after them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from apiserver.admission.plugins.registered import BUILT
from apiserver.options import authentication as identityflags
from apiserver.options import authorization as accessflags
from apiserver.options import fairness as trafficflags
from apiserver.options import kubelet as kubeletflags
from apiserver.options import metrics as metricflags
from apiserver.options import service_network as networkflags
from apiserver.options import tls as tlsflags
from apiserver.options import tokens as tokenflags
from apiserver.options import tracing as tracingflags
from apiserver.options.logs import FORMATS
from kubedra.command.arguments import Parser, program

__all__ = ["SettingsError", "parser"]


class SettingsError(ValueError):
    """An unusable flag; the message is one line."""


_EPILOG = """\
`--help-all` prints all flags. Flags can also be set by variables (KUBEDRA_PORT=8002) and in kubedra.toml (port = 8002).
`kubedra serve` runs only the API server. `kubedra up` adds --controllers=* --nodes=2 --storage-class=standard
--runtime-config=metrics.k8s.io/v1beta1=true; your flags override these. With --from there are no nodes and classes but
those of the file.
With --detach both return when the server is ready and leave it in the background:
see `kubedra status`, `kubedra logs` and `kubedra down`.

  kubedra up --detach --port=0 --fresh
  kubedra serve --emulated-version=1.34 --feature-gates=DRAPartitionableDevices=true
  kubedra serve --runtime-config=api/all=true --token-auth-file=tokens.csv --authorization-mode=Node,RBAC --tls
"""


#: The flags of `--help`.
_COMMON = (
    "--detach", "--fresh", "--from", "--nodes", "--devices", "--profile", "--run", "--port", "--data-dir",
    "--emulated-version", "--feature-gates",
)  # fmt: skip
#: The defaults of `kubedra up` that differ from those of `kubedra serve`.
_UP: dict[str, object] = {
    "controllers": "*",
    "components_apart": "true",
    "runtime_config": ["metrics.k8s.io/v1beta1=true"],
}
#: Further ones without --from: a copy of a cluster has nodes and classes of its own.
_UP_WITHOUT_FILE: dict[str, object] = {"nodes": 2, "storage_class": "standard"}


class _Parser(Parser):
    """An argument parser with one-line errors.

    An empty file name means no file, as in kube-apiserver's flags: `--client-ca-file=`.
    """

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        given = list(sys.argv[1:] if args is None else args)
        files = {name for action in self._actions if action.metavar == "FILE" for name in action.option_strings}
        kept, at = list[str](), 0
        while at < len(given):
            name, joined, value = given[at].partition("=")
            after = given[at + 1 : at + 2]
            if name not in files or (value if joined else after != [""]):
                kept.append(given[at])
            elif not joined:
                at += 1
            at += 1
        found, rest = super().parse_known_args(kept, namespace)
        if self.prog == "kubedra up" and not found.from_file:
            for setting, default in _UP_WITHOUT_FILE.items():
                if getattr(found, setting) is None:
                    setattr(found, setting, default)
        return found, rest

    def fail(self, message: str) -> NoReturn:
        raise SettingsError(message)


def _level(text: str) -> int:
    """Parse the log level: a number, or the count of letters in -vv."""
    if text.strip("v") == "":
        return len(text) + 1
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: not a level, such as 2") from None


def parser() -> Parser:
    """Build the parser of the flags, in two groups: kube-apiserver's and our own."""
    prog = program("python -m apiserver")
    flags = _Parser(
        common=_COMMON,
        all_settings=True,
        owns_file=True,
        prog=prog,
        description="A Kubernetes API server for Dynamic Resource Allocation.",
        epilog=_EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kube = flags.add_argument_group("flags of kube-apiserver")
    _add_access_flags(kube)
    _add_audit_flags(kube)
    _add_running_flags(kube)
    own = flags.add_argument_group("flags of kubedra")
    _add_server_flags(own)
    _add_control_plane_flags(own, up=prog == "kubedra up")
    _add_test_flags(own)
    if prog == "kubedra up":
        flags.set_defaults(**_UP)
    return flags


def _add_access_flags(kube: argparse._ArgumentGroup) -> None:
    """Add the flags for served APIs, access and admission."""
    kube.add_argument(
        "--emulated-version",
        default="1.36",
        metavar="X.Y",
        help="Kubernetes release to emulate: 1.33 to 1.36 (default 1.36)",
    )
    kube.add_argument(
        "--feature-gates",
        action="append",
        default=[],
        metavar="NAME=true,…",
        help="feature gates to switch, on top of the release's defaults",
    )
    kube.add_argument(
        "--runtime-config",
        action="append",
        default=[],
        metavar="KEY=true,…",
        help="API versions to serve: api/all, GROUP/VERSION, GROUP/VERSION/RESOURCE; metrics.k8s.io/v1beta1 serves the"
        " usage set by annotations",
    )
    kube.add_argument(
        "--token-auth-file",
        type=Path,
        metavar="FILE",
        help='static tokens, one token,user,uid,"groups" per line; without it access is open, on loopback only',
    )
    identityflags.add_flags(kube)
    tokenflags.add_flags(kube)
    networkflags.add_flags(kube)
    accessflags.add_flags(kube)
    kube.add_argument(
        "--enable-admission-plugins", action="append", default=[], metavar="NAMES",
        help="admission plugins to enable besides the default ones and, with the authorization mode Node,"
        f" NodeRestriction; available: {', '.join(sorted(BUILT))}",
    )  # fmt: skip
    kube.add_argument(
        "--disable-admission-plugins",
        action="append",
        default=[],
        metavar="NAMES",
        help="default admission plugins to disable",
    )
    kube.add_argument(
        "--admission-control-config-file", type=Path, metavar="FILE",
        help="AdmissionConfiguration file: settings of PodSecurity, ResourceQuota, EventRateLimit and the plugins of"
        " policies and webhooks",
    )  # fmt: skip


def _add_audit_flags(kube: argparse._ArgumentGroup) -> None:
    kube.add_argument("--audit-policy-file", type=Path, metavar="FILE", help="audit policy file")
    kube.add_argument(
        "--audit-log-path",
        default="",
        metavar="FILE|-",
        help="append the audit log to this file; - for standard output",
    )
    kube.add_argument(
        "--audit-log-version", choices=("audit.k8s.io/v1",), default="audit.k8s.io/v1", help="version of audit events"
    )
    kube.add_argument(
        "--audit-log-mode", choices=("blocking", "blocking-strict"), default="blocking",
        help="both modes write an event before its request is answered (default blocking)",
    )  # fmt: skip


def _add_running_flags(kube: argparse._ArgumentGroup) -> None:
    """Add the flags for listening, retention and logging."""
    kube.add_argument("--tls-cert-file", type=Path, metavar="FILE", help="serve HTTPS with this certificate")
    kube.add_argument("--tls-private-key-file", type=Path, metavar="FILE", help="its private key")
    tlsflags.add_flags(kube)
    metricflags.add_flags(kube)
    trafficflags.add_flags(kube)
    kubeletflags.add_flags(kube)
    tracingflags.add_flags(kube)
    kube.add_argument(
        "--bind-address", default="127.0.0.1", metavar="IP", help="address to listen on (default 127.0.0.1)"
    )
    kube.add_argument(
        "--etcd-compaction-interval",
        default="5m",
        metavar="DURATION",
        help="time between compactions of the history; 0 disables compaction (default 5m)",
    )
    kube.add_argument(
        "--event-ttl", default="1h", metavar="DURATION", help="lifetime of Events; 0 keeps them (default 1h)"
    )
    kube.add_argument("--logging-format", choices=FORMATS, default="text", help="format of log lines (default text)")
    kube.add_argument(
        "-v", "--v", nargs="?", type=_level, const=1, default=0, metavar="LEVEL",
        help="log verbosity; -v logs more, -vv or a level from 2 logs everything",
    )  # fmt: skip


def _add_server_flags(own: argparse._ArgumentGroup) -> None:
    own.add_argument(
        "--detach", action="store_true", help="return when the server is ready and leave it in the background"
    )
    own.add_argument(
        "--history",
        default="",
        metavar="DURATION|N|all",
        help="keep the history of this duration (1h), this many revisions (5000) or all, instead of compacting every"
        " --etcd-compaction-interval",
    )
    own.add_argument(
        "--fresh",
        action="store_true",
        help="first delete the objects of an earlier start from the data directory; only with --storage sqlite",
    )
    own.add_argument(
        "--from",
        dest="from_file",
        default="",
        metavar="FILE|URL",
        help="begin with the objects of this file of `kubedra import` or `kubedra snapshot`; the storage must be empty",
    )
    own.add_argument(
        "--forks",
        action="store_true",
        help="allow `kubedra clusters create`; only with --storage memory, and without --components-apart",
    )
    own.add_argument(
        "--accept-hosts",
        action="append",
        default=[],
        metavar="NAME,…",
        help="further allowed Host names while access is open; * for any (default: this machine's names and addresses)",
    )
    own.add_argument(
        "--port", type=int, default=8001, metavar="N", help="port to listen on; 0 for any free port (default 8001)"
    )
    own.add_argument(
        "--tls", action="store_true", help="serve HTTPS with a self-signed certificate that the kubeconfig trusts"
    )
    own.add_argument(
        "--data-dir",
        type=Path,
        default=Path(".kubedra"),
        metavar="DIR",
        help="data directory (default .kubedra)",
    )
    own.add_argument(
        "--storage",
        default="sqlite",
        metavar="sqlite|memory|URL",
        help="sqlite: a file in the data directory; memory: nothing survives a restart; or postgresql://… (default"
        " sqlite)",
    )
    own.add_argument(
        "--durability",
        choices=("full", "normal", "off"),
        default="full",
        help="an acknowledged write survives: full, a power cut (default); normal and off, a crash of the server",
    )
    own.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="kubeconfig to write (default: kubeconfig in the data directory)",
    )


def _add_control_plane_flags(own: argparse._ArgumentGroup, *, up: bool) -> None:
    """Add the flags for components beside the API server; `up` shows the defaults of `kubedra up`."""
    controllers, nodes = ("*", "2") if up else ("none; with --nodes the components that nodes need", "0")
    own.add_argument(
        "--controllers",
        metavar="NAMES",
        help=f"components to run: * for all, NAME to add one, -NAME to exclude one (default {controllers})",
    )
    own.add_argument(
        "--components-apart",
        nargs="?",
        const="true",
        default="false",
        choices=("true", "false"),
        metavar="BOOL",
        help="run the components in a child process, to use a second core; only on Linux, without --clock virtual and"
        f" --seed (default {str(up).lower()})",
    )
    own.add_argument("--config", type=Path, metavar="FILE", help="KubeSchedulerConfiguration file of the scheduler")
    own.add_argument(
        "--nodes", type=int, metavar="N", help=f"number of emulated nodes to create at start (default {nodes})"
    )
    own.add_argument(
        "--devices",
        metavar="DRIVER|none",
        help="devices of each of these nodes: 8 GPUs of this driver, or none (default gpu.example.com)",
    )
    own.add_argument(
        "--profile",
        default="",
        metavar="NAME",
        help="hardware of these nodes, instead of --devices: a name from `kubedra profiles` or a file written by"
        " `kubedra profiles capture`",
    )
    own.add_argument(
        "--storage-class",
        metavar="NAME",
        help="default StorageClass to create at start, with emulated volumes (default none; `kubedra up`: standard)",
    )
    own.add_argument(
        "--plugin-dir",
        type=Path,
        metavar="DIR",
        help="run real DRA drivers on the first node, with the kubelet's plugin files in this directory",
    )
    own.add_argument(
        "--run",
        action="store_true",
        help="run container commands as local processes under your own user; only on a loopback address",
    )
    own.add_argument(
        "--jobs-exit-after",
        default="",
        metavar="DURATION",
        help="end the emulated containers of Jobs this long after their start (default: never); the annotation"
        " kubedra.dev/jobs-exit-after sets it for one namespace or node",
    )
    own.add_argument(
        "--cdi-dir",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="with --run: directory of CDI files, besides /etc/cdi, /var/run/cdi and cdi in the plugin directory;"
        " repeatable",
    )
    own.add_argument(
        "--registry-dir",
        type=Path,
        metavar="DIR",
        help="directory of driver registration sockets (default: registry in the plugin directory)",
    )
    own.add_argument(
        "--service-address",
        action="append",
        default=[],
        metavar="NS/NAME:PORT=HOST:PORT",
        help="address of a service that webhooks or APIServices name, such as"
        " default/my-webhook:443=127.0.0.1:9443; repeatable",
    )


def _add_test_flags(own: argparse._ArgumentGroup) -> None:
    """Add the flags for tests and for programs that start a server."""
    own.add_argument(
        "--warn-dropped-fields",
        action="store_true",
        help="return a Warning header when a write sets a field that a disabled feature gate drops",
    )
    own.add_argument(
        "--clock",
        default="real",
        metavar="real|virtual[=TIME]",
        help="virtual: time starts at TIME (default 2026-01-01T00:00:00Z) and only advances on request (default real)",
    )
    own.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="make UIDs, generated names and random choices repeatable; with --clock virtual, the whole history",
    )
    own.add_argument(
        "--request-log",
        default="",
        metavar="FILE|-",
        help="append one line of JSON per request and response to this file; - for standard output",
    )
    own.add_argument(
        "--coverage",
        action="store_true",
        help="record which behaviours clients reach, for GET /-/coverage and `pytest --kubedra-cov`",
    )
    own.add_argument(
        "--announce",
        action="store_true",
        help="print only one line of JSON to standard output, when ready",
    )
    own.add_argument(
        "--attached", action="store_true", help="stop at the end of standard input, to exit with the parent process"
    )
