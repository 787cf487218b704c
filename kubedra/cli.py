"""The command line; `kubedra --help` lists the commands.

`up` and `serve` exec the server, so that there is one process. `kubedra serve --help-all` lists its flags. A usage
error prints one line to stderr and exits with code 2.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from kubedra.command.arguments import Parser
from kubedra.runtime import process
from kubedra.runtime.user_settings import DATA_DIR, UserSettingsError, find_setting, is_on, suggest
from kubedra.version import __version__

if TYPE_CHECKING:
    from kubedra.client.nodes import Captured

#: Commands that run another module.
_DELEGATES: dict[str, str] = {
    "up": "apiserver",
    "serve": "apiserver",
    "controllers": "controllers",
    "cel": "apiserver.command.cel",
    "explain": "controllers.explain",
    "simulate": "controllers.explain.simulate",
    "claims": "controllers.resourceclaims.list_pods",
    "credentials": "apiserver.command.credentials",
    "data": "apiserver.command.data",
    "import": "apiserver.command.import_cluster",
}

USAGE = """\
usage: kubedra COMMAND [FLAGS]

  up            start API server, controllers, scheduler and two emulated nodes (--detach: in the background)
  serve         start only the API server (--detach: in the background)
  status        show the server of a data directory, its nodes, their devices and waiting pods
  logs          print the log of a detached server (-f: follow it)
  down          stop a detached server
  controllers   run only the controllers and the scheduler, against any Kubernetes API server
  node add      create an emulated node, with example devices, a profile or captured slices
  node run      run the kubelet of one node with real drivers, against any Kubernetes API server
  profiles      list the hardware profiles for `up --profile` and `node add --profile`
  profiles capture  write a profile of the devices of a node in a live cluster
  credentials   create a certificate, tokens and kubeconfigs for a server that other machines reach
  data check    list the damage in a data directory
  data repair   recover the intact objects of a damaged data directory
  envtest-assets  write kube-apiserver and etcd stand-ins for controller-runtime's envtest (KUBEBUILDER_ASSETS)
  health        check whether a server or the controllers are ready
  cel           evaluate a device selector on ResourceSlices
  snapshot      save and restore the state of a cluster, and compare snapshots
  clusters      make isolated copies of a running control plane, in milliseconds
  explain       explain why a pod is pending and what would help, or which pods use devices, in any cluster
  history       show every change of an object: when, by whom, and which fields
  timeline      show the stages of a pod and the time spent in each
  get           show objects as they are, or as they were (--at -5m)
  simulate      predict whether and where pods fit, and how full the nodes get
  scenario run  run scenario files: faults, time, workloads and expectations in YAML (--junit FILE)
  scenario check  check scenario files
  scenario schema  print the JSON schema of scenario files
  claims list-pods  list pods instead of workloads in claims, before a downgrade without DRAReservedForWorkloads
  import        copy a live cluster to a file, or into a running server
  export        write manifests of a cluster's objects for `kubectl apply`
  record        record the changes of a cluster
  replay        replay the users' writes of a recording or an audit log, and compare where and when pods ran
  docs          read or search the documentation of this release
  completion    print a completion script for bash, zsh or fish
  version       print the version

