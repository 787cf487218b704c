"""The projects whose suites run against kubedra, and their suites."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_FILE: Final = Path(__file__).with_name("projects.toml")


@dataclass(frozen=True, slots=True)
class Project:
    """A public project: its source, and which of its tests need an API server.

    Attributes:
        suites: Go packages, or paths for pytest.
        arguments: further arguments of each suite's program.
        environment: variables of the suites.
        left_out: names of tests that run on neither server, with the reason.
    """

    name: str
    repository: str
    commit: str
    language: str
    suites: tuple[str, ...]
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    left_out: Mapping[str, str]


def read_projects(file: Path = _FILE) -> dict[str, Project]:
    """Return the known projects by name."""
    return {name: _project(name, found) for name, found in tomllib.loads(file.read_text()).items()}


def _project(name: str, found: dict[str, Any]) -> Project:
    return Project(
        name=name,
        repository=found["repository"],
        commit=found["commit"],
        language=found["language"],
        suites=tuple(found["suites"]),
        arguments=tuple(found.get("arguments", ())),
        environment=found.get("environment", {}),
        left_out=found.get("left_out", {}),
    )
