"""The conda recipe names what pyproject.toml names."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement

from kubedra.version import __version__

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
RECIPE = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text())


def lower_bound(text: str) -> tuple[str, str]:
    name, _, bound = text.partition(" ")
    return name, bound


def required(entries: list[Any]) -> dict[str, tuple[str, bool]]:
    """Return bound, and whether the platform decides, by package."""
    found = {}
    for entry in entries:
        conditional = isinstance(entry, dict)
        name, bound = lower_bound(entry["then"] if conditional else entry)
        found[name] = bound, conditional
    return found


def test_the_recipe_has_the_requirements_of_the_package() -> None:
    declared = {"python": (PROJECT["requires-python"], False)}
    for text in PROJECT["dependencies"]:
        one = Requirement(text)
        declared[one.name] = str(one.specifier), one.marker is not None
    assert required(RECIPE["requirements"]["run"]) == declared


def test_the_recipe_builds_with_the_packages_build_system_and_installs_its_command() -> None:
    host = required(RECIPE["requirements"]["host"])
    for text in PYPROJECT["build-system"]["requires"]:
        assert host[Requirement(text).name][0] == str(Requirement(text).specifier)
    assert RECIPE["build"]["python"]["entry_points"] == [f"{name} = {at}" for name, at in PROJECT["scripts"].items()]


def test_the_recipe_has_the_version_of_the_tree() -> None:
    assert RECIPE["context"]["version"] == __version__
    assert RECIPE["about"]["license"] == PROJECT["license"]
