"""The reference of the pytest plugin matches the plugin."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from kubedra import pytest_plugin

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"


def test_the_reference_of_the_plugin_is_current_and_has_every_option_of_the_marker() -> None:
    spec = importlib.util.spec_from_file_location("pytestpage", REFERENCE / "pytestpage.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (REFERENCE / "pytest.md").read_text()
    assert text == module.page(), "write it again with: python docs/reference/generate.py"
    assert all(f"| `{option}` |" in text for option in pytest_plugin._OWN_ONLY | {"own", "clock"})
