"""Docstrings and comments name the actor by its type."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("apiserver", "benchmarks", "controllers", "kubedra")
#: Words for nobody in particular, and old-fashioned ones. A flag such as `--who` is none of them.
UNWANTED = re.compile(r"(?<!-)\b(who|whom|whoever|nobody|somebody|anybody|anew)\b", re.IGNORECASE)


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield the comments and docstrings of a module with their lines."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node, clean=False)
            if docstring:
                yield node.body[0].lineno, docstring


def unwanted(source: str) -> list[tuple[int, str]]:
    if not UNWANTED.search(source):
        return []  # spares most modules their tokens
    return [(line, match.group()) for line, text in texts(source) for match in UNWANTED.finditer(text)]


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_and_comments_name_the_actor(package: str) -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line}: {word}"
        for path in (ROOT / package).rglob("*.py")
        for line, word in unwanted(path.read_text())
    }
    assert found == set()


def test_words_in_comments_and_docstrings_are_found_and_those_in_code_are_not() -> None:
    source = '''def f(who):\n    """Return what nobody asked for."""\n    return "somebody"  # whoever\n'''
    assert unwanted(source) == [(3, "whoever"), (2, "nobody")]