`kubedra COMMAND --help` lists the flags of a command. Flags can also be set by variables (KUBEDRA_PORT=8002) and in
kubedra.toml or [tool.kubedra] of pyproject.toml (port = 8002).
First steps: run `kubedra up`, then `kubectl --kubeconfig .kubedra/kubeconfig get nodes`.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Return the exit code, 2 for a usage error."""
    args = list(sys.argv[1:] if argv is None else argv)
    if not args or args[0] in {"-h", "--help", "help"}:
        print(USAGE, end="")
        return 0 if args else 2
    name, rest = args[0], args[1:]
    if name in {"version", "--version"}:
        print(f"kubedra {__version__}")
        return 0
    if name in _DELEGATES:
        module = _DELEGATES[name]
        if name == "credentials" and "--" in rest:
            return create_credentials_and_run(rest)
        if module == "apiserver" and not {"-h", "--help", "--help-all"}.intersection(rest) and is_detached(rest):
            return detach(name, [arg for arg in rest if arg != "--detach"])
        exec_module(module, *rest, prog=f"kubedra {name}")
    if name in _COMMANDS:
        return _COMMANDS[name](rest)
    if name in _MODULES:
        module, function = _MODULES[name]
        return int(getattr(import_module(module), function)(rest))
    hint = suggest(name, [*_DELEGATES, *_COMMANDS, *_MODULES, "version", "help"])
    return fail(f"unknown command {name!r}{hint or '; see kubedra --help'}")


def exec_module(module: str, *args: str, prog: str) -> NoReturn:
    """Replace this process by one of the server's modules, so that it gets the signals and sets the exit code."""
    environment = {**process.environment(), "KUBEDRA_PROG": prog}
    sys.stdout.flush()
    os.execve(sys.executable, process.command(module, *args), environment)  # noqa: S606 - our own interpreter and module


def create_credentials_and_run(args: Sequence[str]) -> int:
    """Run `kubedra credentials FLAGS -- COMMAND …`: create the credentials, then run the command in this process."""
    import subprocess

    split = args.index("--")
    environment = {**process.environment(), "KUBEDRA_PROG": "kubedra credentials"}
    done = subprocess.run(process.command("apiserver.command.credentials", *args[:split]), env=environment, check=False)  # noqa: S603 - our own module
    return done.returncode or main(args[split + 1 :])


def fail(message: str) -> int:
    print(f"kubedra: {message}", file=sys.stderr)
    return 2


def node(args: Sequence[str]) -> int:
    """Run `kubedra node add NAME [--devices N] [--slices FILE…]` or `kubedra node run NAME --plugin-dir DIR`."""
    if args and args[0] == "run":
        exec_module("controllers.kubelet", *args[1:], prog="kubedra node run")
    from kubedra.client.client import ApiError, Client
    from kubedra.client.nodes import Captured, add_node

    options = _node_parser().parse_args(args)
    try:
        captured = Captured(Path(file) for file in options.slices)
        names = _node_names(options, captured)
        labels, capacity = parse_pairs("--label", options.label), parse_pairs("--capacity", options.capacity)
        client = Client(options.server) if options.server else Client.from_kubeconfig(options.kubeconfig)
        with client:
            for name, source in names:
                add_node(
                    client,
                    name,
                    devices=options.devices,
                    profile=options.profile,
                    slices=captured if options.slices else (),
                    slices_of=source,
                    labels=labels,
                    capacity=capacity,
                    jobs_exit_after=options.jobs_exit_after,
                )
                print(f"node/{name} created")
    except (ApiError, ValueError, OSError, TimeoutError) as error:
        return fail(str(error))
    except Exception as error:
        import httpx

        if not isinstance(error, httpx.HTTPError):
            raise
        return fail(f"{options.server or 'the server'}: {error}")
    return 0


def _node_parser() -> Parser:
    parser = Parser(prog="kubedra node", description="Add nodes to a running control plane.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="add|run")
    commands.add_parser("run", help="run the kubelet of one node with real drivers", add_help=False)
    add = commands.add_parser("add", help="create an emulated node with devices")
    add.add_argument("name", nargs="?", default="", help="name of the Node (default: every node in the slices)")
    add.add_argument(
        "--as", dest="renamed", default="", metavar="NAME", help="create the node of the slices under this name"
    )
    add.add_argument(
        "--slices",
        nargs="+",
        default=[],
        metavar="FILE",
        help="files of ResourceSlices to publish, captured with `kubectl get resourceslices -o yaml`",
    )
    add.add_argument(
        "--devices", type=int, default=0, metavar="N", help="publish N example GPUs (driver gpu.example.com)"
    )
    add.add_argument(
        "--profile", default="", metavar="NAME", help="hardware: a name from `kubedra profiles`, or a file"
    )
    add.add_argument("--label", action="append", default=[], metavar="KEY=VALUE", help="label of the node; repeatable")
    add.add_argument(
        "--capacity",
        action="append",
        default=[],
        metavar="RESOURCE=QUANTITY",
        help="capacity of the node, such as cpu=8; repeatable",
    )
    add.add_argument(
        "--jobs-exit-after",
        default="",
        metavar="DURATION",
        help="end the emulated containers of Jobs on the node this long after their start",
    )
    _add_server_flags(add)
    return parser


def _add_server_flags(parser: argparse.ArgumentParser) -> None:
    server = parser.add_mutually_exclusive_group()
    server.add_argument("--server", metavar="URL", help="address of the API server")
    server.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="kubeconfig (default: $KUBECONFIG, .kubedra/kubeconfig)"
    )


