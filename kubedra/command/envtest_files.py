"""The directory of `kubedra envtest-assets`: scripts named kube-apiserver, etcd and kubectl."""

from __future__ import annotations

import compileall
import errno
import os
import shlex
import shutil
import sys
from hashlib import sha256
from pathlib import Path
from typing import Final

from kubedra.runtime import process

__all__ = ["default_directory", "is_written_by_kubedra", "write_assets"]

_MARK: Final = "# Written by `kubedra envtest-assets`."
_SCRIPT: Final = f"#!/bin/sh\n{_MARK}\n{{command}}\n"
_PACKAGES: Final = ("apiserver", "kubedra")
_NO_KUBECTL: Final = 'echo "kubectl: not on PATH; install it and run \\`kubedra envtest-assets\\` again" >&2; exit 2'


def write_assets(directory: Path, *, release: str = "") -> Path:
    """Write the directory and return its path. The server emulates `release` ("1.35"; default: the newest).

    Raises FileExistsError if the directory has other binaries, and OSError.
    """
    directory = directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    server = directory / "kube-apiserver"
    if server.exists() and not is_written_by_kubedra(server):
        message = "has binaries that kubedra did not write; delete it or use another directory"
        raise FileExistsError(errno.EEXIST, message, str(directory))
    _compile()
    python, root = shlex.quote(sys.executable), shlex.quote(str(process.server_root()))
    path = f"export PYTHONPATH={root}${{PYTHONPATH:+:$PYTHONPATH}}"
    emulated = f" --emulated-version={release}" if release else ""
    _write(server, f'{path}\nexec {python} -P -m apiserver.command.fake_apiserver{emulated} "$@"')
    etcd = Path(__file__).with_name("fake_etcd.py")
    _write(directory / "etcd", f'exec {python} -I -S {shlex.quote(str(etcd))} "$@"')
    _write(directory / "setup-envtest", f'{path}\nexec {python} -P -m kubedra envtest-assets "$@"')
    kubectl = shutil.which("kubectl")
    if kubectl is None or is_written_by_kubedra(Path(kubectl)):
        _write(directory / "kubectl", _NO_KUBECTL)
    else:
        _write(directory / "kubectl", f'exec {shlex.quote(kubectl)} "$@"')
    return directory


def is_written_by_kubedra(path: Path) -> bool:
    """Return whether a file is one of these scripts."""
    try:
        with path.open("rb") as file:
            return _MARK.encode() in file.read(200)
    except OSError:
        return False


def default_directory() -> Path:
    """Return the default directory, one per installation so that two installations can be used in parallel."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = sha256(f"{sys.executable}\n{process.server_root()}".encode()).hexdigest()[:12]
    return cache / "kubedra" / f"envtest-{name}"


def _compile() -> None:
    """Compile the server to bytecode, which halves the time of a start.

    A checkout has no bytecode if the environment forbids it (PYTHONDONTWRITEBYTECODE, as in most images). Failures are
    ignored.
    """
    for package in _PACKAGES:
        compileall.compile_dir(process.server_root() / package, quiet=2)


def _write(path: Path, command: str) -> None:
    """Write a script atomically, because the old one may be running."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(_SCRIPT.format(command=command))
    draft.chmod(0o755)
    draft.replace(path)
