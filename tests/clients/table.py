"""The clients that the suite tries, and the steps that each goes through.

A client is a program in `programs/` on a library, and says which steps its library has nothing for. A step is what it must
see, the same for all.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.clients import install

PROGRAMS: Final = Path(__file__).with_name("programs")
#: Python without the packages of this environment.
_ALONE: Final = (sys.executable, "-S")
_EVENTS: Final = ["ADDED", "MODIFIED", "DELETED"]


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    #: What it is, for a reader of the page.
    means: str
    #: What a client must see, as its program prints it.
    sees: Any


STEPS: Final = (
    Step("create", "create a ConfigMap; kubectl applies it twice, with client-side apply", {"a": "1"}),
    Step("list", "list it", ["settings"]),
    Step("watch", "watch an object that is created, changed and deleted", _EVENTS),
    Step("merge", "merge patch", {"a": "1", "b": "2"}),
    Step("json", "JSON patch", {"a": "1", "b": "2", "c": "3"}),
    Step("strategic", "strategic merge patch", {"a": "1", "b": "2", "c": "3", "d": "4"}),
    Step(
        "apply",
        "server-side apply by another manager conflicts with 409, and succeeds with force",
        {"refused": 409, "forced": {"a": "9", "b": "2", "c": "3", "d": "4"}},
    ),
    Step("informer", "the library's informer or handlers report an object created, changed and deleted", _EVENTS),
    Step("election", "win the library's leader election", "me"),
    Step(
        "devices",
        "create a ResourceClaim and read a ResourceSlice, with the library's own types if it has them",
        {"class": "gpu.example.com", "devices": ["gpu-0", "gpu-1"]},
    ),
    Step("tls", "read a server with TLS and tokens, with the kubeconfig that it wrote", "default"),
    Step("delete", "delete the ConfigMap; a get then returns not found", 404),
)


@dataclass(frozen=True, slots=True)
class Program:
    """A client that can be run here."""

    command: tuple[str | Path, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    #: A directory that the program must run in; it is copied there first.
    beside: Path | None = None


@dataclass(frozen=True, slots=True)
class Client:
    #: As the page calls it; unique.
    name: str
    #: The program; None where it is not installed.
    find: Callable[[], Program | None]
    #: The way to install it.
    comes_with: str = "./dev clients"
    #: Steps for which the library has nothing.
    lacks: frozenset[str] = frozenset()

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(step for step in STEPS if step.name not in self.lacks)


def _python(program: str, home: str = "python") -> Callable[[], Program | None]:
    def find() -> Program | None:
        piece = next(piece for piece in install.pieces() if piece.name == home)
        if not piece.is_there:
            return None
        return Program((*_ALONE, PROGRAMS / program), {"PYTHONPATH": str(piece.directory)})

    return find


def _kubectl(file: Path) -> Callable[[], Program | None]:
    return lambda: Program((*_ALONE, PROGRAMS / "with_kubectl.py"), {"KUBECTL": str(file)})


def _node() -> Program | None:
    piece = next(piece for piece in install.pieces() if piece.name == "node")
    node = shutil.which("node")
    return Program((node, "with_client_node.mjs"), beside=piece.directory) if node and piece.is_there else None


def kubectls() -> Iterator[Path]:
    """Yield each kubectl: on PATH, beside a file that one of them links to, and the installed ones.

    Names like `kubectl.1.27` are included.
    """
    found: dict[Path, None] = {}
    on_path = [Path(part) for part in os.environ.get("PATH", "").split(os.pathsep) if part]
    linked = [file.resolve().parent for directory in on_path if (file := directory / "kubectl").exists()]
    for directory in dict.fromkeys([*on_path, *linked]):
        for file in sorted([*directory.glob("kubectl"), *directory.glob("kubectl.1.*")]):
            if os.access(file, os.X_OK):
                found[file.resolve()] = None
    yield from dict.fromkeys([*found, *install.installed("kubectl")])


@cache
def _client_go() -> Path | None:
    """Build the program on client-go in the Go module that $KUBEDRA_CLIENT_GO names.

    The module is a checkout of Kubernetes, or any with client-go among its packages. Raise
    subprocess.CalledProcessError if the build fails.
    """
    module, go = os.environ.get("KUBEDRA_CLIENT_GO"), shutil.which("go", path=_go_path())
    if not module or go is None:
        return None
    from tests.support.patience import run_command

    built = install.HOME / "client-go"
    built.parent.mkdir(parents=True, exist_ok=True)
    done = run_command([go, "build", "-o", built, PROGRAMS / "with_client_go.go"], cwd=module, text=True, seconds=600)
    assert done.returncode == 0, done.stderr
    return built


def _go_path() -> str:
    return os.pathsep.join((os.environ.get("PATH", ""), sysconfig.get_path("scripts")))


def _go(encoding: str) -> Callable[[], Program | None]:
    def find() -> Program | None:
        built = _client_go()
        return Program((built,), {"CONTENT_TYPE": encoding}) if built else None

    return find


def _clients() -> Iterator[Client]:
    some: Sequence[Path] = list(kubectls())
    absent = frozenset({"informer", "election"})
    for file in some:
        yield Client(f"kubectl ({file})", _kubectl(file), lacks=absent)
    if not some:
        yield Client("kubectl", lambda: None, lacks=absent)
    yield Client("kubernetes (Python)", _python("with_kubernetes.py"))
    old = _python("with_kubernetes.py", "kubernetes-32")
    yield Client("kubernetes (Python), without resource.k8s.io/v1", old, lacks=frozenset({"informer"}))
    yield Client("kubernetes_asyncio", _python("with_kubernetes_asyncio.py"), lacks=frozenset({"informer"}))
    yield Client("lightkube", _python("with_lightkube.py"), lacks=absent)
    yield Client("kr8s", _python("with_kr8s.py"), lacks=absent | {"strategic", "apply"})
    yield Client("pykube-ng", _python("with_pykube.py"), lacks=absent | {"strategic", "json", "apply"})
    others = frozenset(step.name for step in STEPS) - {"informer", "election", "tls"}
    yield Client("kopf", _python("with_kopf.py"), lacks=others)
    yield Client("@kubernetes/client-node (npm)", _node, lacks=frozenset({"election"}))
    source = "KUBEDRA_CLIENT_GO=DIR, a Go module that has client-go"
    yield Client("client-go, JSON", _go("application/json"), source)
    yield Client("client-go, protobuf", _go("application/vnd.kubernetes.protobuf"), source)


CLIENTS: Final = tuple(_clients())
