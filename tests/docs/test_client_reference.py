"""The reference of the Python client matches the code, and its examples run."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kubedra.client.client import Client

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"


@pytest.fixture(scope="module")
def clientpage() -> ModuleType:
    spec = importlib.util.spec_from_file_location("clientpage", REFERENCE / "clientpage.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_of_the_client_is_current(clientpage: ModuleType) -> None:
    made = clientpage.page()
    assert (REFERENCE / "client.md").read_text() == made, "write it again with: python docs/reference/generate.py"


def test_every_method_has_an_example_and_every_heading_words(clientpage: ModuleType) -> None:
    methods = {name for name, each in vars(Client).items() if callable(each) and not name.startswith("_")} - {"close"}
    assert set(clientpage.EXAMPLES) == methods
    # What stands below a heading begins with code, then words.
    for section in clientpage.page().split("\n### ")[1:]:
        words = re.sub(
            r"```.*?```|`[^`\n]+: [^`\n]+`", "", section.partition("\n")[2], count=1, flags=re.DOTALL
        ).strip()
        assert words, section


def test_the_examples_run(clientpage: ModuleType, kube: Any) -> None:
    scope: dict[str, Any] = {"kube": kube}
    exec(clientpage.PROLOGUE, scope)
    for name, example in clientpage.EXAMPLES.items():
        exec(compile(example, f"example of {name}", "exec"), scope)
