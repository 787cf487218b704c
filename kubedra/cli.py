"""The command line: `kubedra up`, `serve`, `down`, `status`, `logs`, `controllers`, `node add`, `node run`,
`credentials`, `data`, `envtest-assets`, `health`, `cel`, `explain`, `simulate`, `completion`.

`up` and `serve` become the server (exec): one process, whose flags are kube-apiserver's and ours; `kubedra serve
--help` lists them.
A mistake is one line on stderr and exit code 2.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from kubedra.command.arguments import Parser
from kubedra.runtime import process
from kubedra.version import __version__

if TYPE_CHECKING:
    from kubedra.client.nodes import Captured

DATA_DIR = Path(".kubedra")
#: What `up` adds to the server's defaults; flags given later win.
_UP = ("--controllers=*", "--components-apart", "--nodes=2", "--storage-class=standard")
#: Commands that are another process: name → (module, leading arguments).
_DELEGATES: dict[str, tuple[str, tuple[str, ...]]] = {
    "up": ("apiserver", _UP),
    "serve": ("apiserver", ()),
    "controllers": ("controllers", ()),
    "cel": ("apiserver.command.cel", ()),
    "explain": ("controllers.explain", ()),
    "simulate": ("controllers.explain.simulate", ()),
    "credentials": ("apiserver.command.credentials", ()),
    "data": ("apiserver.command.data", ()),
}

USAGE = """\
usage: kubedra COMMAND [FLAGS]

  up            API server, controllers, scheduler and two emulated nodes in one go (--detach: in the background)
  serve         the API server alone (--detach: in the background)
  status        what runs on a data directory, and whether it is well
  logs          what a detached server wrote (-f: and writes)
  down          stop it
  controllers   controllers and scheduler alone, against any Kubernetes API server
  node add      an emulated node, with devices from slice files or the example driver
  profiles      hardware that nodes may have, for up --profile and node add --profile
  profiles capture  a profile of what a node of a live cluster has
  node run      the kubelet of one node with real drivers, against any Kubernetes API server
  credentials   a certificate, tokens and kubeconfigs for a server that others reach
  data check    what is damaged in a data directory
  data repair   go on with what is whole of it
  envtest-assets  kube-apiserver and etcd for controller-runtime's envtest (KUBEBUILDER_ASSETS)
  health        whether a server or the controllers are ready, for health checks
  cel           evaluate a device selector on slices
  explain       why a pod waits and what would change that; who holds devices, of any cluster
  simulate      would these pods fit, where, and how full do nodes get
  completion    a completion script for bash or zsh
  version       print the release

