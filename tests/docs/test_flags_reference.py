"""The reference of flags matches the parser."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_reference", REFERENCE / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_of_flags_is_current() -> None:
    made = generator().page()
    assert (REFERENCE / "flags.md").read_text() == made, "write it again with: python docs/reference/generate.py"


def test_every_flag_says_what_it_means() -> None:
    rows = [line for line in generator().page().splitlines() if line.startswith("| `--")]
    assert len(rows) > 20
    assert all(row.rsplit("|", 2)[1].strip() for row in rows)
