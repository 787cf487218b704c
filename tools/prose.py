"""Checks that docstrings and comments name the actor by its type.

    python -m tools.prose

Prints `file:line: word` for each unwanted word in the packages. Exit code 1 if there is one.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGES: Final = (
    "apiserver", "benchmarks", "controllers", "docs", "examples", "kubedra", "migrations", "tests", "tools",
)  # fmt: skip
#: Words for no actor in particular, and old-fashioned ones. A flag such as `--who` is none of them.
UNWANTED: Final = re.compile(r"(?<!-)\b(who|whom|whoever|nobody|somebody|anybody|anew)\b", re.IGNORECASE)


def find_unwanted(source: str) -> list[tuple[int, str]]:
    """Return the unwanted words of a module with their lines."""
    if not UNWANTED.search(source):
        return []  # spares most modules their tokens
    return [(line, match.group()) for line, text in _texts(source) for match in UNWANTED.finditer(text)]


def _texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield comments and docstrings with their lines."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node, clean=False)
            if docstring:
                yield node.body[0].lineno, docstring


def main() -> int:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word}"
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for line, word in find_unwanted(path.read_text())
    ]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
