"""`kubedra envtest-assets`: a directory with kube-apiserver, etcd and kubectl, for KUBEBUILDER_ASSETS."""

from __future__ import annotations

import compileall
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from kubedra.command.arguments import Parser
from kubedra.runtime import process

__all__ = ["assets", "envtest_assets"]

_SCRIPT = """\
#!/bin/sh
# Written by `kubedra envtest-assets`.
{command}
"""
_PACKAGES = ("apiserver", "kubedra")
_NO_KUBECTL = 'echo "kubectl: none was on PATH when \\`kubedra envtest-assets\\` wrote this file" >&2; exit 2'


def envtest_assets(args: Sequence[str]) -> int:
    """Writes the directory and prints its path."""
    parser = Parser(
        prog="kubedra envtest-assets",
        description="Writes a directory with stand-ins for kube-apiserver and etcd, and kubectl where there is one, and"
        ' prints its path: KUBEBUILDER_ASSETS="$(kubedra envtest-assets)" go test ./...',
    )
    parser.add_argument("directory", nargs="?", type=Path, help="where (default: one in the user's cache)")
    options = parser.parse_args(args)
    try:
        print(assets(options.directory))
    except OSError as error:
        print(f"kubedra: {options.directory or _default()}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


def assets(directory: Path | None = None) -> Path:
    """The directory, written anew. Raises OSError."""
    directory = (directory or _default()).absolute()
    directory.mkdir(parents=True, exist_ok=True)
    _compile()
    python, root = shlex.quote(sys.executable), shlex.quote(str(process.server_root()))
    server = (
        f"export PYTHONPATH={root}${{PYTHONPATH:+:$PYTHONPATH}}\nexec {python} -P -m apiserver.command.fake_apiserver"
    )
    etcd = Path(__file__).with_name("fake_etcd.py")
    _write(directory / "kube-apiserver", f'{server} "$@"')
    _write(directory / "etcd", f'exec {python} -I -S {shlex.quote(str(etcd))} "$@"')
    kubectl = shutil.which("kubectl")
    if kubectl is None or Path(kubectl).parent == directory:
        _write(directory / "kubectl", _NO_KUBECTL)
    else:
        _write(directory / "kubectl", f'exec {shlex.quote(kubectl)} "$@"')
    return directory


def _compile() -> None:
    """The bytecode of the server, without which a start takes more than twice as long: a checkout has none where the
    environment forbids it (PYTHONDONTWRITEBYTECODE, as in most images). Where it cannot be written, starts are slow.
    """
    for package in _PACKAGES:
        compileall.compile_dir(process.server_root() / package, quiet=2)


def _write(path: Path, command: str) -> None:
    """Puts a script in place in one step: somebody may be running the one before."""
    made = path.with_name(f".{path.name}.{os.getpid()}")
    made.write_text(_SCRIPT.format(command=command))
    made.chmod(0o755)
    made.replace(path)


def _default() -> Path:
    """One for each installation: two of them may be used side by side."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = sha256(f"{sys.executable}\n{process.server_root()}".encode()).hexdigest()[:12]
    return cache / "kubedra" / f"envtest-{name}"
