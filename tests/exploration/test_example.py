"""The example project of the how-to page: its bug is found, and its line repeats it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from kubedra.runtime import process

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(600)]

PROJECT = Path(__file__).resolve().parents[2] / "examples" / "explore-project"


def run_project(*arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *arguments]
    environment = {**process.environment(), "COLUMNS": "500"}
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, env=environment).stdout


def test_the_bug_of_the_example_is_found_and_repeated() -> None:
    found = run_project()
    replay = re.search(r"pytest \S+ (--kubedra-schedule=.*)", found)
    assert replay is not None, found
    assert "1 failed" in run_project(*shlex.split(replay[1]))
    assert "1 passed" in run_project("--kubedra-schedule=none")
