"""Modules that only some systems have are imported on use: without them the commands, the client and the server import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Missing on Windows; `resource` and `uvloop` may also be missing elsewhere.
HIDDEN = ("_posixsubprocess", "fcntl", "grp", "pty", "pwd", "resource", "termios", "tty", "uvloop")
#: Hides modules and functions from our own modules only, because asyncio of this system needs them itself.
HIDE = f"""
import builtins, os, sys
real, hidden, ours = builtins.__import__, {HIDDEN!r}, ("apiserver", "controllers", "kubedra")
def find(name, globals=None, *rest, **options):
    importer = (globals or {{}}).get("__name__", "").partition(".")[0]
    if importer in ours and name.partition(".")[0] in hidden:
        raise ModuleNotFoundError(f"{{globals['__name__']}} imports {{name}}", name=name)
    return real(name, globals, *rest, **options)
builtins.__import__ = find
for name in ("fork", "geteuid", "killpg", "posix_fallocate", "sysconf"):
    delattr(os, name)
"""
IMPORTS = [
    "kubedra.cli",
    "kubedra.pytest_plugin",
    "kubedra.client.client",
    "kubedra.plane.control_plane",
    "kubedra.plane.background",
    "kubedra.plane.status",
    "kubedra.driver.running",
    "controllers.explain.__main__",
    "controllers.explain.simulate",
    "controllers.manager.start",
    "apiserver.command.cel",
    "apiserver.command.data",
    "apiserver.command.start",
]


def run(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-c", f"{HIDE}\nsys.path.insert(0, {str(ROOT)!r})\n{code}"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.integration
def test_the_modules_of_a_start_import_without_those_of_one_system() -> None:
    imports = "\n".join(f"import {name}" for name in IMPORTS)
    done = run(f"{imports}\nfrom kubedra import Client, ControlPlane")
    assert done.returncode == 0, done.stderr


@pytest.mark.integration
@pytest.mark.parametrize("module", ["kubedra.cli", "controllers.explain.__main__", "controllers.explain.simulate"])
def test_help_is_printed_without_the_modules_of_one_system(module: str) -> None:
    done = run(f"from {module} import main\nsys.exit(main(['--help']))")
    assert (done.returncode, done.stdout[:6].lower()) == (0, "usage:"), done.stdout + done.stderr


@pytest.mark.integration
def test_a_module_that_only_one_system_has_is_noticed() -> None:
    done = run("import controllers.kubelet.run.exec")
    assert "controllers.kubelet.run.exec imports fcntl" in done.stderr
