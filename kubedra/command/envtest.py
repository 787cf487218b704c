"""`kubedra envtest-assets`: write a directory with kube-apiserver, etcd and kubectl, for KUBEBUILDER_ASSETS."""

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
_NO_KUBECTL = 'echo "kubectl: not on PATH; install it and run \\`kubedra envtest-assets\\` again" >&2; exit 2'


def envtest_assets(args: Sequence[str]) -> int:
    """Run `kubedra envtest-assets [DIR]`: write the directory and print its path."""
    parser = Parser(
        prog="kubedra envtest-assets",
        description="Write a directory with stand-ins for kube-apiserver and etcd and a link to the installed kubectl,"
        ' and print its path: KUBEBUILDER_ASSETS="$(kubedra envtest-assets)" go test ./...',
    )
    parser.add_argument("directory", nargs="?", type=Path, help="directory to write (default: one in the user's cache)")
    options = parser.parse_args(args)
    try:
        print(assets(options.directory))
    except OSError as error:
        print(f"kubedra: {options.directory or _default()}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


def assets(directory: Path | None = None) -> Path:
    """Write the directory and return its path. Raises OSError."""
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


def _default() -> Path:
    """Return the default directory, one per installation so that two installations can be used in parallel."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = sha256(f"{sys.executable}\n{process.server_root()}".encode()).hexdigest()[:12]
    return cache / "kubedra" / f"envtest-{name}"
