"""A reader's empty directory."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Create an empty directory; `kubedra` and `pytest` of this environment are on PATH, as after `pip install`."""
    tools = {
        "kubedra": f'exec {sys.executable} -m kubedra "$@"',
        "pytest": f'exec {sys.executable} -m pytest -p no:cacheprovider "$@"',
        "pip": "true",
    }
    (tmp_path / "bin").mkdir()
    for name, does in tools.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "work").mkdir()
    return tmp_path / "work"
