"""`kubedra node run NAME`: the kubelet of one node, with real drivers, in a process of its own.

Exit codes: 0 after SIGINT or SIGTERM, 1 if the kubelet's files cannot be used, 2 for a usage error.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Sequence
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from urllib.parse import urlsplit

from apiserver.runtime import gc_tuning as garbage
from controllers.kubelet.dra.checkpoint import CheckpointError
from controllers.manager.start import run
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
from controllers.options.crash_points import CrashPoints
from controllers.options.options import Options, PluginDirs, Processes
from kubedra.command.arguments import program
from kubedra.runtime import extras
from kubedra.runtime.crash_points import POINTS
from kubedra.runtime.exclusive import take_name

_EPILOG = """\
A driver registers with a socket in the registry directory, as with any kubelet:

  kubedra node run n1 --plugin-dir /tmp/n1 --kubeconfig .kubedra/kubeconfig
  my-driver --node-name=n1 --plugin-registration-path=/tmp/n1/registry --kubeconfig=.kubedra/kubeconfig …
"""


def parser() -> argparse.ArgumentParser:
    """Build the argument parser."""
    flags = OneLineParser(
        prog=program("python -m controllers.kubelet"),
        description="The kubelet of one node with real drivers, against any Kubernetes API server.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    flags.add_argument("name", help="name of the Node; created if it does not exist")
    add_cluster(flags)
    flags.add_argument(
        "--plugin-dir", type=Path, required=True, metavar="DIR", help="directory for the kubelet's files"
    )
    flags.add_argument(
        "--registry-dir",
        type=Path,
        metavar="DIR",
        help="directory in which drivers register (default: registry in the plugin directory)",
    )
    flags.add_argument(
        "--run",
        action="store_true",
        help="run container commands as local processes under your own user; requires a server on loopback",
    )
    flags.add_argument(
        "--cdi-dir",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="with --run: directory of CDI files, searched after /etc/cdi, /var/run/cdi and cdi in --plugin-dir;"
        " repeatable",
    )
    add_jobs_exit_after(flags)
    flags.add_argument(
        "--sync-frequency",
        default="1m",
        metavar="DURATION",
        help="retry interval for pods that cannot start, as kubelet's (default 1m)",
    )
    flags.add_argument(
        "--healthz-bind-address",
        default="",
        metavar="IP:PORT",
        help="serve /healthz, /livez, /readyz and /metrics on this address (default: none)",
    )
    add_emulation(flags)
    flags.add_argument(
        "--kill-at",
        default="",
        choices=POINTS,
        metavar="POINT",
        help=f"kill this process at a point of claim handling, for tests of drivers: {', '.join(POINTS)}",
    )
    flags.add_argument(
        "--attached", action="store_true", help="stop when standard input closes, that is, with the parent process"
    )
    flags.add_argument("-v", "--verbose", action="count", default=0, help="log more; -vv logs everything")
    return flags


def read(arguments: Sequence[str] | None) -> Flags:
    """Parse the flags. Raise FlagError naming the bad flag; `--help` exits."""
    args = parser().parse_args(arguments)
    frequency = read_duration("--sync-frequency", args.sync_frequency)
    if frequency <= timedelta():
        raise FlagError(f"--sync-frequency {args.sync_frequency}: must be positive")
    plugins = args.plugin_dir.absolute()
    reached, points = read_cluster(args), CrashPoints(args.kill_at)
    options = Options(
        host=args.name,
        node=args.name,
        plugin_dirs=PluginDirs(plugins=plugins, registry=(args.registry_dir or plugins / "registry").absolute()),
        run=_processes(args, plugins, reached.server) if args.run else None,
        jobs_exit_after=read_jobs_exit_after(args),
        sync_frequency=frequency,
        crash_points=points,
        gates=read_gates(args.feature_gates),
        emulated_version=read_release(args.emulated_version),
    )
    if args.attached:
        threading.Thread(target=lambda: _follow_stdin(points), daemon=True).start()
    return Flags(
        cluster=reached,
        options=options,
        names=("node-agent",),
        election=None,
        health=read_address(args.healthz_bind_address),
        verbosity=args.verbose,
        is_release_set=bool(args.emulated_version),
    )


def _processes(args: argparse.Namespace, plugins: Path, server: str) -> Processes:
    """Build the options of `--run`. Raise FlagError unless the server listens on loopback.

    Otherwise users of other machines could run commands here.
    """
    host = urlsplit(server).hostname or ""
    if host != "localhost" and not host.startswith("127.") and host != "::1":
        raise FlagError(
            f"--run with the server {server}: other machines could run commands here; use a server on loopback"
        )
    cdi = Processes.cdi_of(plugins, (path.absolute() for path in args.cdi_dir))
    return Processes(directory=plugins / "run", cdi=cdi)


def _follow_stdin(points: CrashPoints) -> None:
    """Arm the crash points that the parent process writes. Stop this process when the parent closes the pipe.

    Each armed point is confirmed with a line on standard error.
    """
    text = b""
    with contextlib.suppress(OSError):
        while piece := os.read(0, 4096):
            *lines, text = (text + piece).split(b"\n")
            for line in lines:
                if (point := line.decode(errors="replace")) in POINTS:
                    points.armed = point
                    sys.stderr.write(f"killed at {point}\n")
                    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGTERM)


def main(arguments: Sequence[str] | None = None) -> int:
    return run(lambda: _take_node(read(arguments)), program("python -m controllers.kubelet"), CheckpointError)


def _take_node(flags: Flags) -> Flags:
    """Return the flags. Raise FlagError if another kubelet of this machine has the node or the directory.

    Raise MissingExtraError without gRPC.
    """
    # Used a moment later in a task, whose errors are only logged.
    import_module("controllers.kubelet.grpc.host")
    server, options = flags.cluster.server, flags.options
    if not take_name(f"node {options.node} {server.replace('//localhost:', '//127.0.0.1:')}"):
        raise FlagError(f"node {options.node}: another kubelet already runs for this node of {server}")
    assert options.plugin_dirs is not None
    if not take_name(f"plugin-dir {options.plugin_dirs.plugins.resolve()}"):
        raise FlagError(f"--plugin-dir {options.plugin_dirs.plugins}: another kubelet uses it")
    return flags


if __name__ == "__main__":
    garbage.enable()
    sys.exit(extras.run(main))
