"""The reference of annotations is current, complete and true."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from controllers.kubelet.emulation import annotation_check

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"


@pytest.fixture(scope="module")
def annotationpage() -> ModuleType:
    spec = importlib.util.spec_from_file_location("annotationpage", REFERENCE / "annotationpage.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_of_annotations_is_current(annotationpage: ModuleType) -> None:
    assert (REFERENCE / "annotations.md").read_text() == annotationpage.page(), (
        "write it again with: python docs/reference/generate.py"
    )


def test_every_annotation_is_on_the_page(annotationpage: ModuleType) -> None:
    assert {f"kubedra.dev/{name}" for name in annotationpage.ROWS} == annotation_check._KNOWN
    assert {f"{name.partition('.')[0]}." for name in annotationpage.METRICS} == set(annotation_check._METRICS)


def test_every_example_is_valid_on_the_object_that_the_page_names(annotationpage: ModuleType) -> None:
    examples = {name: row.example for name, row in annotationpage.ROWS.items()}
    examples |= {example: value for _, _, example, value in annotationpage.METRICS.values()}
    for name, value in examples.items():
        kind = "Node" if annotationpage.is_of_node(name) else "Pod"
        obj = {"metadata": {"annotations": {f"kubedra.dev/{name}": value}}, "spec": {}}
        assert annotation_check.annotation_problems(obj, kind) == [], name


def test_every_value_that_is_checked_shows_its_form(annotationpage: ModuleType) -> None:
    for name, row in annotationpage.ROWS.items():
        line = next(line for line in annotationpage.page().splitlines() if line.startswith(f"| `kubedra.dev/{name}`"))
        assert all(cell.strip() for cell in line.split(" | ")), line
        assert row.form or f"kubedra.dev/{name}" in annotation_check._CHECKS, name