`kubedra COMMAND --help` lists a command's flags.
First steps: `kubedra up`, then `kubectl --kubeconfig .kubedra/kubeconfig get nodes`.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code (2 for a mistake of the caller's)."""
    args = list(sys.argv[1:] if argv is None else argv)
    if not args or args[0] in {"-h", "--help", "help"}:
        print(USAGE, end="")
        return 0 if args else 2
    name, rest = args[0], args[1:]
    if name in {"version", "--version"}:
        print(f"kubedra {__version__}")
        return 0
    if name in _DELEGATES:
        module, leading = _DELEGATES[name]
        if name == "credentials" and "--" in rest:
            return first_credentials(rest)
        if "--detach" in rest and module == "apiserver":
            return detach(name, [*leading, *(arg for arg in rest if arg != "--detach")])
        become(module, *leading, *rest, prog=f"kubedra {name}")
    if name in _COMMANDS:
        return _COMMANDS[name](rest)
    return fail(f"unknown command {name!r}; see kubedra --help")


def become(module: str, *args: str, prog: str) -> NoReturn:
    """Replace this process by one of the server's modules, so that signals and exit codes are its own."""
    environment = {**process.environment(), "KUBEDRA_PROG": prog}
    sys.stdout.flush()
    os.execve(sys.executable, process.command(module, *args), environment)  # noqa: S606 - our own interpreter and module


def first_credentials(args: Sequence[str]) -> int:
    """`kubedra credentials FLAGS -- COMMAND …`: credentials, then the command in this process."""
    import subprocess

    split = args.index("--")
    environment = {**process.environment(), "KUBEDRA_PROG": "kubedra credentials"}
    done = subprocess.run(process.command("apiserver.command.credentials", *args[:split]), env=environment, check=False)  # noqa: S603 - our own module
    return done.returncode or main(args[split + 1 :])


def health(args: Sequence[str]) -> int:
    """`kubedra health`."""
    from kubedra.command.health import health as ask

    return ask(args)


def fail(message: str) -> int:
    print(f"kubedra: {message}", file=sys.stderr)
    return 2


def node(args: Sequence[str]) -> int:
    """`kubedra node add NAME [--devices N] [--slices FILE…]`, `kubedra node run NAME --plugin-dir DIR`."""
    if args and args[0] == "run":
        become("controllers.kubelet", *args[1:], prog="kubedra node run")
    from kubedra.client.client import ApiError, Client
    from kubedra.client.nodes import Captured, add_node

    options = _node_parser().parse_args(args)
    try:
        captured = Captured(Path(file) for file in options.slices)
        names = _names(options, captured)
        labels, capacity = pairs("--label", options.label), pairs("--capacity", options.capacity)
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
    parser = Parser(prog="kubedra node", description="Emulated nodes of a running control plane.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="add|run")
    commands.add_parser(
        "run", help="the kubelet of one node with real drivers, as a process of its own", add_help=False
    )
    add = commands.add_parser("add", help="create an emulated node with its devices")
    add.add_argument("name", nargs="?", default="", help="the Node's name; all that the slices name where left out")
    add.add_argument(
        "--as", dest="renamed", default="", metavar="NAME", help="what the node NAME of the slices is called here"
    )
    add.add_argument(
        "--slices",
        nargs="+",
        default=[],
        metavar="FILE",
        help="ResourceSlices to publish, as captured by `kubectl get resourceslices -o yaml`",
    )
    add.add_argument(
        "--devices", type=int, default=0, metavar="N", help="publish N example GPUs (driver gpu.example.com)"
    )
    add.add_argument("--profile", default="", metavar="NAME", help="hardware that `kubedra profiles` lists, or a file")
    add.add_argument(
        "--label", action="append", default=[], metavar="KEY=VALUE", help="a label of the node; may be given again"
    )
    add.add_argument(
        "--capacity",
        action="append",
        default=[],
        metavar="RESOURCE=QUANTITY",
        help="capacity, as cpu=8; may be given again",
    )
    where = add.add_mutually_exclusive_group()
    where.add_argument("--server", metavar="URL", help="the API server's address")
    where.add_argument("--kubeconfig", type=Path, metavar="FILE", help="default: $KUBECONFIG, .kubedra/kubeconfig")
    return parser


def _names(options: argparse.Namespace, captured: Captured) -> list[tuple[str, str]]:
    """(name, name in the slices) of the nodes to add."""
    named = [options.name] if options.name else captured.nodes
    if not named:
        raise ValueError("node add: name the node, or give --slices that name some")
    if options.renamed and len(named) > 1:
        raise ValueError(f"node add --as {options.renamed}: which of {', '.join(named)}? Name it before --as")
    return [(options.renamed or name, name) for name in named]


def profiles(args: Sequence[str]) -> int:
    """`kubedra profiles [list]`: what hardware nodes may have; `kubedra profiles capture NODE`: that of a live one."""
    from kubedra import profiles as known

    options = _profiles_parser().parse_args(args)
    if options.command == "capture":
        return _capture(options)
    width = max(map(len, known.names()))
    for name in known.names():
        print(f"{name:{width}}  {known.load(name).description}")
    return 0


def _profiles_parser() -> Parser:
    parser = Parser(prog="kubedra profiles", description="Hardware for `up --profile` and `node add --profile`.")
    commands = parser.add_subparsers(dest="command", metavar="list|capture")
    commands.add_parser("list", help="the profiles that there are (also without a command)")
    capture = commands.add_parser("capture", help="a profile of what a node of a live cluster has, as YAML")
    capture.add_argument("node", help="the node")
    capture.add_argument("-o", "--output", type=Path, metavar="FILE", help="write it there (default: standard output)")
    where = capture.add_mutually_exclusive_group()
    where.add_argument("--server", metavar="URL", help="the API server's address")
    where.add_argument("--kubeconfig", type=Path, metavar="FILE", help="default: $KUBECONFIG, .kubedra/kubeconfig")
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


def detach(command: str, arguments: Sequence[str]) -> int:
    """`kubedra up --detach`, `kubedra serve --detach`: return when the server is ready."""
    from kubedra.plane.background import LifecycleError
    from kubedra.plane.background import detach as start

    parser = Parser(prog=f"kubedra {command}", add_help=False, allow_abbrev=False)
    parser.add_argument("--data-dir", type=Path, default=DATA_DIR)
    data_dir = parser.parse_known_args(list(arguments))[0].data_dir
    try:
        record = start(command, arguments, data_dir)
    except LifecycleError as error:
        return fail(str(error))
    print(
        f"api server  {record['url']}\nkubeconfig  {record['kubeconfig']}\nlog        "
        f" {data_dir / 'server.log'}\nready; `kubedra down` stops it"
    )
    return 0


def _on_data_dir(command: str, description: str, args: Sequence[str], *flags: str) -> argparse.Namespace:
    parser = Parser(prog=f"kubedra {command}", description=description)
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=DATA_DIR,
        metavar="DIR",
        help=f"the server's data directory (default {DATA_DIR})",
    )
    if "follow" in flags:
        parser.add_argument("-f", "--follow", action="store_true", help="go on until the server ends")
    return parser.parse_args(args)


def status(args: Sequence[str]) -> int:
    """`kubedra status`: exit code 0 where a server runs and is well, 1 where none does."""
    import httpx

    from kubedra.plane.background import running

    options = _on_data_dir("status", "What runs on a data directory.", args)
    record = running(options.data_dir)
    if record is None:
        print(f"{options.data_dir}: no server runs there")
        return 1
    headers = {"Authorization": f"Bearer {record['token']}"} if record.get("token") else {}
    try:
        with httpx.Client(verify=False, trust_env=False, headers=headers) as client:  # noqa: S501 - our own server, named by its record
            info = client.get(f"{record['url']}/-/info").raise_for_status().json()
    except httpx.HTTPError as error:
        print(f"{record['url']} (pid {record['pid']}) does not answer: {error}")
        return 1
    objects = ", ".join(f"{number} {name}" for name, number in sorted(info["objects"].items()) if number)
    print(
        f"api server  {record['url']}  (kubedra {info['version']}, Kubernetes {info['emulates']}, pid {record['pid']})"
    )
    print(f"kubeconfig  {record['kubeconfig']}\nobjects     {objects}\nwatches     {info['watches']}")
    return 0


def down(args: Sequence[str]) -> int:
    """`kubedra down`."""
    from kubedra.plane.background import LifecycleError, stop

    options = _on_data_dir("down", "Stop the server of a data directory.", args)
    try:
        print(f"stopped (pid {stop(options.data_dir)})")
    except LifecycleError as error:
        return fail(str(error))
    return 0


def logs(args: Sequence[str]) -> int:
    """`kubedra logs [-f]`."""
    from kubedra.plane.background import LifecycleError, log_lines

    options = _on_data_dir("logs", "What a detached server wrote.", args, "follow")
    try:
        for line in log_lines(options.data_dir, follow=options.follow):
            sys.stdout.write(line)
            sys.stdout.flush()
    except LifecycleError as error:
        return fail(str(error))
    except BrokenPipeError:
        # Whoever read has enough (`| head`); the interpreter must not find the pipe again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        pass
    return 0


def completion(args: Sequence[str]) -> int:
    """`kubedra completion bash|zsh`: the script, to be sourced."""
    from kubedra.command.completion import SHELLS, script

    if len(args) != 1 or args[0] not in SHELLS:
        return fail(f"completion: name a shell, {' or '.join(SHELLS)}")
    print(script(args[0], USAGE), end="")
    return 0


def envtest(args: Sequence[str]) -> int:
    """`kubedra envtest-assets [DIR]`."""
    from kubedra.command.envtest import envtest_assets

    return envtest_assets(args)


_COMMANDS = {
    "envtest-assets": envtest,
    "node": node,
    "profiles": profiles,
    "health": health,
    "status": status,
    "down": down,
    "logs": logs,
    "completion": completion,
}


def pairs(flag: str, values: Sequence[str]) -> dict[str, str]:
    """KEY=VALUE arguments as a dict; ValueError names the flag."""
    for value in values:
        if "=" not in value:
            raise ValueError(f"{flag} {value}: expected KEY=VALUE")
    return dict(value.split("=", 1) for value in values)
