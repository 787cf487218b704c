"""The tests in Python on how-to pages pass, with the files of their page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kubedra.runtime import process
from tests.support.patience import run_command

pytestmark = pytest.mark.integration

HOWTO = Path(__file__).resolve().parents[2] / "docs" / "howto"
TUTORIAL = HOWTO.parent / "tutorial"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"`(\S+\.yaml)`\n\n```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)
#: Pages whose tests need more than the page has, and where they are run.
ELSEWHERE = {
    "go-driver": "a driver written in Go; tests/node",
    "pytest": "the manifests of examples/pytest-project",
    "python-driver": "the quoted files; test_howto.py",
    "testcontainers": "a container; test_cookbook.py",
    "unittest": "the quoted files; test_howto.py",
}


def read_tests(page: Path) -> str:
    blocks = _BLOCK.findall(page.read_text())
    return "\n".join(blocks) if any("def test_" in block for block in blocks) else ""


PAGES = [
    page
    for page in sorted([*HOWTO.glob("*.md"), *TUTORIAL.glob("*.md")])
    if read_tests(page) and page.stem not in ELSEWHERE
]


def run_page(directory: Path, page: Path) -> subprocess.CompletedProcess[str]:
    """Run the tests of a page in a project of its own."""
    for name, text in _FILE.findall(page.read_text()):
        (directory / name).write_text(text)
    (directory / "test_page.py").write_text(read_tests(page))
    (directory / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q"]
    return run_command(command, cwd=directory, env=process.environment(), text=True, seconds=110)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_read_tests_a_page_pass(tmp_path: Path, page: Path) -> None:
    done = run_page(tmp_path, page)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_pages_elsewhere_have_tests() -> None:
    assert set(ELSEWHERE) <= {page.stem for page in HOWTO.glob("*.md") if read_tests(page)}
    assert {page.stem for page in PAGES} >= {"faults-and-requests", "first-test", "virtual-time"}
