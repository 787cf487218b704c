"""The reference of the routes under `/-/` matches the application."""

from __future__ import annotations

import importlib.util
from pathlib import Path

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"


def test_the_reference_of_routes_is_current() -> None:
    spec = importlib.util.spec_from_file_location("routepage", REFERENCE / "routepage.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (REFERENCE / "routes.md").read_text() == module.page(), (
        "write it again with: python docs/reference/generate.py"
    )