def _node_names(options: argparse.Namespace, captured: Captured) -> list[tuple[str, str]]:
    """Return (name, name in the slices) of the nodes to add."""
    sources = [options.name] if options.name else captured.nodes
    if not sources:
        raise ValueError("node add: no node name; give NAME, or --slices that name nodes")
    if options.renamed and len(sources) > 1:
        raise ValueError(
            f"node add --as {options.renamed}: the slices have nodes {', '.join(sources)}; give one as NAME"
        )
    return [(options.renamed or name, name) for name in sources]


def profiles(args: Sequence[str]) -> int:
    """Run `kubedra profiles [list]` or `kubedra profiles capture NODE`."""
    from kubedra import profiles as known

    options = _profiles_parser().parse_args(args)
    if options.command == "capture":
        return _capture(options)
    width = max(map(len, known.names()))
    for name in known.names():
        print(f"{name:{width}}  {known.load(name).description}")
    return 0


def _profiles_parser() -> Parser:
    parser = Parser(
        prog="kubedra profiles", description="Hardware profiles for `up --profile` and `node add --profile`."
    )
    commands = parser.add_subparsers(dest="command", metavar="list|capture")
    commands.add_parser("list", help="list the profiles (default)")
    capture = commands.add_parser("capture", help="write a profile of the devices of a node in a live cluster, as YAML")
    capture.add_argument("node", help="name of the node")
    capture.add_argument("-o", "--output", type=Path, metavar="FILE", help="output file (default: standard output)")
    _add_server_flags(capture)
    return parser


def _capture(options: argparse.Namespace) -> int:
    import httpx
    import yaml

    from kubedra.client.client import ApiError, Client
    from kubedra.profiles.capture import profile_of

    try:
        with Client(options.server) if options.server else Client.from_kubeconfig(options.kubeconfig) as client:
            found = profile_of(options.node, client.list("resourceslices"), client.list("deviceclasses"))
        text = yaml.safe_dump(found, sort_keys=False, allow_unicode=True)
        if options.output is None:
            print(text, end="")
        else:
            options.output.write_text(text)
    except (ApiError, ValueError, OSError) as error:
        return fail(str(error))
    except httpx.HTTPError as error:
        return fail(f"{options.server or 'the server'}: {error}")
    return 0


def is_detached(args: Sequence[str]) -> bool:
    """Return whether a server goes to the background: by the flag, or by the environment or the file."""
    try:
        return "--detach" in args or is_on(find_setting("detach"), "--detach")
    except UserSettingsError:
        return False  # the server reports it


def detach(command: str, arguments: Sequence[str]) -> int:
    """Run `kubedra up --detach` or `kubedra serve --detach`. Return when the server is ready."""
    from kubedra.plane.background import LifecycleError
    from kubedra.plane.background import detach as start

    parser = Parser(prog=f"kubedra {command}", add_help=False)
    parser.add_argument("--data-dir", type=Path, default=DATA_DIR)
    data_dir = parser.parse_known_args(list(arguments))[0].data_dir
    try:
        record = start(command, arguments, data_dir)
    except LifecycleError as error:
        return fail(str(error))
    for warning in record["warnings"]:
        print(warning, file=sys.stderr)
    other = "" if data_dir == DATA_DIR else f" --data-dir {data_dir}"
    print(
        f"api server  {record['url']}\nkubeconfig  {record['kubeconfig']}\nlog        "
        f" {data_dir / 'server.log'}\nready; stop it with `kubedra down{other}`"
    )
    return 0


