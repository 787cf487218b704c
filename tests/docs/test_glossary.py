"""The glossary names what the sources have, and each word once."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
TERMS = [row.split("|")[1] for row in GLOSSARY.splitlines() if row.startswith("| ") and not row.startswith("| word")]


def names_of_the_sources() -> set[str]:
    """Every class, function and constant of a module, whichever package it is in."""
    found: set[str] = set()
    for package in ("apiserver", "controllers", "kubedra"):
        for file in (ROOT / package).rglob("*.py"):
            for node in ast.parse(file.read_text()).body:
                if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    found.add(node.name)
                elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    found.add(node.target.id)
                elif isinstance(node, ast.Assign):
                    found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def test_every_class_that_the_glossary_names_is_in_the_sources() -> None:
    named = set(re.findall(r"`([A-Za-z]+)`", GLOSSARY)) - {"code", "managedFields", "kubedra", "kube"}
    assert named - names_of_the_sources() == set()
    assert len(named) > 40


def test_every_path_that_the_glossary_names_is_there() -> None:
    for path in re.findall(r"`((?:apiserver|controllers|kubedra)/[^`]+)`", GLOSSARY):
        assert (ROOT / path).exists(), path


def test_a_word_stands_in_the_glossary_once() -> None:
    words = [word.strip(" `") for term in TERMS for word in term.split(",")]
    assert sorted(words) == sorted(set(words))
