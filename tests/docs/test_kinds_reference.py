"""The pages of kinds match schemas, gates and limits."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from apiserver.api.features.gates import GATES

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kinds_reference", REFERENCE / "kinds.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_of_kinds_are_current() -> None:
    found = {file.name: file.read_text() for file in (REFERENCE / "kinds").glob("*.md")}
    assert found == generator().pages(), "write them again with: python docs/reference/generate.py"


def test_every_gate_of_a_field_is_in_the_table_of_gates_and_every_field_says_what_it_means() -> None:
    kinds = generator()
    for resource in kinds.resources():
        for path, _, item in kinds.fields(resource.versions[0].schema):
            assert item.gate is None or set(item.gate.gates) <= set(GATES), path
            assert item.doc or item.name in ("spec", "status"), path