def _parse_data_dir(command: str, description: str, args: Sequence[str], *flags: str) -> argparse.Namespace:
    parser = Parser(prog=f"kubedra {command}", description=description)
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=DATA_DIR,
        metavar="DIR",
        help=f"data directory of the server (default {DATA_DIR})",
    )
    if "follow" in flags:
        parser.add_argument("-f", "--follow", action="store_true", help="print new lines until the server ends")
    if "output" in flags:
        parser.add_argument(
            "-o", "--output", choices=("table", "json"), default="table", help="output format (default table)"
        )
    return parser.parse_args(args)


def status(args: Sequence[str]) -> int:
    """Run `kubedra status`. Return 0 if a server runs and responds, else 1."""
    from kubedra.plane.status import status as show

    description = "Show the server of a data directory, its nodes with their devices, and waiting pods."
    options = _parse_data_dir("status", description, args, "output")
    return show(options.data_dir, as_json=options.output == "json")


def down(args: Sequence[str]) -> int:
    """Run `kubedra down`."""
    from kubedra.plane.background import LifecycleError, stop

    options = _parse_data_dir("down", "Stop the server of a data directory.", args)
    try:
        pid = stop(options.data_dir)
    except LifecycleError as error:
        return fail(str(error))
    print(f"stopped the server of {options.data_dir} (pid {pid})")
    return 0


def logs(args: Sequence[str]) -> int:
    """Run `kubedra logs [-f]`."""
    from kubedra.plane.background import LifecycleError, log_lines

    options = _parse_data_dir("logs", "Print the log of a detached server.", args, "follow")
    try:
        for line in log_lines(options.data_dir, follow=options.follow):
            sys.stdout.write(line)
            sys.stdout.flush()
    except LifecycleError as error:
        return fail(str(error))
    except BrokenPipeError:
        # The reader has closed the pipe (`| head`). The interpreter must not flush to it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        pass
    return 0


def completion(args: Sequence[str]) -> int:
    """Run `kubedra completion bash|zsh|fish`: print a script to source."""
    from kubedra.command.completion import SHELLS, script

    if len(args) != 1 or args[0] not in SHELLS:
        return fail(f"completion: shell is required: {', '.join(SHELLS)}")
    print(script(args[0], USAGE), end="")
    return 0


#: Commands in modules that are imported when they run.
_MODULES: dict[str, tuple[str, str]] = {
    "clusters": ("kubedra.command.clusters", "main"),
    "docs": ("kubedra.command.docs", "show"),
    "envtest-assets": ("kubedra.command.envtest", "envtest_assets"),
    "export": ("kubedra.cluster_copy.exporting", "run"),
    "get": ("kubedra.history.commands", "get"),
    "health": ("kubedra.command.health", "health"),
    "history": ("kubedra.history.commands", "history"),
    "record": ("kubedra.recording.recording", "run"),
    "replay": ("kubedra.recording.replaying", "run"),
    "scenario": ("kubedra.scenario.command", "scenario"),
    "snapshot": ("kubedra.command.snapshot", "main"),
    "timeline": ("kubedra.history.commands", "timeline"),
}
_COMMANDS = {
    "node": node,
    "profiles": profiles,
    "status": status,
    "down": down,
    "logs": logs,
    "completion": completion,
}


def parse_pairs(flag: str, values: Sequence[str]) -> dict[str, str]:
    """Return KEY=VALUE arguments as a dict. Raises ValueError naming the flag."""
    for value in values:
        if "=" not in value:
            raise ValueError(f"{flag} {value}: expected KEY=VALUE")
    return dict(value.split("=", 1) for value in values)
