"""The glossary names existing classes, and each word once."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
TERMS = [row.split("|")[1] for row in GLOSSARY.splitlines() if row.startswith("| ") and not row.startswith("| word")]


def test_every_class_that_the_glossary_names_is_in_the_sources() -> None:
    """A name is a class, a function or a constant of a module."""
    named = set(re.findall(r"`([A-Za-z]+)`", GLOSSARY)) - {"code", "managedFields", "kubedra", "kube"}
    sources = [file for package in ("apiserver", "controllers", "kubedra") for file in (ROOT / package).rglob("*.py")]
    text = "".join(file.read_text() for file in sources)
    found = set(re.findall(r"^(?:class |def |async def )?(\w+)", text, re.MULTILINE))
    assert named - found == set()
    assert len(named) > 40


#: What a reader of a page is asked to make, or finds in a project of their own.
_NOT_HERE = {
    "apiserver/resources/networking/ingressclasses.py", "kubedra/_server/", "tests/resources/test_ingress_classes.py",
    "tests/conformance/vector_NAME.py", "tests/test_gpu_operator.py",
}  # fmt: skip
_PATHS = re.compile(
    r"`((?:\./)?(?:apiserver|benchmarks|controllers|docs|examples|kubedra|migrations|openapi|tests)/[\w./*-]+)"
)
_LINKS = re.compile(r"\]\(([^)#\s:]+)[#)]")


def test_every_path_that_a_page_names_is_there() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    gone = [
        f"{page.relative_to(ROOT)}: {path}"
        for page in pages
        for text in [page.read_text()]
        for start, paths in ((ROOT, set(_PATHS.findall(text)) - _NOT_HERE), (page.parent, set(_LINKS.findall(text))))
        for path in sorted(paths)
        if not any(start.glob(path)) and not (start / path).exists()
    ]
    assert gone == []


def test_a_word_stands_in_the_glossary_once() -> None:
    words = [word.strip(" `") for term in TERMS for word in term.split(",")]
    assert sorted(words) == sorted(set(words))
