"""The command line: help that teaches, mistakes in one line."""

import subprocess
import sys
from pathlib import Path

import pytest

from kubedra.runtime import process
from kubedra.version import __version__
from tests.support.patience import run_command

pytestmark = pytest.mark.integration


def kubedra(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kubedra", *args]
    return run_command(command, text=True, cwd=cwd, env=process.environment())


def test_without_a_command_the_usage_is_printed_and_the_exit_code_is_2() -> None:
    done = kubedra()
    assert done.returncode == 2
    assert done.stdout.startswith("usage: kubedra COMMAND")


def test_help_names_every_command() -> None:
    done = kubedra("--help")
    assert done.returncode == 0
    assert all(f"  {name} " in done.stdout for name in ("up", "serve", "controllers", "node add", "cel", "version"))


def test_the_version_is_the_packages() -> None:
    assert kubedra("--version").stdout == f"kubedra {__version__}\n"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["sereve"], "unknown command 'sereve'"),
        (["node", "add", "n1", "--label", "x", "--server", "http://127.0.0.1:1"], "--label x: expected KEY=VALUE"),
        (["node", "add", "n1", "--kubeconfig", "nowhere"], "nowhere"),
        (["node", "add", "n1", "--server", "http://127.0.0.1:1"], "http://127.0.0.1:1"),
        (["serve", "--no-such-flag"], "--no-such-flag"),
        (["serve", "--emulated-version", "1.99"], "1.99"),
        (["serve", "--detach", "--emulated-version", "1.99"], "kubedra: --emulated-version: emulation version 1.99"),
        (["node", "add"], "node add: no node name; give NAME, or --slices that name nodes"),
        (["status", "--no-such-flag"], "kubedra status: unrecognized arguments"),
        (["health", "a", "b"], "kubedra health: unrecognized arguments: b"),
        (["cel"], "kubedra cel: the following arguments are required"),
    ],
    ids=[
        "command",
        "label",
        "kubeconfig",
        "server",
        "flag",
        "release",
        "detached",
        "name",
        "flag of ours",
        "url",
        "expression",
    ],
)
def test_a_mistake_is_one_line_that_names_it_and_exit_code_2(args: tuple[str, ...], words: str, tmp_path: Path) -> None:
    done = kubedra(*args, cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
